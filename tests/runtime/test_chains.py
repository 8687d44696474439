"""Views along chains of agents, on the engine: Interleaved Pull-Push and Pure-Push, real databases, a real hub."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from agents.bad_line import BadLine
from agents.hub_here import running
from headwater.agent.joining import Invitation, join
from headwater.hub.chain_records import ChainRecords
from headwater.hub.enrolment import Enrolment
from headwater.model.errors import HeadwaterError
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TABLES = {
    "till": "sales (id INTEGER PRIMARY KEY, item INT, qty INT, note TEXT)",
    "store": "items (id INTEGER PRIMARY KEY, kind INT, title TEXT)",
    "office": "kinds (id INTEGER PRIMARY KEY, tax INT, name TEXT)",
}
JOIN = "till.sales s JOIN store.items i ON i.id = s.item JOIN office.kinds k ON k.id = i.kind"
VIEWS = f"""
CREATE MATERIALIZED VIEW sold WITH (consistency = 'strong', maintenance = 'HOW', window = '200 ms') AS
SELECT s.id, i.title, k.name, s.qty * (100 + k.tax) AS due FROM {JOIN} WHERE s.qty > 0 AND s.qty + k.tax < 900;
"""
GROUPED = f"""
CREATE MATERIALIZED VIEW per_kind WITH (consistency = 'strong', maintenance = 'HOW', window = '200 ms') AS
SELECT k.name, COUNT(*) AS n, SUM(s.qty) AS qty FROM {JOIN} GROUP BY k.name HAVING COUNT(*) > 1;
"""


SEED = int(os.environ.get("SEED", "0"))
"""Of what the soaks below do at random: SEED=7 pytest -m soak tests/runtime/test_chains.py"""


class Fleet:
    """Three machines, each with a database and an agent; `direct`: that its neighbours reach, over a line each."""

    def __init__(
        self,
        folder: Path,
        how: str,
        views: str = VIEWS,
        line: Callable[[int], int] = lambda port: port,
        direct: bool = False,
    ) -> None:
        self.folder, self.machines = folder / "p", {name: folder / name for name in TABLES}
        (self.folder / "views").mkdir(parents=True)
        (self.folder / "views" / "all.sql").write_text(views.replace("HOW", how))
        self.port = free_port()
        sections = [f'[sources.{name}]\nurl = "agent://{name}-1"\nquestions = "chain"\n' for name in TABLES]
        (self.folder / "headwater.toml").write_text(
            f'{"".join(sections)}[hub]\nlisten = "127.0.0.1:{self.port}"\n[run]\npoll_seconds = 0.05\n'
        )
        enrolment = Enrolment(self.open().storage)
        for name, machine in self.machines.items():
            machine.mkdir()
            self.write(name, "PRAGMA journal_mode = WAL", f"CREATE TABLE {TABLES[name]}")
            token = enrolment.enrol(f"{name}-1")
            address = f"http://127.0.0.1:{line(self.port)}"
            more = {}
            if direct:
                own = free_port()
                more = {"listen": f"127.0.0.1:{own}", "address": f"http://127.0.0.1:{line(own)}"}
            join(machine, Invitation(f"{name}-1", address, token), "sqlite:///own.db", more)
        self.write("till", *(f"INSERT INTO sales VALUES ({n}, {n % 7}, {n % 5}, 'x')" for n in range(40)))
        self.write("store", *(f"INSERT INTO items VALUES ({n}, {n % 3}, 'item {n}')" for n in range(6)))
        self.write("office", *(f"INSERT INTO kinds VALUES ({n}, {n * 10}, 'kind {n}')" for n in range(3)))

    def open(self) -> headwater.Warehouse:
        return headwater.open(self.folder)

    def write(self, machine: str, *statements: str) -> None:
        with Sqlite(self.machines[machine] / "own.db") as db:
            for statement in statements:
                db.execute(statement)

    def read(self, machine: str, select: str) -> list[tuple[Any, ...]]:
        with Sqlite(self.machines[machine] / "own.db") as db:
            return db.execute(select)

    @contextlib.contextmanager
    def agents(self, *names: str) -> Iterator[None]:
        with contextlib.ExitStack() as all_of_them:
            for name in names or TABLES:
                all_of_them.enter_context(running(self.machines[name], wait=False))
            yield

    def wanted(self) -> dict[str, Counter[tuple[Any, ...]]]:
        items = {i: (kind, title) for i, kind, title in self.read("store", "SELECT id, kind, title FROM items")}
        kinds = {k: (tax, name) for k, tax, name in self.read("office", "SELECT id, tax, name FROM kinds")}
        joined = [
            (s, qty, items[item][1], *kinds[items[item][0]])
            for s, item, qty in self.read("till", "SELECT id, item, qty FROM sales")
            if item in items and items[item][0] in kinds
        ]
        sold = Counter((s, t, n, q * (100 + tax)) for s, q, t, tax, n in joined if q > 0 and q + tax < 900)
        groups: dict[str, list[int]] = {}
        for _, qty, _, _, name in joined:
            groups.setdefault(name, []).append(qty)
        per_kind = Counter((name, len(qs), sum(qs)) for name, qs in groups.items() if len(qs) > 1)
        return {"sold": sold, "per_kind": per_kind}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def shown(warehouse: headwater.Warehouse, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view).to_pylist())


@pytest.mark.parametrize("how", ["pull-push", "pure-push"])
def test_a_view_along_a_chain(tmp_path: Path, spark: SparkSession, how: str) -> None:
    fleet = Fleet(tmp_path, how)
    warehouse = fleet.open()
    with fleet.agents():
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
        fleet.write("till", "INSERT INTO sales VALUES (100, 1, 4, 'y')", "UPDATE sales SET qty = 9 WHERE id = 8")
        fleet.write("store", "UPDATE items SET kind = 2 WHERE id = 1", "DELETE FROM items WHERE id = 4")
        fleet.write("office", "UPDATE kinds SET tax = 7, name = 'other' WHERE id = 2")
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
        record = ChainRecords(warehouse.storage).last("chain_sold")
        assert record is not None
        if how == "pull-push":
            assert record.messages == 6, "2n, as the paper has it"
        assert all(found.ok for found in warehouse.verify())
    warehouse.project.close()


def test_neighbours_write_to_each_other_and_through_the_hub_when_their_line_is_cut(
    tmp_path: Path, spark: SparkSession
) -> None:
    lines: list[BadLine] = []

    def between(port: int) -> int:
        lines.append(BadLine(port, len(lines)))
        return int(lines[-1].port)

    fleet = Fleet(tmp_path, "pull-push", direct=True, line=between)
    warehouse = fleet.open()
    records = ChainRecords(warehouse.storage)

    def took() -> tuple[int, int]:
        """Messages of the last window, and those of them that the hub did not carry."""
        time.sleep(2)  # agents say afterwards what went directly
        record = records.last("chain_sold")
        assert record is not None
        return record.messages, record.messages_direct

    def changed(n: int) -> None:
        fleet.write("till", f"INSERT INTO sales VALUES ({n}, 1, 4, 'y')", "UPDATE sales SET qty = 9 WHERE id = 8")
        fleet.write("store", f"UPDATE items SET kind = 2, title = 't{n}' WHERE id = 1")
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]

    with fleet.agents():
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        changed(100)
        assert took() == (6, 4), "2n, of which two are for the warehouse, which is where the hub is"
        for line in lines[1::2]:  # those between agents; the others lead to the hub
            line.close()
        changed(101)
        assert took() == (6, 0), "all through the hub"
        assert all(found.ok for found in warehouse.verify())
    for line in lines:
        line.close()
    warehouse.project.close()


def test_a_member_that_is_away_holds_up_its_chain_and_nothing_is_lost(tmp_path: Path, spark: SparkSession) -> None:
    fleet = Fleet(tmp_path, "pull-push", GROUPED)
    warehouse = fleet.open()
    with fleet.agents():
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "per_kind") == fleet.wanted()["per_kind"]
    before = fleet.wanted()["per_kind"]
    fleet.write("till", "INSERT INTO sales VALUES (200, 1, 4, 'y')", "DELETE FROM sales WHERE id = 3")
    fleet.write("office", "UPDATE kinds SET name = 'kind 0' WHERE id = 2")
    with fleet.agents("till", "office"):
        warehouse.run(until_caught_up=True, without=["store"])
        assert shown(warehouse, "per_kind") == before
    fleet.write("store", "UPDATE items SET kind = 0 WHERE id = 5")
    with fleet.agents():
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "per_kind") == fleet.wanted()["per_kind"] != before
        assert all(found.ok for found in warehouse.verify())
        (chain,) = [source for source in warehouse.status().sources if source.chain is not None]
        assert chain.state == "ok"
        warehouse.release()
        assert [path.name for path in (fleet.machines["till"] / "chains").iterdir()] == ["chain_per_kind"]
        warehouse.teardown()
        assert not list((fleet.machines["till"] / "chains").iterdir())
    warehouse.project.close()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("how", "direct"), [("pull-push", False), ("pure-push", False), ("pull-push", True)])
def test_members_are_killed_over_bad_lines_at_any_moment(
    tmp_path: Path, spark: SparkSession, how: str, direct: bool
) -> None:
    """Agents are processes, killed (-9) again and again, over lines that cut messages in the middle; the warehouse is
    stopped and started. Whatever was shown is a state of the sources at the pins of its window."""
    lines: list[BadLine] = []

    def bad(port: int) -> int:
        lines.append(BadLine(port, 100 * SEED + len(lines)))
        return int(lines[-1].port)

    fleet = Fleet(tmp_path, how, line=bad, direct=direct)
    warehouse, chance, stop = fleet.open(), Random(5 + SEED), threading.Event()

    def live(name: str) -> None:
        own, told = Random(f"{name} {SEED}"), tmp_path / f"{name}.told"
        while not stop.is_set():
            command = [sys.executable, "-m", "headwater.cli.main", "agent", "run", "-f", str(fleet.machines[name])]
            with told.open("w") as file:
                agent = subprocess.Popen(command, stderr=file, stdout=file)
            begun = time.monotonic()  # how long it takes to begin is this machine's, and not what is tested
            while "connected to the hub" not in told.read_text() and time.monotonic() - begun < 60:
                if stop.wait(0.2):
                    break
            connected[name] = True
            stop.wait(10 + 20 * own.random() + 2 * (time.monotonic() - begun) if lines[0].bad else 3600)
            agent.send_signal(signal.SIGKILL)
            agent.wait()

    connected: dict[str, bool] = {}

    def all_live() -> list[threading.Thread]:
        """Returns when all are there."""
        stop.clear()
        connected.clear()
        threads = [threading.Thread(target=live, args=(name,)) for name in TABLES]
        for thread in threads:
            thread.start()
        while len(connected) < len(TABLES):
            time.sleep(0.1)
        return threads

    def all_die(threads: list[threading.Thread]) -> None:
        stop.set()
        for thread in threads:
            thread.join()

    warehouse.project.open_hub()
    agents = all_live()
    try:
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        all_die(agents)
        for one in lines:
            one.bad = True
        agents = all_live()
        for _ in range(2):
            with warehouse.engine() as engine:
                warehouse._start(engine, apply=False)
                begun, number = time.monotonic(), chance.randrange(10**6, 10**9)
                before = warehouse.cut().seq
                while (spent := time.monotonic() - begun) < 90 or (spent < 240 and warehouse.cut().seq < before + 2):
                    for _ in range(chance.randrange(3)):
                        number += 1
                        fleet.write("till", f"INSERT INTO sales VALUES ({number}, {number % 7}, {number % 5}, 'y')")
                        item = chance.randrange(6)
                        fleet.write("store", f"UPDATE items SET kind = {chance.randrange(3)} WHERE id = {item}")
                        fleet.write("office", f"UPDATE kinds SET tax = {chance.randrange(90)} WHERE id = {item % 3}")
                    for _ in range(5):
                        engine.step()
        all_die(agents)
        for one in lines:
            one.bad = False
        agents = all_live()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
        last = warehouse.cut().seq
        assert last > 3, "windows went through"
        assert all(found.ok for at in (None, last // 2) for found in warehouse.verify(at=at))
        assert sum(one.cuts for one in lines) > 3
    finally:
        all_die(agents)
        for one in lines:
            one.close()
        warehouse.project.close()


REFUSED = {
    "consistency = 'strong', maintenance = 'pull-push', window = 'soon'": "no span of time",
    "maintenance = 'pull-push'": "this view promises to be complete",
    "consistency = 'strong', window = '5 s'": "asks sources by itself",
    "consistency = 'strong'": 'says questions = "chain"',
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_no_chain_can_keep_is_refused(tmp_path: Path, options: str) -> None:
    view = f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT s.id FROM {JOIN};"
    fleet = Fleet(tmp_path, "", view)
    with fleet.agents(), pytest.raises(HeadwaterError, match=REFUSED[options]):
        fleet.open().project.views()


def test_only_neighbours_are_joined(tmp_path: Path) -> None:
    join = "store.items i JOIN till.sales s ON i.id = s.item JOIN office.kinds k ON k.id = i.kind"
    options = "consistency = 'strong', maintenance = 'pull-push'"
    fleet = Fleet(tmp_path, "", f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT s.id FROM {join};")
    with fleet.agents(), pytest.raises(HeadwaterError, match="side by side"):
        fleet.open().project.views()
