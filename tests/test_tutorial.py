"""docs/tutorial.md, followed as it is written, in a folder of its own, and what a reader then sees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WRITTEN = {"toml": "headwater.toml", "sql": "views/tour.sql"}


def script() -> str:
    """The sections between the installation and the page, as a shell script that writes settings and views."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    said = "\n".join(part for part in parts if part[:2] in ("2.", "3.", "4."))
    lines = ["set -e"]
    for kind, text in _BLOCK.findall(said):
        if kind in _WRITTEN:
            before = "rm -f views/example.sql; " if kind == "sql" else ""
            text = f"{before}cat > {_WRITTEN[kind]} <<'BLOCK'\n{text}BLOCK\n"
        lines.append(text)
    return "\n".join(lines)


def test_it_names_the_files_that_are_written() -> None:
    said = PAGE.read_text(encoding="utf-8")
    assert [kind for kind, _ in _BLOCK.findall(said) if kind] == ["toml", "sql"]
    assert all(f"`{name}`" in said for name in (*_WRITTEN.values(), "views/example.sql"))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_it_can_be_followed(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "headwater").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headwater.cli.main "$@"\n')
    (tools / "python").symlink_to(sys.executable)
    for tool in tools.iterdir():
        if not tool.is_symlink():
            tool.chmod(0o755)
    surroundings = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["bash", "-c", script()], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    seen = [line.split() for line in told.stdout.splitlines()]
    cities = [line for line in seen if line[:1] in (["Ghent"], ["Graz"], ["Lyon"])]
    loaded = [["Ghent", "2", "42"], ["Graz", "1", "25"]]
    changed = [["Graz", "2", "125"], ["Lyon", "2", "42"]]
    at_one = [["Ghent", "2", "42"], ["Graz", "2", "125"]]
    assert cities == [*loaded, *changed, *at_one]
    assert told.stdout.count("equal to its sources") == 3
