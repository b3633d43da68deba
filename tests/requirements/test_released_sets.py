"""What was released never changes."""

import pytest

from pytest_harness.requirements import RequirementsError
from pytest_harness.requirements import __main__ as command
from pytest_harness.requirements.released import differences, digests, read_released, release


def test_no_entry_of_a_released_set_was_changed_removed_or_added():
    released = read_released()
    current = {name: entries for version in {name.rpartition("/")[2] for name in released} for name, entries in digests(version).items()}
    assert differences(released, current) == []


def test_the_first_set_is_released_with_that_of_proxies():
    assert {"2026.11", "proxy/2026.11"} <= set(read_released())


@pytest.mark.parametrize(
    ("current", "sentence"),
    [
        ({"TOK-001": "b", "TOK-002": "c"}, "2026.11: TOK-001 was changed after its release"),
        ({"TOK-001": "a"}, "2026.11: TOK-002 was released and is gone"),
        ({"TOK-001": "a", "TOK-002": "c", "TOK-003": "d"}, "2026.11: TOK-003 was added after the release"),
    ],
)
def test_each_change_of_a_released_set_is_named(current, sentence):
    assert differences({"2026.11": {"TOK-001": "a", "TOK-002": "c"}}, {"2026.11": current}) == [sentence]


def test_a_set_whose_file_is_gone_is_named_entry_by_entry():
    assert differences({"2026.11": {"TOK-001": "a"}}, {}) == ["2026.11: TOK-001 was released and is gone"]


def test_the_digest_is_of_what_the_entry_says_and_every_word_counts():
    entries = digests("2026.11")["2026.11"]
    assert len(set(entries.values())) == len(entries)


def test_a_released_set_is_not_released_again():
    with pytest.raises(RequirementsError, match=r"set 2026.11 is released already, and a released set never changes; make a newer one"):
        release("2026.11")


def test_the_command_refuses_what_it_does_not_know_in_one_sentence(capsys):
    assert [command.main(["release", "2026.10"]), command.main(["publish"])] == [4, 4]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "error"]
    assert "there is no requirement set '2026.10'" in lines[0]
