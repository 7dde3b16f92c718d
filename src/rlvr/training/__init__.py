"""Batches, the optimizer step and checkpoints."""
