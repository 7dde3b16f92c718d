"""Rows for tokens that were added to a tokenizer: each begins as the mean of its pieces' rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from rlvr.model.decoder import Decoder, Shape
from rlvr.model.tokens import Tokens
from rlvr.model.weights import Model


def grown_shape(shape: Shape, tokens: Tokens) -> Shape:
    """The sizes of a model with a row for each of the added tokens.

    Many models have more rows than their tokenizer has tokens; free ones are used first.
    """
    needed = [tokens.id_of(text) + 1 for text in tokens.added]
    return replace(shape, vocab_size=max([shape.vocab_size, *needed]))


@torch.no_grad()
def grown(model: Model, tokens: Tokens) -> Model:
    """The model with the tokens, and rows for those among them that were added.

    Where free rows suffice, they are set in place.

    A row begins as the mean of the rows of the pieces that the text was before, in the embedding
    and in the head where that is a matrix of its own: a new token then means about what its
    spelling meant, and is about as likely as its pieces are. Rows of small random numbers would
    be read as noise, and rows of zeros would make it likelier than most tokens.
    """
    if not tokens.added:
        return model
    pieces = {tokens.id_of(text): model.tokens.encode(text) for text in tokens.added}
    shape = grown_shape(model.decoder.shape, tokens)
    decoder = model.decoder
    if shape != decoder.shape:
        decoder = Decoder(shape)
        before = dict(model.decoder.named_parameters())
        for name, parameter in decoder.named_parameters():
            old = before[name]
            parameter[: len(old)] = old
            parameter[len(old) :] = 0  # rows between the old ones and the new, if any
    set_rows(decoder, pieces)
    return Model(decoder, tokens, model.folder)


@torch.no_grad()
def set_rows(decoder: Decoder, pieces: Mapping[int, Sequence[int]]) -> None:
    """Set the rows of some tokens to the means of the rows of others."""
    matrices = [decoder.model.embed_tokens.weight]
    if not decoder.shape.tie_word_embeddings:
        matrices.append(decoder.lm_head.weight)
    for matrix in matrices:
        means = {row: matrix[list(of)].float().mean(dim=0) for row, of in pieces.items()}
        for row, mean in means.items():
            matrix[row] = mean
