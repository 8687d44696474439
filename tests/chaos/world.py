"""One world: its databases, its project, its run, and the events of a seed, one after the other.

A *check* lets a change be committed at every table, waits until all of them were taken in, and then holds Headwater to
its word: every view is live and right, or halted with a reason because of something that was done to it. Halted views
are then built anew, by the advice that Headwater gives, and must be right again.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from .business import SQLITE_DDL, VIEWS, definitions, views_over
from .ddl import Alteration
from .deeds import DEEDS, LEAST_PATIENCE
from .files import File
from .grammar import Event
from .judge import Judge, Wrong, difference
from .processes import Answer, Run, headwater
from .reader import Reader, Unreadable
from .server import ChaosServer
from .shop import Shop
from .storm import listen

SILENT_SECONDS = 120.0
REST_SECONDS = 15.0
"""How long a view may be wrong while nothing waits anywhere, before that is its last word."""

ADVICE = re.compile(r"'headwater ((?:setup|apply|resume|rebuild)[^']*)'")
"""The commands in what a halted view says."""
DEFAULT_ADVICE = ("setup", "apply")
ORDER = ("resume", "setup", "rebuild", "apply")
"""Views may advise different things: what concerns one view comes before what concerns all."""

TICKS = {
    "shop": (
        "UPDATE control SET current = current + 1 WHERE id = 2",
        "INSERT INTO receipts VALUES ({n}, 1, 'tick')",
        "INSERT INTO orders (id, customer, sku, qty, status) VALUES ({n}, 1, 'a', 1, 'tick')",
        "INSERT INTO lines SELECT min(id), {n}, 'tick' FROM orders",
        "INSERT INTO events VALUES ({n}, 0, 'tick')",
    ),
    "crm": (
        "INSERT INTO customers (id, name, city, age) VALUES ({n}, 'tick{n}', 'Tick', 1)",
        "INSERT INTO visits VALUES ({n}, 9, 'd{n}')",
    ),
    "stock": ("INSERT INTO products VALUES ('t{n}', 'tick', 1.5)", "INSERT INTO bins VALUES ('t{n}', 'tick')"),
}


class World:
    def __init__(self, folder: Path, name: str, seed: int, events: list[Event]) -> None:
        self.name, self.seed, self.events = name, seed, events
        self.done: list[str] = []
        self.notes: list[str] = []
        self.ticks = 5000
        self.patience = LEAST_PATIENCE
        self.copied: dict[str, Mapping[str, int]] = {}
        """What the copy of the server, or of a file, had committed."""
        self.may_halt: dict[str, str] = {}
        self.altered: list[tuple[float, Alteration]] = []
        """What was lately done to the shape of tables, and when."""
        self.repairs: dict[str, tuple[str, ...]] = {}
        self.runs: list[Run] = []
        self.project, self.folder = folder / "project", folder
        (self.project / "views").mkdir(parents=True)
        folder.chmod(0o755)  # the server may run as another user
        self.server = ChaosServer(folder, {"track_commit_timestamp": "on" if seed % 2 else "off"})
        self.shop = Shop(self.server)
        listen(self.shop)
        self.files = {name: File(name, self.project / f"{name}.db", recursive=seed % 3 == 0) for name in SQLITE_DDL}
        histories = {"shop": self.shop.history, **{n: f.history for n, f in self.files.items()}}
        self.reader = Reader(self.project)
        self.judge = Judge(histories, self.reader)
        (self.project / "views" / "all.sql").write_text(definitions())
        (self.project / "headwater.toml").write_text(
            f'[sources.shop]\nurl = "{self.shop.url}"\n'
            + "".join(f'[sources.{n}]\nurl = "sqlite:///{n}.db"\n' for n in self.files)
            + '[run]\npoll_seconds = 0.15\n[spark]\nmaster = "local[2]"\n'
        )

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for run in self.runs:
            run.end()
        self.reader.__exit__(kind, error, at)
        self.shop.close()
        for file in self.files.values():
            file.close()
        self.server.stop()

    # ------------------------------------------------------------------- play

    def play(self) -> None:
        """All events; raises Wrong, with what led to it."""
        try:
            self.note(self._must(headwater(self.project, "setup"), "setup"))
            self.start()
            for event in self.events:
                self.done.append(str(event))
                if event.kind not in ("pg", "sqlite", "sleep"):
                    self.note(str(event))
                DEEDS[event.kind](self, event)
        except (Wrong, Unreadable) as error:
            raise AssertionError(self._report([*self.judge.findings, str(error)])) from error
        if self.judge.findings:
            raise AssertionError(self._report(self.judge.findings))

    def _report(self, wrong: list[str]) -> str:
        log = self.runs[-1].log() if self.runs else ""
        told = "\n".join(f"{n:4} {line}" for n, line in enumerate(self.done))
        return (
            f"world {self.name}-{self.seed}\n--- events\n{told}\n--- notes\n"
            + "\n".join(self.notes)
            + f"\n--- the run's last words\n{log}\n--- wrong in world {self.name}-{self.seed}\n"
            + "\n".join(wrong)
        )

    def note(self, text: str) -> None:
        self.notes.append(f"[{len(self.done)}] {text}")
        print(self.notes[-1], flush=True)

    def _must(self, answer: Answer, what: str) -> str:
        if answer.code:
            raise Wrong(f"headwater {what} failed ({answer.code}): {answer.err or answer.out}")
        return f"headwater {what}: ok"

    # -------------------------------------------------------------------- run

    @property
    def run(self) -> Run:
        return self.runs[-1]

    def start(self) -> None:
        """Start a run and wait until every view is there."""
        if self.runs:
            self.run.end()
        for attempt in (1, 2):
            self.runs.append(Run(self.project, self.folder / "run.log"))
            began = time.monotonic()
            while self.run.alive and self.run.silent < SILENT_SECONDS:
                if self.run.loops and not self._unreadable():
                    self.patience = max(self.patience, 1.5 * (time.monotonic() - began))
                    self.judge.take_log()
                    self.judge.check_states(self.status())
                    return
                time.sleep(0.5)
            if self.run.alive:
                raise Wrong(f"a run that was started said nothing for {SILENT_SECONDS:.0f} s: {self.run.log(3)}")
            self.note(f"the run would not start: {self.run.log(4)}")
            if attempt == 1:  # what it says is what a person would do
                self.shop.end_open()
                self.note(self._must(headwater(self.project, "setup"), "setup"))
                self.capture_renewed()
        raise Wrong(f"the run does not start, also after 'headwater setup': {self.run.log(6)}")

    def _unreadable(self) -> str:
        try:
            self.reader.rows([(name, None) for name in VIEWS])
        except Unreadable as error:
            return str(error)
        return ""

    def capture_renewed(self) -> None:
        """Labels may begin anew; those of before are all taken in or will never be."""
        self.judge.take_log()
        for file in self.files.values():
            if int(file.label() or 0) < int(file.history.newest.label or 0):
                file.history.new_life(self.judge.numbered, file.read(), "setup", {})

    def stable_log(self) -> int:
        """How far the log goes once nothing more comes from a source that does not answer."""
        last = -1
        for _ in range(40):
            with contextlib.suppress(Unreadable):
                self.judge.take_log()
            if self.judge.numbered == last:
                break
            last = self.judge.numbered
            time.sleep(0.7)
        return self.judge.numbered

    def status(self) -> dict[str, Any]:
        answer = headwater(self.project, "status", "--json")
        if answer.code:
            raise Wrong(f"headwater status failed: {answer.err}")
        found: dict[str, Any] = json.loads(answer.out)
        return found

    # ------------------------------------------------------------------ check

    def check(self) -> None:
        if not self.runs or not self.run.alive:
            self.start()
        self.run.go_on()
        self.tick()
        status = self.settle()
        self.judge.take_log()
        self.judge.check_states(status)
        halted = {v["name"]: v["reason"] for v in status["views"] if v["state"] == "halted"}
        for table in self.shop.truncated:
            self.may_halt |= dict.fromkeys(views_over(f"shop.{table}"), "a truncation in an old snapshot")
        self.shop.truncated.clear()
        advice = {v["name"]: v.get("fix") or v["reason"] for v in status["views"] if v["state"] == "halted"}
        for name, reason in halted.items():
            if not reason:
                raise Wrong(f"{name} is halted and does not say why")
            if name not in self.may_halt:
                raise Wrong(f"{name} is halted though nothing was done to it: {reason}")
            self.note(f"{name} halted: {reason} → {advice[name]}")
        if halted:
            self.mend(advice)
        for name in set(self.may_halt) - set(halted):
            self.note(f"{name} went on after {self.may_halt[name]}")
        self.may_halt.clear()

    def tick(self) -> None:
        """A change at every table."""
        self.ticks += 1
        for text in TICKS["shop"]:
            self.shop.at_once(text.format(n=self.ticks))
        for name in self.files:
            self.tick_file(name)

    def tick_file(self, name: str) -> None:
        self.ticks += 1
        for text in TICKS[name]:
            self.files[name].transaction(text.format(n=self.ticks))

    def settle(self) -> dict[str, Any]:
        """Wait until every view is halted or shows its sources as they are now."""
        end = time.monotonic() + self.patience
        restarts, last, since, unlocked = 0, "", time.monotonic(), False
        while True:
            if not self.run.alive:
                restarts += 1
                if restarts > 2:
                    raise Wrong(f"the run ends again and again: {self.run.log(6)}")
                self.note(f"the run ended by itself: {self.run.log(3)}")
                self.start()
                end = time.monotonic() + self.patience
            behind = self._behind()
            if behind and time.monotonic() < end - 0.8 * self.patience:
                time.sleep(0.3)
                continue
            status = self.status()
            live = [v["name"] for v in status["views"] if v["state"] == "live"]
            late = {name: why for name, why in behind.items() if name in live}
            if not late and len(status["views"]) == len(VIEWS) and not status["run"].get("building"):
                return status
            if any("stayed locked" in (source["reason"] or "") for source in status["sources"]) and not unlocked:
                self.note("Headwater says that an open transaction locks a table: it is ended")
                self.shop.end_open()
                unlocked, end = True, time.monotonic() + self.patience
            now = json.dumps([status["cut"], status["views"], [s["waiting"] for s in status["sources"]]])
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() > end or (self._at_rest(status) and time.monotonic() - since > REST_SECONDS):
                self._stuck(late, status)
            time.sleep(2)

    @staticmethod
    def _at_rest(status: dict[str, Any]) -> bool:
        """Headwater believes that everything was taken in."""
        waiting = [s["waiting"] or s["state"] != "ok" for s in status["sources"]]
        return not any(waiting) and not any(v["waits"] for v in status["views"])

    def _behind(self) -> dict[str, str]:
        """The views that do not show what their sources are now, and how they differ."""
        try:
            shown = self.reader.rows([(name, None) for name in VIEWS])
        except Unreadable as error:
            return dict.fromkeys(VIEWS, str(error))
        wanted = {name: self.judge.now(view) for name, view in VIEWS.items()}
        return {
            name: difference(got, wanted[name]) for name, got in zip(VIEWS, shown, strict=True) if got != wanted[name]
        }

    def _stuck(self, late: dict[str, str], status: dict[str, Any]) -> None:
        """A view is live and not right: say the first wrong state if there is one."""
        self.judge.take_log()
        self.judge.check_states(status)
        name = min(late, default="?")
        about = next((v for v in status["views"] if v["name"] == name), {})
        sources = {s["name"]: (s["state"], s["reason"], s["waiting"]) for s in status["sources"]}
        raise Wrong(
            f"{', '.join(sorted(late))} live and not right when nothing moves any more."
            f" {name}: {late.get(name)}; status says {about}; sources {sources}; run {status['run'].get('building')}"
            + (f"; what was done: {self.may_halt[name]}" if name in self.may_halt else "")
        )

    def mend(self, advice: dict[str, str]) -> None:
        """Follow the advice that halted views give, word by word."""
        for table, statements in self.repairs.items():
            source = table.partition(".")[0]
            for statement in statements:
                _ = self.shop.at_once(statement) if source == "shop" else self.files[source].transaction(statement)
        self.repairs.clear()
        self.shop.end_open()  # capture needs the tables' locks for a moment
        commands = dict.fromkeys(c for said in advice.values() for c in ADVICE.findall(said))
        for command in sorted(commands or DEFAULT_ADVICE, key=lambda c: ORDER.index(c.split()[0])):
            words = command.split()
            self.note(self._must(headwater(self.project, *words, *(["--yes"] if words[0] == "apply" else [])), command))
            if words[0] == "setup":
                self.capture_renewed()
        self.tick()
        status = self.settle()
        still = {v["name"]: v["reason"] for v in status["views"] if v["state"] == "halted"}
        if still:
            raise Wrong(f"{', '.join(commands)} did not bring back {still}")
        self.judge.take_log()
        self.judge.check_states(status)
