"""Passwords: any characters, several ways to give them, in no message. Settings of sources that are needed later."""

from __future__ import annotations

import pickle
from pathlib import Path
from urllib.parse import unquote

import pytest
from psycopg.conninfo import conninfo_to_dict

from cli.conftest import Headwater
from cli.small import small_project
from headwater.model.errors import ConfigError, UsageError
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.runtime.project.config import load_config
from headwater.runtime.project.secrets import remember, without_secrets
from headwater.sources import connect

AWKWARD = "a/b@c:d?e#f%g&h=i 'j\"k\\l+ü"


def spec(folder: Path, toml: str) -> SourceSpec:
    (folder / "headwater.toml").write_text(f"[sources.shop]\n{toml}\n", encoding="utf-8")
    return load_config(folder).sources[SourceName("shop")]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://${U}:${P}@${H}:${N}/${D}", {}),
        ("postgresql://${U}:${P}@/${D}?host=${H}&port=${N}", {}),
        ("postgresql://${U}@${H}/${D}?password=${P}&port=${N}", {}),
        ("postgresql://${U}:${P}@${HN}/${D}", {}),
    ],
)
def test_a_variable_may_hold_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, place: dict[str, str]
) -> None:
    for name, value in {"U": "me@corp", "P": AWKWARD, "H": "db.example", "N": "5433", "D": "sh/op"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HN", "db.example:5433")
    found = conninfo_to_dict(spec(tmp_path, f'url = "{url}"').url)
    assert found == {"user": "me@corp", "password": AWKWARD, "host": "db.example", "port": "5433", "dbname": "sh/op"}


def test_a_variable_that_is_the_url_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL", "postgresql://u:p%2Fq@h/d")
    monkeypatch.setenv("REST", "u:p%2Fq@h/d")
    monkeypatch.setenv("DIR", "a b/ü")
    assert spec(tmp_path, 'url = "${URL}"').url == "postgresql://u:p%2Fq@h/d"
    assert spec(tmp_path, 'url = "postgresql://${REST}"').url == "postgresql://u:p%2Fq@h/d"
    assert spec(tmp_path, 'url = "sqlite:///${DIR}/x.db"').url == f"sqlite:///{tmp_path / 'a b/ü/x.db'}"


def test_the_parts_may_be_settings_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", AWKWARD)
    found = spec(
        tmp_path, 'kind = "postgresql"\nhost = "h"\nport = 5433\ndatabase = "d"\nuser = "u"\npassword = "${P}"'
    )
    assert found.url == "postgresql://"
    parts = {"host": "h", "port": "5433", "database": "d", "user": "u", "password": AWKWARD}
    assert dict(found.options) == parts
    beside = spec(tmp_path, 'url = "postgresql://u@h/d"\npassword = "${P}"')
    assert (beside.url, dict(beside.options)) == ("postgresql://u@h/d", {"password": AWKWARD})
    for shown in (repr(found), str(beside), repr(load_config(tmp_path))):
        assert AWKWARD not in shown
        assert "a/b@c" not in shown
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('url = "postgresql://hw:ab/c@localhost/d"', "must be encoded"),
        ('url = "postgresql://hw:a@bc@localhost/d"', "must be encoded"),
        ('url = "postgresql://hw:12/c@localhost/d"', "must be encoded"),
        ('url = "sqlite:///a.db"\npassword = "ab/c"', "password"),
        ('kind = "sqlite"', "url"),
        ('kind = "postgresql"\nport = "many"', "number"),
        ('kind = "postgresql"\npassword = 12', "text in quotes"),
        ('kind = "postgresql"\npasword = "ab/c"', "did you mean 'password'"),
        ('kind = "oracle"', "unknown kind of source 'oracle'"),
        ('kind = "sqlite"\nurl = "postgresql://u@h/d"', "kind"),
        ('password = "ab/c"', "no url"),
        ('url = "sqlite:///a.db"\ndelay_ms = "soon"', "milliseconds"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_without_repeating_them(
    headwater: Headwater, tmp_path: Path, toml: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        spec(tmp_path, toml)
    shown = headwater("status", "-p", tmp_path)
    assert shown.exit_code == 2
    for piece in ("ab/c", "/c@", "bc@", "12/c"):
        assert piece not in shown.output


def test_the_advice_of_a_wrong_url_works(tmp_path: Path) -> None:
    encoded = spec(tmp_path, 'url = "postgresql://hw:ab%2Fc%40%3A@localhost/d"')
    assert conninfo_to_dict(encoded.url)["password"] == "ab/c@:"


def test_known_secrets_are_in_no_text_whatever_they_contain(tmp_path: Path) -> None:
    spec(tmp_path, f'kind = "postgresql"\npassword = {_toml(AWKWARD)}')
    spec(tmp_path, 'url = "postgresql://hw:xy%2Fz%40w@localhost/d"')
    remember("it")
    for text in (f"no {AWKWARD} here", f"({AWKWARD})", repr(AWKWARD), f"at hw:{AWKWARD}@h", "xy/z@w", "xy%2Fz%40w"):
        shown = without_secrets(text)
        for secret in (AWKWARD, "a/b@c", "xy/z", unquote("xy%2Fz")):
            assert secret not in shown, text
    assert without_secrets("it waits within") == "*** waits within"


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_url_in_any_text_is_hidden_up_to_its_last_at_sign() -> None:
    shown = without_secrets("cannot reach postgresql://me:p@ss/w@rd@db/x now, password='it''s \\' me' user=u")
    for piece in ("p@ss", "ss/w", "rd@", "it''s"):
        assert piece not in shown
    assert "postgresql://me:***@db/x" in shown


def test_a_variable_that_is_not_set_matters_to_those_who_connect(headwater: Headwater, tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    (folder / "headwater.toml").write_text(
        '[sources.crm]\nurl = "sqlite:///crm.db"\n'
        '[sources.shop]\nurl = "postgresql://u:${NOT_SET_ANYWHERE}@h/d"\n'
        '[sources.bank]\nurl = "${NOR_THIS}"\n'
        '[sources.till]\nkind = "postgresql"\npassword = "${NOR_THAT}"\n'
    )
    for command in (["read", "people"], ["sql", "SELECT 1 AS a"], ["log"], ["setup"]):  # no view reads the others
        assert headwater(*command, "-p", folder).exit_code == 0, command
    for command in (["status"], ["teardown", "--yes"]):
        refused = headwater(*command, "-p", folder)
        assert refused.exit_code == 2
        assert "NOT_SET_ANYWHERE is not set" in refused.stderr, command
        assert "export NOT_SET_ANYWHERE=" in refused.stderr
    config = load_config(folder)
    for name, variable in (("shop", "NOT_SET_ANYWHERE"), ("bank", "NOR_THIS"), ("till", "NOR_THAT")):
        with pytest.raises(ConfigError, match=variable):
            connect(config.sources[SourceName(name)])


def test_elsewhere_a_missing_variable_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text(
        '[sources.a]\nurl = "sqlite:///a.db"\n[warehouse]\npath = "${NOT_SET_ANYWHERE}"\n'
    )
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE is not set"):
        load_config(tmp_path)
