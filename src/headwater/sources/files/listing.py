"""The files that a pattern names, in the order in which they came; and positions in that order. Pure but for looking.

**Order** is by the time at which a file got its name or was last written to (`st_ctime`), then by name. Nobody can set
that time, and a rename counts, so a file that was written aside and then renamed comes when it appeared. A file is told
once that is SETTLE seconds ago: whatever appears later comes later.

**A position** names its last file and the digest of all files up to it: names, times and sizes. Whoever is given one
needs no other memory. Invariant: the files up to a position are the ones that were told, or their digest is another
one. So a file that changed, vanished, or slipped in below is always noticed, and named where that can be told.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from headwater.model.errors import ConfigError, HeadwaterError, LifeChanged, SourceUnavailable
from headwater.model.names import Position

SETTLE = 2.0
"""Seconds. Two files that get their names within a moment may be seen in either order; after this long, in one only."""
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".swp")
_ALL = 1 << 128


@dataclass(frozen=True, order=True)
class File:
    """One file, as it was seen; ordered as files are told."""

    at: int
    name: str
    size: int

    @property
    def digest(self) -> int:
        seen = f"{self.name}\0{self.at}\0{self.size}".encode()
        return int.from_bytes(hashlib.blake2b(seen, digest_size=16).digest())


@dataclass(frozen=True)
class Place:
    """A position, read: how many files, the last of them, and the digest of all of them."""

    count: int
    at: int
    name: str
    digest: int

    @classmethod
    def of(cls, files: Sequence[File]) -> Place:
        last = files[-1] if files else File(0, "", 0)
        return cls(len(files), last.at, last.name, sum(f.digest for f in files) % _ALL)

    @classmethod
    def parse(cls, position: Position) -> Place:
        try:
            count, at, digest, name = position.split(".", 3)
            return cls(int(count), int(at), unquote(name), int(digest, 16))
        except ValueError:
            what = f"{position[:80]!r} is not a position of a folder of files"
            raise HeadwaterError(what, "load its views anew") from None

    @property
    def position(self) -> Position:
        return Position(f"{self.count}.{self.at}.{self.digest:032x}.{quote(self.name)}")


class Listing:
    """The files of a folder that match a pattern."""

    def __init__(self, folder: Path, pattern: str, where: str) -> None:
        self.folder, self.pattern, self._where = folder, pattern, where
        self._seen: Mapping[str, File] = {}

    def files(self) -> list[File]:
        """Those that have settled, in their order."""
        settled, found = time.time_ns() - int(SETTLE * 1e9), []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if self._is_meant(entry.name) and entry.is_file():
                        seen = entry.stat()
                        if seen.st_ctime_ns <= settled:
                            found.append(File(seen.st_ctime_ns, entry.name, seen.st_size))
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(f"{self._where}: there is no folder {self.folder}", "correct the url") from None
        except OSError as error:
            raise SourceUnavailable(f"{self._where} cannot be read: {error}", "look at the folder") from error
        return sorted(found)

    def upto(self, position: Position, files: Sequence[File]) -> list[File]:
        """The files that a position contains; LifeChanged if they are not those any more."""
        place = Place.parse(position)
        told = [file for file in files if (file.at, file.name) <= (place.at, place.name)]
        if Place.of(told) != place:
            raise LifeChanged(
                f"{self._where}: {self._what_happened(place, told)}; files that were told must stay as they are",
                "'headwater apply' loads the views over it again, with the files as they are now",
            )
        self._seen = {file.name: file for file in told}
        return told

    def _is_meant(self, name: str) -> bool:
        hidden = name.startswith((".", "_")) or name.lower().endswith(_UNFINISHED)
        return not hidden and fnmatch.fnmatchcase(name, self.pattern)

    def _what_happened(self, place: Place, told: Sequence[File]) -> str:
        """Which file it was: one more explains the digest by itself; the others are known to who has seen them."""
        more = (Place.of(told).digest - place.digest) % _ALL
        for file in told:
            if file.digest == more and len(told) == place.count + 1:
                return f"{file.name} came late, with a time before that of {place.name}"
        now = {file.name: file for file in self.files()}
        changed = [name for name, file in self._seen.items() if name in now and now[name] != file]
        gone = [name for name in self._seen if name not in now]
        if changed or gone:
            return f"{changed[0]} was changed" if changed else f"{gone[0]} is gone"
        return f"a file up to {place.name} was changed, removed or added"
