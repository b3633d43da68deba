"""The grader of the data tasks: right, nearly right, wrong, hostile and missing answers. Each gets a verdict, and nothing of it runs."""

import json
import math
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

RIGHT = [
    ("string", "North West", "  north   west\n"),
    ("string", "North West", '"North West"'),
    ("numeric", "1234.5", "1,234.50"),
    ("numeric", "1234.5", "$1,234.5"),
    ("numeric", "-4", "\N{MINUS SIGN}4"),
    ("numeric", "0.5", ".5"),
    ("numeric", "0.125", "12.5%"),
    ("numeric", "12.5%", "12.5 %"),
    ("numeric", "12.5%", "12.5"),
    ("numeric", "0.25", "1/4"),
    ("numeric", "1200", "1.2e3"),
    ("boolean", "yes", "TRUE"),
    ("boolean", "no", "False"),
    ("comma-separated", "a, b, 3", "A,b,3.0"),
    ("list", "a, b, 3", "[3, 'b', \"a\"]"),
    ("list", "a, b, c", "c\nb\na\n"),
    ("list", "10%, 20%", "20, 10"),
    ("flexible", "yes", "y"),
    ("flexible", "1/2", "50%"),
    ("flexible", "1/2", "0.5"),
    ("flexible", "sqrt(2)/2", "1/sqrt(2)"),
    ("flexible", "3*x^2 - 2*x + 5", "5 + x*(3*x - 2)"),
    ("flexible", "(a + b)^2", "a**2 + 2*a*b + b**2"),
]
WRONG = [
    ("string", "North West", "North"),
    ("string", "42", "42.0"),
    ("numeric", "42", "42 or 43"),
    ("numeric", "42", "43"),
    ("numeric", "42", "4 2"),
    ("numeric", "42", "42, 43"),
    ("numeric", "1000000000", "1000000001"),
    ("numeric", "1234", "12,34"),
    ("numeric", "12.5%", "0.125"),
    ("numeric", "12.5", "12.5%"),
    ("numeric", "42", "nan"),
    ("numeric", "42", "inf"),
    ("numeric", "1", "True"),
    ("boolean", "yes", "no"),
    ("boolean", "yes", "yes and no"),
    ("boolean", "no", ""),
    ("boolean", "no", "0"),
    ("comma-separated", "a, b", "b, a"),
    ("comma-separated", "a, b", "a, b, c"),
    ("list", "a, a, b", "a, b, b"),
    ("list", "a, b", "a, b, b"),
    ("list", "a, b", "a"),
    ("flexible", "1/2", "1/3"),
    ("flexible", "3*x^2 - 2*x + 5", "3*x^2 - 2*x"),
    ("flexible", "3*x^2 - 2*x + 5", "3*y^2 - 2*y + 5"),
]
HOSTILE = [
    *("__import__('os').system('touch owned')", "open('owned', 'w')", "().__class__.__bases__[0].__subclasses__()", "exec('1')"),
    *("9**9**9**9", "9" * 60_000, "(" * 190 + "1" + ")" * 190, "-" * 199 + "1", "1e999", "1e999/1e999", "1/0", "log(0)", "sqrt(-1)"),
    *("(-1)**0.5", "1j", "x" * 200, "[x for x in (42,)]", "lambda: 42", "42 if 1 else 0", "f'{42}'", "x := 42", "42\0", "\ud83d"),
    *("sqrt(42, 42)", "sqrt(*[1764])", "sqrt", "sqrt(x=1764)", "pow(6, 2)", "42;", "42#", "{\n", '{"kind": "numeric", "answer": "42"}'),
]


@pytest.mark.parametrize(("kind", "expected", "answer"), RIGHT)
def test_a_right_answer_is_accepted_in_any_usual_form(grader, kind, expected, answer):
    assert grader.Expected(kind, expected).accepts(answer)


@pytest.mark.parametrize(("kind", "expected", "answer"), WRONG)
def test_a_wrong_answer_is_refused(grader, kind, expected, answer):
    assert not grader.Expected(kind, expected).accepts(answer)


@pytest.mark.parametrize("answer", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_a_hostile_answer_is_refused_and_nothing_of_it_runs(grader, tmp_path, monkeypatch, answer):
    monkeypatch.chdir(tmp_path)
    for kind in grader.COMPARISONS:
        right = "yes" if kind == "boolean" else "42"
        assert not grader.Expected(kind, right, atol=0.5, rtol=0.01).accepts(answer), kind
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=300), st.sampled_from(["string", "numeric", "boolean", "comma-separated", "list", "flexible"]))
def test_every_text_gets_a_verdict(grader, answer, kind):
    assert grader.Expected(kind, "yes" if kind == "boolean" else "42").accepts(answer) in {True, False}


@given(st.text(alphabet="0123456789.+-*/^() xyepisqrtlog,%$", max_size=60))
def test_everything_that_looks_like_a_formula_gets_a_verdict(grader, answer):
    assert grader.Expected("flexible", "sqrt(2)*x").accepts(answer) in {True, False}


FINITE = st.floats(-1e12, 1e12, allow_nan=False)


@given(FINITE, st.floats(0, 1e3), st.floats(0, 0.5), st.floats(-2, 2))
def test_a_number_is_right_within_both_tolerances_and_not_beyond(grader, right, atol, rtol, by):
    seen = right + by * (atol + rtol * abs(right))
    accepted = grader.Expected("numeric", repr(right), atol, rtol).accepts(repr(seen))
    assert accepted == (abs(right - seen) <= atol + rtol * abs(right))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_python_writes_it(grader, value):
    assert grader.number(repr(value), points=False) == value


@given(st.integers(-(10**15), 10**15))
def test_grouping_by_thousands_changes_no_number(grader, value):
    assert grader.number(f"{value:,}", points=False) == value


WORD = st.text(alphabet="abcdefgh", min_size=1, max_size=6)


@given(st.lists(st.one_of(WORD, st.integers(0, 10**6).map(str)), min_size=2, max_size=12), st.randoms())
def test_the_order_of_a_list_does_not_count_and_its_items_do(grader, items, order: random.Random):
    shuffled = order.sample(items, len(items))
    expected = grader.Expected("list", ", ".join(items))
    assert expected.accepts("; ".join(shuffled))
    assert not expected.accepts(", ".join(shuffled[1:]))
    assert not expected.accepts(", ".join([*shuffled[1:], "zzz"]))
    assert grader.Expected("comma-separated", ", ".join(items)).accepts(", ".join(shuffled)) == (items == shuffled)


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9))
def test_formulas_are_one_only_if_their_coefficients_are(grader, a, b, c, d):
    factored, product = f"({a}*x + {b})*({c}*x + {d})", f"{a * c}*x^2 + ({a * d + b * c})*x + ({b * d})"
    assert grader.Expected("flexible", product).accepts(factored)
    assert not grader.Expected("flexible", product).accepts(f"{factored} + 1")


@given(
    st.recursive(
        st.sampled_from(["1", "2.5", "x", "pi"]),
        lambda inner: st.tuples(inner, st.sampled_from("+-*/^"), inner).map("({0[0]}{0[1]}{0[2]})".format),
    )
)
def test_the_evaluator_agrees_with_python_where_both_have_a_value(grader, text):
    try:
        formula = grader.Formula(text)
        seen = formula.value({"x": 1.5})
    except grader.NoFormulaError:
        return
    assert math.isclose(seen, eval(text.replace("^", "**"), {"x": 1.5, "pi": math.pi}), rel_tol=1e-12)


BAD = ["", "[]", "{}", '{"kind": "numeric"}', '{"kind": "essay", "answer": "42"}', '{"kind": "numeric", "answer": 42}']
BAD += ['{"kind": "numeric", "answer": "many"}', '{"kind": "boolean", "answer": "maybe"}', '{"kind": "string", "answer": " "}']
BAD += [
    '{"kind": "numeric", "answer": "4", "atol": -1}',
    '{"kind": "numeric", "answer": "4", "rtol": NaN}',
    '{"kind": "numeric", "answer": "4", "atol": true}',
]


def run(grader, expected, answer) -> subprocess.CompletedProcess[str]:
    """As ``test.sh`` runs it."""
    command = [sys.executable, "-I", "-S", grader.__file__, str(expected), str(answer)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("text", BAD)
def test_a_task_whose_expected_answer_is_at_fault_gives_no_verdict(grader, tmp_path, text):
    (tmp_path / "expected.json").write_text(text)
    (tmp_path / "answer.txt").write_text("42")
    finished = run(grader, tmp_path / "expected.json", tmp_path / "answer.txt")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert len(finished.stderr.splitlines()) == 1


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "expected.json").write_text(json.dumps({"kind": "string", "answer": "42"}))
    return tmp_path / "expected.json"


def plant(kind: str, path, expected) -> None:
    match kind:
        case "right":
            path.write_text("42\n")
        case "empty":
            path.write_text("")
        case "binary":
            path.write_bytes(b"42\xff")
        case "huge":
            path.write_text("42" + " " * 70_000)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "endless":
            path.symlink_to("/dev/zero")
        case "link":
            (path.parent / "right.txt").write_text("42")
            path.symlink_to(path.parent / "right.txt")
        case "expected":
            path.hardlink_to(expected)


@pytest.mark.parametrize("kind", ["right", "missing", "empty", "binary", "huge", "folder", "pipe", "endless", "link", "expected"])
def test_only_a_file_that_holds_the_answer_earns_1_and_every_other_thing_0(grader, tmp_path, expected, kind):
    plant(kind, tmp_path / "answer.txt", expected)
    finished = run(grader, expected, tmp_path / "answer.txt")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "1.0\n" if kind == "right" else "0.0\n", "")
