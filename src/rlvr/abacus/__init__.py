"""The tiny built-in base model: its weights and tokenizer, and the recipe that made them."""

from pathlib import Path

FOLDER = Path(__file__).parent / "model"
"""The model directory inside the package."""
