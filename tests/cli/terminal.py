"""A command on a terminal: a pseudo terminal of a chosen width, in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def on_terminal(*arguments: object, width: int = 80) -> str:
    """What a person sees who types the command: both streams, styles and cursor movements taken out."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "headwater.cli.main", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment | {"TERM": "xterm-256color"}
    )
    os.close(other)
    seen = b""
    while True:
        try:
            read = os.read(main, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not read:
            break
        seen += read
    process.wait()
    os.close(main)
    return seen.decode()


def looked_at(output: str) -> str:
    """Without the escape sequences that rich itself writes: colours, cursor, screen."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n").replace("\r", "")
