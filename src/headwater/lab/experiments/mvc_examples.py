"""MVC's examples 1 to 5 on the merge process that the engine runs, table by table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.merge import ActionList, MergeProcess, Painting, SimplePainting, ViewUpdateTable

VIEWS = ("V1", "V2", "V3")


@dataclass(frozen=True)
class Example:
    """`events`: "U1: V1 V2" is REL_1, "AL 1 2" is AL_1^2. `tables` are those the paper prints, by the time it prints
    them at, slips corrected; `released` the rows of each warehouse transaction."""

    number: int
    said: str
    painting: Callable[[ViewUpdateTable, Callable[[str], None]], MergeProcess]
    states: bool
    events: Sequence[str]
    tables: dict[str, str]
    released: Sequence[tuple[int, ...]]


def _simple(table: ViewUpdateTable, seen: Callable[[str], None]) -> MergeProcess:
    return SimplePainting(table, seen)


def _painting(table: ViewUpdateTable, seen: Callable[[str], None]) -> MergeProcess:
    return Painting(table, seen)


EXAMPLES = (
    Example(
        1, "V1 and V2 change together when both action lists are there.", _simple, False,
        ("U1: V1 V2", "AL 1 1", "AL 1 2"), {}, [(1,)],
    ),
    Example(
        2, "The table after AL_1^2 arrived.", _simple, False, ("U1: V1 V2", "U2: V2 V3", "AL 1 2"),
        {"end": "U1 w r b {AL_1^2} / U2 b w w {}"}, [],
    ),
    Example(
        3, "Simple Painting, times t0 to t11.", _simple, False,
        ("U1: V1 V2", "AL 1 2", "U2: V3", "U3: V2", "AL 2 3", "AL 3 2", "AL 1 1"),
        {
            "t4": "U1 w r b {AL_1^2} / U2 b b r {AL_2^3} / U3 b w b {}",
            "t5": "U1 w r b {AL_1^2} / U2 b b g {} / U3 b w b {}",
            "t6": "U1 w r b {AL_1^2} / U3 b w b {}",
            "t7": "U1 w r b {AL_1^2} / U3 b r b {AL_3^2}",
            "t8": "U1 r r b {AL_1^2, AL_1^1} / U3 b r b {AL_3^2}",
            "t9": "U1 g g b {} / U3 b r b {AL_3^2}",
            "t10": "U3 b r b {AL_3^2}",
            "t11": "U3 b g b {}",
        },
        [(2,), (1,), (3,)],
    ),
    Example(
        4, "Intertwined updates: one warehouse transaction for all three.", _painting, False,
        ("U1: V1 V2", "U2: V2 V3", "U3: V1 V2", "AL 3 1", "AL 1 2", "AL 2 2", "AL 2 3", "AL 3 2"),
        {"t6": "U1 r r b {AL_1^2} / U2 b r r {AL_2^2, AL_2^3} / U3 r w b {AL_3^1}"}, [(1, 2, 3)],
    ),
    Example(
        5, "Painting, times t0 to t7.", _painting, True,
        ("U1: V1 V2", "U2: V2 V3", "U3: V2 V3", "AL 1 2", "AL 3 2", "AL 2 3", "AL 1 1", "AL 3 3"),
        {
            "t0": "U1 (w,0) (w,0) (b,0) {} / U2 (b,0) (w,0) (w,0) {} / U3 (b,0) (w,0) (w,0) {}",
            "t2": "U1 (w,0) (r,1) (b,0) {AL_1^2} / U2 (b,0) (r,3) (w,0) {} / U3 (b,0) (r,3) (w,0) {AL_3^2}",
            "t4": "U1 (r,1) (r,1) (b,0) {AL_1^2, AL_1^1} / U2 (b,0) (r,3) (r,2) {AL_2^3} "
            "/ U3 (b,0) (r,3) (w,0) {AL_3^2}",
            "t5": "U1 (g,1) (g,1) (b,0) {} / U2 (b,0) (r,3) (r,2) {AL_2^3} / U3 (b,0) (r,3) (w,0) {AL_3^2}",
            "t6": "U2 (b,0) (r,3) (r,2) {AL_2^3} / U3 (b,0) (r,3) (r,3) {AL_3^2, AL_3^3}",
            "t7": "U2 (b,0) (g,3) (g,2) {} / U3 (b,0) (g,3) (g,3) {}",
        },
        [(1,), (2, 3)],
    ),
)  # fmt: skip


AS_PRINTED = {
    "t5": "U1 (g,1) (g,1) (b,0) {} / U2 (b,0) (r,3) (r,0) {AL_2^3} / U3 (b,0) (r,3) (w,0) {AL_3^2}",
    "t6": "U2 (b,0) (r,3) (r,0) {AL_2^3} / U3 (b,0) (r,3) (r,3) {AL_3^2, AL_3^3}",
}
"""Example 5 as the paper has it: at two times it prints (r,0) for what was (r,2) before and is (g,2) after."""


@dataclass(frozen=True)
class Shown:
    """Every table in its order, and the rows of the warehouse transactions."""

    tables: list[str]
    released: list[tuple[int, ...]]


def play(example: Example) -> Shown:
    table = ViewUpdateTable(VIEWS if example.number > 1 else VIEWS[:2])
    seen: list[str] = []
    merge = example.painting(table, lambda _: seen.append(_drawn(table, example.states)))
    released: list[tuple[int, ...]] = []
    for event in example.events:
        if event.startswith("U"):
            number, views = event[1:].split(": ")
            done = merge.relevance(int(number), views.split())
        else:
            _, row, view = event.split()
            done = merge.action_list(ActionList(f"V{view}", int(row), f"AL_{row}^{view}"))
        released += [t.rows for t in done]
    return Shown(seen, released)


def _drawn(table: ViewUpdateTable, states: bool) -> str:
    lines = []
    for row, _, lists in table.snapshot():
        entries = [table.entry(row, view) for view in table.views]
        cells = [f"({e.color.value},{e.state})" if states else e.color.value for e in entries]
        lines.append(" ".join([f"U{row}", *cells, "{" + ", ".join(a.actions for a in lists) + "}"]))
    return " / ".join(lines)


def run(run: Run) -> Findings:
    rows, claims, panels = [], [], []
    for example in run.each(EXAMPLES):
        shown = play(example)
        missing = [name for name, printed in example.tables.items() if printed not in shown.tables]
        in_order = _in_order(list(example.tables.values()), shown.tables)
        claims.append(
            Claim(
                f"Example {example.number}: {example.said}",
                (
                    f"{len(example.tables) - len(missing)} of {len(example.tables)} printed tables appear, in order; "
                    if example.tables
                    else ""
                )
                + f"warehouse transactions: {', '.join(map(str, shown.released)) or 'none'}",
                not missing and in_order and list(example.released) == shown.released,
            )
        )
        rows += [{"example": example.number, "change": n, "table": t or "(empty)"} for n, t in enumerate(shown.tables)]
        if example.number in (3, 5):
            cells = [["change", "table"], *([str(n), t or "(empty)"] for n, t in enumerate(shown.tables))]
            panels.append(Panel(f"Example {example.number}: the view update table", kind="grid", cells=cells))
    claims.append(_as_printed(play(EXAMPLES[-1])))
    notes = (
        "Three slips of the print, read as its tables show them: in example 4 it is AL_3^1, not AL_1^1, that fills in "
        "state 3; in example 5 the arrivals are AL_1^2, AL_3^2, AL_2^3, AL_1^1, AL_3^3, and the entry of U2 and V3 is "
        "(r,2) at t5 and t6.",
    )
    return Findings(rows, panels, claims, notes)


def _as_printed(shown: Shown) -> Claim:
    found = [time for time, table in AS_PRINTED.items() if table in shown.tables]
    return Claim(
        "Example 5: at t5 and t6 the entry of U2 and V3 is (r,0).",
        f"as printed at {', '.join(found) or 'neither'}; here it is (r,2) from t3 until it turns gray",
        len(found) == len(AS_PRINTED),
        "A slip: the table before has (r,2), the one after (g,2), and no line of the algorithm sets a state back. The "
        "claim above reads it so.",
    )


def _in_order(printed: list[str], seen: list[str]) -> bool:
    left = iter(seen)
    return all(any(p == s for s in left) for p in printed)


EXPERIMENT = Experiment(
    name="mvc-examples",
    paper="MVC",
    shows="examples 1-5",
    title="The view update table, painted step by step",
    did="The paper walks through five examples of the merge process, and prints the view update table after its "
    "changes.",
    found="Simple Painting releases rows when all their action lists are there and nothing before them waits; Painting "
    "does so for intertwined updates, which it releases together.",
    here="The same events on the merge process that the engine runs; the paper's tables must appear, in order.",
    run=run,
)
