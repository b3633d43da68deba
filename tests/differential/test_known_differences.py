"""Known differences excuse what they name, and no longer than it is so."""

import pytest

from .known import Known, read_known, stale, unknown

KNOWN = [Known("a named *", "spelling", "1.0", "because")]


def test_only_the_named_aspect_of_the_named_cases_is_excused():
    assert unknown("a named tool", ["spelling", "fields"], KNOWN) == ["fields"]
    assert unknown("another", ["spelling"], KNOWN) == ["spelling"]


def test_what_still_occurs_is_not_stale():
    assert stale(KNOWN, {"a named tool": ["spelling"], "another": []}, "1.0") == []


@pytest.mark.parametrize(
    ("found", "version", "said"),
    [
        ({"a named tool": []}, "1.0", "does not occur in: a named tool"),
        ({"a named tool": ["spelling"], "a named one": ["fields"]}, "1.0", "does not occur in: a named one"),
        ({"another": ["spelling"]}, "1.0", "matches no case"),
        ({"a named tool": ["spelling"]}, "2.0", "was seen with vLLM 1.0, and this is 2.0"),
    ],
)
def test_what_no_longer_occurs_is_told(found, version, said):
    [sentence] = stale(KNOWN, found, version)
    assert said in sentence


@pytest.mark.parametrize("entry", ['cases = "x"', 'cases = "x"\naspect = "a"\nversion = "1"\nreason = " "', 'cases = "x"\nmore = 1'])
def test_an_entry_without_its_reason_is_refused(tmp_path, entry):
    path = tmp_path / "known.toml"
    path.write_text(f"[[difference]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="entry 1 must have texts for aspect, cases, reason, version"):
        read_known(path)
