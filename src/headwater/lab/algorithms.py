"""The algorithms by the name a person types: where each comes from, what it promises, what it needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.lab.levels import Consistency
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave
from headwater.model.errors import UsageError

Options = Mapping[str, str]


@dataclass(frozen=True)
class Algorithm:
    """`make` takes the options of a script's `strategy` line. `level` is what it promises if `needs` is given."""

    name: str
    title: str
    paper: str
    level: Consistency
    needs: str
    make: Callable[[Options], Factory]


def _number(options: Options, name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or not int(text):
        raise UsageError(f"{name}={text!r} is not a number above zero")
    return int(text)


_FIFO = "channels that keep their order and lose nothing"

ALGORITHMS: Mapping[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm("sweep", "SWEEP", "PVM §2", Consistency.COMPLETE, _FIFO, lambda o: sweep),
        Algorithm(
            "nested-sweep", "Nested SWEEP", "PVM §8", Consistency.STRONG, f"{_FIFO}; interference that ends",
            lambda o: nested_sweep(_number(o, "depth", 0) if "depth" in o else None),
        ),
        Algorithm("pvm", "PVM", "PVM §3", Consistency.CONVERGENCE, _FIFO, lambda o: pvm(_number(o, "p", 4))),
        Algorithm("pvm-cc", "PVM CC", "PVM §4.2", Consistency.COMPLETE, _FIFO, lambda o: pvm_cc(_number(o, "p", 4))),
        Algorithm(
            "wave", "the wave", "ours", Consistency.COMPLETE, "sources that answer as of a position",
            lambda o: wave(p=_number(o, "p", 1)),
        ),
    )
}  # fmt: skip


def explained(name: str) -> str:
    """What an algorithm's file opens with: the idea, the steps, the invariant."""
    module = importlib.import_module(f"headwater.maintenance.strategies.{_MODULES.get(name, name.replace('-', '_'))}")
    return (module.__doc__ or "").strip()


_MODULES = {"wave": "waves"}


def factory(name: str, options: Options) -> Factory:
    """The strategy of that name; raises what a person can use."""
    known: dict[str, Callable[[Options], Factory]] = {n: a.make for n, a in ALGORITHMS.items()}
    if name not in known:
        raise UsageError(f"there is no strategy {name!r}", f"there are: {', '.join(known)}")
    return known[name](options)
