"""The bundled tokenizer and template are what the engine and a real vLLM need them to be."""

import importlib.util
import subprocess
import sys

import pytest

from pytest_harness.engines.scripted.tokenizer import SPECIALS, TAGS, ChatTokenizer
from pytest_harness.resources import resource

TOKENIZER = ChatTokenizer.bundled()


def test_it_is_small_and_has_its_marks():
    assert resource("fixtures", "tokenizer", "tokenizer.json").stat().st_size < 300_000
    assert 2000 < TOKENIZER.size <= 4096
    for mark in (*SPECIALS, *TAGS):
        assert TOKENIZER.encode(f"a{mark}b") == [*TOKENIZER.encode("a"), TOKENIZER.ids[mark], *TOKENIZER.encode("b")]


def test_training_is_deterministic(monkeypatch):
    path = resource("fixtures", "tokenizer", "make.py")
    spec = importlib.util.spec_from_file_location("make_tokenizer", path)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    monkeypatch.setattr(make, "SOURCES", 5)
    assert make.make().to_str() == make.make().to_str()


def test_a_character_comes_with_the_token_that_completes_it():
    ids = TOKENIZER.encode("x 👩")
    pieces = TOKENIZER.decode_pieces(ids)
    assert len(pieces) == len(ids) > 3
    assert "".join(pieces) == "x 👩"
    assert TOKENIZER.decode_pieces(ids[:-1])[-1] == "\ufffd"


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_stands_anywhere(role):
    first, later = {"role": role, "content": "Be brief."}, {"role": role, "content": "Go on."}
    text = TOKENIZER.render([first, {"role": "user", "content": "x"}, later])
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nx<|im_end|>\n"
        f"<|im_start|>{role}\nGo on.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_conversation_with_parallel_calls_reads_as_hermes():
    call = {"id": "1", "function": {"name": "bash", "arguments": '{"command":"ls <&>","b":1,"a":"ü"}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": " around"}]},
        {"role": "assistant", "content": "I look.\n", "tool_calls": [call, call], "reasoning_content": "Hm."},
        {"role": "tool", "content": "a"},
        {"role": "tool", "content": [{"type": "text", "text": "b"}]},
    ]
    json_call = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls <&>", "b": 1, "a": "ü"}}\n</tool_call>'
    assert TOKENIZER.render(messages) == (
        "<|im_start|>user\nLook around<|im_end|>\n"
        f"<|im_start|>assistant\nI look.\n{json_call}\n{json_call}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_importing_the_engines_package_imports_no_tokenizer():
    code = "import sys, pytest_harness.engines, pytest_harness.scenarios; assert not {'tokenizers', 'jinja2', 'uvicorn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
