"""The verifier: what the answer is, and whether it equals the reference. Nothing is evaluated."""

from rlvr.verify.grading import Item, grade, grade_batch
from rlvr.verify.verdict import compare, readable

__all__ = ["Item", "compare", "grade", "grade_batch", "readable"]
