"""The interpreter of the reference: SQL's three-valued logic, Spark's arithmetic."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from headwater.algebra.expressions import compiled

COLUMNS = {
    "o.i": 7,
    "o.n": None,
    "o.t": "aB%",
    "o.f": 2.5,
    "o.d": Decimal("1.50"),
    "o.b": True,
    "o.day": dt.date(2024, 1, 31),
    "o.m": -7,
}

VALUES = [
    ("`o.i` + 1", 8),
    ("`o.i` - `o.n`", None),
    ("`o.i` / 2", 3.5),
    ("`o.i` % 3", 1),
    ("`o.m` % 3", -1),
    ("`o.m` % -3", -1),
    ("`o.f` % 2", 0.5),
    ("`o.d` % 1", Decimal("0.50")),
    ("`o.d` * 2", Decimal("3.00")),
    ("`o.d` + `o.f`", 4.0),
    ("-`o.i`", -7),
    ("1.25", Decimal("1.25")),
    ("1e1", 10.0),
    ("`o.n` = `o.n`", None),
    ("`o.n` IS NULL", True),
    ("`o.i` IS NOT NULL", True),
    ("`o.b` IS TRUE", True),
    ("NOT `o.b`", False),
    ("NOT `o.n`", None),
    ("`o.n` AND FALSE", False),
    ("`o.n` AND TRUE", None),
    ("`o.n` OR TRUE", True),
    ("`o.n` OR FALSE", None),
    ("`o.i` IN (1, 7)", True),
    ("`o.i` IN (1, NULL)", None),
    ("`o.i` NOT IN (1, 2)", True),
    ("`o.i` NOT IN (1, NULL)", None),
    ("`o.i` BETWEEN 7 AND 8", True),
    ("`o.i` NOT BETWEEN 7 AND 8", False),
    ("`o.i` BETWEEN 8 AND NULL", False),
    ("`o.f` > `o.d`", True),
    ("`o.i` <> 7", False),
    ("`o.day` >= '2024-01-31'", True),
    ("CAST('2024-02-01' AS DATE) > `o.day`", True),
    ("CASE WHEN `o.n` THEN 1 WHEN `o.i` > 6 THEN 2 ELSE 3 END", 2),
    ("CASE `o.i` WHEN 1 THEN 'x' END", None),
    ("CASE WHEN `o.i` > 0 THEN 1 ELSE `o.i` / 0 END", 1),
    ("COALESCE(`o.n`, `o.i`, 1)", 7),
    ("`o.t` LIKE 'a_\\\\%'", True),
    ("`o.t` LIKE 'A%'", False),
    ("`o.t` NOT LIKE 'a%'", False),
    ("`o.n` LIKE 'a%'", None),
    ("`o.t` || '!' || `o.i`", "aB%!7"),
    ("CONCAT(`o.t`, `o.n`)", None),
    ("UPPER(`o.t`)", "AB%"),
    ("LOWER(`o.t`)", "ab%"),
    ("LENGTH(`o.t`)", 3),
    ("ABS(-3)", 3),
    ("ROUND(`o.f`)", 3.0),
    ("ROUND(-`o.f`)", -3.0),
    ("ROUND(2.345, 2)", Decimal("2.35")),
    ("ROUND(`o.i`, 0)", 7),
    ("CAST(`o.f` AS INT)", 2),
    ("CAST(' 12 ' AS INT)", 12),
    ("CAST(`o.i` AS DOUBLE)", 7.0),
    ("CAST(`o.b` AS STRING)", "true"),
    ("CAST(`o.f` AS STRING)", "2.5"),
    ("'O\\'Brien'", "O'Brien"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text: str, value: object) -> None:
    got = compiled(text, list(COLUMNS))(tuple(COLUMNS.values()))
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "text",
    ["SUBSTRING(`o.t`, 1)", "`o.d` / 2", "`o.t` = 1", "CAST(`o.t` AS BINARY)", "o.i", "`o.t` ILIKE 'x'", "`o.b` + 1"],
)
def test_what_it_does_not_know_it_does_not_guess(text: str) -> None:
    with pytest.raises(NotImplementedError):
        compiled(text, list(COLUMNS))(tuple(COLUMNS.values()))


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        compiled("`o.i` / 0", list(COLUMNS))(tuple(COLUMNS.values()))
