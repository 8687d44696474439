"""The documentation: its reference is what the code says, and no link leads nowhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"```.*?```", re.DOTALL)


def made_by(name: str) -> ModuleType:
    """A program of docs/site."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # they import each other
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says() -> None:
    made = made_by("reference").PAGES
    stale = [path for path, page in made.items() if (ROOT / "docs" / path).read_text(encoding="utf-8") != page()]
    assert not stale, "write them anew: make docs"


def test_commands_may_be_described_twice() -> None:
    reference = made_by("reference")
    assert reference.commands() == reference.commands()


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


class Links(HTMLParser):
    """What a page of the site has: where it leads, and what can be led to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.page = page
        self.to: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value and "://" not in value and not value.startswith(("mailto:", "data:")):
                self.to.append(value)


def dead(pages: dict[Path, Links], page: Path) -> list[str]:
    """Links of a page of the site that lead nowhere."""
    found = []
    for link in pages[page].to:
        path, anchor = urldefrag(link)
        target = (page.parent / unquote(path)).resolve() if path else page
        target = target / "index.html" if target.is_dir() else target
        there = target in pages and (not anchor or unquote(anchor) in pages[target].anchors)
        if not there and (target.suffix == ".html" or not target.exists()):
            found.append(link)
    return found


def test_the_site_is_built_and_no_link_of_it_leads_nowhere(tmp_path: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    made_by("reference")
    done = made_by("build").built(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    site = (tmp_path / ".site").resolve()
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert {str(p.relative_to(ROOT / "docs").with_suffix(".html")) for p in (ROOT / "docs").rglob("*.md")} - {
        str(page.relative_to(site)) for page in pages
    } <= {"decisions/README.html"}, "a page is missing"
    assert {str(page.relative_to(site)): links for page in pages if (links := dead(pages, page))} == {}
    broken = site / "broken.html"
    wrong = ('href="nowhere.html"', 'href="index.html#nowhere"', 'src="no.png"')
    broken.write_text("".join(f"<a {one}></a>" for one in (*wrong, 'href="index.html"')))
    assert len(dead({**pages, broken: Links(broken)}, broken)) == len(wrong)
