"""Chat templates: read as transformers reads them, filled once, hostile ones bounded."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rlvr.cli import main
from rlvr.config import resolve
from rlvr.errors import UsageError
from rlvr.model import chat
from rlvr.model.chat import for_model, read_chat_template
from rlvr.model.sandbox import fill
from rlvr.model.tokens import load_tokens
from rlvr.problems.prompts import TEMPLATES, render
from rlvr.records import Problem, Prompt
from rlvr.run import prepare

Folders = Callable[..., Path]
SMOLLM2 = Path(__file__).parents[2] / "models/smollm2-135m-instruct"
QUESTIONS = (
    "What is 7 + 5?",
    "{problem} {{ x }} \\frac{1}{2} %s",
    "</think> <|im_end|>",
    "é\n\n所",
)
QWEN25 = """\
{%- if tools %}
    {{- '<|im_start|>system\\nYou may call ' + (tools | tojson) + '<|im_end|>\\n' }}
{%- elif messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string
           and not message.content.startswith('<tool_response>') %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- generation %}{{- content + '<|im_end|>\\n' }}{%- endgeneration %}
    {%- endif %}
    {%- if loop.index > 100 %}{% break %}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA = """\
{{- bos_token }}
{%- if date_string is not defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] not in ['user', 'system'] %}{{ raise_exception('no') }}{% endif %}
{%- for message in messages %}
  {{- 'Today: ' + date_string + '\\n' + message['role'] + ': ' + message['content'] | trim }}
  {% if loop.last and add_generation_prompt %}
    assistant:{% endif %}
{% endfor %}
"""
OPENS = "{{ messages[0].content }}{% if add_generation_prompt %}<|end|><think>\n{% endif %}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory whose tokenizer settings name a few special tokens."""
    settings = {"bos_token": {"content": "<|begin|>", "special": True}, "eos_token": "<|end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"pad_token": None}))
    return tmp_path


def with_template(folder: Path, text: str) -> Path:
    (folder / "chat_template.jinja").write_text(text, encoding="utf-8")
    return folder


def put(template: str, question: str) -> Prompt:
    return render(template, Problem("1", question, "", "test"))


def theirs(folder: Path, content: str, **more: Any) -> Any:
    """What transformers makes of a user's message."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, **more)


def said(name: str, question: str) -> str:
    return TEMPLATES[name].text.replace("{problem}", question)


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="make smollm2 makes the model")
@pytest.mark.parametrize("name", ["chat", "chat_boxed", "chat_think"])
def test_prompts_of_a_real_model_have_the_ids_of_transformers(name: str) -> None:
    tokens, template = load_tokens(SMOLLM2), for_model(name, SMOLLM2)
    for question in QUESTIONS:
        prompt = put(template, question)
        assert prompt.text == theirs(SMOLLM2, said(name, question), tokenize=False)
        if "<|" not in question:  # there a special token of the problem's would be made
            expected = theirs(SMOLLM2, said(name, question))["input_ids"]
            assert tokens.encode_prompt(prompt) == expected


@pytest.mark.parametrize("source", [QWEN25, QWEN3, LLAMA, OPENS])
def test_templates_of_other_families_give_the_text_of_transformers(
    tagless_folder: Folders, source: str
) -> None:
    folder = with_template(tagless_folder(), source)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"bos_token": "<|begin|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    template, tokens = for_model("chat_boxed", folder), load_tokens(folder)
    for question in QUESTIONS:
        prompt = put(template, question)
        assert prompt.text == theirs(folder, said("chat_boxed", question), tokenize=False)
        expected = theirs(folder, said("chat_boxed", question))["input_ids"]
        assert tokens.encode_prompt(prompt) == expected
    assert prompt.opened == (source is OPENS)
    if source is LLAMA:
        begin = tokens.id_of("<|begin|>")
        assert tokens.encode_prompt(prompt).count(begin) == 1, "BC-56: one token that begins"


def test_a_problem_that_spells_a_special_token_makes_none_in_a_chat(
    tagless_folder: Folders,
) -> None:
    folder = with_template(tagless_folder(), OPENS)
    tokens, end = load_tokens(folder), "<|end|>"
    ids = tokens.encode_prompt(put(for_model("chat", folder), f"is {end} a word?"))
    assert ids.count(tokens.id_of(end)) == 1
    assert tokens.decode(ids) == f"is {end} a word?{end}<think>\n"


def test_the_file_comes_before_the_settings_and_of_a_list_the_default_is_taken(
    folder: Path,
) -> None:
    path = folder / "tokenizer_config.json"
    rows = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    for value, text in (("one", "one"), (rows, "d"), (rows[:1], None), (None, None), (7, None)):
        path.write_text(json.dumps({"chat_template": value}))
        found = read_chat_template(folder)
        assert (found.text if found else None) == text
    assert read_chat_template(with_template(folder, "file")).text == "file"  # type: ignore[union-attr]


def test_special_tokens_are_texts_however_they_are_written(folder: Path) -> None:
    special = {"eos_token": "<other>", "unk_token": {"content": "<unk>"}, "pad_token": 3}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    found = read_chat_template(with_template(folder, "x"))
    assert found is not None
    named = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "unk_token": "<unk>"}
    assert found.variables == named


def test_braces_of_a_chat_template_s_text_stay_themselves(folder: Path) -> None:
    template = for_model(
        "chat", with_template(folder, "{{ '{a} {} {{b}} %s ' + messages[0].content }}")
    )
    assert put(template, "{x}").text == "{a} {} {{b}} %s {x}"


def test_the_date_comes_in_by_the_door(folder: Path) -> None:
    with_template(folder, "{{ strftime_now('%d %B %Y') }}: {{ messages[0].content }}")
    found = for_model("chat", folder, now=lambda: datetime(2026, 3, 4))
    assert found == "04 March 2026: {problem}"


def test_line_ends_of_blocks_are_cut_and_the_file_s_last_one_too(folder: Path) -> None:
    with_template(folder, "a\n  {% if true %}\n{{ messages[0].content }}\n  {% endif %}\nb\n")
    assert for_model("chat", folder) == "a\n{problem}\nb"


WRONG = [
    ("{{ messages[0].content | upper }}", "once and unchanged (0 times)"),
    ("{{ messages[0].content | e }}", "once and unchanged (0 times)"),
    ("{{ messages[0].content * 2 }}", "once and unchanged (2 times)"),
    ("nothing", "once and unchanged (0 times)"),
    (
        "{{ messages[0].content }}{{ messages[0].content | length }}",
        "depends on what the user says",
    ),
    ("{{ '{problem}' + messages[0].content }}", "holds {problem} 2 times"),
    ("{% if %}", "TemplateSyntaxError"),
    ("{{ raise_exception('a system message is needed') }}", "a system message is needed"),
    ("{{ messages[1].content }}", "UndefinedError"),
    ("{% include 'x' %}", "can't be used"),
    ("{{ messages.append(1) }}", "SecurityError"),
    ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
    ("{{ raise_exception.__globals__.json }}", "SecurityError"),
    ("{% for i in range(999999) %}x{% endfor %}", "Range too big"),
    ("{{ messages[0].content }}{{ 'x' * 2000000 }}", "more than 1,000,000 characters"),
    ("{{ 'x' * 10**10 }}", "MemoryError"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_chat_template_that_can_not_be_used_is_refused_in_words(
    folder: Path, text: str, says: str
) -> None:
    with pytest.raises(UsageError) as refused:
        for_model("chat", with_template(folder, text))
    assert says in str(refused.value)
    assert str(folder / "chat_template.jinja") in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9 ** (9 ** 9) }}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    ],
)
def test_a_chat_template_that_never_ends_is_ended(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "DEADLINE_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(UsageError, match="can't be used"):
        for_model("chat", with_template(folder, text))
    assert time.monotonic() - began < 20


def test_json_in_a_template_is_not_made_safe_for_html() -> None:
    item = {"template": "{{ messages[0] | tojson(indent=1) }}", "contents": ["<é&>"]}
    assert fill(item | {"variables": {}, "now": "2026-01-01"}) == {
        "texts": ['{\n "role": "user",\n "content": "<é&>"\n}']
    }


def test_a_model_without_a_chat_template_is_refused_before_anything_is_written(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    config = resolve({"model": str(tiny_model_folder), "template": "chat_boxed"})
    with pytest.raises(UsageError, match="has no chat template; use --template plain or examples"):
        prepare(config, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_writes_the_text_that_it_used_and_eval_and_chat_use_it(
    tagless_folder: Folders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = with_template(tagless_folder(), OPENS)
    monkeypatch.chdir(tmp_path)
    words = "--template chat --steps 1 --rollouts.max-new-tokens 4 --threads 1 --dtype float32 "
    words += "--rollouts.problems-per-step 2 --rollouts.group-size 2 --evaluation.final-problems 2"
    assert main(["train", "--model", str(folder), "--out", "run", *words.split()]) == 0
    assert 'template = "{problem}<|end|><think>\\n"' in (tmp_path / "run/run.toml").read_text()
    assert main(["train", "--resume", "run"]) == 0
    capsys.readouterr()
    words = "--count 2 --max-new-tokens 4 --threads 1 --json"
    with_template(folder, "{{ raise_exception('not read any more') }}")
    assert main(["eval", "run", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out)["thinks"] == 1
    assert main(["chat", "run", "1+1", "--max-new-tokens", "4"]) == 0


def test_chat_uses_the_model_s_chat_template_unless_another_is_named(
    tagless_folder: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(with_template(tagless_folder(), OPENS))
    shown = {}
    for words in ([], ["--template", "plain"]):
        assert main(["chat", folder, "hello", "--max-new-tokens", "4", *words]) == 0
        shown[len(words)] = capsys.readouterr().out
    assert "no answer after the thought" in shown[0]
    assert "no answer after the thought" not in shown[2]
    assert main(["templates", "chat", "--model", folder]) == 0
    assert capsys.readouterr().out.endswith("=<|end|><think>\n\n")
