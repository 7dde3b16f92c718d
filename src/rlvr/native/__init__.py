"""What PyTorch does in many small calls, in one call each: C++ that is compiled where it runs."""
