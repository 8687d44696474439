"""The view update table on a screen."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console

from headwater.cli.vut import draw_groups
from headwater.model.names import Seq
from headwater.warehouse.cuts import Cut


def row(lo: int, hi: int, entries: dict[str, list[Any]], actions: list[str]) -> dict[str, Any]:
    return {"lo": lo, "hi": hi, "about": ["q.t"], "since": time.time() - 2, "entries": entries, "actions": actions}


def drawn(rows: list[dict[str, Any]], views: dict[str, str]) -> list[str]:
    group = {"algorithm": "Painting", "sources": ["q"], "views": views, "rows": rows, "waiting": len(rows)}
    report = {"at": time.time(), "numbered": 3, "groups": [group]}
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 # closed with the process
    console.print(draw_groups(report, Cut(4, Seq(0))))
    return console.export_text().splitlines()


def test_example_5_at_t2() -> None:
    """U1 on S, U2 and U3 on Q; V2's change of U2 and U3 is one."""
    lines = drawn(
        [
            row(0, 1, {"v1": ["w", 0], "v2": ["r", 1]}, ["v2"]),
            row(1, 2, {"v2": ["r", 3], "v3": ["w", 0]}, []),
            row(2, 3, {"v2": ["r", 3], "v3": ["w", 0]}, ["v2"]),
        ],
        {"v1": "V1", "v2": "V2", "v3": "V3"},
    )
    table = [line.split()[:6] for line in lines if line.strip()[:1].isdigit()]
    assert table == [
        ["1", "1", "○", "●", "·", "2"],
        ["2", "2", "·", "●3", "○", "2.0"],
        ["3", "3", "·", "●", "○", "2"],
    ]


def test_a_view_being_replaced_has_two_columns() -> None:
    lines = drawn([row(0, 1, {"a": ["w", 0]}, [])], {"a": "v", "b": "v"})
    assert any("V1 v" in line and "V2 v′" in line for line in lines)


def test_nothing_waits() -> None:
    assert "nothing waits" in drawn([], {"a": "v"})
