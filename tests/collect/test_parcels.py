"""A folder that travels as bytes is the same folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.collect.parcels import packed, unpack

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name and "\0" not in name and name not in (".", ".."))
CONTENTS = st.tuples(st.just("file"), st.binary(max_size=200), st.sampled_from([0o644, 0o755, 0o400]))
LINKS = st.tuples(st.just("link"), st.sampled_from(["/etc/hostname", "..", "nowhere", "../../../far"]), st.just(0))


def lies(folder):
    """Everything in a folder: what it is, what is in it, and what may be done with it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode & 0o777
        what = path.readlink() if path.is_symlink() else (path.read_bytes(), mode) if path.is_file() else mode
        found[path.relative_to(folder).as_posix()] = what
    return found


def encodable(name):
    try:
        return len(name.encode()) < 200
    except UnicodeEncodeError:
        return False


@given(st.dictionaries(st.lists(NAMES.filter(encodable), min_size=1, max_size=3).map(tuple), CONTENTS | LINKS, max_size=6))
def test_a_folder_is_the_same_where_it_is_unpacked(tree):
    with tempfile.TemporaryDirectory() as name:
        here, there = Path(name, "here"), Path(name, "there", "deep")
        here.mkdir()
        for parts, (kind, content, mode) in tree.items():
            path = here.joinpath(*parts)
            if any(parent.exists() and (parent.is_symlink() or not parent.is_dir()) for parent in [*path.parents][:-1]) or path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                continue
            if kind == "file":
                path.write_bytes(content)
                path.chmod(mode)
            else:
                path.symlink_to(content)
        unpack(packed(here), there)
        assert lies(there) == lies(here)
