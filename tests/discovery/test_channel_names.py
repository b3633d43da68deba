"""Channels from the names that stand in a harness's files."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_harness.discovery.channels import OWN, VENDORS, channels_of, rendered, switches_of
from pytest_harness.discovery.scan import npm_folders, scan
from pytest_harness.discovery.styles import STYLES, style_words, styles_of
from pytest_harness.seams.placeholders import placeholders


def own(*words: str) -> dict[str, dict[str, str]]:
    return {channel.name: dict(channel.env) for channel in channels_of(frozenset(words)) if channel not in VENDORS}


def test_a_base_url_with_its_key_and_model_is_a_channel():
    assert own("GENERIC_BASE_URL", "GENERIC_API_KEY", "GENERIC_MODEL_NAME") == {
        "GENERIC_BASE_URL": {"GENERIC_BASE_URL": "{url}/v1", "GENERIC_API_KEY": "{key}", "GENERIC_MODEL_NAME": "{model}"}
    }


def test_an_address_without_key_or_model_is_something_else():
    assert own("ACME_BASE_URL", "OTHER_API_KEY") == {}


def test_addresses_of_other_services_are_left_alone():
    assert own("OTEL_EXPORTER_ENDPOINT", "OTEL_EXPORTER_API_KEY", "GITHUB_API_URL", "GITHUB_TOKEN", "SENTRY_URL", "SENTRY_KEY") == {}


def test_vendors_whose_paths_have_a_version_of_their_own_get_the_plain_address():
    assert own("CLAUDE_PROXY_BASE_URL", "MY_ANTHROPIC_BASE_URL", "MY_ANTHROPIC_API_KEY")["MY_ANTHROPIC_BASE_URL"] == {
        "MY_ANTHROPIC_BASE_URL": "{url}",
        "MY_ANTHROPIC_API_KEY": "{key}",
    }


def test_the_number_of_its_own_channels_is_bounded():
    words = frozenset(f"A{number}_{ending}" for number in range(100) for ending in ("BASE_URL", "API_KEY"))
    assert len(channels_of(words)) == len(VENDORS) + OWN


def test_each_channel_has_a_port_and_each_variable_for_a_key_its_own_key():
    setting = rendered(VENDORS, first_port=9000, model="m")
    assert setting.ports == {9000 + number: channel.name for number, channel in enumerate(VENDORS)}
    assert set(setting.keys) == {channel.key_name for channel in VENDORS}
    assert len(set(setting.keys.values())) == len(setting.keys)
    assert setting.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9002"
    assert setting.env["OPENAI_API_KEY"] == setting.keys["OPENAI_API_KEY"]


def test_every_placeholder_of_every_style_is_one_of_a_row():
    for channel in styles_of(style_words(), "mine"):
        found = {name for _, name in placeholders("", [dict(channel.env), dict(channel.files), channel.arguments])}
        assert {"url"} <= found <= {"url", "key", "model"}
        assert all("mine" in path for path in channel.files)


def test_a_style_is_tried_only_where_all_its_words_stand():
    for style in STYLES:
        assert styles_of(frozenset(style.words[1:]), "mine") == () or len(style.words) == 1
        assert styles_of(frozenset(style.words), "mine")


def test_switches_are_set_only_where_its_files_name_them():
    assert switches_of(frozenset({"MINE_CONFIGURED", "MINE_OFFLINE", "MINE_DISABLE_TELEMETRY", "UNRELATED_NAME"})) == {
        "MINE_CONFIGURED": "true",
        "MINE_DISABLE_TELEMETRY": "1",
        "MINE_OFFLINE": "1",
    }


def test_names_are_found_in_text_and_in_programs_but_not_in_other_packages(tmp_path):
    package = tmp_path / "node_modules" / "@me" / "mine"
    (package / "node_modules" / "other").mkdir(parents=True)
    (package / "node_modules" / "other" / "index.js").write_text("OTHER_BASE_URL")
    (package / "cli.js").write_text('process.env.MINE_BASE_URL ?? "selectedType"')
    native = package.parent / "mine-linux-x64"
    native.mkdir()
    (native / "mine").write_bytes(b"\x7fELF\0\xffMINE_API_KEY\0NOT_aNAME\0")
    words = scan(npm_folders(tmp_path, "@me/mine"))
    assert words.names == {"MINE_BASE_URL", "MINE_API_KEY"}
    assert words.styles == {"selectedType"}


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_scanning_never_fails_on_any_bytes(tmp_path_factory, before, after):
    path: Path = tmp_path_factory.mktemp("scan") / "program"
    path.write_bytes(before + b" MINE_BASE_URL " + after)
    assert "MINE_BASE_URL" in scan([path]).names
