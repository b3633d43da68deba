"""A dataset of the Hub: ``hf://datasets/OWNER/NAME[@REVISION][/FOLDER]``. Its library finds the token: HF_TOKEN, or a login.

The Hub tells the digest of each file that it holds, so nothing else has to be remembered, and files arrive in commits: whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import batched

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoFile

from pytest_harness.pushing import PushError, State
from pytest_harness.pushing.records import Item
from pytest_harness.pushing.stores import Told
from pytest_harness.reports.secrets import masked

FORM = "hf://datasets/OWNER/NAME[@REVISION][/FOLDER]"
_URL = re.compile(r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?P<folder>(?:/[^/]+)*)/?")
IN_A_COMMIT = 500
_KINDS = {401: "the token is missing or not valid; set HF_TOKEN", 403: "the token may not write there; set HF_TOKEN to one that may"}


class Dataset:
    """A folder of a dataset repository. It must exist: whether it is public is for a person to say."""

    def __init__(self, url: str) -> None:
        match = _URL.fullmatch(url)
        if match is None:
            raise PushError(f"{masked(url)} names no dataset of the Hub; write {FORM}")
        self.where = url.rstrip("/")
        self.repo, self.revision = match["repo"], match["revision"]
        self.prefix = match["folder"].lstrip("/")
        self.api = HfApi()
        with self._said():
            private = self.api.repo_info(self.repo, repo_type="dataset", revision=self.revision).private
        self.remarks: Sequence[str] = () if private else (f"{self.repo} is public: everybody can read what is sent",)

    def states(self, items: Sequence[Item]) -> Mapping[str, State]:
        """By the digests that the Hub tells: SHA-256 of large files, git's own of the others."""
        with self._said():
            held = {file.path: file for file in self._files()}
        return {item.name: _state(item, held.get(self._at(item.name))) for item in items}

    def send(self, items: Sequence[Item], told: Told) -> None:
        """Send the files in commits of some hundred."""
        for some in batched(items, IN_A_COMMIT):
            adding = [CommitOperationAdd(path_in_repo=self._at(item.name), path_or_fileobj=str(item.path)) for item in some]
            records = sorted({item.record for item in some})
            message = f"harness-conformance push: {records[0]}" + (f" and {len(records) - 1} more" if len(records) > 1 else "")
            with self._said():
                self.api.create_commit(self.repo, adding, commit_message=message, repo_type="dataset", revision=self.revision)
            told(len(some))

    def _files(self) -> Iterator[RepoFile]:
        try:
            tree = self.api.list_repo_tree(self.repo, self.prefix or None, recursive=True, repo_type="dataset", revision=self.revision)
            yield from (each for each in tree if isinstance(each, RepoFile))
        except EntryNotFoundError:  # the folder is not there yet
            return

    def _at(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except RevisionNotFoundError:
            raise PushError(f"{self.repo} has no revision {self.revision}; make the branch first, or leave @{self.revision} out") from None
        except RepositoryNotFoundError:
            raise PushError(
                f"there is no dataset {self.repo} that this token may see; set HF_TOKEN, or make it first: "
                f"hf repo create {self.repo} --repo-type dataset --private"
            ) from None
        except HfHubHTTPError as error:
            status = error.response.status_code
            told = _KINDS.get(status, f"the Hub answers {status}: {masked(' '.join((error.server_message or '').split()))}")
            raise PushError(f"{self.where}: {told}; then push again, what has arrived is not sent twice") from None
        except Exception as error:  # noqa: BLE001 (the network's, and its library's)
            said = masked(" ".join(str(error).split())) or type(error).__name__
            raise PushError(f"{self.where}: {said} ({type(error).__name__}); mend that and push again") from None


def _state(item: Item, held: RepoFile | None) -> State:
    if held is None:
        return "new"
    same = held.lfs.sha256 == item.sha256 if held.lfs is not None else held.blob_id == _git_digest(item)
    return "same" if same else "other"


def _git_digest(item: Item) -> str:
    """SHA-1 as git names a file's content."""
    return hashlib.sha1(b"blob %d\0" % item.size + item.path.read_bytes(), usedforsecurity=False).hexdigest()
