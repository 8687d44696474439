"""The documentation: its reference is what the code says, and no link leads nowhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "site" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says() -> None:
    made = reference().PAGES
    stale = [path for path, page in made.items() if (ROOT / "docs" / path).read_text(encoding="utf-8") != page()]
    assert not stale, "write them anew: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_leads_nowhere(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    links = [link for link in _LINK.findall(text) if "://" not in link and not link.startswith("mailto:")]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_every_page_has_its_place_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    listed = {page for page in pages if page in nav or page.startswith("decisions/")}
    assert pages == listed
