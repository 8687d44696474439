"""The documentation as a site: `make docs`.

The pages of the reference are made from the code, then everything is built from a copy in which links into the code are
plain words: the site is no copy of the repository. A link that leads nowhere ends the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import reference

ROOT = Path(__file__).parent.parent.parent
_OUTSIDE = re.compile(
    r"(?<!!)\[([^\]]+)\]\((?:\.\./)+(?:src|tests|bench|deploy|examples|integrations|README\.md|Makefile)[^)]*\)"
)


def main() -> int:
    reference.main()
    done = built(ROOT)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("  File", "Traceback"))]
    print("\n".join(said if done.returncode else [f"built: {ROOT / '.site' / 'index.html'}"]))
    return done.returncode


def built(where: Path) -> subprocess.CompletedProcess[str]:
    """The site in `where`/.site, by the settings there."""
    staged = where / ".docs"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(ROOT / "docs", staged, ignore=shutil.ignore_patterns("site"))
    for page in staged.rglob("*.md"):
        page.write_text(_OUTSIDE.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(where / "mkdocs.yml")]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    raise SystemExit(main())
