"""The strategies that may maintain a view of the engine, by the value of its option `maintenance`."""

from __future__ import annotations

from collections.abc import Callable

from headwater.algebra.view import ViewDefinition
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import AtOnce, CommitOrder, Share, pvm
from headwater.maintenance.strategies.pvm_cc import InOrder, pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import tid_rules

_SHARED = {"pvm": pvm, "pvm-cc": pvm_cc}
_ORDERS: dict[str, Callable[[], CommitOrder]] = {"pvm": AtOnce, "pvm-cc": InOrder}


def strategy_of(view: ViewDefinition) -> Factory:
    """A batch is what one session of the TID rules finds, and interference ends where the batch does: so Nested SWEEP
    needs no other end."""
    known: dict[str, Callable[[], Factory]] = {
        "sweep": lambda: sweep,
        "nested-sweep": nested_sweep,
        "pvm": lambda: pvm(view.parallel),
        "pvm-cc": lambda: pvm_cc(view.parallel),
        "tid": tid_rules,
    }
    return known[view.maintenance]()


def shared_strategy_of(view: ViewDefinition, p: int, share: Share) -> Factory:
    """One of several maintenance managers that divide the updates of a view among them: PVM's, or PVM CC's."""
    return _SHARED[view.maintenance](p, share)


def commit_order_of(view: ViewDefinition) -> CommitOrder:
    """When effects are committed, whoever found them."""
    return _ORDERS[view.maintenance]()


def lanes_of(view: ViewDefinition) -> int:
    """How many questions may be under way at a time: one for each update that is being handled, or for each of the
    TID rules' terms."""
    return len({t.source for t in view.base_tables}) if view.maintenance == "tid" else view.parallel
