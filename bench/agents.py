"""Agents: what a hub passes on, what an agent takes while it rests, and how long it needs after a time away.

    python bench/agents.py [--agents 1,10,100] [--transactions 100000] [--together 10] [--python /small/venv/bin/python]

For each number of agents: real agents, each beside a SQLite file. They connect, go away, and come back when each file
has its share of stored transactions (one row each); these are told to one caller per agent through one hub, as
`headwater run` polls. Beside it the same files polled directly. Up to 10 agents are a process each, as on machines of
their own; more than that share processes, `--together` of them each (threads, with connections of their own: the way of
a row is the same), because this is one machine. No Spark: what a run does with what it was told is the same for every
source.

`--python` runs the agents that have a process each: one of an environment with nothing but what an agent needs
(`pip install headwater`).

back       from the first process begun to the last agent that has answered
caught up  from then until everything stored was told
"""

from __future__ import annotations

import argparse
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headwater.agent.agent import Agent
from headwater.agent.joining import Invitation, join, read_settings
from headwater.hub.enrolment import Enrolment
from headwater.hub.serving import open_hub
from headwater.hub.settings import HubSettings
from headwater.model.errors import HeadwaterError
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect
from headwater.sources.agent.line import HUB, SECRET
from headwater.storage import Storage

TABLE = TableName(SourceName("crm"), "t")
COLUMNS = {TABLE: ["id", "v"]}
LIMIT = 20_000


ALONE = 10
"""So many agents have a process each."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--agents", default="1,10,100")
    arguments.add_argument("--transactions", type=int, default=100_000)
    arguments.add_argument("--together", type=int, default=10)
    arguments.add_argument("--python", default=sys.executable)
    arguments.add_argument("--be", nargs="*", help="be the agents of these folders")
    given = arguments.parse_args()
    if given.be:
        be(list(map(Path, given.be)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for agents in map(int, given.agents.split(",")):
            together = 1 if agents <= ALONE else given.together
            measure(Path(folder) / str(agents), agents, given.transactions // agents, Processes(together, given.python))


def be(folders: list[Path]) -> None:
    """Agents of one process, until it is ended."""
    agents = [Agent(read_settings(folder)) for folder in folders]
    signal.signal(signal.SIGTERM, lambda number, frame: [agent.stop() for agent in agents])
    threads = [threading.Thread(target=agent.run) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass(frozen=True)
class Processes:
    """How many agents share one, and which Python runs those that have one each."""

    together: int
    python: str


def measure(folder: Path, agents: int, each: int, how: Processes) -> None:
    storage = Storage(str(folder / "warehouse"))
    storage.make_folder()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = HubSettings("127.0.0.1", port, f"http://127.0.0.1:{port}")
    hub, enrolment = open_hub(storage, "bench", settings), Enrolment(storage)
    assert hub is not None
    files = [captured(folder / f"{n}.db") for n in range(agents)]
    folders, sources = [folder / f"agent{n}" for n in range(agents)], []
    for n, (path, _) in enumerate(files):
        name = f"agent{n}"
        join(folders[n], Invitation(name, settings.address, enrolment.enrol(name)), f"sqlite:///{path}")
        options = ((HUB, settings.address), (SECRET, enrolment.secret()))
        sources.append(connect(SourceSpec(SourceName("crm"), f"agent://{name}", options)))
    begins, processes = [begin for _, begin in files], begun(folders, how)
    try:
        patiently(sources)
        ended(processes)
        for path, _ in files:
            stored(path, each)
        started = time.perf_counter()
        processes = begun(folders, how)
        patiently(sources)
        back = time.perf_counter() - started
        through = drained(sources, begins, each)
        direct = [connect(SourceSpec(SourceName("crm"), f"sqlite:///{path}")) for path, _ in files]
        beside = drained(direct, begins, each)
        trip = round_trip(sources[0])
        spent_before = sum(map(cpu, processes))
        time.sleep(10)
        idle = (sum(map(cpu, processes)) - spent_before) / 10 / agents
        memory = [resident(process) for process in processes]
    finally:
        ended(processes)
        hub.close()
    total = agents * each
    print(
        f"{agents:4} agents in {len(processes)} processes, {total:,} stored transactions: back in {back:.1f} s,"
        f" caught up {through:.1f} s later ({total / through:,.0f} a second through the hub, {total / beside:,.0f}"
        f" directly, ratio {beside / through:.2f}); a question about nothing {trip * 1000:.1f} ms; at rest"
        f" {max(memory) / 2**20:.0f} MB resident a process, {sum(memory) / 2**20 / agents:.0f} MB an agent,"
        f" {idle * 100:.2f} % of a core each",
        flush=True,
    )


def begun(folders: list[Path], how: Processes) -> list[subprocess.Popen[bytes]]:
    """Agents as processes."""
    if how.together == 1:
        command = [how.python, "-m", "headwater.cli.main", "agent", "run", "-f"]
        commands = [[*command, str(folder)] for folder in folders]
    else:
        parts = [folders[n : n + how.together] for n in range(0, len(folders), how.together)]
        commands = [[sys.executable, __file__, "--be", *map(str, part)] for part in parts]
    return [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    """They say good-bye: one that was killed is waited for by its hub."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def captured(path: Path) -> tuple[Path, Position]:
    """A file with capture, and where it is."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    database.close()
    source = connect(SourceSpec(SourceName("crm"), f"sqlite:///{path}"))
    source.install([TABLE])
    begin = source.position()
    source.close()
    return path, begin


def stored(path: Path, transactions: int) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    for n in range(transactions):
        database.execute("INSERT INTO t VALUES (?, ?)", (n, f"value {n}"))
    database.close()


def patiently(sources: list[Source]) -> None:
    """Until all have answered."""

    def wait(source: Source) -> None:
        for _ in range(3000):
            try:
                source.position()
            except HeadwaterError:  # it is not there yet
                time.sleep(0.05)
            else:
                return
        raise SystemExit("an agent did not come")

    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(wait, sources))


def drained(sources: list[Source], begins: list[Position], each: int) -> float:
    """Seconds until every source has told everything, each to a caller of its own."""

    def drain(source: Source, at: Position) -> None:
        rows = 0
        while True:
            poll = source.poll(at, COLUMNS, LIMIT)
            rows, at = rows + poll.changes[TABLE].num_rows, poll.end
            if not poll.more:
                break
        assert rows == each, rows

    threads = [threading.Thread(target=drain, args=pair) for pair in zip(sources, begins, strict=True)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def round_trip(source: Source) -> float:
    """Seconds from asking where the source is to knowing it: the median of a hundred."""
    taken = []
    for _ in range(100):
        started = time.perf_counter()
        source.position()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def resident(process: subprocess.Popen[bytes]) -> int:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def cpu(process: subprocess.Popen[bytes]) -> float:
    words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


if __name__ == "__main__":
    main()
