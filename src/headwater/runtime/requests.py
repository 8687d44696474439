"""How `headwater apply` speaks to a running `headwater run`: a request is a file in the warehouse, so is its answer.

    requests/ID.json          what views/ should become: {view: fingerprint}, as the person confirmed it
    requests/ID.answer.json   how far it is: planning, building (with its phase), done, failed (with the reason)

The run reads views/ itself and refuses if it finds something else than what was confirmed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from headwater.model.errors import CaptureMissing, HeadwaterError, UsageError
from headwater.model.names import SourceName, ViewName
from headwater.runtime.catalog import SourceCatalog, define_views
from headwater.runtime.config import Config, load_config
from headwater.storage import Storage

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine
    from headwater.runtime.plans import ViewPlan

FOLDER = "requests"
_ANSWER = ".answer.json"
LOOK_SECONDS = 0.5
OLD_SECONDS = 3600.0
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


def ask(storage: Storage, wanted: Mapping[ViewName, str]) -> str:
    """Ask the run to bring its views in line; returns the request's id."""
    identity = f"{int(time.time())}-{uuid.uuid4().hex[:8]}"
    storage.put(f"{FOLDER}/{identity}.json", json.dumps(dict(wanted)).encode())
    return identity


def answer(storage: Storage, identity: str) -> Answer | None:
    """What the run has answered so far; None if it has not seen the request yet."""
    text = storage.get(f"{FOLDER}/{identity}{_ANSWER}")
    return None if text is None else Answer(**json.loads(text))


def forget(storage: Storage, identity: str) -> None:
    for name in (f"{identity}.json", f"{identity}{_ANSWER}"):
        storage.delete(f"{FOLDER}/{name}")


@dataclass(frozen=True)
class _Planned:
    config: Config
    plans: Mapping[ViewName, ViewPlan]
    generations: Mapping[SourceName, str]


class Requests:
    """The run's side: one request at a time, the others wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="headwater-apply")
        self._current = ""
        self._planning: Future[_Planned] | None = None
        self._said = Answer("")
        self._next = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._current)

    def close(self) -> None:
        if self._current:
            self._answer(Answer("failed", "the run was stopped meanwhile", "run 'headwater apply' again"))
        self._threads.shutdown(wait=True, cancel_futures=True)

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

    def ended(self, error: HeadwaterError | None) -> None:
        """The change under way is shown, or could not be made."""
        if self._current:
            self._answer(Answer("done") if error is None else Answer("failed", error.what, error.fix))
            self._current = ""

    def _look(self) -> None:
        storage = self._engine.storage
        for name in sorted(storage.names(FOLDER)):
            identity = name.removesuffix(_ANSWER).removesuffix(".json")
            if int(identity.partition("-")[0]) < time.time() - OLD_SECONDS:
                forget(storage, identity)
            elif not name.endswith(_ANSWER) and answer(storage, identity) is None:
                self._current = identity
                self._answer(Answer("planning"))
                wanted = json.loads(storage.get(f"{FOLDER}/{name}") or b"{}")
                self._planning = self._threads.submit(self._plan, wanted)
                return

    def _plan(self, wanted: Mapping[str, str]) -> _Planned:
        """In the background: what the project says now, checked by Spark."""
        from headwater.runtime.fingerprints import fingerprints
        from headwater.runtime.plans import plan_views
        from headwater.runtime.startup import check_captures

        config = load_config(self._engine.config.folder)
        catalog = SourceCatalog(config)
        try:
            views = define_views(config, catalog)
            tables = {name: catalog.schemas(view) for name, view in views.items()}
            if fingerprints(views, tables) != wanted:
                raise UsageError("the views changed after they were confirmed", "run 'headwater apply' again")
            plans = plan_views(self._engine.spark, views, tables)
            return _Planned(config, plans, check_captures(catalog, plans.values()))
        finally:
            catalog.close()

    def _begin(self) -> None:
        from headwater.runtime.building import Change
        from headwater.runtime.startup import add_pollers

        assert self._planning is not None
        planning, self._planning = self._planning, None
        engine = self._engine
        try:
            planned = planning.result()
            for source, generation in planned.generations.items():
                if engine.generations.get(source, generation) != generation:
                    raise CaptureMissing(
                        f"the capture at {source} was installed anew while 'headwater run' runs",
                        "stop it and start it again: it then loads the views over this source anew",
                    )
        except HeadwaterError as error:
            self.ended(error)
            return
        except Exception as error:  # a defect of ours must not end the run
            self.ended(HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
            return
        build: dict[ViewName, ViewPlan] = {}
        for name, plan in planned.plans.items():
            view = engine.views.get(name)
            same = view is not None and view.live and view.state.fingerprint == plan.fingerprint
            if not same or any(p in build for p in plan.view.parents):
                build[name] = plan
        drop = [n for n in (*engine.views, *engine.others) if n not in planned.plans]
        if not build and not drop:
            self.ended(None)
            return
        engine.config = engine.compute.config = replace(engine.config, sources=planned.config.sources)
        engine.catalog.adopt(engine.config)
        engine.generations |= planned.generations
        sources = {source for plan in build.values() for source in plan.sources}
        for source in sources:
            engine.catalog.refresh(source)
        add_pollers(engine, sources, {})
        engine.watch.add(build.values())
        engine.building.begin(Change(list(build.values()), drop))

    def _answer(self, said: Answer) -> None:
        if said != self._said:
            self._said = said
            self._engine.storage.put(f"{FOLDER}/{self._current}{_ANSWER}", json.dumps(asdict(said)).encode())
