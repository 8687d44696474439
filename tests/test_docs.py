"""The documentation: its reference is what the code says, and no link leads nowhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
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
    links = [link for link in _LINK.findall(text) if "://" not in link[0] and not link[0].startswith("mailto:")]
    missing = [path + anchor for path, anchor in links if not leads_somewhere(page, path, anchor)]
    assert not missing


def leads_somewhere(page: Path, path: str, anchor: str) -> bool:
    target = page.parent / path if path else page
    if not anchor or target.suffix != ".md":
        return target.exists()
    return target.exists() and anchor[1:] in anchors(target.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    words = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in _HEADING.findall(_CODE.sub("", text)))
    return {re.sub(r"\s+", "-", heading) for heading in words}


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One, *two*\n")
    assert leads_somewhere(page, "", "#one-two")
    assert not leads_somewhere(page, "", "#three")
    assert not leads_somewhere(page, "other.md", "")


def test_the_readme_is_a_screen_and_a_half() -> None:
    """It says what Headwater is, and links to the rest."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


def test_every_page_has_its_place_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    listed = {page for page in pages if page in nav or page.startswith("decisions/")}
    assert pages == listed
