"""The judge bites: a small history, told rightly and in every wrong way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .business import VIEWS, Bag, State
from .history import History
from .judge import Judge
from .reader import Reader, Told


@dataclass
class Shown:
    """A warehouse with one view, as a reader sees it: its log, and its rows at every state."""

    log_lines: list[Told] = field(default_factory=list)
    states: dict[int, Bag] = field(default_factory=dict)

    def log(self, first: int) -> list[Told]:
        return [line for line in self.log_lines if line[0] >= first]

    def kept(self, wanted: Sequence[tuple[str, int | None]]) -> list[Bag | None]:
        return [self.states[max(s for s in self.states if at is None or s <= at)] for _, at in wanted]


def state(*receipts: int) -> State:
    return {
        "control": Counter(), "orders": Counter(), "lines": Counter(), "events": Counter(),
        "receipts": Counter((n, 1, "r") for n in receipts),
    }  # fmt: skip


def judged(history: History, shown: Shown, view: str = "receipts_all") -> list[str]:
    judge = Judge({"shop": history}, cast(Reader, shown))
    judge.take_log()
    newest = max([seq for seq, _, _ in shown.log_lines], default=0)
    status: dict[str, Any] = {"views": [{"name": view, "horizon": 0, "seq": newest}]}
    judge.check_states(status)
    return judge.findings


def history(*labels: str) -> History:
    """Each commit adds the receipt of its number."""
    made = History("shop", state())
    for n in range(1, len(labels) + 1):
        made.commit(labels[n - 1], state(*range(1, n + 1)), f"receipt {n}")
    return made


def rows(*receipts: int) -> Bag:
    return VIEWS["receipts_all"].rows({f"shop.{t}": bag for t, bag in state(*receipts).items()})


def test_commit_order_is_right() -> None:
    shown = Shown([(1, "shop", "70"), (2, "shop", "71")], {0: rows(), 1: rows(1), 2: rows(1, 2)})
    assert judged(history("70", "71"), shown) == []


def test_several_told_as_one_are_right() -> None:
    shown = Shown([(1, "shop", "71+70"), (2, "shop", "72")], {0: rows(), 1: rows(1, 2), 2: rows(1, 2, 3)})
    assert judged(history("70", "71", "72"), shown) == []


def test_another_order_is_found_in_the_log_and_in_the_rows() -> None:
    shown = Shown([(1, "shop", "71"), (2, "shop", "70")], {0: rows(), 1: rows(2), 2: rows(1, 2)})
    found = judged(history("70", "71"), shown)
    assert "order: the log tells transaction 70 of shop at 2, after 71" in found[0]
    assert "receipts_all at 1: missing (1, 1, 'r'), extra nothing" in found[1]


def test_a_lost_transaction_is_found_where_the_next_one_is_told() -> None:
    shown = Shown([(1, "shop", "71")], {0: rows(), 1: rows(2)})
    assert "receipts_all at 1: missing (1, 1, 'r')" in judged(history("70", "71"), shown)[0]


def test_a_load_may_have_begun_anywhere_and_must_have_begun_somewhere() -> None:
    right = Shown([(1, "shop", "72")], {0: rows(1, 2), 1: rows(1, 2, 3)})
    assert judged(history("70", "71", "72"), right) == []
    wrong = Shown([(1, "shop", "72")], {0: rows(2), 1: rows(1, 2, 3)})
    assert "receipts_all at 0" in judged(history("70", "71", "72"), wrong)[0]


def test_the_log_may_not_tell_what_a_crash_took_back() -> None:
    lost = history("70", "71")
    lost.lose(after=1)
    shown = Shown([(1, "shop", "70"), (2, "shop", "71")], {0: rows(), 1: rows(1), 2: rows(1, 2)})
    assert "what never happened" in judged(lost, shown)[0]


def test_after_a_restore_the_same_label_is_another_transaction() -> None:
    made = history("70", "71")
    made.new_life(2, state(1), "restored", {"70": 1})
    made.commit("71", state(1, 9), "another 71")
    told = [(1, "shop", "70"), (2, "shop", "71"), (3, "shop", "71")]
    went_on = Shown(told, {0: rows(), 1: rows(1), 2: rows(1, 2), 3: rows(1, 2, 9)})
    assert "receipts_all at 3: missing nothing, extra (2, 1, 'r')" in judged(made, went_on)[0]


def test_what_a_copy_had_may_be_told_after_the_restore() -> None:
    made = history("70", "71", "72")
    made.new_life(1, state(1, 2), "restored before 72", {"70": 1, "71": 2})
    made.commit("72", state(1, 2, 9), "another 72")
    told = [(1, "shop", "70"), (2, "shop", "71"), (3, "shop", "72")]
    assert judged(made, Shown(told, {0: rows(), 1: rows(1), 2: rows(1, 2), 3: rows(1, 2, 9)})) == []


def storm(*spans: tuple[float, float]) -> History:
    made = history()
    members = [
        (str(70 + n), span, {"receipts": Counter({(n + 1, 1, "r"): 1})}, f"receipt {n + 1}")
        for n, span in enumerate(spans)
    ]
    made.storm(members, state(*range(1, len(spans) + 1)))
    return made


def test_commits_that_overlap_may_be_told_in_any_order() -> None:
    shown = Shown([(1, "shop", "71"), (2, "shop", "70")], {0: rows(), 1: rows(2), 2: rows(1, 2)})
    assert judged(storm((1, 3), (2, 4)), shown) == []


def test_commits_that_do_not_overlap_may_not() -> None:
    shown = Shown([(1, "shop", "71"), (2, "shop", "70")], {0: rows(), 1: rows(2), 2: rows(1, 2)})
    assert "has transaction 71 of shop and lacks 70" in judged(storm((1, 2), (3, 4)), shown)[0]
