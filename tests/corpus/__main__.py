"""How far other people's test suites go: `cd tests && python -m corpus FOLDER` plays every script of a folder.

    python -m corpus FOLDER [--suite NAME] [--suite-limit N] [--queries] [--all]

Every folder in FOLDER is a suite. `--queries` takes the queries that scripts ask for views as well; `--suite-limit`
stops after so many files of a suite; `--all` prints a line for every view, not only for those to look at.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from .playing import Verdict
from .report import Counts, Found, Said, files, found_in, suites, table

_LOOK = (Verdict.WRONG, Verdict.FAILED)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m corpus")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--suite", action="append")
    arguments.add_argument("--suite-limit", type=int)
    arguments.add_argument("--queries", action="store_true")
    arguments.add_argument("--all", action="store_true")
    said = arguments.parse_args()
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    counted: dict[str, Counts] = {}
    started = time.monotonic()
    for suite in said.suite or suites(said.folder):
        counts = counted[suite] = Counts()
        said_before: Said = set()
        paths = files(said.folder / suite)[: said.suite_limit]
        for path in paths:
            counts.files += 1
            for found in found_in(path, said.folder, said_before, said.queries):
                counts.add(found)
                if said.all or found.outcome.verdict in _LOOK:
                    sys.stdout.write(line(found) + "\n")
            progress = f"{suite} {counts.files}/{len(paths)} files, {counts.verdicts.total()} views"
            sys.stderr.write(f"\r{progress}, {time.monotonic() - started:.0f} s\033[K")
            sys.stdout.flush()
        sys.stderr.write("\n")
    sys.stdout.write(table(counted) + "\n")
    return 1 if any(c.verdicts[verdict] for c in counted.values() for verdict in _LOOK) else 0


def line(found: Found) -> str:
    outcome, written = found.outcome, found.written
    head = f"{outcome.verdict.value}\t{written.file}:{written.line} {found.name}\t{outcome.reason[:1500]}"
    text = " ".join((outcome.spark or found.query).split())
    return f"{head}\t{text[:3000]}"


if __name__ == "__main__":
    sys.exit(main())
