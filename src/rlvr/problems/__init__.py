"""Where problems come from, and how they are put to the model."""
