"""Agents: what a hub passes on, and what an agent takes while it rests.

    python bench/agents.py [--agents 1,10] [--transactions 100000] [--python /small/venv/bin/python]

`--python` runs the agents: one of an environment with nothing but what an agent needs (`pip install headwater`).

For each number of agents: that many real agent processes, each beside a SQLite file with its share of stored
transactions (one row each), told to one caller per agent through one hub, as `headwater run` polls. Beside it the same
files polled directly. No Spark: what a run does with what it was told is the same for every source.
"""

from __future__ import annotations

import argparse
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from headwater.agent.joining import Invitation, join
from headwater.hub.enrolment import Enrolment
from headwater.hub.serving import open_hub
from headwater.hub.settings import HubSettings
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect
from headwater.sources.agent.line import HUB, SECRET
from headwater.storage import Storage

TABLE = TableName(SourceName("crm"), "t")
COLUMNS = {TABLE: ["id", "v"]}
LIMIT = 20_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--agents", default="1,10")
    arguments.add_argument("--transactions", type=int, default=100_000)
    arguments.add_argument("--python", default=sys.executable)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for agents in map(int, given.agents.split(",")):
            measure(Path(folder) / str(agents), agents, given.transactions // agents, given.python)


def measure(folder: Path, agents: int, each: int, python: str) -> None:
    storage = Storage(str(folder / "warehouse"))
    storage.make_folder()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = HubSettings("127.0.0.1", port, f"http://127.0.0.1:{port}")
    hub, enrolment = open_hub(storage, "bench", settings), Enrolment(storage)
    assert hub is not None
    files = [stored(folder / f"{n}.db", each) for n in range(agents)]
    processes, sources = [], []
    for n, (path, _) in enumerate(files):
        name = f"agent{n}"
        join(folder / name, Invitation(name, settings.address, enrolment.enrol(name)), f"sqlite:///{path}", "")
        command = [python, "-m", "headwater.cli.main", "agent", "run", "-f", str(folder / name)]
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        options = ((HUB, settings.address), (SECRET, enrolment.secret()))
        sources.append(connect(SourceSpec(SourceName("crm"), f"agent://{name}", options)))
    try:
        for source in sources:
            patiently(source)
        spent_before = sum(map(cpu, processes))
        time.sleep(10)
        idle = (sum(map(cpu, processes)) - spent_before) / 10 / agents
        memory = [resident(process) for process in processes]
        trip = round_trip(sources[0])
        through = drained(sources, [begin for _, begin in files], each)
        direct = [connect(SourceSpec(SourceName("crm"), f"sqlite:///{path}")) for path, _ in files]
        beside = drained(direct, [begin for _, begin in files], each)
    finally:
        for process in processes:
            process.kill()
        hub.close()
    total = agents * each
    print(
        f"{agents:4} agents, {total:,} stored changes: {total / through:,.0f} a second through the hub,"
        f" {total / beside:,.0f} directly, ratio {beside / through:.2f};"
        f" a question about nothing {trip * 1000:.1f} ms;"
        f" at rest {max(memory) / 2**20:.0f} MB resident, {idle * 100:.1f} % of a core each",
        flush=True,
    )


def stored(path: Path, transactions: int) -> tuple[Path, Position]:
    """A file with capture and that many transactions since the position."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    source = connect(SourceSpec(SourceName("crm"), f"sqlite:///{path}"))
    source.install([TABLE])
    begin = source.position()
    source.close()
    for n in range(transactions):
        database.execute("INSERT INTO t VALUES (?, ?)", (n, f"value {n}"))
    database.close()
    return path, begin


def patiently(source: Source) -> None:
    for _ in range(600):
        try:
            source.position()
        except Exception:  # it is not there yet
            time.sleep(0.1)
        else:
            return
    raise SystemExit("an agent did not come")


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
