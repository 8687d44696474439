"""SET, RESET and SHOW: what a client may say of its session, and what it is told.

headwater.at     the state that is read: a transaction's number, a time, '10 minutes ago'; newest: what is newest
headwater.cut    the cut that is read (told, not set)
headwater.seq    the transaction up to which every view is there (told, not set)

Others are PostgreSQL's own. Those that clients set on connecting are taken; only statement_timeout does something.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from headwater.runtime.reading.moments import parse_at
from headwater.serve import catalog
from headwater.serve.errors import Refused

AT = "headwater.at"
TOLD = ("headwater.cut", "headwater.seq")
_SET = re.compile(r"SET\s+(?:(SESSION|LOCAL)\s+)?([\w.]+)\s*(?:=|\bTO\b)\s*(.+)", re.IGNORECASE | re.DOTALL)
_IGNORED = re.compile(
    r"SET\s+(?:(?:LOCAL|SESSION)\s+)?"
    r"(?:CHARACTERISTICS|TRANSACTION|NAMES|CONSTRAINTS|ROLE|AUTHORIZATION|TIME\s+ZONE|SCHEMA)\b",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(\d+)\s*(us|ms|s|min|h|d)?")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Change:
    """A setting that is said. `local`: until the transaction ends; no value: back to what it was at first."""

    name: str
    value: str | None
    local: bool = False


def changes(verb: str, text: str) -> list[Change]:
    """What a SET or RESET says."""
    if verb == "RESET":
        name = text.split(None, 1)[1].strip().strip('"').lower() if len(text.split()) > 1 else ""
        names = [*catalog.SHOWN, AT] if name == "all" else [_known(name)]
        return [Change(n, None) for n in names]
    if _IGNORED.match(text):
        return []
    found = _SET.fullmatch(text.strip())
    if found is None:
        raise Refused("42601", "this SET is not understood", "write SET name = value")
    name, value = _known(found[2].lower()), found[3].strip()
    if name in TOLD:
        raise Refused("55P02", f"{name} cannot be set", f"set {AT} to the state that you want to read")
    plain = re.fullmatch(r"'((?:[^']|'')*)'", value)
    said = plain[1].replace("''", "'") if plain else value
    default = not plain and value.upper() == "DEFAULT"
    return [Change(name, None if default else said, (found[1] or "").upper() == "LOCAL")]


def checked(change: Change) -> str | None:
    """The value as it is kept."""
    if change.value is None:
        return None
    if change.name == "client_encoding" and change.value.replace("-", "").upper() not in ("UTF8", "UNICODE"):
        raise Refused("22023", f"texts cannot be sent as {change.value}", "use UTF8")
    if change.name == "statement_timeout":
        seconds(change.value)
    if change.name == AT:
        moment = state(change.value)
        return "" if moment is None else str(moment)
    return change.value


def state(value: str) -> int | dt.datetime | None:
    """The state that headwater.at names."""
    return None if value.strip().lower() in ("", "newest", "now", "none") else parse_at(value)


def seconds(value: str) -> float:
    """A statement_timeout; 0: none."""
    found = _SPAN.fullmatch(value.strip())
    if found is None:
        raise Refused("22023", f"{value!r} is no length of time", "write milliseconds, or '5s'")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def name_shown(text: str) -> str:
    """The setting that a SHOW asks for."""
    name = " ".join(text.split()[1:]).strip().strip('"').lower()
    return {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(name) or _known(name)


def _known(name: str) -> str:
    if name in catalog.SHOWN or name in (AT, *TOLD, "all") or ("." in name and not name.startswith("headwater.")):
        return name
    fix = f"there are {AT}, {' and '.join(TOLD)}" if name.startswith("headwater.") else ""
    raise Refused("42704", f'unrecognized configuration parameter "{name}"', fix)
