"""Text that does to a terminal what it says, and nothing else.

Data and other people's messages may hold characters that command a terminal (ESC, the C1 set), or that make it show
text in another order than it stands (bidirectional overrides). They are written out instead: \\x1b, \\u202e.
"""

from __future__ import annotations

import re

from headwater.runtime.project.secrets import without_secrets

_CONTROL = "\\x00-\\x1f\\x7f-\\x9f"  # C0, DEL, C1
_ORDER = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # marks, embeddings, overrides, isolates
_LINES = "\\u2028\\u2029"
_UNSAFE = re.compile(f"[{_CONTROL}{_ORDER}{_LINES}\ufeff\ud800-\udfff]")
_UNSAFE_BUT_LINES = re.compile(f"(?!\n)[{_CONTROL}{_ORDER}{_LINES}\ufeff\ud800-\udfff]")
_MARKS = {"\n": "↵", "\t": "⇥"}


def printable(text: str) -> str:
    """One line that can be shown: what is not a character to look at is written out."""
    return _UNSAFE.sub(_written, text)


def cell(text: str) -> str:
    """A value in a table: ends of lines and tabs as signs of their own."""
    return _UNSAFE.sub(lambda match: _MARKS.get(match.group()) or _written(match), text)


def printable_lines(text: str) -> str:
    """The same for text of several lines."""
    return _UNSAFE_BUT_LINES.sub(_written, text)


def message(text: str) -> str:
    """What is said to a person: no secrets, nothing that commands the terminal."""
    return printable_lines(without_secrets(text))


def json_safe(text: str) -> str:
    """JSON that means the same and commands no terminal: it may be looked at as well as piped."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _written(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
