"""A text that ends answers, through settings, records, grading, stored lines and commands."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rlvr.cli import main
from rlvr.commands.train import read_words
from rlvr.config import Config, read_toml, resolve, write_toml
from rlvr.errors import UsageError
from rlvr.model.tokens import load_tokens
from rlvr.observe.console import whole
from rlvr.observe.runlog import rollout_line
from rlvr.records import Group, Problem, Rollout, Sampling, response, stored_response
from rlvr.rewards import Reward
from rlvr.rollout.engine import Draws
from rlvr.scoring import Scoring, answer_of, own_function
from rlvr.training.checkpoint import group_of

PROBLEM = Problem("sum", "3+4=", "7", "test")
TEXT = " 7\n\nQuestion: 9+9=\nAnswer: 18"
ROLLOUT = Rollout(
    *("sum", 0, 0, [1], [2, 3], [-0.5, -0.5], "stop", TEXT, Sampling(stop=("\n",)), 0, 0)
)


def given(*words: str) -> Config:
    return resolve(read_words("train", words)[-1])


def test_the_setting_is_one_text_and_comes_back_from_the_run_s_settings(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    tokens = load_tokens(tiny_model_folder)
    spellings = [(r"\n", "\n"), (r"\n\nQ:", "\n\nQ:"), (r"\\n", r"\n"), ("所 ", "所 "), ("", "")]
    for spelling, stop in spellings:
        config = given("--rollouts.stop", spelling)
        assert config.rollouts.stop == stop
        assert config.rollouts.sampling(tokens).stop == ((stop,) if stop else ())
        (tmp_path / "run.toml").write_text(write_toml(config))
        assert resolve(read_toml(tmp_path / "run.toml")) == config
    for half in ("\ufffd", "a\udc80"):
        with pytest.raises(UsageError, match="half of a character"):
            given("--rollouts.stop", half)


def test_graders_read_up_to_where_the_first_stop_begins() -> None:
    assert (ROLLOUT.text, ROLLOUT.said, ROLLOUT.response) == (TEXT, " 7", " 7")
    assert replace(ROLLOUT, opened=True).response == "<think> 7"
    assert response("a--b\n", opened=False, stop=["\n", "--"]) == "a"
    assert response("a--b", opened=False, stop=["\n"]) == "a--b"


def test_a_lenient_reward_and_a_function_of_yours_get_what_is_before_the_stop(
    tmp_path: Path,
) -> None:
    draws, group = Draws(0, step=1), Group(PROBLEM, [ROLLOUT])
    settings = Reward(lenient=True)
    assert answer_of(PROBLEM, ROLLOUT, "3+4=", settings, draws).text == " 7"
    for rollout, verdict in ((ROLLOUT, "correct"), (without(ROLLOUT), "incorrect")):
        made = Scoring(settings, given().variant, None)([Group(PROBLEM, [rollout])], ["x"], draws)
        assert made[0].rollouts[0].score is not None
        assert made[0].rollouts[0].score.verdict == verdict
    mine = tmp_path / "mine.py"
    mine.write_text("def score(problem, text):\n    return float(text == ' 7')\n")
    settings = Reward(function=f"{mine}:score", correctness=0)
    pool = own_function(settings)
    assert pool is not None
    with pool:
        (found,) = Scoring(settings, given().variant, pool)([group], ["x"], draws)
    assert found.rollouts[0].score is not None
    assert found.rollouts[0].score.value == 1


def without(rollout: Rollout) -> Rollout:
    return replace(rollout, sampling=Sampling())


def test_stored_lines_keep_the_whole_text_and_are_graded_again_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rollouts" / "step-000001.jsonl"
    path.parent.mkdir()
    lines = [rollout_line(PROBLEM, rollout) for rollout in (ROLLOUT, without(ROLLOUT))]
    path.write_text("".join(lines))
    row = json.loads(lines[0])
    assert (row["text"], row["sampling"]["stop"], whole(row)) == (TEXT, ["\n"], " 7")
    main(["verify", "--jsonl", str(path), "--lenient"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:2]]
    assert [line["verdict"] for line in told] == ["correct", "incorrect"]
    for odd in (None, "x", {}, {"stop": "\n"}, {"stop": ["", 3, None]}):
        assert stored_response({"sampling": odd}, TEXT) == TEXT


def test_groups_in_a_checkpoint_keep_their_stops_and_older_ones_have_none() -> None:
    fields = {name: getattr(ROLLOUT, name) for name in ROLLOUT.__slots__}
    sampling = {"temperature": 1.0, "banned": [4], "stop": ["\n"]}
    for saved, stop in ((sampling, ("\n",)), ({"banned": [4]}, ())):
        problem = {"id": "sum", "prompt": "3+4=", "answer": "7", "source": "test"}
        again = group_of({"problem": problem, "rollouts": [fields | {"sampling": saved}]})
        assert again.rollouts[0].sampling == Sampling(banned=(4,), stop=stop)


def test_eval_and_chat_stop_as_the_run_did_unless_told_otherwise(
    tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, found = tmp_path / "run", list[tuple[str, ...]]()
    shutil.copytree(tiny_model_folder, run / "checkpoints" / "step-000000")
    (run / "run.toml").write_text(write_toml(given("--rollouts.stop", r"\n")))

    def drawn(*arguments: object, **more: object) -> object:
        found.extend(a.stop for a in arguments if isinstance(a, Sampling))
        raise UsageError("seen")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rlvr.commands.evaluating.evaluate", drawn)
    monkeypatch.setattr("rlvr.commands.chatting.rollouts", drawn)
    small = ["--max-new-tokens", "4"]
    for words in (["eval", "--count", "2", "--threads", "1"], ["chat"]):
        for name, more in (
            (run, []),
            (run, ["--stop", "x"]),
            (run, ["--stop", ""]),
            ("abacus", []),
        ):
            asked = ["1+1"] if words == ["chat"] else []
            assert main([words[0], str(name), *asked, *words[1:], *small, *more]) == 2
        assert main([words[0], "abacus", *asked, *words[1:], *small, "--stop", r"\t"]) == 2
    assert found == [("\n",), ("x",), (), (), ("\t",)] * 2
