"""Processes whose wall clock is wrong, and may be set anew while they run: a shim that cc compiles (`wrong_clock.c`).

What measures how long something takes, the monotonic clock, stays right, as on a machine whose clock is set. (Debian's
libfaketime cannot have that: with its monotonic clock left alone Python's `time.sleep` fails.)
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

DAY = 86400


class WrongClock:
    """One clock, for as many processes as are given its `surroundings`."""

    def __init__(self, folder: Path, seconds: int = 0) -> None:
        self._file, self._library = folder / "clock", folder / "clock.so"
        self.set(seconds)
        cc, source = shutil.which("cc"), Path(__file__).with_suffix(".c")
        assert cc is not None
        subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", self._library, source], check=True)

    def set(self, seconds: int) -> None:
        """In place: processes look at it all the time."""
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("l", seconds))

    def surroundings(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._library), "WRONG_CLOCK": str(self._file)}
