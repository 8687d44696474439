"""docs/walk.md leads to places that exist, and through the folders in their order."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
TEXT = (DOCS / "walk.md").read_text()
LINKS = re.findall(r"\[`([^`]+)`\]\(([^)]+)\)", TEXT)


@pytest.mark.parametrize(("name", "path"), LINKS)
def test_every_name_is_where_the_walk_says(name: str, path: str) -> None:
    file = (DOCS / path).resolve()
    assert file.exists(), path
    module = importlib.import_module(".".join(file.with_suffix("").parts[file.parts.index("src") + 1 :]))
    found: object = module
    for part in name.split("."):
        assert hasattr(found, part), f"{path} has no {name}"
        found = getattr(found, part)


def test_the_walk_goes_through_the_folders_in_order() -> None:
    rooms = re.findall(r"^## (\S+)/$", TEXT, re.MULTILINE)
    assert rooms == [
        "sources", "runtime/intake", "runtime/scheduling", "runtime/compute", "runtime/commit", "runtime/change",
        "runtime/reading",
    ]  # fmt: skip
    root = DOCS.parent / "src" / "headwater"
    assert all((root / room).is_dir() for room in rooms)


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`([\w*/]+(?:\.py|/))`", (DOCS / "glossary.md").read_text()))))
def test_the_words_are_where_the_glossary_says(place: str) -> None:
    assert list((DOCS.parent / "src" / "headwater").glob(place.rstrip("/"))), place
