"""Trains language models to reason, with rewards that a program can verify."""
