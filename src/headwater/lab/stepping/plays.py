"""All that can be played: the papers' figures as they are written down, the same four updates under each algorithm, and
MVC's examples of painting.

The four updates are made so that algorithms differ: they are at three sources, overlap while questions are under way,
and one source is slow, so that effects are known in another order than that of the updates.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from headwater.algebra.bag import Bag
from headwater.lab.algorithms import ALGORITHMS, FAULTY, explained
from headwater.lab.algorithms import factory as named_factory
from headwater.lab.experiments.mvc_examples import EXAMPLES, Example
from headwater.lab.histories.figures import figure, figures
from headwater.lab.histories.script import read_script
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.stepping.frames import Play
from headwater.lab.stepping.painting import of_example
from headwater.lab.stepping.recording import judged, of_script, of_simulation
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.pull_push import pull_push
from headwater.maintenance.strategies.pure_push import pure_push
from headwater.model.errors import UnknownName

FOUR_UPDATES: Mapping[str, Mapping[str, str]] = {
    "sweep": {}, "pvm": {"p": "3"}, "pvm-cc": {"p": "3"}, "nested-sweep": {}, "posse": {},
    "tid-rules": {"session": "4"}, "pure-push": {"interval": "3", "window": "3"}, "pull-push": {"window": "3"},
    "wave": {}, "sweep-without-compensation": {},
}  # fmt: skip
"""The algorithms that play the four updates, with their options."""
DELAY = 0.4
"""Of a message."""
_PATIENT: Mapping[str, Factory] = {
    "pure-push": pure_push(3.0, 3.0, ack_after=3 * DELAY),
    "pull-push": pull_push(3.0, ack_after=3 * DELAY),
}
"""Those that send again what is not acknowledged: they wait for longer than an acknowledgement takes."""
_AWAKE = {"tid-rules": 20.0, "pure-push": 18.5, "pull-push": 11.5}
"""Those that wake themselves have no end: so long they are watched."""
_FOUR = "DU1 at S1, then DU2 at S2, DU3 at S3 and DU4 at S1 while questions for DU1 are under way. S3 is slow."


@dataclass(frozen=True)
class Listed:
    """What there is to play: `group` says of what kind."""

    name: str
    title: str
    group: str
    paper: str


def listed() -> list[Listed]:
    """All plays, in the order to look at them."""
    found = [Listed(f"four-{name}", _title(name), "The same four updates", _paper(name)) for name in FOUR_UPDATES]
    found += [Listed(name, _after(title), "Figures of the papers", _before(title)) for name, title in figures().items()]
    found += [
        Listed(f"mvc-example{e.number}", f"Example {e.number}", "Painting, the examples", "MVC") for e in EXAMPLES
    ]
    return found


@lru_cache(64)
def play(name: str) -> Play:
    """All frames of a play, and the checker's verdict. Milliseconds, and the same every time."""
    known = {one.name: one for one in listed()}
    if name not in known:
        raise UnknownName("play", name, known)
    one = known[name]
    if name.startswith("four-"):
        return _four(one, name.removeprefix("four-"))
    if name.startswith("mvc-example"):
        return _painted(one, next(e for e in EXAMPLES if f"mvc-example{e.number}" == name))
    return _figure(one)


def _figure(one: Listed) -> Play:
    script = read_script(figure(one.name))
    frames, played = of_script(script, named_factory(script.strategy, script.options))
    names = {str(label): said for label, said in played.names.items()}
    options = "".join(f", {k} = {v}" for k, v in script.options.items())
    return Play(
        one.name, one.title, one.paper, _title(script.strategy) + options, _idea(script.strategy), _sql(script.world),
        script.comment.strip(), tuple(frames), judged(played.history, names),
    )  # fmt: skip


def _four(one: Listed, algorithm: str) -> Play:
    options = FOUR_UPDATES[algorithm]
    slow = {"S3": Capacity(service=constant(2.4))}
    conditions = Conditions(
        Network(Link(constant(DELAY))), Capacity(service=constant(0.6)), slow, until=_AWAKE.get(algorithm, float("inf"))
    )
    world = four_updates()
    frames, history, named = of_simulation(
        world, _PATIENT.get(algorithm) or named_factory(algorithm, options), conditions
    )
    names = {str(update.label): named(update.label) for update in history.transactions}
    shown = "".join(f", {k} = {v}" for k, v in options.items())
    return Play(
        one.name, one.title, one.paper, _title(algorithm) + shown, _idea(algorithm), _sql(world), _FOUR, tuple(frames),
        judged(history, names),
    )  # fmt: skip


def _painted(one: Listed, example: Example) -> Play:
    kind = "Painting" if example.number > 3 else "Simple Painting"
    module = importlib.import_module(f"headwater.merge.{kind.lower().replace(' ', '_')}")
    idea = (module.__doc__ or "").strip()
    return Play(one.name, one.title, one.paper, kind, idea, about=example.said, frames=tuple(of_example(example)))


def four_updates() -> World:
    tables = {"S1.R": ("A", "B"), "S2.S": ("B", "C"), "S3.T": ("C", "D")}
    rows = {"S1.R": [(1, 1)], "S2.S": [(1, 1)], "S3.T": [(1, 1)]}
    sql = "SELECT R.A, T.D FROM S1.R JOIN S2.S ON R.B = S.B JOIN S3.T ON S.C = T.C"
    world = World.of(tables, {"V": sql}, rows)
    planned = [
        (1.0, "S1", "S1.R", {(2, 1): 1}),
        (1.5, "S2", "S2.S", {(1, 2): 1}),
        (2.2, "S3", "S3.T", {(1, 1): -1, (1, 7): 1}),
        (3.1, "S1", "S1.R", {(1, 1): -1}),
    ]
    return world.having(PlannedUpdate(at, s, {table_name(t): Bag(dict(c))}) for at, s, t, c in planned)


def _title(algorithm: str) -> str:
    if algorithm in ALGORITHMS:
        title = ALGORITHMS[algorithm].title
        return title[0].upper() + title[1:]
    return algorithm.replace("-", " ").replace("sweep", "SWEEP").replace("pvm", "PVM").replace("rpu", "RPU")


def _paper(algorithm: str) -> str:
    return ALGORITHMS[algorithm].paper if algorithm in ALGORITHMS else "with a planted fault"


def _idea(algorithm: str) -> str:
    if algorithm in ALGORITHMS:
        return explained(algorithm)
    assert algorithm in FAULTY
    return explained(algorithm.partition("-without")[0].partition("-out-of")[0])


def _before(title: str) -> str:
    return title.partition(":")[0]


def _after(title: str) -> str:
    said = title.partition(":")[2].strip() or title
    return said[0].upper() + said[1:]


def _sql(world: World) -> str:
    return "; ".join(f"{view.name} = {view.recompute}" for view in world.views)
