"""Sampling answers from the model."""
