"""Errors as PostgreSQL's clients know them: each has a SQLSTATE."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from headwater.model.errors import HeadwaterError, HistoryGone, UnknownName, UsageError


class Refused(UsageError):
    """A statement that is not answered, and the SQLSTATE that says why to a program."""

    def __init__(self, state: str, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.state = state


def read_only(what: str) -> Refused:
    return Refused("25006", f"cannot execute {what} in a read-only transaction", "views change with their sources only")


_DUCK: tuple[tuple[type[Exception], str], ...] = (
    (duckdb.ParserException, "42601"),
    (duckdb.CatalogException, "42883"),
    (duckdb.BinderException, "42703"),
    (duckdb.ConversionException, "22P02"),
    (duckdb.OutOfRangeException, "22003"),
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.PermissionException, "42501"),
    (duckdb.NotImplementedException, "0A000"),
    (duckdb.InvalidInputException, "22023"),
)


_ARROW = {
    "Conversion Error": "22P02", "Invalid Input Error": "22023", "Out of Range Error": "22003",
    "Out of Memory Error": "53200", "INTERRUPT": "57014",
}  # fmt: skip
"""Errors on the way, which Arrow's reader tells as text."""


def explained(error: Exception) -> Refused:
    """What a client is told of an error, whatever it was."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, UnknownName):
        return Refused("42P01", error.what, error.fix)
    if isinstance(error, HistoryGone):
        return Refused("22023", error.what, error.fix)
    if isinstance(error, HeadwaterError):
        return Refused("22023" if isinstance(error, UsageError) else "58000", error.what, error.fix)
    if isinstance(error, RecursionError):
        return Refused("54001", "the statement is nested too deep", "ask in parts")
    if isinstance(error, duckdb.Error):
        state = next((state for kind, state in _DUCK if isinstance(error, kind)), "XX000")
        lines = str(error).strip().splitlines()
        return Refused(state, " ".join(lines[:2]) or "the query does not run")
    if isinstance(error, pa.ArrowException):
        said = " ".join(str(error).strip().splitlines()[:2])
        return Refused(next((state for text, state in _ARROW.items() if text in said), "XX000"), said)
    return Refused("XX000", f"unexpected {type(error).__name__}", "the log of 'headwater serve --log FILE' says more")
