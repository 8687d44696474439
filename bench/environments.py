"""One virtual environment per peer, so that peers do not disturb each other nor Headwater."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


class NotInstalled(Exception):
    """A peer's packages could not be installed; the message is the installer's own last word."""


def python_of(name: str, requirements: Sequence[str], folder: Path) -> Path:
    """The interpreter of the environment `name`, created or re-created if its requirements changed."""
    home = folder / name
    stamp, wanted = home / "requirements.sha256", hashlib.sha256("\n".join(requirements).encode()).hexdigest()
    python = home / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalled(f"pip: {errors[-1] if errors else done.stderr[-300:]} (python {sys.version.split()[0]})")
    stamp.write_text(wanted)
    return python
