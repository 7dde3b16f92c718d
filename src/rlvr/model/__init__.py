"""The language model: tokens, decoder, weights on disk, and the distributions made from it."""
