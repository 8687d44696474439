"""docs/settings.md and the file that `headwater init` writes say what the table of settings says."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.init import settings as template
from headwater.model.errors import ConfigError, UnknownName
from headwater.runtime.project.config import load_config
from headwater.runtime.project.settings import reference, settings

DOCS = Path(__file__).parent.parent / "docs"
SOURCE = '[sources.crm]\nurl = "sqlite:///crm.db"\n'


def test_the_reference_is_made_from_the_table() -> None:
    assert (DOCS / "settings.md").read_text() == reference(), "write it anew: runtime.project.settings.reference()"


def test_the_template_is_a_project_with_every_setting_at_its_default(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text(SOURCE)
    plain = load_config(tmp_path)
    (tmp_path / "headwater.toml").write_text(template())
    assert load_config(tmp_path) == plain
    assert all(f"# {s.name} = " in template() or f"# [{s.section}.{s.name}]" in template() for s in settings())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[run]\nparallel = 0", "[run] parallel in {} must be at least 1, it is 0"),
        ("[run]\nparallel = true", "[run] parallel in {} must be a whole number, it is True"),
        ("[run]\nparallel = 'two'", "[run] parallel in {} must be a whole number, it is 'two'"),
        ("[run]\npoll_seconds = 'often'", "[run] poll_seconds in {} must be a number, it is 'often'"),
        ("[run]\nsequencing = 3", '[run] sequencing in {} must be "dependency" | "sequential" | "batched", it is 3'),
        ("[run]\njoin_at_sources = 1", "[run] join_at_sources in {} must be true | false, it is 1"),
        ("[warehouse]\npath = ''", "[warehouse] path in {} must be text, it is ''"),
        ("[spark]\noptions = 1", "[spark] options in {} must be a table, it is 1"),
    ],
)
def test_a_value_of_the_wrong_kind(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "headwater.toml").write_text(f"{SOURCE}{line}\n")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path)
    assert raised.value.what == said.format(tmp_path / "headwater.toml")


@pytest.mark.parametrize(
    "line", ["[run]\nparalel = 2", "[rnu]\nparallel = 2", "[run]\nsequencing = 'dependent'", "[warehouse]\nhistroy = 1"]
)
def test_a_name_that_is_not_known_gets_a_suggestion(tmp_path: Path, line: str) -> None:
    (tmp_path / "headwater.toml").write_text(f"{SOURCE}{line}\n")
    with pytest.raises(UnknownName) as raised:
        load_config(tmp_path)
    assert "did you mean" in raised.value.fix
