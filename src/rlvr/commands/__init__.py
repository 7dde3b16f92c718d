"""What each command of `rlvr` does, a module each."""
