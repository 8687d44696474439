"""Where copies of an object store's files lie on this machine, and how much room they take.

    HEADWATER_CACHE        the folder                         (else one below the machine's folder for temporary files)
    HEADWATER_CACHE_SIZE   how much they take, such as 20 GB  (else 20 GB, at most half of what is free there)

They are the environment's, and not the project's, because every machine that computes has its own disk.

Invariant: after a copy is made, all copies together take no more than that, unless that one alone does. What was
looked up longest ago goes first. A copy takes part in no promise (`runs`): who misses one makes it again.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.model.errors import ConfigError
from headwater.model.sizes import byte_size, bytes_of

log = logging.getLogger(__name__)

FOLDER, SIZE = "HEADWATER_CACHE", "HEADWATER_CACHE_SIZE"
MOST = 20 * 10**9
TOUCHED = 60.0
"""Seconds after which somebody who goes on looking a copy up says so again."""
ABANDONED = 3600.0
"""A file that is still being made after so long was left by a process that died."""


def folder() -> Path:
    said = os.environ.get(FOLDER)
    return Path(said) if said else Path(tempfile.gettempdir()) / f"headwater-kept-{os.getuid()}"


def limit(taken: int) -> int:
    """How many bytes copies may take, where they take so many now."""
    said = os.environ.get(SIZE)
    if said is None:
        place = next(p for p in (folder(), *folder().parents) if p.exists())
        return min(MOST, (shutil.disk_usage(place).free + taken) // 2)
    size = bytes_of(said)
    if size is None:
        raise ConfigError(f"{SIZE} is {said!r}, which is no size", "write one such as '20 GB'")
    return size


@dataclass(frozen=True)
class _Run:
    """The copies of one file: its rows and their indexes. They go together, lest half of it stay mapped."""

    paths: list[Path]
    used: float
    size: int


def make_room(made: Path) -> None:
    """Remove what was used longest ago, until the rest has room. `made`: the run that somebody opens just now."""
    runs = sorted(_runs(), key=lambda run: run.used)
    taken = sum(run.size for run in runs)
    most = limit(taken)
    for run in runs:
        if taken <= most:
            return
        if not _belongs(run.paths[0], made):
            for path in run.paths:
                with suppress(OSError):
                    path.unlink()
            taken -= run.size
    if taken > most:
        log.warning(
            "local copies of %s take %s, and %s or the free disk allows %s: it is more than fits",
            made.name, byte_size(taken), SIZE, byte_size(most),
        )  # fmt: skip


def still_there(made: Path) -> bool:
    """Whether the copies of a run are on disk. They are marked as used."""
    if not made.with_name(f"{made.name}.rows").exists():
        return False
    for path in made.parent.glob(f"{made.name}.*"):
        with suppress(OSError):
            os.utime(path)
    return True


def _runs() -> Iterator[_Run]:
    found: dict[tuple[Path, str], dict[Path, os.stat_result]] = {}
    for path in folder().glob("*/*"):
        with suppress(OSError):
            told = path.stat()
            if path.suffix == ".tmp" and time.time() - told.st_mtime > ABANDONED:
                path.unlink()
            else:
                whose = path.name if path.suffix == ".tmp" else path.name.partition(".")[0]
                found.setdefault((path.parent, whose), {})[path] = told
    for files in found.values():
        yield _Run(list(files), max(f.st_mtime for f in files.values()), sum(f.st_size for f in files.values()))


def _belongs(path: Path, made: Path) -> bool:
    return path.suffix == ".tmp" or (path.parent == made.parent and path.name.startswith(f"{made.name}."))
