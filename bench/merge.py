"""How many events a second the merge process handles, and whether it minds how many rows wait.

    python bench/merge.py

100 views, 100,000 transactions that concern 5 of them each. Every action list comes up to `delay` transactions later,
in its manager's order. Simple Painting gets one list per transaction and view, Painting one per 1 to 20 of a view's
transactions. With ten times the delay ten times the rows wait; the cost of an event should stay the same.

Strong managers that never finish at the same moment chain all transactions together (each batch reaches into the next
batches of other views), so that Painting can release nothing before the end, and all rows wait. That is measured, too;
the row to compare with Simple Painting has managers that all come to rest after every 1,000 transactions.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.merge import ActionList, MergeProcess, Painting, SimplePainting, ViewUpdateTable

VIEWS = tuple(f"view{n}" for n in range(100))
TRANSACTIONS = 100_000
RELEVANT = 5
BATCH = 20
DELAYS = (1_000, 10_000)

Event = tuple[int, tuple[str, ...]] | ActionList[None]


@dataclass(frozen=True)
class Case:
    """A kind of managers: how many of their transactions they put into one list, and how often all of them rest."""

    name: str
    painting: Callable[[ViewUpdateTable], MergeProcess]
    batch: int
    rest: int


CASES = (
    Case("simple_painting", SimplePainting, batch=1, rest=1),
    Case("painting", Painting, batch=BATCH, rest=1_000),
    Case("painting_restless", Painting, batch=BATCH, rest=TRANSACTIONS),
)


@dataclass(frozen=True)
class Result:
    events: int
    seconds: float
    most_waiting: int

    @property
    def per_second(self) -> float:
        return self.events / self.seconds


def arrivals(case: Case, delay: int, seed: int = 1) -> list[Event]:
    """RELs at their transaction's time, each action list up to `delay` after the last transaction it covers."""
    chance = random.Random(seed)
    timed: list[tuple[float, Event]] = []
    rows: dict[str, list[int]] = {view: [] for view in VIEWS}
    for i in range(1, TRANSACTIONS + 1):
        relevant = tuple(chance.sample(VIEWS, RELEVANT))
        timed.append((i, (i, relevant)))
        for view in relevant:
            rows[view].append(i)
    for view in VIEWS:
        left, at = 0, 0.0
        for n, row in enumerate(rows[view]):
            left = left or chance.randint(1, case.batch)
            left -= 1
            resting = n + 1 == len(rows[view]) or rows[view][n + 1] // case.rest > row // case.rest
            if left == 0 or resting:
                left = 0
                at = max(at, row + chance.uniform(0, delay))
                timed.append((at, ActionList(view, row, None)))
    timed.sort(key=lambda event: event[0])
    return [event for _, event in timed]


def run(case: Case, delay: int) -> Result:
    events = arrivals(case, delay)
    merge: Any = case.painting(ViewUpdateTable(VIEWS))
    most = released = 0
    gc.collect()
    gc.freeze()  # the events are ours, not the merge process's: do not let it pay for walking over them
    start = time.process_time()  # one thread that never sleeps: what others do on the machine is not our cost
    for event in events:
        done = merge.action_list(event) if isinstance(event, ActionList) else merge.relevance(*event)
        for transaction in done:
            released += len(transaction.rows)
        most = max(most, len(merge.table))
    seconds = time.process_time() - start
    gc.unfreeze()
    assert released == TRANSACTIONS, "everything arrived, so everything is released"
    return Result(len(events), seconds, most)


def measure() -> dict[str, float]:
    """Events a second by case and delay, and how many times dearer an event is with the longest delay."""
    found: dict[str, float] = {}
    for case in CASES:
        results = {delay: run(case, delay) for delay in DELAYS}
        for delay, result in results.items():
            found[f"{case.name}_{delay}_events_per_s"] = round(result.per_second)
            found[f"{case.name}_{delay}_most_waiting"] = result.most_waiting
        short, long = results[DELAYS[0]], results[DELAYS[-1]]
        found[f"{case.name}_cost_ratio"] = round(short.per_second / long.per_second, 2)
    return found


def main() -> None:
    found = measure()
    print(f"{'':20}" + "".join(f"{f'delay {delay:,}':>14}{'(waiting)':>12}" for delay in DELAYS) + f"{'cost':>8}")
    for case in CASES:
        cells = [
            f"{found[f'{case.name}_{delay}_events_per_s']:>12,.0f}/s{found[f'{case.name}_{delay}_most_waiting']:>12,.0f}"
            for delay in DELAYS
        ]
        print(f"{case.name:20}" + "".join(cells) + f"{found[f'{case.name}_cost_ratio']:>7.2f}x")


if __name__ == "__main__":
    main()
