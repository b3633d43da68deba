"""A Hub without a network: huggingface_hub's own client talks to it, by the routes and digests that the Hub documents."""

import base64
import hashlib
import json
import shutil
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory

from pytest_harness import cli
from pytest_harness.resources import resource

ATTEMPT = "pi/local/scripted/no_verdict/1"


class Hub:
    """One dataset, ``owner/name``."""

    def __init__(self):
        self.files, self.commits, self.requests = {}, [], []
        self.private, self.refusal, self.token = True, None, None

    def answer(self, request):
        self.requests.append(request)
        path = unquote(request.url.path)
        self.token = request.headers.get("authorization")
        if self.refusal is not None:
            status, code = self.refusal
            return httpx2.Response(status, json={"error": "No."}, headers={"x-error-code": code} if code else {})
        if path.startswith("/api/datasets/owner/name/tree/main"):
            folder = path.removeprefix("/api/datasets/owner/name/tree/main").strip("/")
            held = [self.entry(name) for name in self.files if name.startswith(f"{folder}/" if folder else "")]
            return httpx2.Response(200, json=held) if held or not folder else self.missing("EntryNotFound")
        if path == "/api/datasets/owner/name/preupload/main":
            asked = json.loads(request.read())["files"]
            return httpx2.Response(
                200, json={"files": [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in asked]}
            )
        if path == "/api/datasets/owner/name/commit/main":
            lines = [json.loads(line) for line in request.read().splitlines()]
            self.commits.append(lines[0]["value"]["summary"])
            self.files |= {each["value"]["path"]: base64.b64decode(each["value"]["content"]) for each in lines[1:]}
            return httpx2.Response(
                200, json={"success": True, "commitOid": "0" * 40, "commitUrl": f"https://{request.url.host}/datasets/owner/name/commit/0"}
            )
        if path in ("/api/datasets/owner/name", "/api/datasets/owner/name/revision/main"):
            return httpx2.Response(200, json={"id": "owner/name", "private": self.private, "sha": "0" * 40})
        return self.missing("RepoNotFound")

    def missing(self, code):
        return httpx2.Response(404, json={"error": "Not here."}, headers={"x-error-code": code})

    def entry(self, name):
        content = self.files[name]
        oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return {"type": "file", "path": name, "size": len(content), "oid": oid}


@pytest.fixture
def hub(monkeypatch):
    """The Hub, and a token for it."""
    hub = Hub()
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test_only")
    set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(hub.answer)))
    yield hub
    set_client_factory(default_client_factory)


@pytest.fixture
def evidence(tmp_path) -> Path:
    """A folder of evidence with one attempt."""
    folder = tmp_path / "evidence"
    shutil.copytree(resource("fixtures", "evidence") / ATTEMPT, folder / ATTEMPT, ignore=shutil.ignore_patterns("findings.json"))
    return folder


@pytest.fixture
def push(capsys, monkeypatch):
    """Runs the command and gives its exit code, what it said, and what it complained of."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["harness-conformance", "push", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err

    return run
