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
STAGED = ROOT / ".docs"
_OUTSIDE = re.compile(
    r"(?<!!)\[([^\]]+)\]\((?:\.\./)+(?:src|tests|bench|deploy|examples|integrations|README\.md|Makefile)[^)]*\)"
)


def main() -> int:
    reference.main()
    stage()
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(ROOT / "mkdocs.yml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("  File", "Traceback"))]
    print("\n".join(said if done.returncode else [f"built: {ROOT / '.site' / 'index.html'}"]))
    return done.returncode


def stage() -> None:
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED, ignore=shutil.ignore_patterns("site"))
    for page in STAGED.rglob("*.md"):
        page.write_text(_OUTSIDE.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
