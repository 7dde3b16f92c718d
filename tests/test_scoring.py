"""Scores of groups: lengths within the group, and a function of the user's own in workers."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlvr.errors import UsageError
from rlvr.objective.slots import Variant
from rlvr.objective.variants import VARIANTS
from rlvr.observe.metrics import rollout_metrics
from rlvr.records import Group, Problem, Rollout, Sampling, Score
from rlvr.rewards import Reward
from rlvr.rollout.engine import Draws
from rlvr.scoring import Scoring, own_function
from rlvr.training.batching import outcomes_of
from rlvr.verify.pool import Pool

FUNCTIONS = Path(__file__).parent / "verify" / "own_functions.py"
PROBLEM = Problem("sum-1", "3+4=", "7", "test", subject="sum", level=2)
RIGHT, WRONG = r"\boxed{7}", r"\boxed{8}"


def own(function: str, **settings: Any) -> Reward:
    return Reward(function=f"{FUNCTIONS}:{function}", **settings)


def rollout(text: str, slot: int, tokens: int, finish: Any = "stop") -> Rollout:
    sampling = Sampling(max_new_tokens=100)
    return Rollout(
        "sum-1", 0, slot, [1], [2] * tokens, [-0.5] * tokens, finish, text, sampling, 0, 0
    )


def group(texts: Sequence[str], tokens: Sequence[int] | None = None) -> Group:
    sizes = tokens or [10] * len(texts)
    pairs = enumerate(zip(texts, sizes, strict=True))
    return Group(PROBLEM, [rollout(text, slot, size) for slot, (text, size) in pairs])


def scores(
    settings: Reward,
    groups: Sequence[Group],
    *,
    prompt: str = "3+4=",
    variant: Variant | None = None,
    pool: Pool | None = None,
) -> list[list[Score]]:
    scoring = Scoring(settings, variant or Variant(), pool)
    scored = scoring(groups, [prompt] * len(groups), Draws(0, step=1))
    return [[r.score for r in g.rollouts if r.score] for g in scored]


def values(settings: Reward, made: Group, **more: Any) -> list[float | None]:
    return [score.value for score in scores(settings, [made], **more)[0]]


# ---------------------------------------------------------------------------------- lengths


def test_a_length_reward_compares_within_a_group_and_no_further() -> None:
    settings = Reward(length="kimi", length_weight=0.1)
    first = group([RIGHT, RIGHT, WRONG], [10, 20, 30])
    second = group([RIGHT, RIGHT, WRONG], [100, 110, 120])
    found = scores(settings, [first, second])
    for row in found:
        assert [s.value for s in row] == pytest.approx([1.05, 1.0, -0.05])
        assert [s.parts["length"] for s in row] == pytest.approx([0.5, 0.0, -0.5])


@pytest.mark.parametrize("name", ["laser", "l1_exact", "l1_max", "lead", "mai", "cosine"])
def test_every_length_reward_can_be_chosen(name: Any) -> None:
    settings = Reward(length=name, length_target=15 if name[0] == "l" and name != "lead" else 0)
    found = scores(settings, [group([RIGHT, RIGHT, WRONG], [10, 20, 30])])[0]
    for score, correct in zip(found, (1.0, 1.0, 0.0), strict=True):
        assert score.value == pytest.approx(correct + score.parts["length"])
    assert len({score.parts["length"] for score in found}) > 1


def no_verdict_on_9(asked: Sequence[tuple[Problem, str]], *, lenient: bool) -> list[Score]:
    """In place of the verifier: it can't judge an answer of 9."""
    return [
        Score(None, "could not judge", "by hand")
        if "9" in text
        else Score(float(p.answer in text), "correct" if p.answer in text else "incorrect", "")
        for p, text in asked
    ]


def test_an_answer_that_could_not_be_judged_is_no_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rlvr.scoring.judge_all", no_verdict_on_9)
    made = group([RIGHT, RIGHT, "9"], [10, 20, 90])
    assert values(Reward(length="kimi"), made) == [1.5, 0.5, None]


def test_an_answer_cut_by_the_limit_is_wrong_and_as_long_as_it_is() -> None:
    made = Group(
        PROBLEM, [rollout(RIGHT, 0, 50), rollout(RIGHT, 1, 75), rollout(RIGHT, 2, 100, "length")]
    )
    assert values(Reward(length="kimi"), made) == pytest.approx([1.5, 1.0, -0.5])
    masked = values(Reward(length="kimi"), made, variant=Variant(overlong="mask"))
    assert masked == pytest.approx([1.5, 0.5, 0.0]), "it leaves every statistic of the group"


def test_a_length_weight_of_0_logs_the_length_and_pays_nothing() -> None:
    """BC-29."""
    found = scores(Reward(length="kimi", length_weight=0.0), [group([RIGHT, WRONG], [10, 20])])[0]
    assert [s.value for s in found] == [1.0, 0.0]
    assert [s.parts["length"] for s in found] == [0.5, -0.5]


def test_the_form_is_measured_where_the_prompt_speaks_of_tags_and_pays_by_its_weight() -> None:
    texts = [r"<think>3+4</think>\boxed{7}", RIGHT]
    asked = scores(Reward(), [group(texts)], prompt="Think between <think> and </think>. 3+4=")[0]
    assert [s.parts.get("format") for s in asked] == [1.0, 0.0]
    assert [s.value for s in asked] == [1.0, 1.0]
    plain = scores(Reward(), [group(texts)])[0]
    assert [s.parts for s in plain] == [{"correctness": 1.0}] * 2


def test_a_prompt_that_ends_with_an_open_thought_has_opened_it() -> None:
    texts = [r"3+4</think>\boxed{7}", r"<think>3+4</think>\boxed{7}", RIGHT]
    settings, made = Reward(format=0.5), group(texts)
    opened = Group(made.problem, [replace(r, opened=True) for r in made.rollouts])
    assert values(settings, opened) == [1.5, 1.0, 0.0], "a thought that never ends has no answer"
    assert values(settings, group(texts)) == [1.0, 1.5, 1.0]


def test_a_part_that_is_only_measured_does_not_move_gdpo() -> None:
    texts = [r"<think>3+4</think>\boxed{7}", RIGHT, WRONG]
    scoring = Scoring(Reward(), Variant(advantage="gdpo"))
    scored = scoring([group(texts)], ["<think> </think>"], Draws(0, step=1))
    seen = outcomes_of(scored, Reward().weights, VARIANTS["gdpo"])
    assert seen.part_weights.tolist() == [1.0, 0.0]


# ---------------------------------------------------------------------------------- your own


def started(settings: Reward) -> Pool:
    pool = own_function(settings)
    assert pool is not None
    return pool


@pytest.fixture(scope="module")
def moody() -> Iterator[Pool]:
    with started(own("moods", function_deadline_seconds=1.0)) as pool:
        yield pool


def test_your_function_gets_the_problem_and_the_text_and_is_one_part_of_the_reward() -> None:
    settings = own("echo", function_weight=2.0)
    with started(settings) as pool:
        found = scores(settings, [group([RIGHT + " 0.5", WRONG + " -1"])], pool=pool)[0]
    assert [s.value for s in found] == [2.0, -2.0]
    assert [s.parts["function"] for s in found] == [0.5, -1.0]
    assert found[0].reason.endswith("own_functions.py:echo: 7"), "its reason is kept"
    assert found[0].verdict == "correct"
    plain = scores(Reward(), [group([RIGHT])])[0][0]
    whose = f"verdict: {plain.reason}; {settings.function}: 7"
    assert found[0].reason == whose, "each reason says whose it is"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("-numpy-", 0.5), ("-numpy integer-", 2.0), ("-fraction-", 0.25), ("-dict-", 0.5),
        ("plain", 0.0),
    ],
)  # fmt: skip
def test_numbers_of_other_kinds_are_numbers(word: str, value: float, moody: Pool) -> None:
    found = scores(own("moods"), [group([WRONG + word])], pool=moody)[0][0]
    assert (found.value, found.parts["function"]) == (value, value)
    assert type(found.value) is float


def test_a_long_reason_is_kept_in_part(moody: Pool) -> None:
    found = scores(own("moods"), [group([WRONG + "-dict of many words-"])], pool=moody)[0][0]
    assert found.value == 0.5
    assert 1000 < len(found.reason) < 1200


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("-bool-", "the bool True; return 1.0 or 0.0"),
        ("-numpy bool-", "return a number"),
        ("-array-", "(ndarray)"),
        ("-decimal-", "(Decimal)"),
        ("-nan-", "not finite"),
        ("-infinite-", "not finite"),
        ("-huge-", "not finite"),
        ("-large-", "return -1e+06 to 1e+06"),
        ("-text-", "'1.0' (str)"),
        ("-list-", "(list)"),
        ("-coroutine-", "coroutine"),
        ("-future-", "(Future)"),
        ("-dict with more-", "nothing else"),
        ("-dict without-", "'value'"),
        ("-dict of bool-", "the bool False"),
        ("-dict with reason-", "as text"),
    ],
)
def test_what_a_function_may_not_return_is_refused_with_its_name_and_the_row(
    word: str, says: str, moody: Pool
) -> None:
    """BC-50."""
    with pytest.raises(UsageError) as caught:
        scores(own("moods"), [group([WRONG, WRONG + word])], pool=moody)
    for part in (says, "own_functions.py:moods", "answer 1 to problem 'sum-1'"):
        assert part in str(caught.value)


def test_a_function_that_cant_judge_leaves_no_reward_and_never_0(moody: Pool) -> None:
    """BC-32."""
    texts = [RIGHT + "-none-", RIGHT + "-dict of none-", RIGHT]
    found = scores(own("moods"), [group(texts)], pool=moody)[0]
    assert [s.value for s in found] == [None, None, 1.0]
    assert found[1].reason.endswith("unreadable")
    assert {s.trouble for s in found} == {""}
    assert values(own("moods", function_weight=0.0), group(texts), pool=moody) == [1.0, 1.0, 1.0]


def test_three_states_of_a_function_stay_apart(moody: Pool) -> None:
    """BC-51, BC-52: an exception or a crash is our fault and no 0; a hang is the answer's."""
    texts = [RIGHT + word for word in ("-raise-", "-crash-", "-hang-", "", "", "", "")]
    settings = own("moods", function_deadline_seconds=1.0)
    scored = Scoring(settings, Variant(), moody)([group(texts)], [""], Draws(0, step=1))
    found = [r.score for r in scored[0].rollouts if r.score]
    assert [s.value for s in found] == [None, None, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert [s.trouble for s in found] == ["failed", "failed", "late", "", "", "", ""]
    assert found[2].parts["function"] == 0.0
    for score, words in zip(found, ("I am broken", "worker", "longer than 1 sec"), strict=False):
        assert words in score.reason
    line = rollout_metrics(scored, settings.weights)
    assert line["reward/failed"] == line["reward/none"] == pytest.approx(2 / 7)
    assert line["reward/late"] == pytest.approx(1 / 7)
    assert line["reward/part/function"] == 0.0
    assert line["reward/correct"] == 1.0, "the verdict is the verifier's"


def test_a_function_that_fails_too_often_stops_the_run(moody: Pool) -> None:
    """BC-51."""
    half = group([RIGHT + "-raise-", RIGHT])
    assert values(own("moods"), half, pool=moody) == [None, 1.0]
    with pytest.raises(UsageError, match=r"failed on 2 of 3 answers \(66%\).*I am broken"):
        scores(own("moods"), [group([RIGHT + "-raise-"]), half], pool=moody)
    with pytest.raises(UsageError, match=r"The last: ValueError: I am broken"):
        scores(own("moods"), [group([RIGHT + "-raise-"])], pool=moody)
    with pytest.raises(UsageError, match=r"function_failures_most is 0\.0"):
        scores(own("moods", function_failures_most=0.0), [half], pool=moody)
    never = own("moods", function_failures_most=1.0)
    assert values(never, group([RIGHT + "-raise-"]), pool=moody) == [None]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (f"{FUNCTIONS}:no_such", "no function 'no_such'"),
        (f"{FUNCTIONS}:constant", "no function 'constant'"),
        (f"{FUNCTIONS}:coroutine", "it is async; it must be def coroutine(problem, text)"),
        (f"{FUNCTIONS}:three", "it must be def three(problem, text)"),
        ("no/such/file.py:score", "no/such/file.py"),
        ("no_such_module:score", "No module named 'no_such_module'"),
    ],
)
def test_a_function_that_cant_be_asked_is_refused_before_any_weights_load(
    function: str, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        own_function(Reward(function=function))
    assert says in str(caught.value)
    assert f"reward.function {function}" in str(caught.value)


@pytest.mark.parametrize(("function", "value"), [("forgiving", 0.25), ("called", 0.75)])
def test_whatever_can_be_called_with_a_problem_and_a_text_will_do(
    function: str, value: float
) -> None:
    with started(own(function)) as pool:
        assert values(own(function), group([WRONG]), pool=pool) == [value]


def test_a_module_is_found_in_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("from other import VALUE\ndef f(p, t): return VALUE\n")
    (tmp_path / "other.py").write_text("VALUE = 0.125\n")
    monkeypatch.chdir(tmp_path)
    for name in ("mine:f", "mine.py:f"):
        settings = Reward(function=name)
        with started(settings) as pool:
            assert values(settings, group([WRONG]), pool=pool) == [0.125]


def test_a_reward_of_your_own_alone_needs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvr.scoring.judge_all", no_verdict_on_9)
    settings = own("length", correctness=0.0)
    with started(settings) as pool:
        found = scores(settings, [group(["9" * 50])], pool=pool)[0][0]
        assert values(own("length"), group(["9" * 50]), pool=pool) == [None]
    assert (found.value, found.verdict) == (0.5, "could not judge")
    assert found.parts == {"function": 0.5}


def test_what_loads_your_function_brings_no_torch() -> None:
    code = "import rlvr.verify.own, sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "False\n"
