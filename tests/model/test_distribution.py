"""Temperature, filters and draws, held to exact numbers and to chi-square."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.model.distribution import min_p, sample, top_k, top_p, truncate, uniforms
from rlvr.records import Sampling

PROBABILITIES = torch.tensor([[0.5, 0.25, 0.15, 0.1]])
LOGITS = PROBABILITIES.log()


def kept(logits: torch.Tensor) -> list[bool]:
    return logits.isfinite()[0].tolist()


def test_top_k_keeps_the_k_likeliest_tokens() -> None:
    assert kept(top_k(LOGITS, 2)) == [True, True, False, False]
    assert kept(top_k(LOGITS, 0)) == [True] * 4
    assert kept(top_k(LOGITS, 9)) == [True] * 4


def test_top_p_keeps_the_smallest_set_with_that_mass() -> None:
    by_hand = [(0.4, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.76, 3), (0.95, 4), (1.0, 4)]
    for p, tokens in by_hand:
        assert kept(top_p(LOGITS, p)) == [i < tokens for i in range(4)], p


def test_top_p_does_not_depend_on_the_order_of_the_vocabulary() -> None:
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(top_p(LOGITS, 0.8)[:, order], top_p(LOGITS[:, order], 0.8))


def test_min_p_drops_tokens_below_a_share_of_the_likeliest() -> None:
    assert kept(min_p(LOGITS, 0.31)) == [True, True, False, False]
    assert kept(min_p(LOGITS, 0.29)) == [True, True, True, False]
    assert kept(min_p(LOGITS, 0.0)) == [True] * 4


def test_what_is_kept_is_renormalised() -> None:
    kept_logits = truncate(LOGITS, Sampling(top_k=2))
    assert torch.allclose(kept_logits.softmax(-1), torch.tensor([[2 / 3, 1 / 3, 0, 0]]))


def test_the_likeliest_token_always_stays() -> None:
    hard = Sampling(top_p=1e-9, top_k=1, min_p=0.999)
    assert kept(truncate(LOGITS, hard)) == [True, False, False, False]


def test_a_uniform_number_picks_the_token_whose_slice_holds_it() -> None:
    by_hand = [(0.0, 0), (0.499, 0), (0.5, 1), (0.749, 1), (0.75, 2), (0.9001, 3), (0.9999999, 3)]
    for number, token in by_hand:
        assert sample(PROBABILITIES, torch.tensor([[number]])).item() == token, number


def test_a_token_of_probability_0_is_never_taken() -> None:
    probabilities = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]])
    for number in (0.0, 0.29, 0.31, 1 - 2**-24):
        assert sample(probabilities, torch.tensor([[number]])).item() in (1, 3)


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_follow_the_distribution_by_chi_square() -> None:
    count = 40_000
    numbers = uniforms(7, 3, torch.arange(count))[:, None]
    drawn = sample(PROBABILITIES.expand(count, -1), numbers)
    counts = torch.bincount(drawn, minlength=4).float()
    assert chi_square(counts, PROBABILITIES[0] * count) < 16.27  # 3 degrees of freedom, 0.1%


def test_draws_from_a_large_vocabulary_by_blocks_take_the_token_that_a_plain_search_takes() -> None:
    generator = torch.Generator().manual_seed(2)
    for size in (513, 1000, 49_152):
        weights = torch.rand(8, size, generator=generator, dtype=torch.float64)
        weights[:, ::3] = 0  # banned tokens and the like
        weights[0, : size // 2] = 0
        numbers = torch.rand(8, 1, generator=generator, dtype=torch.float64)
        plain = weights.cumsum(-1)
        expected = torch.searchsorted(plain, numbers * plain[:, -1:], right=True).squeeze(1)
        assert torch.equal(sample(weights, numbers), expected)


def test_draws_from_a_large_vocabulary_follow_the_distribution_by_chi_square() -> None:
    size, count = 600, 60_000
    weights = torch.arange(1, size + 1).float()
    numbers = uniforms(3, torch.arange(count))[:, None]
    counts = sample(weights.expand(count, -1), numbers).bincount(minlength=size)
    degrees = size - 1
    expected = weights / weights.sum() * count
    assert chi_square(counts, expected) < degrees + 3.1 * (2 * degrees) ** 0.5  # 0.1%


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_ends_of_the_unit_interval_take_tokens_that_have_weight(number: float) -> None:
    weights = torch.rand(4, 5000)
    weights[:, :200] = weights[:, -200:] = 0
    taken = sample(weights, torch.full((4, 1), number))
    assert (weights.gather(1, taken[:, None]) > 0).all()


def test_uniforms_fill_the_unit_interval_evenly_along_every_name() -> None:
    row = torch.arange(20_000)
    for names in ((row,), (1, row), (row, 1), (0, 5, row, 9), (2**40, row * 977)):
        counts = torch.histc(uniforms(*names), bins=50, min=0, max=1)
        assert chi_square(counts, torch.full((50,), 400.0)) < 85.4  # 49 degrees, 0.1%


def test_neighbouring_names_are_not_correlated() -> None:
    grid = uniforms(0, torch.arange(200)[:, None], torch.arange(200)[None])
    for a, b in ((grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1]), (grid, grid.T)):
        both = torch.stack([a.flatten(), b.flatten()])
        off_diagonal = (a != b).flatten()
        assert abs(torch.corrcoef(both[:, off_diagonal])[0, 1].item()) < 0.02


@given(st.integers(0, 2**62), st.integers(0, 10**6), st.integers(0, 500))
def test_a_draw_is_a_function_of_its_names(seed: int, step: int, slot: int) -> None:
    alone = uniforms(seed, step, torch.tensor(slot))
    among = uniforms(seed, step, torch.arange(501))[slot]
    assert alone == among
    assert 0 <= alone < 1


def test_seeds_that_differ_in_their_high_bits_draw_differently() -> None:
    slots = torch.arange(100)
    assert not torch.equal(uniforms(1, slots), uniforms(1 + 2**33, slots))


def test_temperature_divides_the_logits_as_the_oracle_says() -> None:
    scaled = (LOGITS / 0.5).softmax(-1)
    squares = PROBABILITIES**2
    assert torch.allclose(scaled, squares / squares.sum())
    assert math.isclose(scaled.sum().item(), 1, rel_tol=1e-6)
