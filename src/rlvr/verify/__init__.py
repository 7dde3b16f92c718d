"""The verifier: what the answer is, and whether it equals the reference. Nothing is evaluated."""

from rlvr.verify.equal import compare, grade

__all__ = ["compare", "grade"]
