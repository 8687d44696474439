"""The algorithms by the name a person types: where each comes from, what it promises, what it needs.

A script's `strategy` line gives options: `strategy pvm p=2`, `strategy strobe keys=IS1.R1.K,IS2.R2.K`. Strategies with
a planted fault have names, too, so that a figure that shows what goes wrong can be played.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.lab.checker.levels import Consistency
from headwater.lab.simulation.faults import no_compensation, no_negative_counters, no_retained_set, out_of_order
from headwater.lab.worlds.world import table_name
from headwater.maintenance.strategies.c_strobe import c_strobe
from headwater.maintenance.strategies.contract import Factory, Strategy, StrategySetting
from headwater.maintenance.strategies.eca import eca
from headwater.maintenance.strategies.equal_partition import equal_partition
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.posse import Concurrency, posse
from headwater.maintenance.strategies.pull_push import pull_push
from headwater.maintenance.strategies.pure_push import pure_push
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.simple_parallel import simple_parallel
from headwater.maintenance.strategies.strobe import strobe
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import tid_rules
from headwater.maintenance.strategies.waves import wave
from headwater.model.errors import UsageError
from headwater.model.names import TableName

Options = Mapping[str, str]
Make = Callable[[Options], Factory]


@dataclass(frozen=True)
class Algorithm:
    """`make` takes the options of a script's `strategy` line. `level` is what it promises if it has what it `needs`.
    `module` is its file."""

    name: str
    title: str
    paper: str
    level: Consistency
    needs: str
    make: Make
    module: str = ""

    @property
    def file(self) -> str:
        return self.module or self.name.replace("-", "_")


def _number(options: Options, name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or not int(text):
        raise UsageError(f"{name}={text} is not a number above zero")
    return int(text)


def _time(options: Options, name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except ValueError:
        value = 0
    if not value > 0:
        raise UsageError(f"{name}={options.get(name)} is not a time above zero")
    return value


def _keys(options: Options) -> dict[TableName, tuple[str, ...]]:
    found: dict[TableName, tuple[str, ...]] = {}
    for said in filter(None, options.get("keys", "").split(",")):
        table, _, column = said.rpartition(".")
        found[table_name(table)] = (*found.get(table_name(table), ()), column)
    if not found:
        raise UsageError(
            "this algorithm needs the tables' keys",
            "say strategy NAME keys=SOURCE.TABLE.COLUMN,… in the file, or --strategy 'NAME keys=…'",
        )
    return found


def _concurrency(options: Options) -> Concurrency:
    known = {c.name.lower(): c for c in Concurrency}
    said = options.get("concurrency", Concurrency.FULL.name.lower())
    if said not in known:
        raise UsageError(f"concurrency={said}", f"there are: {', '.join(known)}")
    return known[said]


def _by_frequency(options: Options) -> Factory:
    """Equally frequent updates, unless it is told of others."""
    k, text = _number(options, "k", 2), options.get("frequencies", "")
    try:
        said = [float(f) for f in text.split(",") if f]
    except ValueError:
        raise UsageError(f"frequencies={text}: not numbers", "write frequencies=3,1,2") from None

    def factory(setting: StrategySetting) -> Strategy:
        return frequency_partition(k, said or [1.0] * setting.view.n)(setting)

    return factory


FIFO = "channels that keep order and lose nothing"
_COMPLETE, _STRONG = Consistency.COMPLETE, Consistency.STRONG

ALGORITHMS: Mapping[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm("sweep", "SWEEP", "PVM §2", _COMPLETE, FIFO, lambda o: sweep),
        Algorithm(
            "nested-sweep", "Nested SWEEP", "PVM §8", _STRONG, f"{FIFO}; an end of interference, or the option depth=",
            lambda o: nested_sweep(_number(o, "depth", 1) if "depth" in o else None),
        ),
        Algorithm("pvm", "PVM", "PVM §3", Consistency.CONVERGENCE, FIFO, lambda o: pvm(_number(o, "p", 4))),
        Algorithm("pvm-cc", "PVM CC", "PVM §4.2", _COMPLETE, FIFO, lambda o: pvm_cc(_number(o, "p", 4))),
        Algorithm("eca", "ECA", "PVM §8", _STRONG, f"{FIFO}; one source; moments without updates", lambda o: eca),
        Algorithm(
            "strobe", "Strobe", "PVM §8", _STRONG, f"{FIFO}; keys in the view; moments without updates",
            lambda o: strobe(_keys(o)),
        ),
        Algorithm(
            "c-strobe", "C-Strobe", "PVM §8", _COMPLETE, f"{FIFO}; keys in the view", lambda o: c_strobe(_keys(o))
        ),
        Algorithm("posse", "POSSE", "PVM §8", _COMPLETE, FIFO, lambda o: posse(_concurrency(o))),
        Algorithm(
            "tid-rules", "the TID rules", "TID §5", _STRONG, "delta tables with transaction ids",
            lambda o: tid_rules(_time(o, "session", 1.0)),
        ),
        Algorithm(
            "simple-parallel", "simple parallel", "Cluster §3", _COMPLETE, FIFO,
            lambda o: simple_parallel(_number(o, "k", 2)),
        ),
        Algorithm(
            "equal-partition", "equal partition", "Cluster §4", _COMPLETE, FIFO,
            lambda o: equal_partition(_number(o, "k", 2)),
        ),
        Algorithm("frequency-partition", "frequency partition", "Cluster §5", _COMPLETE, FIFO, _by_frequency),
        Algorithm(
            "pure-push", "Pure-Push", "Pull-Push §3", _STRONG, "synchronised clocks, time tags at the sources",
            lambda o: pure_push(_time(o, "interval", 1.0), _time(o, "window", 1.0)),
        ),
        Algorithm(
            "pull-push", "Interleaved Pull-Push", "Pull-Push §4", _STRONG,
            "synchronised clocks, time tags at the sources", lambda o: pull_push(_time(o, "window", 1.0)),
        ),
        Algorithm(
            "wave", "the wave", "ours", _COMPLETE, "sources that answer as of a position",
            lambda o: wave(p=_number(o, "p", 1)), "waves",
        ),
    )
}  # fmt: skip
"""Each for one view. For several at once there are the naive cluster algorithm, which is SWEEP once per view
(`cluster_naive`), and the simple parallel one (`simple_parallel_views`)."""

FAULTY: Mapping[str, Make] = {
    "sweep-without-compensation": lambda o: no_compensation,
    "sweep-out-of-order": lambda o: out_of_order(sweep, 2),
    "pvm-without-rpu": lambda o: no_retained_set(_number(o, "p", 4)),
    "pvm-without-negative-counts": lambda o: no_negative_counters(pvm(_number(o, "p", 4))),
}


TAKES: Mapping[str, tuple[str, ...]] = {
    "nested-sweep": ("depth",), "pvm": ("p",), "pvm-cc": ("p",), "strobe": ("keys",), "c-strobe": ("keys",),
    "posse": ("concurrency",), "tid-rules": ("session",), "simple-parallel": ("k",), "equal-partition": ("k",),
    "frequency-partition": ("k", "frequencies"), "pure-push": ("interval", "window"), "pull-push": ("window",),
    "wave": ("p",), "pvm-without-rpu": ("p",), "pvm-without-negative-counts": ("p",),
}  # fmt: skip
"""The options that each knows; those that are not here know none."""


def explained(name: str) -> str:
    """What an algorithm's file opens with: the idea, the steps, the invariant."""
    module = importlib.import_module(f"headwater.maintenance.strategies.{ALGORITHMS[name].file}")
    return (module.__doc__ or "").strip()


def factory(name: str, options: Options) -> Factory:
    """The strategy of that name; raises what a person can use."""
    known: dict[str, Make] = {**{n: a.make for n, a in ALGORITHMS.items()}, **FAULTY}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no strategy {name!r}", f"{meant}there are: {', '.join(known)}")
    for option in options:
        if option not in TAKES.get(name, ()):
            takes = ", ".join(f"{o}=" for o in TAKES.get(name, ())) or "none"
            raise UsageError(f"strategy {name} has no option {option!r}", f"its options: {takes}")
    return known[name](options)
