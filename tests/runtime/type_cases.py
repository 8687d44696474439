"""Every type of both kinds of source: what it is in a view, values at its edges, what it can be used for.

One table of cases, used twice: `test_types` runs every one of them through the engine, and `docs/types.md` is made from
it (`PYTHONPATH=src:tests python -m runtime.type_cases > docs/types.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROWS = 8
"""So many rows the tables begin with; a type's values are taken in turn."""


@dataclass(frozen=True)
class Held:
    """A type that views hold. `values` are SQL of the source, `where` a comparison in view SQL, to follow the column,
    that the first of them meets; `reads` what some of the values are in Python; `sums` whether these are added up."""

    declared: str
    shown: str
    values: tuple[str, ...]
    where: str
    sums: bool = False
    reads: tuple[Any, ...] = ()
    note: str = ""

    @property
    def numeric(self) -> bool:
        return self.shown.startswith(("smallint", "int", "bigint", "float", "double", "decimal"))


@dataclass(frozen=True)
class Refused:
    """A type that no view holds: `plan` names the column. Other columns of its table are not concerned."""

    declared: str
    value: str
    instead: str


@dataclass(frozen=True)
class Unfit:
    """A value that its column can hold at the source and its type in a view cannot. Whoever reads it names it."""

    declared: str
    value: str
    says: str


MOMENTS = (
    "'2024-02-29 12:30:00.123456'", "'0001-01-01 00:00:00'", "'1582-10-10 12:00:00'", "'1899-12-31 23:59:59.999999'",
    "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.5'", "NULL",
)  # fmt: skip
ZONED = (
    "'2024-02-29 12:30:00.123456+02'", "'0001-01-02 00:00:00+00'", "'1582-10-10 12:00:00+00'",
    "'1899-12-31 23:59:59.999999+00'", "'9999-12-31 23:59:59.999999+00'", "'2024-02-29 10:30:00.123456+00'", "NULL",
)  # fmt: skip
DATES = ("'2024-02-29'", "'0001-01-01'", "'1582-10-10'", "'1500-02-28'", "'9999-12-31'", "'1969-12-31'", "NULL")
DOUBLES = ("1.5", "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0", "NULL", "0.1")
BIG = "99999999999999999999999999999999999999"

POSTGRES: tuple[Held, ...] = (
    Held("smallint", "smallint", ("1", "-32768", "32767", "0", "NULL"), "<> 0", sums=True),
    Held("integer", "int", ("1", "-2147483648", "2147483647", "0", "NULL"), "<> 0", sums=True),
    Held("bigint", "bigint", ("1", "-9223372036854775808", "9223372036854775807", "0", "NULL"), "<> 0",
         note="a SUM beyond 2⁶³ halts the view"),
    Held("real", "float", ("1.5", "'NaN'", "'Infinity'", "'-0'", "0", "1e-45", "NULL", "0.1"), "<> 0.1", sums=True,
         note="−0 is 0; NaN equals NaN and is the largest, as in Spark and PostgreSQL"),
    Held("double precision", "double", DOUBLES, "<> 0.1", sums=True, reads=(1.5, None, None, None, 0.0, 0.0, None, 0.1),
         note="sums are correctly rounded whatever their order"),
    Held("numeric(10,2)", "decimal(10,2)", ("1.50", "-99999999.99", "99999999.99", "0", "NULL"), "<> 0", sums=True),
    Held("numeric(38,0)", "decimal(38,0)", (BIG, f"-{BIG}", "0", "1", "NULL"), "<> 0",
         note="a SUM of more than 38 digits halts the view"),
    Held("numeric(38,37)", "decimal(38,37)", ("9." + "9" * 37, "0." + "0" * 36 + "1", "0", "NULL"), "<> 0",
         note="AVG needs four digits more than 38: it halts the view"),
    Held("numeric", "decimal(38,18)", ("12345678901234567890.123456789012345678", "-0.000000000000000001", "1", "NULL"),
         "<> 1", note="20 digits before the point and 18 behind; others do not fit"),
    Held("numeric(3,-2)", "decimal(5,0)", ("12345", "-99900", "0", "NULL"), "<> 0", sums=True),
    Held("numeric(2,4)", "decimal(4,4)", ("0.0099", "-0.0001", "0", "NULL"), "<> 0", sums=True),
    Held("boolean", "boolean", ("true", "false", "NULL"), "= true"),
    Held("date", "date", DATES, "> DATE '0999-01-01'", note="years 1 to 9999, proleptic Gregorian"),
    Held("timestamp", "timestamp", MOMENTS, ">= TIMESTAMP_NTZ '1000-01-01 00:00:00'"),
    Held("timestamptz", "timestamp with time zone", ZONED, ">= TIMESTAMP '1000-01-01 00:00:00+00:00'",
         note="an instant, shown in UTC"),
    Held("text", "string", ("''", "' '", "'a'", "'A'", "'é'", "E'e\\u0301'", "E'a\\nb\"c\\\\d,e''f'", "NULL"), "<> 'A'",
         reads=("", " ", "a", "A", "é", "e\u0301", 'a\nb"c\\d,e\'f', None), note="compared and ordered by code points"),
    Held("varchar", "string", ("'x'", "repeat('ab', 1000000) || 'c'", "''", "NULL"), "<> ''"),
    Held("varchar(5)", "string", ("'ab'", "'ab '", "''", "NULL"), "<> ''"),
    Held("char(5)", "string", ("'ab'", "'ab   '", "''", "'é'", "NULL"), "<> ''", reads=("ab", "ab", "", "é", None),
         note="without its padding"),
    Held("name", "string", ("'ab'", "''", "NULL"), "<> ''"),
    Held("mood", "string", ("'sad'", "'happy'", "NULL"), "<> 'happy'",
         note="an enumeration: its labels, ordered as text"),
    Held("percent", "decimal(5,2)", ("99.99", "0", "NULL"), "<> 0", sums=True, note="a domain: as its base type"),
    Held("uuid", "string", ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'00000000-0000-0000-0000-000000000000'", "NULL"),
         "<> ''", reads=("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), note="lower case"),
    Held("json", "string", ("'{\"a\":1, \"a\":2}'", "'[1,  2]'", "'null'", "NULL"), "<> 'null'",
         reads=('{"a":1, "a":2}', "[1,  2]", "null", None), note="verbatim"),
    Held("jsonb", "string", ("'{\"b\":1, \"a\":2, \"a\":3}'", "'1.10'", "'null'", "NULL"), "<> 'null'",
         reads=('{"a": 3, "b": 1}', "1.10", "null", None), note="as PostgreSQL writes it"),
    Held("time", "string", ("'24:00:00'", "'00:00:00.000001'", "'12:30'", "NULL"), "> '01'", note="ISO text"),
    Held("bytea", "binary", ("'\\x'", "'\\x00ff'", "'\\x00'", "NULL"), "<> X'00'",
         reads=(b"", b"\x00\xff", b"\x00", None)),
)  # fmt: skip

POSTGRES_REFUSED: tuple[Refused, ...] = (
    Refused("interval", "'1 month 2 days'", "a generated column of extract(epoch from …), or leave it out"),
    Refused("timetz", "'12:00+02'", "time, or timestamptz"),
    Refused("money", "'1.50'", "numeric(19,2)"),
    Refused("bit(3)", "'101'", "bytea, or an integer"),
    Refused("varbit", "'101'", "bytea"),
    Refused("inet", "'10.0.0.1'", "text"),
    Refused("cidr", "'10.0.0.0/8'", "text"),
    Refused("macaddr", "'08:00:2b:01:02:03'", "text"),
    Refused("integer[]", "'{1,2}'", "a table of its own, or jsonb"),
    Refused("text[]", "'{a,b}'", "a table of its own, or jsonb"),
    Refused("int4range", "'[1,5)'", "two columns"),
    Refused("tsvector", "'a b'", "text"),
    Refused("point", "'(1,2)'", "two columns"),
    Refused("pair", "ROW(1,2)", "two columns"),
    Refused("oid", "1", "bigint"),
    Refused("pg_lsn", "'0/1'", "text"),
    Refused("xml", "NULL", "text"),
)

POSTGRES_UNFIT: tuple[Unfit, ...] = (
    Unfit("date", "'infinity'", "infinity"),
    Unfit("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    Unfit("date", "'10000-01-01'", "10000-01-01"),
    Unfit("timestamp", "'-infinity'", "-infinity"),
    Unfit("timestamptz", "'0044-03-15 00:00:00+00 BC'", "BC"),
    Unfit("numeric", "'NaN'", "NaN"),
    Unfit("numeric", "'Infinity'", "Infinity"),
    Unfit("numeric", "123456789012345678901", "123456789012345678901"),
    Unfit("numeric", "0.0000000000000000001", "0.0000000000000000001"),
    Unfit("numeric(50,0)", "1" + "0" * 40, "1" + "0" * 40),
)

SQLITE: tuple[Held, ...] = (
    Held("INTEGER", "bigint", ("1", "-9223372036854775808", "9223372036854775807", "0", "NULL"), "<> 0"),
    Held("INT", "bigint", ("1", "-5", "0", "NULL"), "<> 0", sums=True),
    Held("REAL", "double", ("1.5", "9e999", "-9e999", "-0.0", "0", "NULL", "0.1"), "<> 0.1", sums=True,
         reads=(1.5, float("inf"), float("-inf"), 0.0, 0.0, None, 0.1)),
    Held("DECIMAL(10,2)", "decimal(10,2)", ("1.50", "-99999999.99", "3", "0", "NULL"), "<> 0", sums=True),
    Held("NUMERIC", "decimal(38,18)", ("1.25", "-3", "0", "12300", "NULL"), "<> 0", sums=True,
         note="SQLite stores numbers as 64-bit integers and doubles, whatever their precision says"),
    Held("BOOLEAN", "boolean", ("1", "0", "true", "NULL"), "= true", note="stored as 0 and 1"),
    Held("DATE", "date", DATES, "> DATE '0999-01-01'", note="stored as ISO text"),
    Held("TIMESTAMP", "timestamp", (*MOMENTS, "'2024-02-29'"), ">= TIMESTAMP_NTZ '1000-01-01 00:00:00'",
         note="stored as ISO text"),
    Held("TIMESTAMPTZ", "timestamp with time zone", ZONED, ">= TIMESTAMP '1000-01-01 00:00:00+00:00'",
         note="stored as ISO text with its offset"),
    Held("TEXT", "string", ("''", "' '", "'a'", "'A'", "'é'", "'a' || char(0) || 'b'", "NULL", "'a''b'"), "<> 'A'",
         reads=("", " ", "a", "A", "é", "a\0b", None, "a'b")),
    Held("CLOB", "string", ("replace(hex(zeroblob(1000000)), '0', 'a')", "''", "NULL"), "<> ''"),
    Held("VARCHAR(5)", "string", ("'ab'", "'ab '", "'longer than five'", "NULL"), "<> 'ab '"),
    Held("UUID", "string", ("'A0EE'", "'a0ee'", "NULL"), "<> 'x'", note="as it is stored"),
    Held("JSON", "string", ("'{\"a\":1, \"a\":2}'", "'1'", "'null'", "NULL"), "<> 'null'",
         reads=('{"a":1, "a":2}', "1", "null", None)),
    Held("TIME", "string", ("'12:30'", "'12:30:00'", "NULL"), "> '01'"),
    Held("BLOB", "binary", ("x''", "x'00ff'", "x'00'", "NULL"), "<> X'00'", reads=(b"", b"\x00\xff", b"\x00", None)),
)  # fmt: skip
SQLITE_REFUSED: tuple[Refused, ...] = (
    Refused("", "1", "declare a type"),
    Refused("MONEY", "1", "DECIMAL(19,2)"),
    Refused("GEOMETRY", "x'00'", "BLOB"),
    Refused("DECIMAL(50,2)", "1", "DECIMAL of up to 38 digits"),
)
SQLITE_UNFIT: tuple[Unfit, ...] = (
    Unfit("INTEGER", "'abc'", "abc"),
    Unfit("INTEGER", "1.5", "1.5"),
    Unfit("BOOLEAN", "'true'", "true"),
    Unfit("BOOLEAN", "2", "2"),
    Unfit("DATE", "'2024-13-01'", "2024-13-01"),
    Unfit("DATE", "20240101", "20240101"),
    Unfit("TIMESTAMP", "1704067200", "1704067200"),
    Unfit("TEXT", "x'00'", "X'00'"),
    Unfit("DECIMAL(10,2)", "1.005", "1.005"),
    Unfit("REAL", "'abc'", "abc"),
)

PATHS = ("selected", "filtered", "joined on", "grouped by", "COUNT", "COUNT DISTINCT", "MIN, MAX", "SUM, AVG")

EXPRESSIONS = {
    "made_at - stamp": ("INTERVAL DAY TO SECOND", "CAST(o.made_at - o.stamp AS STRING)"),
    "array(id)": ("ARRAY<INT>", "to_json(ARRAY(o.id))"),
    "struct(id)": ("STRUCT<", "to_json("),
    "NULL": ("VOID", "CAST(NULL AS STRING)"),
    "word COLLATE UTF8_LCASE": ("COLLATE UTF8_LCASE", "COLLATE UTF8_BINARY"),
    "SUM(word)": ("SUM of o.word, which is string", "SUM(CAST(o.word AS DECIMAL(38, 6)))"),
    "AVG(word)": ("AVG of o.word, which is string", "AVG(CAST(o.word AS DECIMAL(38, 6)))"),
    "SUM(id > 1)": ("SUM of o.id > 1, which is bool", "SUM(CAST(o.id > 1 AS INT))"),
    "SUM(made_at)": ("SUM of o.made_at, which is timestamp[us]", "use COUNT, MIN or MAX"),
    "MAX(made_at - stamp)": ("INTERVAL DAY TO SECOND", "CAST("),
}
"""Expressions that `plan` refuses because of their type: what it says, and what it advises."""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _held(cases: tuple[Held, ...]) -> list[str]:
    lines = [_row("type", "in a view", *PATHS, ""), _row(*["---"] * (len(PATHS) + 3))]
    for case in cases:
        marks = ["✓"] * (len(PATHS) - 1) + ["✓" if case.numeric else "–"]
        lines.append(_row(f"`{case.declared}`", case.shown, *marks, case.note))
    return lines


def document() -> str:
    """docs/types.md."""
    lines = [
        "# Types",
        "",
        "Made from the cases of `tests/runtime/type_cases.py`, every one of which runs through the engine in",
        "`tests/runtime/test_types.py`: loaded, changed, and compared with recomputation. ✓ works, – is refused by",
        "`headwater plan`, with the column and what to do. SUM and AVG take numbers; write a CAST for anything else.",
        "",
    ]
    for name, held, refused, unfit in (
        ("PostgreSQL", POSTGRES, POSTGRES_REFUSED, POSTGRES_UNFIT),
        ("SQLite", SQLITE, SQLITE_REFUSED, SQLITE_UNFIT),
    ):
        lines += [f"## {name}", "", *_held(held), ""]
        lines += [f"Types that no view holds ({name}); a view that does not use such a column is not concerned.", ""]
        lines += [_row("type", "instead"), _row("---", "---")]
        lines += [_row(f"`{r.declared or '(none)'}`", r.instead) for r in refused]
        lines += ["", f"Values that do not fit ({name}); whoever reads one names it and stops, nothing is rounded.", ""]
        lines += [_row("type", "value"), _row("---", "---")]
        lines += [_row(f"`{u.declared}`", f"`{u.value}`") for u in unfit]
        lines += [""]
    lines += [
        "## Expressions",
        "",
        "A view's columns, what it groups by and what it aggregates have one of the types above. Others are refused:",
        "",
        _row("expression", "is", "write"),
        _row("---", "---", "---"),
        *[_row(f"`{e}`", f"`{kind.rstrip('<')}`", f"`{advice}`") for e, (kind, advice) in EXPRESSIONS.items()
          if advice.endswith(")")],
        "",
        "Decimals join if one decimal of 38 digits holds both: `numeric` (20 digits before the point, 18 behind) with",
        "`bigint`, but not with `numeric(38,0)`.",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")
