"""An agent: beside a database that nobody can reach, it asks its hub for work and does it.

    start ──▶ work ──▶ perform, with the adapter of its database ──▶ answer ──▶ work …
          └─▶ a sign of life every few seconds: what is being worked on, what waits

It keeps nothing but its ticket. What is to be told waits in the database's own capture; the hub says from which
position on, and what may be forgotten, when it has made durable what it was told (decision 23). So it may be killed,
cut off or put to sleep at any moment, for a second or for a week.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import metadata
from typing import TYPE_CHECKING

from headwater.agent.chains import AgentChains, perform_pin
from headwater.agent.joining import AgentSettings
from headwater.agent.line import HubLine, NotStarted, Twin, Work
from headwater.agent.state import AgentState, Told, read_state, write_state
from headwater.chain.pins import PinBook
from headwater.model.errors import HeadwaterError, SourceRefused, SourceUnavailable
from headwater.model.logged import event
from headwater.model.names import Position, SourceName
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect
from headwater.sources.agent.calls import CHAIN, Call, perform, read_call
from headwater.sources.agent.frames import together

if TYPE_CHECKING:
    from headwater.agent.listening import Listening

log = logging.getLogger(__name__)

WORKERS = 4
"""Calls that are performed at once."""
LIFE_SECONDS = 5.0
COUNT_SECONDS = 30.0
"""So often it is counted how much waits."""
TWIN_SECONDS = 25.0
"""A hub that says that this agent is connected already means one that was killed, unless it says so for longer."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""So long an agent waits before it tries again to reach its hub, at first and at most."""
TWIN_PAUSE = 0.5
CUTS = 2
"""So many signs of life in a row may be cut off before the hub counts as away: a bad line is no hub that is gone. One
that was opened anew says so itself."""

Say = Callable[[str], None]


def check_database(agent: str, url: str) -> None:
    """Can it be reached? Said before anything begins."""
    source = connect(SourceSpec(SourceName(agent), url))
    try:
        source.describe()
    finally:
        source.close()


class Agent:
    """`say` tells a person what happens."""

    def __init__(self, settings: AgentSettings, say: Say = lambda text: None) -> None:
        self._settings, self._say = settings, say
        self._instance = secrets.token_hex(8)
        self._line = HubLine(settings, WORKERS + 4)
        self._stopping = threading.Event()
        self._started = threading.Event()
        self._working_on: dict[int, str] = {}
        self._guard = threading.Lock()
        self._connected: bool | None = None
        self._refused: HeadwaterError | None = None
        self._state = read_state(settings.folder)
        self._told: Told | None = None
        self._counting = Adapters(settings)
        self._pins = PinBook(settings.folder)
        self._adapters = Adapters(settings)
        self._chains = AgentChains(settings.name, self._line, self._pins, self._adapters)
        self._listening = _listening(settings, self._chains)
        self._counted_at = 0.0
        self._waits: int | None = None
        self._near = False
        self._attempts = 0
        self._twin_since: float | None = None

    def run(self) -> None:
        """Until stopped; raises what no trying again can mend."""
        threads = [
            threading.Thread(target=self._work, args=(n,), name=f"work {n}", daemon=True) for n in range(WORKERS)
        ]
        threads.append(threading.Thread(target=self._take_part, name="chains", daemon=True))
        threads.append(threading.Thread(target=self._fetch_letters, name="letters", daemon=True))
        for thread in threads:
            thread.start()
        try:
            self._live()
        finally:
            self._stopping.set()
            if self._listening is not None:
                self._listening.close()
            self._chains.neighbourhood.close()
            if self._started.is_set():
                try:
                    self._line.stop(self._instance, self._about())
                except HeadwaterError as error:
                    log.info("no good-bye: %s", error.what)
            self._line.close()
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        self._stopping.set()

    # ── signs of life ────────────────────────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        pause, failures = FIRST_PAUSE, 0
        while not self._stopping.is_set():
            self._count()
            try:
                if not self._started.is_set():
                    self._start()
                else:
                    with self._guard:
                        working_on = list(self._working_on)
                    self._line.life(self._instance, working_on, self._about())
                self._reached(True)
                pause, failures = FIRST_PAUSE, 0
                self._stopping.wait(LIFE_SECONDS)
                continue
            except NotStarted:
                self._started.clear()
                continue
            except Twin as error:
                self._another(error)
                self._stopping.wait(TWIN_PAUSE)  # the hub is there, and knows better soon
                pause = FIRST_PAUSE
                continue
            except SourceRefused as error:
                self._refuse(error)
            except SourceUnavailable as error:
                failures += 1
                if failures > CUTS:
                    self._started.clear()  # the hub is away: nobody else asks it until it is back
                if not self._started.is_set():
                    self._reached(False, error.what)
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    def _start(self) -> None:
        """Show the ticket, bring the next one; it is written down before anything is done with it."""
        if not self._attempts:
            self._remember(replace(self._state, runs=self._state.runs + 1))
        self._attempts += 1
        following = secrets.token_hex(16)
        self._line.start({
            "instance": self._instance, "number": [self._state.runs, self._attempts], "ticket": self._state.ticket,
            "next": following, "about": self._about(),
            "reach": asdict(self._listening.reach) if self._listening is not None else None,
        })  # fmt: skip
        self._remember(replace(self._state, ticket=following))
        self._twin_since = None
        self._started.set()

    def _another(self, error: Twin) -> None:
        """Whoever was killed is its own twin for a while."""
        now = time.monotonic()
        if self._twin_since is None:
            self._twin_since = now
            self._say(f"{error.what}; if it was killed, this one follows within {TWIN_SECONDS:.0f} s")
        elif now - self._twin_since > TWIN_SECONDS:
            self._refuse(SourceRefused(error.what, error.fix))

    def _remember(self, state: AgentState) -> None:
        self._state = state
        write_state(self._settings.folder, state)

    def _reached(self, reached: bool, why: str = "") -> None:
        if reached != self._connected:
            self._connected = reached
            self._say("connected to the hub" if reached else f"{why}; changes wait in the database until it is back")

    def _count(self) -> None:
        """How much waits, now and then; a person is told before it becomes too much."""
        told = self._told
        if told is not None and told != self._state.told:
            self._remember(replace(self._state, told=told))
        told = self._state.told
        if told is None or (time.monotonic() - self._counted_at < COUNT_SECONDS and self._counted_at):
            return
        self._counted_at = time.monotonic()
        try:
            source = self._counting.of(Call(told.source, told.options, "waiting", (), {}))
            self._waits = source.waiting(Position(told.position))
        except HeadwaterError as error:
            log.info("how much waits cannot be counted: %s", error.what)
            return
        limit, near = self._settings.log_limit, self._waits > self._settings.log_limit * 0.8
        if near and not self._near:
            self._say(
                f"{self._waits:,} changes wait to be told (log_limit is {limit:,}): the database keeps them all until "
                "the hub was reached"
            )
        self._near = near

    def _refuse(self, error: HeadwaterError) -> None:
        self._refused = error
        self._stopping.set()

    def _about(self) -> dict[str, object]:
        about: dict[str, object] = {
            "version": metadata.version("headwater"),
            "database": self._settings.database.partition(":")[0],
        }
        if self._waits is not None:
            about["waits"] = self._waits
        return about

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, worker: int) -> None:
        """One thread: an adapter serves one thread at a time, so each has its own."""
        adapters, pause = Adapters(self._settings), FIRST_PAUSE
        while not self._stopping.is_set():
            if not self._started.wait(0.2):
                continue
            try:
                work = self._line.work(self._instance, worker)
                if work is not None:
                    self._perform(work, adapters)
                pause = FIRST_PAUSE
            except NotStarted:
                self._started.clear()
            except SourceRefused as error:
                self._refuse(error)
            except SourceUnavailable as error:
                log.info("%s", error.what)
                self._stopping.wait(pause)
                pause = min(1.0, pause * 2)
            except Exception:  # a defect of ours, or a driver's: the call is given up, and the next ones are worked on
                log.exception("a defect")
                self._stopping.wait(1.0)
        adapters.close()

    def _perform(self, work: Work, adapters: Adapters) -> None:
        call = read_call(work.body)
        with self._guard:
            self._working_on[work.number] = call.operation
        begun = time.monotonic()
        try:
            answer = perform(call, adapters.of, {CHAIN: lambda: self._pin(call, adapters)})
            self._line.answer(work.number, together(answer))
            if call.operation == "poll":
                self._told = Told(call.source, call.options, call.arguments[0])
        finally:
            with self._guard:
                del self._working_on[work.number]
            seconds = time.monotonic() - begun
            facts = event("call.answered", source=call.source, operation=call.operation, seconds=round(seconds, 6))
            log.debug("%s for %s took %.3f s", call.operation, call.source, seconds, extra=facts)

    # ── chains ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_part(self) -> None:
        """One thread: members of chains answer each other's letters."""
        self._again_and_again(self._chains.turn)
        self._adapters.close()

    def _fetch_letters(self) -> None:
        """One thread: those that wait at the hub."""
        self._again_and_again(self._chains.fetch)

    def _again_and_again(self, step: Callable[[], None]) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            if not self._started.wait(0.2):
                continue
            try:
                step()
                pause = FIRST_PAUSE
            except NotStarted:
                self._started.clear()
            except SourceRefused as error:
                self._refuse(error)
            except SourceUnavailable as error:
                log.info("chains: %s", error.what)
                self._stopping.wait(pause)
                pause = min(1.0, pause * 2)
            except HeadwaterError as error:
                self._say(f"{error.what}; {error.fix}")
                self._stopping.wait(30.0)
            except Exception:  # a defect of ours: without this thread no chain would ever go on
                log.exception("chains: a defect")
                self._stopping.wait(1.0)

    def _pin(self, call: Call, adapters: Adapters) -> object:
        return perform_pin(self._pins, adapters, call.arguments, call.options)


def _listening(settings: AgentSettings, chains: AgentChains) -> Listening | None:
    if not settings.listen:
        return None
    from headwater.agent.listening import Listening  # a web server comes with it

    return Listening(settings, chains.neighbourhood, chains.inbox)


class Adapters:
    """The database, once for each project that asks: they know each other's capture by their owners."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._open: dict[tuple[object, ...], Source] = {}

    def of(self, call: Call) -> Source:
        return self.database(call.source, call.options)

    def database(self, source: str, options: tuple[tuple[str, str], ...]) -> Source:
        key = (source, options)
        if key not in self._open:
            spec = SourceSpec(SourceName(source), self._settings.database, options)
            self._open[key] = connect(spec)
        return self._open[key]

    def close(self) -> None:
        for source in self._open.values():
            source.close()
