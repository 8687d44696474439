"""How `headwater apply` speaks to a running `headwater run`: a request is a file in the warehouse, so is its answer.

    requests/ID.json          what is wanted: views as views/ has them ({view: fingerprint}, as the person confirmed),
                              some views loaded again, some views resumed
    requests/ID.answer.json   how far it is: planning, building (with its phase), done, failed (with the reason)

The run reads views/ itself and refuses if it finds something else than what was confirmed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import ViewName
from headwater.runtime.change.left_alone import check_left_alone
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config, load_config
from headwater.runtime.project.ownership import owned
from headwater.runtime.reading.resolve import find_view
from headwater.runtime.threads import pool
from headwater.storage import Storage

if TYPE_CHECKING:
    from headwater.runtime.change.building import Change
    from headwater.runtime.engine import Engine
    from headwater.runtime.project.plan import ViewPlan

FOLDER = "requests"
_ANSWER = ".answer.json"
LOOK_SECONDS = 0.5
OLD_SECONDS = 3600.0
HEAL_SECONDS = 2.0
HEAL_SECONDS_AT_MOST = 300.0
"""How long to wait before views that could not be loaded again are tried once more."""
UNSEEN = "waiting for the run"
"""The phase in which leaving withdraws the request; after it, the run goes on with it."""
HERE_AND_NOW = "nothing runs: doing it here"


@dataclass(frozen=True)
class Answer:
    """`state` is "planning", "building", "done" or "failed"; `said` the phase or the reason, `fix` what to do."""

    state: str
    said: str = ""
    fix: str = ""

    @property
    def final(self) -> bool:
        return self.state in ("done", "failed")


def ask(storage: Storage, request: Request) -> str:
    """Ask the run to do something with its views; returns the request's id."""
    identity = f"{int(time.time())}-{uuid.uuid4().hex[:8]}"
    storage.put(f"{FOLDER}/{identity}.json", json.dumps(asdict(request)).encode())
    return identity


def answer(storage: Storage, identity: str) -> Answer | None:
    """What the run has answered so far; None if it has not seen the request yet."""
    text = storage.get(f"{FOLDER}/{identity}{_ANSWER}")
    return None if text is None else Answer(**json.loads(text))


def forget(storage: Storage, identity: str) -> None:
    for name in (f"{identity}.json", f"{identity}{_ANSWER}"):
        storage.delete(f"{FOLDER}/{name}")


@dataclass(frozen=True)
class Request:
    """What a person wants of the run: that its views become those of views/ (`wanted`, as confirmed), or that some
    `views` are loaded again or go on from where they stopped."""

    kind: Literal["apply", "rebuild", "resume"]
    wanted: Mapping[ViewName, str] = field(default_factory=dict)
    views: Sequence[str] = ()


@dataclass(frozen=True)
class _Planned:
    config: Config
    plans: Mapping[ViewName, ViewPlan]
    request: Request
    unresolved: frozenset[ViewName] = frozenset()
    """Views of views/ that mean nothing at present; they are left alone."""


class Requests:
    """The run's side: one request at a time, the others wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.threads = pool("apply", 1)
        self._current = ""
        self._planning: Future[_Planned] | None = None
        self._said = Answer("")
        self._next = 0.0
        self._heal_pause = HEAL_SECONDS
        self._heal_at = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._current)

    def close(self) -> None:
        if self._current:
            self._answer(Answer("failed", "the run was stopped meanwhile", "run 'headwater apply' again"))

    def step(self) -> None:
        if self._planning is not None:
            if self._planning.done():
                self._begin()
        elif self._current:
            change = self._engine.building.change
            if change is not None:
                self._answer(Answer("building", change.phase))
        elif time.monotonic() >= self._next and not self._engine.building.busy:
            self._next = time.monotonic() + LOOK_SECONDS
            self._look()
            if self._engine.config.lost_history == "reload" and not self._current:
                self._heal()

    def _heal(self) -> None:
        """Where the project says so, views that cannot go on are loaded again without being asked for."""
        engine = self._engine
        lost = [n for n, v in engine.views.items() if not v.live and not v.state.resumable]
        if not lost:
            self._heal_pause = HEAL_SECONDS
        elif time.monotonic() >= self._heal_at:
            self._heal_at = time.monotonic() + self._heal_pause
            self._heal_pause = min(2 * self._heal_pause, HEAL_SECONDS_AT_MOST)
            engine.meter.note(f"loading again: {', '.join(lost)}")
            self._planning = self.threads.submit(self._plan, Request("rebuild", views=lost))

    def here(self, request: Request) -> None:
        """Do what is wanted now, for somebody who waits for it in this process."""
        change = self._change(self._plan(request))
        if change is not None:
            self._engine.building.begin(change)

    def ended(self, error: HeadwaterError | None) -> None:
        """The change under way is shown, or could not be made."""
        if self._current:
            self._answer(Answer("done") if error is None else Answer("failed", error.what, error.fix))
            self._current = ""
        elif error is not None:
            self._engine.meter.note(f"not loaded again: {error.what}")

    def _look(self) -> None:
        storage = self._engine.storage
        for name in sorted(storage.names(FOLDER)):
            if not name.endswith(".json"):
                continue  # being written
            identity = name.removesuffix(_ANSWER).removesuffix(".json")
            if int(identity.partition("-")[0]) < time.time() - OLD_SECONDS:
                forget(storage, identity)
            elif not name.endswith(_ANSWER) and answer(storage, identity) is None:
                self._current = identity
                self._answer(Answer("planning"))
                request = Request(**json.loads(storage.get(f"{FOLDER}/{name}") or b"{}"))
                self._planning = self.threads.submit(self._plan, request)
                return

    def _plan(self, request: Request) -> _Planned:
        """In the background: what is to be built, checked by Spark."""
        from headwater.runtime.change.maintained import changed_views, maintained_views, plan_each, views_of_project
        from headwater.runtime.change.startup import check_captures
        from headwater.runtime.project.fingerprints import fingerprints

        engine = self._engine
        if request.kind == "resume":
            return _Planned(engine.config, {}, request)
        config = owned(load_config(engine.config.folder), engine.identity)
        catalog = SourceCatalog(config)
        try:
            if request.kind == "apply":
                defined = views_of_project(config, catalog)
            else:
                defined = maintained_views(engine.storage, engine.cut, catalog)
            tables = {name: catalog.schemas(view) for name, view in defined.views.items()}
            if request.kind == "apply" and fingerprints(defined.views, tables) != request.wanted:
                raise UsageError("the views changed after they were confirmed", "run 'headwater apply' again")
            with engine.living.using() as spark:
                plans, refused = plan_each(spark, defined.views, catalog)
            if request.kind == "rebuild":
                wanted = [find_view(engine.cut, name) for name in request.views]
                for name in wanted:
                    if name in refused or name in defined.errors:
                        raise {**defined.errors, **refused}[name]
                plans = _with_children(plans, wanted)
            elif refused:
                raise next(iter(refused.values()))
            if request.kind == "apply":
                check_left_alone(engine.storage, engine.cut, defined.errors, changed_views(engine.cut, plans, defined))
            check_captures(catalog, plans.values())
            return _Planned(config, plans, request, frozenset(defined.errors))
        finally:
            catalog.close()

    def _begin(self) -> None:
        assert self._planning is not None
        planning, self._planning = self._planning, None
        try:
            change = self._change(planning.result())
        except HeadwaterError as error:
            self.ended(error)
            return
        except Exception as error:  # a defect of ours must not end the run
            self.ended(HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
            return
        if change is None:
            self.ended(None)
        else:
            self._engine.building.begin(change)

    def _change(self, planned: _Planned) -> Change | None:
        from headwater.runtime.change.building import Change
        from headwater.runtime.change.resuming import to_resume

        engine, request = self._engine, planned.request
        if request.kind == "resume":
            return Change([], [], resume=to_resume(engine.views, engine.others, engine.journal, request.views))
        build: dict[ViewName, ViewPlan] = {}
        for name, plan in planned.plans.items():
            view = engine.views.get(name)
            same = view is not None and view.live and view.state.fingerprint == plan.fingerprint
            if request.kind == "rebuild" or not same or any(p in build for p in plan.view.parents):
                build[name] = plan
        kept = planned.unresolved
        gone = [n for n in (*engine.views, *engine.others) if n not in planned.plans and n not in kept]
        drop = gone if request.kind == "apply" else []
        if not build and not drop:
            return None
        engine.config = engine.compute.config = replace(engine.config, sources=planned.config.sources)
        engine.catalog.adopt(engine.config)
        for source in {source for plan in build.values() for source in plan.sources}:
            engine.catalog.refresh(source)
        return Change(list(build.values()), drop)

    def _answer(self, said: Answer) -> None:
        if said != self._said:
            self._said = said
            self._engine.storage.put(f"{FOLDER}/{self._current}{_ANSWER}", json.dumps(asdict(said)).encode())


def _with_children(plans: Mapping[ViewName, ViewPlan], names: Sequence[str]) -> dict[ViewName, ViewPlan]:
    """These views, and every view that reads them."""
    found: dict[ViewName, ViewPlan] = {}
    for name, plan in plans.items():  # parents come first
        if name in names or any(parent in found for parent in plan.view.parents):
            found[name] = plan
    return found
