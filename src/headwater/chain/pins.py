"""Durable pins: which position a window of a chain ends at here, and what changed in it.

    chains/CHAIN/17.arrow      window 17: its position (in the file's metadata), and the rows that changed since 16
    chains/CHAIN/meant.json    which columns were meant when the view was loaded

Invariant: a window is written, and on the disk, before anything is said of it; it is never written again. Windows of a
chain have growing positions. One that is not there, between two that are, changed nothing: its state is that of the
one before it. So nights in which nothing happens leave two files, not thousands.

The rows are kept because what lies between two positions can be told only by polling from the first, which goes on
past the second.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from headwater.model.errors import PositionTrimmed
from headwater.model.names import Position
from headwater.model.schema import Identities, Identity

_META = b"headwater"
_SUFFIX, _MEANT = ".arrow", "meant.json"

T = TypeVar("T")


@dataclass(frozen=True)
class Pin:
    """`made` orders the pins of all chains here."""

    position: Position
    made: int


class PinBook:
    """One agent's pins, used by all of its threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "chains"
        self.lock = threading.RLock()
        """Held while a window is pinned: of two that want it, one finds it pinned."""

    def chains(self) -> list[str]:
        return sorted(unquote(path.name) for path in self._folder.glob("*") if path.is_dir())

    def windows(self, chain: str) -> list[int]:
        """Those that are pinned, in order."""
        return sorted(int(path.stem) for path in self._of(chain).glob(f"*{_SUFFIX}") if path.stem.isdigit())

    def pin(self, chain: str, window: int) -> Pin:
        """A position with the state at the end of a window."""
        known = self.windows(chain)
        before = [number for number in known if number <= window]
        if not before or window > known[-1]:
            raise PositionTrimmed(
                f"window {window} of {chain} is not known beside its database", "the view is loaded anew"
            )
        return self._read(chain, before[-1], lambda reader: _pin(reader.schema))

    def rows(self, chain: str, after: int, upto: int) -> list[pa.Table]:
        """What changed in the windows after one, up to another."""
        return [
            self._read(chain, window, lambda reader: reader.read_all().replace_schema_metadata(None))
            for window in self.windows(chain)
            if after < window <= upto
        ]

    def meant(self, chain: str) -> Identities:
        """Which columns the view was loaded from."""
        return msgspec.json.decode((self._of(chain) / _MEANT).read_bytes(), type=dict[str, Identity])

    def begin(self, chain: str, window: int, position: Position, rows: pa.Table, meant: Identities) -> None:
        """The first window of a chain; an earlier life of it is forgotten."""
        self.forget(chain)
        self._put(self._of(chain) / _MEANT, lambda file: file.write(msgspec.json.encode(dict(meant))))
        self.write(chain, window, position, rows)

    def write(self, chain: str, window: int, position: Position, rows: pa.Table) -> None:
        known = self.windows(chain)
        said = json.dumps({"position": position, "made": self._newest() + 1}).encode()
        rows = rows.replace_schema_metadata({_META: said})

        def fill(file: IO[bytes]) -> None:
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)

        self._put(self._of(chain) / f"{window}{_SUFFIX}", fill)
        if not rows.num_rows and len(known) > 1 and not self._changed(chain, known[-1]):
            self._file(chain, known[-1]).unlink(missing_ok=True)

    def _changed(self, chain: str, window: int) -> bool:
        return self._read(chain, window, lambda reader: bool(reader.read_all().num_rows))

    def _put(self, path: Path, fill: Callable[[IO[bytes]], object]) -> None:
        """Whole or not at all, and on the disk."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".new")
        with open(aside, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        for place in (path.parent, self._folder):
            _sync(place)

    def forget_below(self, chain: str, window: int) -> None:
        """The oldest that stays tells where the next ones begin."""
        known = self.windows(chain)
        for old, following in pairwise(known):
            if following <= window:
                self._file(chain, old).unlink(missing_ok=True)

    def forget(self, chain: str) -> None:
        shutil.rmtree(self._of(chain), ignore_errors=True)

    def oldest(self) -> Position | None:
        """What the source must still know: the oldest pin of any chain."""
        pins = [self.pin(chain, windows[0]) for chain in self.chains() if (windows := self.windows(chain))]
        return min(pins, key=lambda pin: pin.made).position if pins else None

    def _newest(self) -> int:
        pins = [self.pin(chain, windows[-1]).made for chain in self.chains() if (windows := self.windows(chain))]
        return max(pins, default=0)

    def _file(self, chain: str, window: int) -> Path:
        return self._of(chain) / f"{window}{_SUFFIX}"

    def _of(self, chain: str) -> Path:
        return self._folder / quote(chain, safe="")

    def _read(self, chain: str, window: int, read: Callable[[pa.ipc.RecordBatchFileReader], T]) -> T:
        with pa.OSFile(str(self._file(chain, window))) as file:
            return read(pa.ipc.open_file(file))


def _pin(schema: pa.Schema) -> Pin:
    said = json.loads(schema.metadata[_META])
    return Pin(Position(said["position"]), said["made"])


def _sync(folder: Path) -> None:
    """A new name is on the disk when its folder is."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
