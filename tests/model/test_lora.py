"""Adapters: the base off them, their gradients on a board, their files as PEFT writes them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from plain import hidden_states, logits_of
from safetensors.torch import load_file
from torch import Tensor, nn

from rlvr.errors import UsageError
from rlvr.model.decoder import Decoder, Weights
from rlvr.model.logprobs import token_logprobs
from rlvr.model.lora import Adapter, load_adapters, new_adapters, save_adapters
from rlvr.model.settings import TARGETS, Lora
from rlvr.model.weights import Model, load_model, save_model
from rlvr.records import Problem, Prompt, Sampling
from rlvr.rollout.engine import Draws, rollouts

SAMPLING = Sampling(temperature=0.8, max_new_tokens=12)
RANK, ALPHA = 3, 7.0


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest, tagless_folder: Callable[..., Path]) -> Model:
    """A small model, its head tied or not."""
    return load_model(tagless_folder(tied=request.param))


def adapt(decoder: Decoder, targets: tuple[str, ...] = TARGETS, *, trained: bool = True) -> None:
    """Give a decoder adapters, which add something where they are trained."""
    decoder.adapters = new_adapters(decoder, rank=RANK, alpha=ALPHA, targets=targets, seed=5)
    generator = torch.Generator().manual_seed(2)
    for adapter in decoder.adapters.values() if trained else ():
        adapter.up.normal_(std=0.3, generator=generator)


def every_tensor(weights: Weights) -> list[Tensor]:
    parts = [getattr(block, name) for block in weights.blocks for name in block.__slots__]
    whole = [weights.embedding, weights.norm, weights.head, weights.head_cast]
    return [part for part in [*parts, *whole] if part is not None]


def bits(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone().view(torch.uint8) for tensor in tensors]


def equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_before_the_first_step_every_bit_is_the_base_s(model: Model, dtype: torch.dtype) -> None:
    with torch.no_grad():
        model.decoder.model.norm.weight[0] = model.decoder.merged()[QUERIES][0, 0] = -0.0
        before = bits(every_tensor(model.decoder.weights(dtype)))
        adapt(model.decoder, trained=False)
        assert equal(bits(every_tensor(model.decoder.weights(dtype))), before)
        adapt(model.decoder)
        assert not equal(bits(every_tensor(model.decoder.weights(dtype))), before)
        assert equal(bits(every_tensor(model.decoder.weights(dtype, adapted=False))), before)


QUERIES = "model.layers.0.self_attn.q_proj.weight"


def test_new_adapters_are_drawn_as_in_peft_and_from_the_seed_alone(model: Model) -> None:
    def drawn(seed: int, targets: tuple[str, ...] = TARGETS) -> dict[str, Tensor]:
        found = new_adapters(model.decoder, rank=64, alpha=1.0, targets=targets, seed=seed)
        assert not any(adapter.up.any() for adapter in found.values())
        return {adapter.name: adapter.down for adapter in found.values()}

    first = drawn(1)
    assert len(first) == 2 * len(TARGETS)
    for down in first.values():
        bound = down.shape[1] ** -0.5
        assert 0.95 * bound < down.abs().max() <= bound
        assert abs(float(down.mean())) < 0.1 * bound
        assert abs(float(down.std()) - bound / 3**0.5) < 0.1 * bound
    assert equal(list(first.values()), list(drawn(1).values()))
    assert not equal(list(first.values()), list(drawn(2).values()))
    name = "model.layers.1.self_attn.v_proj"
    assert torch.equal(drawn(1, ("v_proj",))[name], first[name])
    assert len({round(float(down.sum()), 4) for down in first.values()}) == len(first)


def weights_by_the_book(decoder: Decoder, learnt: dict[str, Tensor]) -> Weights:
    """`W + alpha / rank * B @ A` as one would write it, for autograd to go through."""

    def adapted(name: str) -> Tensor:
        matrix = dict(decoder.named_parameters())[f"{name}.weight"].detach()
        if f"{name}.lora_A.weight" not in learnt:
            return matrix
        down, up = (learnt[f"{name}.lora_{part}.weight"] for part in "AB")
        return matrix + ALPHA / RANK * up @ down

    found = decoder.weights(decoder.model.norm.weight.dtype, adapted=False)
    blocks = []
    for number, block in enumerate(found.blocks):
        attention, feed = f"model.layers.{number}.self_attn.", f"model.layers.{number}.mlp."
        blocks.append(
            replace(
                block,
                qkv=torch.cat([adapted(f"{attention}{part}_proj") for part in "qkv"]),
                out=adapted(f"{attention}o_proj"),
                gate_up=torch.cat([adapted(f"{feed}{part}_proj") for part in ("gate", "up")]),
                down=adapted(f"{feed}down_proj"),
            )
        )
    return replace(found, blocks=tuple(blocks))


def rows_of(model: Model) -> tuple[Tensor, Tensor]:
    """Two rows whose first four tokens are one prompt, and the mask of their answers."""
    tokens = torch.randint(2, 200, (2, 11), generator=torch.Generator().manual_seed(3))
    tokens[1, :4] = tokens[0, :4]
    mask = (torch.arange(11) >= 4).expand(2, -1).clone()
    mask[1, 9:] = False
    return tokens, mask


def logprobs_by_the_book(weights: Weights, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the answers' tokens and entropies, from padded rows."""
    logits = logits_of(weights, hidden_states(weights, tokens))[:, :-1] / SAMPLING.temperature
    full, answers = logits.log_softmax(-1), mask[:, 1:]
    chosen = full.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return chosen[answers], -(full.exp() * full).sum(-1)[answers]


def loss_of(logprobs: Tensor, entropies: Tensor, *, pull: bool) -> Tensor:
    """A mean in which every token counts differently, with the pull of the entropy or without."""
    loss = (logprobs * torch.linspace(-1, 1, len(logprobs))).mean()
    return loss + entropies.mean() if pull else loss


def taken_gradients(decoder: Decoder) -> dict[str, Tensor]:
    """Gradients of what learns; the base has none."""
    assert all(parameter.grad is None for parameter in decoder.parameters())
    found = {name: t.grad for name, t in decoder.learning().items() if t.grad is not None}
    assert len(found) == len(decoder.learning())
    return found


def twins_of(decoder: Decoder) -> dict[str, Tensor]:
    return {name: t.clone().requires_grad_() for name, t in decoder.learning().items()}


def difference(found: dict[str, Tensor], twins: dict[str, Tensor]) -> float:
    """The largest difference, as a share of the largest number; none is next to nothing."""
    theirs = {name: twin.grad for name, twin in twins.items() if twin.grad is not None}
    sizes = [float(gradient.abs().max()) for gradient in theirs.values()]
    assert min(sizes) > 1e-3 * max(sizes)
    return max(float((found[n] - theirs[n]).abs().max()) for n in theirs) / max(sizes)


some_targets = pytest.mark.parametrize(
    "targets", [TARGETS, ("v_proj",), ("q_proj", "up_proj"), ("down_proj",)]
)


@some_targets
def test_gradients_of_the_adapters_equal_autograd_s_on_a_plain_twin(
    model: Model, targets: tuple[str, ...]
) -> None:
    """In float64, so that nothing but the mathematics can differ."""
    decoder, (tokens, _) = model.decoder.double(), rows_of(model)
    adapt(decoder, targets)
    assert decoder.adapters is not None
    decoder.adapters = {
        weight: replace(adapter, down=adapter.down.double(), up=adapter.up.double())
        for weight, adapter in decoder.adapters.items()
    }
    twins = twins_of(decoder)
    assert len(twins) == 2 * 2 * len(targets)
    pull = torch.randn(16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for weights in (decoder.weights(torch.float64), weights_by_the_book(decoder, twins)):
        (hidden_states(weights, tokens) * pull).mean().backward()
    assert difference(taken_gradients(decoder), twins) < 1e-12


@some_targets
@pytest.mark.parametrize("pull", [False, True])
def test_the_fast_path_equals_the_slow_one_with_adapters(
    model: Model, targets: tuple[str, ...], pull: bool
) -> None:
    """BC-72: in float32, the error that of sums in another order."""
    adapt(model.decoder, targets)
    tokens, mask = rows_of(model)
    twins = twins_of(model.decoder)
    expected = logprobs_by_the_book(weights_by_the_book(model.decoder, twins), tokens, mask)
    loss_of(*expected, pull=pull).backward()
    weights = model.decoder.weights(torch.float32)
    found = token_logprobs(weights, tokens, mask, SAMPLING, entropy_gradient=pull)
    logprobs, entropies = (values[mask] for values in found)
    assert (logprobs - expected[0]).abs().max() < 1e-5
    assert (entropies - expected[1]).abs().max() < 1e-5
    loss_of(logprobs, entropies, pull=pull).backward()
    assert difference(taken_gradients(model.decoder), twins) < 1e-5


def test_learner_and_sampler_agree_with_adapters_on(model: Model) -> None:
    adapt(model.decoder)
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    problems, prompts = [Problem("a", "12+3=", "15", "test")], [Prompt("12+3=")]
    sampled = rollouts(weights, model.tokens, problems, prompts, 4, SAMPLING, Draws(1, 1), 0)
    for answer in sampled:
        row = torch.tensor([[*answer.prompt_tokens, *answer.answer_tokens]])
        mask = torch.arange(row.shape[1])[None] >= len(answer.prompt_tokens)
        found, _ = token_logprobs(model.decoder.weights(torch.float32), row, mask, answer.sampling)
        recorded = torch.tensor(answer.sampler_logprobs)
        assert (found[mask].detach() - recorded).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_thousand_merges_leave_every_bit_of_the_base(model: Model, dtype: torch.dtype) -> None:
    """BC-25: what is merged is a new tensor, so there is nothing to undo."""
    adapt(model.decoder)
    masters = [*model.decoder.parameters()]
    before = bits(masters)
    with torch.no_grad():
        base = bits(every_tensor(model.decoder.weights(dtype, adapted=False)))
        merged = bits(every_tensor(model.decoder.weights(dtype)))
        for _ in range(1000):
            now = model.decoder.weights(dtype)
        assert equal(bits(every_tensor(now)), merged)
        assert equal(bits(every_tensor(model.decoder.weights(dtype, adapted=False))), base)
    assert equal(bits(masters), before)


def test_saved_adapters_have_peft_s_names_and_shapes(model: Model, tmp_path: Path) -> None:
    adapt(model.decoder, ("q_proj", "down_proj"))
    assert model.decoder.adapters is not None
    save_adapters(model.decoder.adapters, tmp_path / "base", tmp_path)
    stored = load_file(tmp_path / "adapter_model.safetensors")
    assert {name: tuple(value.shape) for name, value in stored.items()} == {
        f"base_model.model.model.layers.{layer}.{name}": shape
        for layer in (0, 1)
        for name, shape in {
            "self_attn.q_proj.lora_A.weight": (3, 16),
            "self_attn.q_proj.lora_B.weight": (32, 3),
            "mlp.down_proj.lora_A.weight": (3, 24),
            "mlp.down_proj.lora_B.weight": (16, 3),
        }.items()
    }
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    wanted = {"peft_type": "LORA", "r": 3, "lora_alpha": 7.0, "bias": "none"}
    assert config.items() >= wanted.items()
    assert config["target_modules"] == ["down_proj", "q_proj"]
    assert config["base_model_name_or_path"] == str(tmp_path / "base")


def test_adapters_come_back_bit_for_bit_and_merge_to_the_saved_model(
    model: Model, tmp_path: Path
) -> None:
    adapt(model.decoder)
    assert model.decoder.adapters is not None
    save_adapters(model.decoder.adapters, model.folder, tmp_path)
    again = load_model(model.folder)
    again.decoder.adapters = load_adapters(again.decoder, tmp_path)
    assert list(again.decoder.learning()) == list(model.decoder.learning())
    pairs = (list(m.decoder.learning().values()) for m in (again, model))
    assert equal(*(bits(tensors) for tensors in pairs))
    (tmp_path / "merged").mkdir()
    save_model(again, tmp_path / "merged")
    stored = dict(load_model(tmp_path / "merged").decoder.named_parameters())
    base = dict(load_model(model.folder).decoder.named_parameters())
    learnt = model.decoder.learning()
    for name, value in base.items():
        module = name.removesuffix(".weight")
        down, up = (learnt.get(f"{module}.lora_{part}.weight") for part in "AB")
        by_hand = value if down is None or up is None else value + 7 / 3 * up @ down
        assert torch.allclose(stored[name], by_hand, atol=1e-6), name
        assert torch.equal(stored[name], value) == (down is None), name
    with torch.no_grad():
        whole = load_model(tmp_path / "merged").decoder.weights(torch.bfloat16)
        assert equal(every_tensor(whole), every_tensor(model.decoder.weights(torch.bfloat16)))


def test_adapters_of_another_model_are_refused_in_words(model: Model, tmp_path: Path) -> None:
    adapt(model.decoder)
    assert model.decoder.adapters is not None
    with pytest.raises(UsageError, match=r"adapter_model.safetensors is missing"):
        load_adapters(model.decoder, tmp_path)
    save_adapters(model.decoder.adapters, model.folder, tmp_path)
    shape = model.decoder.shape
    with pytest.raises(UsageError, match="does not fit"):
        load_adapters(Decoder(replace(shape, intermediate_size=20)), tmp_path)
    with pytest.raises(UsageError, match="which the model lacks"):
        load_adapters(Decoder(replace(shape, num_hidden_layers=1)), tmp_path)


def test_peft_reads_what_is_saved_and_finds_the_same_logits(model: Model, tmp_path: Path) -> None:
    peft: Any = pytest.importorskip("peft")
    transformers: Any = pytest.importorskip("transformers")
    adapt(model.decoder)
    assert model.decoder.adapters is not None
    save_adapters(model.decoder.adapters, model.folder, tmp_path)
    tokens, _ = rows_of(model)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.float32)
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
        expected = logits_of(weights, hidden_states(weights, tokens))
        base = theirs(tokens).logits
        adapted = peft.PeftModel.from_pretrained(theirs, tmp_path)
        assert (adapted(tokens).logits - expected).abs().max() < 1e-4
        assert (base - expected).abs().max() > 0.1
        named = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
        assert (named(tokens).logits - expected).abs().max() < 1e-4


def test_the_gradient_of_one_adapter_worked_out_by_hand() -> None:
    adapter = Adapter("m", torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [0.0]]), alpha=2.0)
    assert torch.equal(adapter.merged(torch.ones(2, 2)), torch.tensor([[7.0, 13.0], [1.0, 1.0]]))
    (_, of_down), (_, of_up) = adapter.gradients(torch.tensor([[1.0, 0.0], [5.0, 1.0]]))
    assert torch.equal(of_down, torch.tensor([[6.0, 0.0]]))  # 2 * (3 * [1, 0] + 0 * [5, 1])
    assert torch.equal(of_up, torch.tensor([[2.0], [14.0]]))  # 2 * [1 * 1 + 0 * 2, 5 * 1 + 1 * 2]


def test_the_names_of_targets_are_the_matrices_of_a_block(model: Model) -> None:
    modules = model.decoder.named_modules()
    found = {n.rpartition(".")[2] for n, module in modules if isinstance(module, nn.Linear)}
    assert found - {"lm_head"} == set(TARGETS)
    assert Lora(targets="all").names == TARGETS
    assert Lora(targets="v_proj, q_proj").names == ("q_proj", "v_proj")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"targets": "q_prj"}, r"unknown matrix in lora.targets 'q_prj'. Did you mean 'q_proj'\?"),
        ({"targets": "q_proj,lm_head"}, "unknown matrix in lora.targets 'lm_head'"),
        ({"targets": ""}, "unknown matrix in lora.targets ''"),
        ({"rank": -1}, "lora.rank is -1. Use 1 or more, such as 16, or 0"),
        ({"alpha": 0.0}, "lora.alpha is 0.0; it must be above 0"),
    ],
)
def test_wrong_settings_are_refused_in_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Lora(**given)


def test_settings_without_a_rank_are_doubted() -> None:
    assert not Lora().doubts()
    assert not Lora(rank=4, alpha=8).doubts()
    assert "no effect" in Lora(targets="q_proj").doubts()[0]
