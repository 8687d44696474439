"""What a person sees who got something wrong. No JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Headwater
from headwater.cli.errors import without_secrets
from headwater.runtime.project.config import Config, load_config


def test_init_writes_every_setting_at_its_default(headwater: Headwater, tmp_path: Path) -> None:
    made = headwater("init", tmp_path / "new")
    assert made.exit_code == 0
    assert "headwater plan" in made.stdout
    text = (tmp_path / "new" / "headwater.toml").read_text()
    commented = load_config(tmp_path / "new")
    section = ""
    lines = []
    for line in text.splitlines():  # take the comment marks off the settings: nothing must change
        bare = line.removeprefix("# ")
        section = bare.split("]")[0].strip("[") if bare.startswith("[") else section
        takes_off = line.startswith("# ") and "sources" not in section and (" = " in bare or bare.startswith("["))
        lines.append(bare if takes_off else line)
    (tmp_path / "new" / "headwater.toml").write_text("\n".join(lines))
    loaded = load_config(tmp_path / "new")
    assert loaded.spark_options == {"spark.driver.memory": "1g"}
    assert [getattr(loaded, n) for n in _SETTINGS] == [getattr(commented, n) for n in _SETTINGS]
    assert all(f" {n.removeprefix('spark_')} = " in text for n in ("history", "parallel", "chunk_rows", "spark_master"))


_SETTINGS = [n for n in Config.__dataclass_fields__ if n not in ("spark_options", "hub", "freshness")]


def test_init_never_overwrites(headwater: Headwater, tmp_path: Path) -> None:
    headwater("init", tmp_path)
    before = (tmp_path / "headwater.toml").read_text()
    again = headwater("init", tmp_path)
    assert again.exit_code == 2
    assert "already" in again.stderr
    assert (tmp_path / "headwater.toml").read_text() == before


@pytest.mark.parametrize("command", [["status"], ["plan"], ["setup"], ["run"], ["read", "v"], ["log"], ["verify"]])
def test_without_a_project_every_command_says_so(headwater: Headwater, tmp_path: Path, command: list[str]) -> None:
    result = headwater(*command, "--project", tmp_path)
    assert result.exit_code == 2
    assert "headwater init" in result.stderr


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[sources.a\n", "not valid TOML"),
        ("", "names no source"),
        ('[sources.a]\nurl = "sqlite:///a.db"\n[rum]\n', "did you mean 'run'"),
        ('[sources.a]\nurl = "sqlite:///a.db"\n[run]\nparalel = 1\n', "did you mean 'parallel'"),
        ('[sources.a]\nurl = "postgresql://u:${NOT_SET_ANYWHERE}@h/d"\n', "NOT_SET_ANYWHERE is not set"),
        ('[sources.a]\nurl = "oracle://u:hunter2@h/d"\n', "unknown kind of source 'oracle'"),
    ],
)
def test_a_bad_configuration_is_explained(headwater: Headwater, tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "headwater.toml").write_text(toml)
    result = headwater("status", "-p", tmp_path)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "hunter2" not in result.output
    as_json = headwater("status", "-p", tmp_path, "--json")
    assert said.partition("did you")[0] in json.loads(as_json.stderr)["error"]
    assert as_json.stdout == ""


def test_nothing_maintained_yet_is_no_error_for_status(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('[sources.a]\nurl = "sqlite:///a.db"\n')
    status = headwater("status", "-p", tmp_path, "--json")
    assert status.exit_code == 0
    found = json.loads(status.stdout)
    assert found["cut"] is None
    assert found["sources"][0]["state"] == "unreachable"
    assert headwater("read", "v", "-p", tmp_path).exit_code == 2


def test_wrong_arguments_are_json_too(headwater: Headwater) -> None:
    result = headwater("read", "--json")
    assert result.exit_code == 2
    assert "headwater read --help" in json.loads(result.stderr)["fix"] or "--help" in json.loads(result.stderr)["fix"]


def test_teardown_must_be_confirmed(headwater: Headwater, project: Path) -> None:
    asked = headwater("teardown", "-p", project, "--json")
    assert asked.exit_code == 2
    assert json.loads(asked.stderr)["fix"] == "add --yes"
    done = headwater("teardown", "-p", project, "--json", "--yes")
    assert done.exit_code == 0
    assert list(json.loads(done.stdout)["sources"]) == ["crm"]


def test_the_unexpected_is_short_and_debug_shows_where(headwater: Headwater, project: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def broken(*_: object) -> None:
        raise RuntimeError("cannot reach postgresql://me:hunter2@db/shop")

    monkeypatch.setattr("headwater.api.Warehouse.status", broken)
    result = headwater("status", "-p", project)
    assert result.exit_code == 1
    assert "--debug" in result.stderr
    assert "Traceback" not in result.output
    shown = headwater("status", "-p", project, "--debug")
    assert "Traceback" in shown.stderr
    assert "hunter2" not in result.output + shown.output


def test_interrupting_a_command_is_no_traceback(headwater: Headwater, project: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.api.Warehouse.status", interrupted)
    result = headwater("status", "-p", project)
    assert (result.exit_code, result.stderr.strip()) == (130, "error: interrupted")


def test_passwords_are_taken_out_of_any_text() -> None:
    said = without_secrets("postgresql://me:p@ss@db/x failed; host=h password='a b' user=u, mysql://u:x@h")
    assert "p@ss" not in said
    assert "a b" not in said
    assert ":x@" not in said


def test_version_and_help(headwater: Headwater) -> None:
    assert headwater("--version").stdout.startswith("headwater ")
    helped = headwater("--help").stdout
    for command in ("init", "plan", "setup", "teardown", "run", "status", "read", "sql", "log", "verify", "compact"):
        assert command in helped
        assert headwater(command, "--help").exit_code == 0


def test_the_demo_touches_no_folder_it_did_not_make(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    result = headwater("demo", "--dir", tmp_path)
    assert result.exit_code == 2
    assert (tmp_path / "precious").read_text() == "mine"
    assert headwater("demo", "--serve", "--dir", tmp_path / "none").exit_code == 2
