"""The built-in model's tokenizer: digits, characters, some whole words, special tokens."""

import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from rlvr.problems.arithmetic import WORDS

PAD, END, THINK, THINK_END, UNKNOWN = "<pad>", "<end>", "<think>", "</think>", "<unknown>"
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
WAIT = "wait "


def words() -> list[str]:
    """Whole words of the word problems, each with the blank before it, and the box."""
    found = {"\\boxed{", WAIT}
    for templates in WORDS.values():
        for template in templates:
            found |= set(re.findall(r" ?[a-z]+", template))
    return sorted(word for word in found if len(word.strip()) > 1)


def build_tokenizer() -> Tokenizer:
    """Longest known word first, else one character; printable ASCII decodes to itself."""
    vocabulary = [PAD, END, THINK, THINK_END, UNKNOWN, *CHARACTERS, *words()]
    model = models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    longest_first = sorted(words(), key=len, reverse=True)
    pattern = "|".join([*map(re.escape, longest_first), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (PAD, END)])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in (THINK, THINK_END)])
    return tokenizer
