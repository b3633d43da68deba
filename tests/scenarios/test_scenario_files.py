"""Scenario files are read exactly, and every fault in one is told with file and key."""

import pytest

from pytest_harness.evidence import EngineFault, ScenarioFacts
from pytest_harness.scenarios import ScenarioError, ScenarioTable

GOOD = """
title = "A title"
task = "task"
reward = 1
[[steps]]
text = "Look."
shell = ["ls", "pwd"]
prints = ["/", ""]
[[steps]]
text = "Done."
"""


@pytest.fixture
def write(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.toml").touch()

    def write(text, name="mine"):
        (tmp_path / f"{name}.toml").write_text(text)
        return tmp_path

    return write


def test_a_scenario_is_what_its_file_says(write):
    mine = ScenarioTable.load(write(GOOD))["mine"]
    assert [(step.text, step.shell, step.prints) for step in mine.steps] == [("Look.", ("ls", "pwd"), ("/", "")), ("Done.", (), ())]
    assert mine.facts == ScenarioFacts(name="mine", steps=2, shell_commands=(("ls", "pwd"), ()), prints=(("/", ""), ()), reward=1.0)


def test_a_scenario_can_name_the_key_of_its_reward(write):
    assert ScenarioTable.load(write(GOOD))["mine"].facts.reward_key is None
    assert ScenarioTable.load(write(GOOD.replace("reward = 1", 'reward = 1\nreward_key = "correct"')))["mine"].facts.reward_key == "correct"


def test_no_reward_is_not_a_reward_of_zero(write):
    assert ScenarioTable.load(write(GOOD.replace("reward = 1", 'reward = "none"')))["mine"].reward is None
    assert ScenarioTable.load(write(GOOD.replace("reward = 1", "reward = 0")))["mine"].reward == 0.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reward = 1", "", "reward must be a finite number, or \"none\" where the verifier must give no reward, not 'absent'"),
        ("reward = 1", "reward = true", "reward must be a finite number"),
        ("reward = 1", "reward = nan", "reward must be a finite number"),
        (
            "reward = 1",
            "reward = 1\nreward_key = 3",
            "reward_key must be a key of the verifier's rewards, a string that is not empty, not 3",
        ),
        ("reward = 1", 'reward = 1\ntytle = ""', "unknown key 'tytle'; did you mean title?"),
        ("title = ", "# ", "title must be a string that is not empty, not 'absent'"),
        ('task = "task"', 'task = "elsewhere"', "task must be the folder of a Harbor task"),
        ('"ls", "pwd"', '"ls", 3', "step 1: shell must be a list of commands, not ['ls', 3]"),
        ("shell", "shel", "step 1: unknown key 'shel'; did you mean shell?"),
        ('text = "Look."', "text = 3", "step 1: text must be a string, not 3"),
        ('"/", ""', '"/"', "step 1: prints must be a list of texts, one for each command"),
        ('"/", ""', '"ls", ""', "step 1: prints 'ls', which the command itself says"),
        ('text = "Done."', 'text = "Done."\nfiles = { "a.txt" = 3 }', "step 2: files must be a table of paths, each with the content"),
        ('text = "Done."', "", "step 2: has neither text nor shell"),
        ('text = "Done."', 'shell = ["ls"]', "the last of the steps must be text"),
        ("[[steps]]", "[[stops]]", "unknown key 'stops'; did you mean steps?"),
        ("title", "=", "is not TOML"),
    ],
)
def test_a_fault_in_a_file_is_told_with_file_and_key(write, old, new, said):
    folder = write(GOOD.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        ScenarioTable.load(folder)
    assert str(folder / "mine.toml") in str(error.value)
    assert said in str(error.value)


FREE = """
title = "A title"
task = "task"
reward = 1
turns = [2, 4]
may_fail = true
budget = 3
needs = "subagent"
[subagent]
prompt = "Look for me."
[[subagent.steps]]
text = "Nothing."
[[steps]]
repeat = 2
reasoning = "The number is {n}."
shell = ["expr 7000 + {n}"]
prints = ["70{n}"]
then = "That was it."
[[steps]]
subagent = true
[[steps]]
text = "Done."
"""


def test_a_scenario_can_say_more_of_the_model_and_leave_the_harness_free(write):
    mine = ScenarioTable.load(write(FREE))["mine"]
    assert [step.shell for step in mine.steps] == [("expr 7000 + 01",), ("expr 7000 + 02",), (), ()]
    assert (mine.steps[1].reasoning, mine.steps[1].prints, mine.steps[1].then) == ("The number is 02.", ("7002",), "That was it.")
    assert [step.subagent for step in mine.steps] == [False, False, True, False]
    assert mine.subagent is not None
    assert (mine.subagent.prompt, [step.text for step in mine.subagent.steps]) == ("Look for me.", ["Nothing."])
    assert (mine.turns, mine.may_fail, mine.budget, mine.needs) == ((2, 4), True, 3, "subagent")
    assert (mine.facts.turns, mine.facts.may_fail, mine.facts.splits, mine.facts.steps) == ((2, 4), True, True, 4)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[2, 4]", "[4, 2]", "turns must be the least and the greatest number of turns, such as [1, 3], not [4, 2]"),
        ("[2, 4]", "3", "turns must be the least and the greatest number of turns"),
        ("may_fail = true", "may_fail = 1", "may_fail must be true or false, not 1"),
        ("budget = 3", "budget = 0", "budget must be a number of calls from 1 on, not 0"),
        ('needs = "subagent"', 'needs = "luck"', "needs must be compaction or edit or subagent or tools, not 'luck'"),
        ('prompt = "Look for me."', 'prompt = " "', "subagent: prompt must be what the subagent is asked, not ' '"),
        ('[[subagent.steps]]\ntext = "Nothing."', "", "subagent: steps must be a list of tables with at least one, not 'absent'"),
        ('text = "Nothing."', 'subagent = true\n[[subagent.steps]]\ntext = "x"', "subagent: a step of it has a subagent of its own"),
        ("subagent = true", 'text = "x"', "a table subagent and a step with subagent = true belong together"),
        ("subagent = true", "subagent = 1", "step 2: subagent must be true or false, not 1"),
        ("repeat = 2", "repeat = 100", "step 1: repeat must be a whole number from 1 to 99, not 100"),
        ('shell = ["expr 7000 + {n}"]\nprints = ["70{n}"]', 'text = "x"', "step 1: has something to say behind its calls, and no call"),
    ],
)
def test_what_cannot_be_asked_of_model_and_harness_is_told_with_its_key(write, old, new, said):
    folder = write(FREE.replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        ScenarioTable.load(folder)
    assert str(error.value).startswith(f"{folder / 'mine.toml'}: {said}")


IN_COMPANY = """
title = "A title"
task = "task"
reward = 1
companions = 2
[[steps]]
shell = ["touch {rollout}"]
[[steps]]
repeat = 2
text = "{rollout} {n}"
"""


def test_rollouts_in_company_have_a_script_each_that_differs_in_one_word(write):
    mine = ScenarioTable.load(write(IN_COMPANY))["mine"]
    assert [each.marker for each in mine.rollouts] == ["rollout-alder", "rollout-birch", "rollout-cedar"]
    assert [each.steps[0].shell for each in mine.rollouts] == [(f"touch {each.marker}",) for each in mine.rollouts]
    assert [each.steps[2].text for each in mine.rollouts] == [f"{each.marker} 02" for each in mine.rollouts]
    assert mine.facts.marker == "rollout-alder"
    assert [each.rollouts for each in mine.rollouts[1:]] == [(each,) for each in mine.rollouts[1:]]


def test_a_rollout_that_runs_alone_has_no_other_and_no_word_of_its_own(write):
    mine = ScenarioTable.load(write(GOOD.replace("Look.", "Look at {rollout}.")))["mine"]
    assert mine.rollouts == (mine,)
    assert (mine.facts.marker, mine.steps[0].text) == (None, "Look at {rollout}.")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("companions = 2", "companions = 0", "companions must be a whole number from 1 to 3, not 0"),
        ("companions = 2", "companions = 4", "companions must be a whole number from 1 to 3, not 4"),
        ("companions = 2", "companions = true", "companions must be a whole number from 1 to 3, not True"),
        ("{rollout}", "it", "companions needs a step that says {rollout}, which is another word in each rollout and tells them apart"),
        ("[[steps]]", "[[stops]]", "unknown key 'stops'; did you mean steps?"),
    ],
)
def test_company_that_cannot_be_given_is_told_with_its_key(write, old, new, said):
    folder = write(IN_COMPANY.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        ScenarioTable.load(folder)
    assert str(error.value) == f"{folder / 'mine.toml'}: {said}"


KINDS = "error or overflow or cut or length or empty or malformed or unknown_tool"
FAULTS = """
[[faults]]
turn = 2
kind = "error"
status = 429
message = "Too many requests are running."
retry_after = 1
times = 2
[[faults]]
turn = 1
kind = "cut"
after = 5
"""


def test_a_scenario_can_say_how_its_engine_fails(write):
    assert ScenarioTable.load(write(GOOD))["mine"].facts.faults == ()
    assert ScenarioTable.load(write(GOOD + FAULTS))["mine"].facts.faults == (
        EngineFault(turn=2, kind="error", status=429, message="Too many requests are running.", retry_after=1, times=2),
        EngineFault(turn=1, kind="cut", after=5),
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'kind = "cut"',
            'kind = "slow"',
            f"fault 2: kind must be {KINDS}, not 'slow'",
        ),
        (
            'kind = "cut"',
            "",
            f"fault 2: kind must be {KINDS}, not 'absent'",
        ),
        ("turn = 2", "turn = 3", "fault 1: turn must be a whole number from 1 to 2, not 3"),
        ("turn = 2", "turn = true", "fault 1: turn must be a whole number from 1 to 2, not True"),
        ("turn = 2", "", "fault 1: turn must be a whole number from 1 to 2, not 'absent'"),
        ("status = 429", "status = 200", "fault 1: status must be a whole number from 400 to 599, not 200"),
        ("status = 429", "", "fault 1: status must be a whole number from 400 to 599, not 'absent'"),
        ("retry_after = 1", "retry_after = 3600", "fault 1: retry_after must be a whole number from 0 to 60, not 3600"),
        ("times = 2", 'times = "absent"', "fault 1: times must be a whole number from 1 to 9, not 'absent'"),
        ("retry_after = 1", 'retry_after = "absent"', "fault 1: retry_after must be a whole number from 0 to 60, not 'absent'"),
        ("times = 2", "times = 0", "fault 1: times must be a whole number from 1 to 9, not 0"),
        ('message = "Too many requests are running."', 'message = " "', "fault 1: message must be what the engine says, not ' '"),
        ("after = 5", "", "fault 2: after must be a whole number from 1 to 999, not 'absent'"),
        ("after = 5", "after = 5\nstatus = 500", "fault 2: unknown key 'status'; the keys are after, kind, times, turn"),
        ("times = 2", "tims = 2", "fault 1: unknown key 'tims'; did you mean times?"),
    ],
)
def test_a_bad_fault_of_the_engine_is_told_with_its_number_and_key(write, old, new, said):
    folder = write(GOOD + FAULTS.replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        ScenarioTable.load(folder)
    assert str(error.value) == f"{folder / 'mine.toml'}: {said}"


@pytest.mark.parametrize("faults", ["faults = 3", "faults = [3]"])
def test_faults_are_a_list_of_tables(write, faults):
    with pytest.raises(ScenarioError, match=r"faults? (1: )?must be a (list of tables|table with turn and kind)"):
        ScenarioTable.load(write(faults + GOOD))


def test_an_unknown_name_gives_the_nearest_one():
    with pytest.raises(ScenarioError, match="no scenario 'edit_fil'; did you mean edit_file"):
        ScenarioTable.load()["edit_fil"]
    with pytest.raises(ScenarioError, match="there are budget_stop, compaction, context_overflow"):
        ScenarioTable.load()["zzz"]


def test_a_scenario_of_ones_own_replaces_the_bundled_one_of_its_name(write):
    assert ScenarioTable.load(write(GOOD, "edit_file"))["edit_file"].title == "A title"
    assert "mine" not in list(ScenarioTable.load())


def test_a_folder_without_scenarios_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="has no scenarios"):
        ScenarioTable.load(tmp_path / "nowhere")
