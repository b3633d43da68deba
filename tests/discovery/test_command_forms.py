"""From a text for help to command lines."""

from pytest_harness.discovery.forms import Form, forms, given_form, subcommands

CLICK = """
 Usage: mini [OPTIONS]

╭─ Options ──────────────────────────────────────────────╮
│ --model             -m      TEXT  Model to use         │
│ --task              -t      TEXT  Task                 │
│ --yolo              -y            Run without asking   │
│ --exit-immediately                Exit when done       │
│ --output            -o      PATH                       │
╰────────────────────────────────────────────────────────╯
"""
COMMANDER = """Usage: pi [options] [messages...]

  -p, --print                   Process the prompt and exit
  --provider <name>             Provider
  --model <pattern>             Model
  --shell <path>                Which shell
"""
CLAP = """Usage: codex [OPTIONS] [PROMPT]

Commands:
  exec    Run non-interactively
  login   Manage login

Options:
  -m, --model <MODEL>
"""
CLAP_EXEC = """Run Codex non-interactively

Options:
      --skip-git-repo-check
      --dangerously-bypass-approvals-and-sandbox
      --full-auto
"""


def lines(command: str, helps: dict[str, str]) -> list[str]:
    return [form.line(model="{model}") for form in forms(command, helps)]


def test_the_option_for_the_task_is_taken_with_those_by_which_nobody_is_asked():
    assert lines("mini", {"": CLICK})[0] == "mini --yolo --exit-immediately --model {model} --task {instruction}"


def test_the_task_alone_is_tried_last():
    assert lines("pi", {"": COMMANDER}) == ["pi --model {model} --print {instruction}", "pi --model {model} {instruction}"]


def test_an_option_that_wants_a_value_is_no_flag():
    assert "--shell" not in lines("pi", {"": COMMANDER})[0]


def test_a_subcommand_comes_before_the_command_itself_with_one_flag_of_a_kind():
    assert subcommands("codex", CLAP) == ("exec",)
    found = lines("codex", {"": CLAP, "exec": CLAP_EXEC})
    assert found[0] == "codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check {instruction}"
    assert found[-1] == "codex --model {model} {instruction}"


def test_a_short_option_for_something_else_takes_no_task():
    told = "Options:\n  -p, --profile <NAME>   Profile\n  --quiet, -q   Say little\n  -m, --model <MODEL>   Model\n"
    assert lines("mine", {"": told}) == ["mine --model {model} {instruction}"]


def test_a_word_inside_a_text_is_no_subcommand():
    assert subcommands("pi", "Usage: pi\n\nYou can run and chat with it, or ask.") == ()


def test_what_a_channel_adds_is_not_said_twice():
    assert Form("pi", "-p", "--model").line(arguments="--provider x --model {model}", model="{model}") == (
        "pi --provider x --model {model} -p {instruction}"
    )


def test_a_line_of_the_users_is_left_as_it_is():
    assert given_form("mine go --fast {instruction}").line(model="{model}") == "mine go --fast {instruction}"


def test_a_vendor_named_in_the_command_can_be_another():
    assert Form("q --auth-type openai", "-p").for_vendor("gemini").command == "q --auth-type gemini"
