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
class _Copy:
    path: Path
    used: float
    size: int


def make_room(made: Path) -> None:
    """Remove what was used longest ago, until the rest has room. `made`: the run that somebody opens just now."""
    copies = sorted(_copies(), key=lambda copy: copy.used)
    taken = sum(copy.size for copy in copies)
    most = limit(taken)
    for copy in copies:
        if taken <= most:
            return
        if not _belongs(copy.path, made):
            with suppress(OSError):
                copy.path.unlink()
                taken -= copy.size
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


def _copies() -> Iterator[_Copy]:
    for path in folder().glob("*/*"):
        with suppress(OSError):
            told = path.stat()
            old = time.time() - told.st_mtime > ABANDONED
            if path.suffix == ".tmp" and old:
                path.unlink()
            else:
                yield _Copy(path, told.st_mtime, told.st_size)


def _belongs(path: Path, made: Path) -> bool:
    return path.suffix == ".tmp" or (path.parent == made.parent and path.name.startswith(f"{made.name}."))
