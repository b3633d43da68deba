"""A push to a dataset of the Hub, by its own library: digests are the Hub's, files come in commits, refusals are sentences."""

import pytest

from pytest_harness import cli
from pytest_harness.pushing.records import gather

URL = "hf://datasets/owner/name"


def test_a_dry_run_asks_and_sends_nothing(hub, evidence, push):
    code, said, _ = push(evidence, "--to", URL, "--dry-run")
    assert (code, said.splitlines()[-1]) == (0, "would send 9 files, 87.3 kB; 0 were there already")
    assert {request.method for request in hub.requests} == {"GET"}
    assert "public" not in said


@pytest.mark.parametrize("url", [URL, f"{URL}/runs/monday", f"{URL}@main/runs/"])
def test_all_files_arrive_in_one_commit_with_the_usual_token(hub, evidence, push, url):
    code, out, err = push(evidence, "--to", url)
    assert (code, err) == (0, ""), out
    folder = url.partition("name")[2].removeprefix("@main").strip("/")
    expected = {f"{folder}/{item.name}".lstrip("/"): item.path.read_bytes() for item in gather([evidence])}
    assert hub.files == expected
    assert hub.commits == ["harness-conformance push: evidence/pi/local/scripted/no_verdict/1"]
    assert hub.token == "Bearer hf_of_the_test_only"


def test_what_is_there_is_not_sent_again(hub, evidence, push):
    push(evidence, "--to", URL)
    hub.requests.clear()
    assert push(evidence, "--to", URL)[1].splitlines()[-1] == "sent 0 files, 0 bytes; 9 were there already"
    assert {request.method for request in hub.requests} == {"GET"}


def test_a_large_file_is_known_by_its_sha256(hub, evidence, push):
    push(evidence, "--to", URL)
    digests = {item.name: item.sha256 for item in gather([evidence])}
    entry = hub.entry
    hub.entry = lambda name: entry(name) | {"oid": "0" * 40, "lfs": {"oid": digests[name], "size": 1, "pointerSize": 1}}
    assert push(evidence, "--to", URL)[1].splitlines()[-1] == "sent 0 files, 0 bytes; 9 were there already"


def test_what_is_there_and_differs_is_written_over_only_if_asked(hub, evidence, push):
    name = "evidence/pi/local/scripted/no_verdict/1/manifest.json"
    hub.files[name] = b"{}"
    code, _, said = push(evidence, "--to", URL)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert f"holds another {name}" in said
    assert not hub.commits
    assert push(evidence, "--to", URL, "--replace")[0] == 0
    assert hub.files[name] == (evidence.parent / name).read_bytes()


def test_that_a_dataset_is_public_is_said_before_anything_is_sent(hub, evidence, push):
    hub.private = False
    assert "owner/name is public: everybody can read what is sent" in push(evidence, "--to", URL, "--dry-run")[1]


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        ((401, "RepoNotFound"), "there is no dataset owner/name that this token may see; set HF_TOKEN"),
        ((404, "RepoNotFound"), "hf repo create owner/name --repo-type dataset --private"),
        ((404, "RevisionNotFound"), "owner/name has no revision"),
        ((403, None), "the token may not write there"),
        ((400, None), "the Hub answers 400"),
    ],
)
def test_a_refusal_of_the_hub_is_one_sentence(hub, evidence, push, refusal, says):
    hub.refusal = refusal
    code, _, said = push(evidence, "--to", f"{URL}@main")
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert says in said
    assert "hf_of_the_test_only" not in said


@pytest.mark.parametrize("url", ["hf://owner/name", "hf://datasets/owner", "hf://spaces/owner/name", "hf://datasets/owner/name@"])
def test_what_names_no_dataset_is_one_sentence(evidence, push, url):
    code, _, said = push(evidence, "--to", url)
    assert (code, said.count("\n")) == (cli.USAGE_ERROR, 1)
    assert "names no dataset of the Hub" in said


def test_many_files_come_in_several_commits_and_none_is_lost(hub, evidence, push, monkeypatch):
    monkeypatch.setattr("pytest_harness.pushing.hub.IN_A_COMMIT", 4)
    assert push(evidence, "--to", URL)[0] == 0
    assert len(hub.commits) == 3
    assert hub.files == {item.name: item.path.read_bytes() for item in gather([evidence])}
