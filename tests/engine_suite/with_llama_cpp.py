"""Judges a real llama.cpp server with a tiny GGUF made here: it returns no ids, so it must come out below ``tokens``, be served for
evaluation all the same, whole and streamed, with and without tools, and be refused for training.

``python tests/engine_suite/with_llama_cpp.py FOLDER``; run on request. FOLDER gets an environment of its own with xllamacpp, which is
llama.cpp's server in a wheel, and gguf, and is used again. Exit code 1 if anything is not as it must be.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from pytest_harness.capture import CaptureProxy, Upstream
from pytest_harness.evidence import Call
from pytest_harness.provision.tools import uv_program
from pytest_harness.resources import resource
from pytest_harness.rollouts.engines import attached
from pytest_harness.serving import BackgroundServer

PACKAGES = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
MAKE = """
import json, sys
import gguf, numpy
folder, target = sys.argv[1:]
tokenizer = json.load(open(f"{folder}/tokenizer.json"))
added = {token["id"]: token for token in tokenizer["added_tokens"]}
texts = {number: text for text, number in tokenizer["model"]["vocab"].items()}
texts |= {number: token["content"] for number, token in added.items()}
ids = {text: number for number, text in texts.items()}
kinds = gguf.TokenType
kind = lambda number: kinds.NORMAL if number not in added else kinds.CONTROL if added[number]["special"] else kinds.USER_DEFINED
width, layers, heads, inner = 64, 2, 4, 128
out = gguf.GGUFWriter(target, "llama")
out.add_context_length(4096); out.add_embedding_length(width); out.add_block_count(layers); out.add_feed_forward_length(inner)
out.add_head_count(heads); out.add_head_count_kv(heads); out.add_layer_norm_rms_eps(1e-5); out.add_rope_dimension_count(width // heads)
out.add_vocab_size(len(texts)); out.add_file_type(gguf.LlamaFileType.ALL_F32)
out.add_tokenizer_model("gpt2"); out.add_tokenizer_pre("gpt-2")
out.add_token_list([texts[n] for n in range(len(texts))]); out.add_token_types([kind(n) for n in range(len(texts))])
out.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]])
out.add_eos_token_id(ids["<|im_end|>"]); out.add_bos_token_id(ids["<|endoftext|>"]); out.add_pad_token_id(ids["<|endoftext|>"])
out.add_add_bos_token(False); out.add_chat_template(open(f"{folder}/chat_template.jinja").read())
chance = numpy.random.default_rng(0)
weights = lambda *shape: (0.3 * chance.standard_normal(shape)).astype(numpy.float32)
ones = numpy.ones(width, numpy.float32)
out.add_tensor("token_embd.weight", weights(len(texts), width)); out.add_tensor("output_norm.weight", ones)
out.add_tensor("output.weight", weights(len(texts), width))
for n in range(layers):
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        out.add_tensor(f"blk.{n}.{name}.weight", weights(width, width))
    out.add_tensor(f"blk.{n}.attn_norm.weight", ones); out.add_tensor(f"blk.{n}.ffn_norm.weight", ones)
    out.add_tensor(f"blk.{n}.ffn_gate.weight", weights(inner, width)); out.add_tensor(f"blk.{n}.ffn_up.weight", weights(inner, width))
    out.add_tensor(f"blk.{n}.ffn_down.weight", weights(width, inner))
out.write_header_to_file(); out.write_kv_data_to_file(); out.write_tensors_to_file(); out.close()
"""
SERVE = """
import sys, xllamacpp
asked = xllamacpp.CommonParams()
asked.model.path, asked.n_ctx, asked.n_parallel, asked.use_jinja = sys.argv[1], 4096, 4, True
server = xllamacpp.Server(asked)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


TOOL = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": {"type": "object", "properties": {}}}}


def evaluated(url: str) -> tuple[Call, ...]:
    """What the proxy records of a harness that asks this engine, whole and streamed, with and without tools."""
    engine, proxy = attached(url), CaptureProxy()
    upstream = Upstream(url=engine.url, model=engine.model, buffered=engine.buffered, guard=engine.guard)
    with tempfile.TemporaryDirectory() as journal, BackgroundServer(proxy) as front:
        session = proxy.open_session(upstream, Path(journal) / "journal")
        headers, route = {"authorization": f"Bearer {session.key}"}, f"{front.listen().url}/v1/chat/completions"
        for streams in (False, True):
            for tools in ({}, {"tools": [TOOL]}):
                asked = {"model": "any", "messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 8, "stream": streams, **tools}
                httpx.post(route, json=asked, headers=headers, timeout=120).raise_for_status()
        return session.close()


def main(folder: Path) -> int:
    """Judge it, evaluate on it, and see it refused for training."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([uv_program(), "venv", folder / "venv"], check=True)
        subprocess.run([uv_program(), "pip", "install", "--python", python, *PACKAGES], check=True)
    model = folder / "tiny.gguf"
    subprocess.run([python, "-c", MAKE, resource("fixtures", "tokenizer"), model], check=True)
    with (folder / "llama.log").open("w") as log:
        server = subprocess.Popen([python, "-c", SERVE, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            url = next(line for line in server.stdout if line.startswith("http")).strip() + "/v1"
            subprocess.run([sys.executable, "-m", "pytest", "-q", f"--llm-url={url}", f"--report-dir={folder}"], cwd=folder, check=False)
            calls = evaluated(url)
            command = [sys.executable, "-m", "pytest_harness.cli", "serve", "--train", f"--llm-url={url}"]
            refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        finally:
            server.kill()
            server.wait()
    report = json.loads((folder / "engine.json").read_text())
    served = all(call.outcome == "complete" and call.samples[0].token_ids is None for call in calls)
    print(f"for evaluation: {', '.join(call.outcome for call in calls)}")
    print(
        f"level {report['level']}, logprobs {report['logprobs']}; serve --train: exit code {refused.returncode}, {refused.stderr.strip()}"
    )
    return 0 if report["level"] in ("text", "logprobs") and not report["ok"] and served and refused.returncode == 4 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
