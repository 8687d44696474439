"""The published algorithms on the engine, side by side: one history of the chain through each of them.

    python bench/strategies.py                          SQLite and PostgreSQL, near sources and far ones
                                                        (twenty first loads for each: some minutes)
    python bench/strategies.py --rows 2000 --updates 200 --delay 0,20 --sources sqlite --only sweep,pvm,wave

Every algorithm is a project of its own over the same databases: all have loaded the view when the updates are
committed, then each catches up while the others rest. Seconds go from the first poll to the visible cut; questions and
bytes (keys sent and answers received, as Arrow has them) are those of the batches. The level is what the lab's checker
says of the states that the view went through, number by number; it knows nothing of algorithms. A delay is added to
every question, as if the source were so far away. Beside PVM's speed-up over SWEEP stands what the paper expects of its
own experiment (section 7.2, figure 21, left; equation 15 with 60 updates and 4 sources that answer one question at a
time); measured, it was 3.3 at best (right). Databases here answer several questions at a time. All numbers are of one
run: compare them with each other, not with those of another run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

import chain_postgres
import chain_sqlite
import headwater
from chain import RELATIONS, Chain, Transactions
from chain_sql import view_sql
from headwater.cli.recording import recorded
from headwater.lab.checker.verdict import check
from headwater.model.written import Tally
from headwater.runtime.reading.recording import record
from postgres_peer import running_postgres

OUT = Path(__file__).resolve().parent / "out"
WARM = 24
"""Updates before those that count, so that workers and connections are as in a run that has been going."""
BUDGET = 30_000
"""Source states that the checker looks at, at most; what it then does not know is said."""


@dataclass(frozen=True)
class Contestant:
    """`expected` is the speed-up over SWEEP that PVM's figure 21 shows, if it is in it."""

    name: str
    options: str
    expected: float | None = None

    @property
    def key(self) -> str:
        return self.name.split()[0].lower()


def figure_21(p: int) -> float:
    """T_SWEEP / T_PVM = n t / ((n − 1) / k + 1) t with k = min(p, m), n = 60, m = 4 (equations 11 and 15)."""
    updates, sources = 60, 4
    return updates / ((updates - 1) / min(p, sources) + 1)


def contestants() -> list[Contestant]:
    def parallel(name: str, level: str, p: int) -> Contestant:
        value = f"maintenance = '{name}', consistency = '{level}', parallel = {p}"
        return Contestant(f"{name} p={p}", value, figure_21(p) if name == "pvm" else None)

    return [
        Contestant("sweep", "maintenance = 'sweep'"),
        Contestant("nested-sweep", "maintenance = 'nested-sweep', consistency = 'strong'"),
        *(parallel("pvm", "convergent", p) for p in (1, 2, 4, 8)),
        *(parallel("pvm-cc", "complete", p) for p in (4, 8)),
        Contestant("tid", "maintenance = 'tid', consistency = 'strong'"),
        Contestant("wave", "maintenance = 'wave'"),
    ]


@dataclass(frozen=True)
class Databases:
    """Where the four relations are, and how transactions get there."""

    urls: Sequence[str]
    tables: Sequence[str]
    apply: Callable[[Transactions], None]


@contextmanager
def sqlite(chain: Chain) -> Iterator[Databases]:
    folder = OUT / "projects" / f"{os.getpid()}-sqlite"
    data = chain_sqlite.working_copy(chain_sqlite.base_files(chain, OUT / "data"), folder / "data")
    urls = [f"sqlite:///{chain_sqlite.database(data, i)}" for i in range(RELATIONS)]
    try:
        yield Databases(urls, [f"r{i + 1}" for i in range(RELATIONS)], lambda some: chain_sqlite.apply(data, some))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres(chain: Chain) -> Iterator[Databases]:
    with running_postgres() as (connection, url):
        urls = []
        for i in range(RELATIONS):
            connection.execute(f"CREATE DATABASE r{i + 1}")
            urls.append(url.replace("/postgres?", f"/r{i + 1}?"))
            with psycopg.connect(urls[i], autocommit=True) as database:
                chain_postgres.load(database, chain, [i])

        def apply(some: Transactions) -> None:
            for i, one in enumerate(urls):
                with psycopg.connect(one, autocommit=True) as database:
                    chain_postgres.apply(database, some, [i])

        yield Databases(urls, [f"r{i + 1}" for i in range(RELATIONS)], apply)


@dataclass(frozen=True)
class Result:
    seconds: float
    updates: int
    tally: Tally
    level: str
    right: bool


class Project:
    """One contestant's: a warehouse of its own over the same databases."""

    def __init__(self, folder: Path, databases: Databases, who: Contestant, delay: int) -> None:
        (folder / "views").mkdir(parents=True)
        said = f"delay_ms = {delay}\n" if delay else ""
        sources = "".join(f'[sources.s{i + 1}]\nurl = "{url}"\n{said}' for i, url in enumerate(databases.urls))
        (folder / "headwater.toml").write_text(f"{sources}[run]\npoll_seconds = 0.05\n")
        names = [f"s{i + 1}.{table}" for i, table in enumerate(databases.tables)]
        view = f"CREATE MATERIALIZED VIEW v WITH ({who.options}) AS {view_sql(names)};\n"
        (folder / "views" / "v.sql").write_text(view)
        self.warehouse = headwater.open(folder)
        self.warehouse.setup()
        self.warehouse.run(until_caught_up=True)
        self.warehouse.close()  # a server has so many connections, and there are many projects

    def catch_up(self) -> tuple[float, int, Tally]:
        with self.warehouse.engine() as engine:
            engine.start(self.warehouse.plans(), replace=False)
            seq, before, begun = engine.cut.seq, engine.meter.tally, time.perf_counter()
            engine.catch_up()
            seconds, after = time.perf_counter() - begun, engine.meter.tally
            spent = Tally(after.questions - before.questions, bytes=after.bytes - before.bytes)
            return seconds, engine.cut.seq - seq, spent

    def judged(self, updates: int) -> str:
        """The last updates, by the checker."""
        verdict = check(recorded(record(self.warehouse.project, ["v"], updates, inner=True)), budget=BUDGET)
        open_ = f" (undecided: {len(verdict.undecided)} levels above)" if verdict.undecided else ""
        return f"{verdict.level.value}{open_}"


def contest(
    chain: Chain, databases: Databases, delays: Sequence[int], who: Sequence[Contestant], judge: bool
) -> dict[int, dict[str, Result]]:
    found: dict[int, dict[str, Result]] = {delay: {} for delay in delays}
    base = OUT / "projects" / f"{os.getpid()}-strategies"
    shutil.rmtree(base, ignore_errors=True)
    console = Console(stderr=True)
    try:
        projects = {}
        for delay in delays:
            for one in who:
                console.print(f"[dim]loading {one.name}, delay {delay} ms …[/]")
                projects[delay, one] = Project(base / f"{delay}-{one.name.replace(' ', '-')}", databases, one, delay)
        databases.apply(chain.transactions[:WARM])
        for project in projects.values():
            project.catch_up()
            project.warehouse.close()
        databases.apply(chain.transactions[WARM:])
        for (delay, one), project in projects.items():
            console.print(f"[dim]{one.name}, delay {delay} ms …[/]")
            seconds, updates, tally = project.catch_up()
            right = project.warehouse.verify()[0].ok
            level = project.judged(updates) if judge else "not judged"
            project.warehouse.close()
            found[delay][one.name] = Result(seconds, updates, tally, level, right)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return found


def show(title: str, results: dict[str, Result]) -> None:
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(
        ("algorithm", "level reached", "verified", "questions", "KB", "seconds", "updates/s", "× SWEEP", "figure 21")
    ):
        table.add_column(column, justify="right" if i > 2 else "left")
    base = results.get("sweep")
    expected = {one.name: one.expected for one in contestants()}
    for name, r in results.items():
        ratio = f"{base.seconds / r.seconds:.1f}" if base else ""
        right = "yes" if r.right else "NO"
        table.add_row(
            name, r.level, right, f"{r.tally.questions:,}", f"{r.tally.bytes / 1024:,.0f}", f"{r.seconds:.2f}",
            f"{r.updates / r.seconds:,.0f}", ratio, "" if (said := expected[name]) is None else f"{said:.1f}",
        )  # fmt: skip
    Console(width=None if os.isatty(1) else 140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000, help="rows of each relation")
    parser.add_argument("--updates", type=int, default=200, help="transactions, of one row each")
    parser.add_argument("--delay", default="0,20", help="milliseconds added to every question")
    parser.add_argument("--sources", default="sqlite,postgres")
    parser.add_argument(
        "--only", default="", help="some of: sweep,nested-sweep,pvm,pvm-cc,tid,wave; or one p: 'pvm p=8'"
    )
    parser.add_argument("--no-check", action="store_true", help="do not judge the histories")
    options = parser.parse_args()
    chain = Chain(options.rows, options.updates + WARM)
    only = set(filter(None, options.only.split(",")))
    who = [one for one in contestants() if not only or {one.key, one.name} & only]
    delays = [int(delay) for delay in options.delay.split(",")]
    for name in options.sources.split(","):
        with ExitStack() as stack:
            databases = stack.enter_context({"sqlite": sqlite, "postgres": postgres}[name](chain))
            found = contest(chain, databases, delays, who, not options.no_check)
        for delay, results in found.items():
            load = os.getloadavg()[0]
            show(
                f"{name}, {options.rows:,} rows a relation, {options.updates:,} updates, {delay} ms added to a question"
                f" (load of the machine at the end: {load:.1f})",
                results,
            )


if __name__ == "__main__":
    main()
