"""headwater lab, as typed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from cli.conftest import Headwater
from headwater.cli import lab_live
from headwater.lab.experiments import all_experiments
from headwater.lab.histories.figures import figure, figures
from postgres_server import PostgresServer


def test_list_names_everything(headwater: Headwater) -> None:
    result = headwater("lab", "list")
    assert result.exit_code == 0
    for name in (*all_experiments(), *figures(), "sweep", "pull-push", "wave"):
        assert name in result.stdout


def test_run_writes_data_plots_and_claims(headwater: Headwater, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for out in (first, second):
        result = headwater("lab", "run", "pvm-fig6-7", "--out", out, "--seed", 7)
        assert result.exit_code == 0, result.output
        assert "2/2" in result.stdout
        assert "claims hold" in result.stderr
    files = ["claims.md", "data.csv", "plot.png", "plot.svg"]
    assert sorted(p.name for p in (first / "pvm-fig6-7").iterdir()) == files
    for name in files:
        assert (first / "pvm-fig6-7" / name).read_bytes() == (second / "pvm-fig6-7" / name).read_bytes()
    assert (first / "pvm-fig6-7" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (first / "pvm-fig6-7" / "plot.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "pvm-fig99"), "there are: c-strobe-messages"),
        (("explain", "nothing"), "sweep, nested-sweep"),
        (("check", "nothing.history"), "figures are: eca-example2"),
        (("check", "pvm-fig7", "--strategy", "swep"), "there are: sweep"),
        (("check", "pvm-fig7", "--strategy", "pvm q=2"), "its options: p="),
        (("explain", "swep"), "did you mean sweep?"),
        (("check", "."), "is a folder"),
        (("check", "pvm-fig7", "--at-least", "perfect"), "there are: none, convergence, weak"),
        (("run", "pvm-fig6-7", "--seed", "x"), "not a valid int"),
        (("run", "pvm-fig6-7", "--seed", "-1"), "not in the range x>=0"),
    ],
)
def test_a_wrong_name_lists_what_exists(headwater: Headwater, arguments: tuple[str, ...], said: str) -> None:
    result = headwater("lab", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_out_must_be_a_folder(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = headwater("lab", "run", "pvm-fig6-7", "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is not a folder" in result.output


def test_a_file_that_cannot_be_written_is_no_bug_of_ours(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = headwater("lab", "run", "pvm-fig6-7", "--out", tmp_path / "file" / "x")
    assert result.exit_code == 1
    assert "not a directory" in result.output
    assert "bug" not in result.output


def test_explain(headwater: Headwater) -> None:
    assert "The paper did" in headwater("lab", "explain", "pvm-fig22").stdout
    assert "local compensation" in headwater("lab", "explain", "sweep").stdout
    assert "IS1 answers DU1" in headwater("lab", "explain", "histories").stdout
    assert "strong consistency" in headwater("lab", "explain", "levels").stdout
    assert "IS1 commits DU1" in headwater("lab", "explain", "pvm-fig6").stdout
    assert "local compensation" in headwater("lab", "explain", "SWEEP").stdout


def test_check_a_figure(headwater: Headwater) -> None:
    result = headwater("lab", "check", "pvm-fig7")
    assert result.exit_code == 0, result.output
    assert "convergence (not weakly consistent): state 1" in result.stdout
    assert headwater("lab", "check", figure("pvm-fig7"), "--at-least", "convergence").exit_code == 0
    refused = headwater("lab", "check", "pvm-fig7", "--at-least", "strong")
    assert refused.exit_code == 1
    assert "does not have strong consistency" in refused.output


def test_check_with_another_strategy(headwater: Headwater) -> None:
    result = headwater("lab", "check", "pvm-fig6", "--strategy", "pvm")
    assert result.exit_code == 0
    assert "differs from the file's own strategy" in result.stderr


def test_a_history_that_is_not_what_its_file_says(headwater: Headwater, tmp_path: Path) -> None:
    path = tmp_path / "wrong.history"
    text = figure("pvm-fig7").read_text(encoding="utf-8").replace("expect convergence", "expect complete")
    path.write_text(text, encoding="utf-8")
    result = headwater("lab", "check", path)
    assert result.exit_code == 1
    assert "expected exactly complete consistency, it is convergence" in " ".join(result.output.split())


# live: a published algorithm on a project's real sources


ORDERS = """CREATE MATERIALIZED VIEW open_orders AS
SELECT o.id, o.item, c.name FROM shop.orders o JOIN crm.customers c ON o.customer = c.id WHERE o.open = 1;
CREATE MATERIALIZED VIEW per_customer AS SELECT customer, count(*) AS n FROM shop.orders GROUP BY customer;
CREATE MATERIALIZED VIEW named AS SELECT name FROM open_orders;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Two SQLite files, and three views."""
    folder = tmp_path / "shop"
    (folder / "views").mkdir(parents=True)
    (folder / "views" / "orders.sql").write_text(ORDERS, encoding="utf-8")
    (folder / "headwater.toml").write_text(
        '[sources.shop]\nurl = "sqlite:///shop.db"\n[sources.crm]\nurl = "sqlite:///crm.db"\n', encoding="utf-8"
    )
    commit(folder, "shop", "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, open INTEGER)")
    commit(folder, "crm", "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    for k in range(1, 4):
        commit(folder, "crm", f"INSERT INTO customers VALUES ({k}, 'customer {k}')")
        commit(folder, "shop", f"INSERT INTO orders VALUES ({k}, {k}, 'item {k}', 1)")
    return folder


def commit(folder: Path, source: str, sql: str) -> None:
    with closing(sqlite3.connect(folder / f"{source}.db", timeout=30)) as connection, connection:
        connection.execute(sql)


WRITER = """
import sqlite3, sys, time
folder, transactions = sys.argv[1], int(sys.argv[2])
shop, crm = (sqlite3.connect(f"{folder}/{name}.db", timeout=30, isolation_level=None) for name in ("shop", "crm"))
for n in range(transactions):
    time.sleep(0.05)
    if n % 3 == 0:
        shop.execute(f"INSERT INTO orders VALUES ({100 + n}, {1 + n % 4}, 'more', 1)")
    elif n % 3 == 1:
        crm.execute(f"UPDATE customers SET name = 'new {n}' WHERE id = {1 + n % 3}")
    else:
        shop.execute(f"UPDATE orders SET open = 0 WHERE id = {98 + n}")
"""


def write_meanwhile(folder: Path, transactions: int) -> subprocess.Popen[bytes]:
    """Somebody else, in a process of their own: orders come and are closed, customers change their names."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(transactions)])


@pytest.mark.parametrize("strategy", ["sweep", "pvm p=2", "tid-rules session=0.2", "wave"])
def test_live_follows_real_sources_and_judges(headwater: Headwater, shop: Path, tmp_path: Path, strategy: str) -> None:
    assert headwater("setup", "--project", shop).exit_code == 0
    history = tmp_path / "run.jsonl"
    arguments = ("--strategy", strategy, "--transactions", 8, "--seconds", 60, "--out", history)
    with write_meanwhile(shop, 400) as writer:
        result = headwater("lab", "live", shop, "open_orders", *arguments)
        writer.terminate()
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "and kept it here" in told
    assert int(told.split("transactions at the sources ")[1].split()[0]) >= 8
    assert int(told.split("questions to sources ")[1].split()[0]) > 0
    checked = headwater("lab", "check", history, "--at-least", "strong" if "tid" in strategy else "convergence")
    assert checked.exit_code == 0, checked.output
    assert not (shop / "warehouse" / "views").exists(), "nothing is written to the project"


def test_live_ends_at_ctrl_c_with_a_verdict(headwater: Headwater, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)  # a test run in the background ignores it
    headwater("setup", "--project", shop)
    rests = count()

    def sleep(seconds: float) -> None:
        """Somebody writes, and presses Ctrl-C a little later."""
        rest = next(rests)
        if rest == 1:
            assert write_meanwhile(shop, 6).wait() == 0
        elif rest == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(lab_live, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    result = headwater("lab", "live", shop, "open_orders", "--seconds", 600)
    assert result.exit_code == 0, result.output
    assert "verdict: complete consistency" in result.stdout
    assert "kept it here" in result.stdout
    assert signal.getsignal(signal.SIGINT) is before


def test_live_says_when_nothing_was_at_stake(headwater: Headwater, shop: Path) -> None:
    headwater("setup", "--project", shop)
    result = headwater("lab", "live", shop, "open_orders", "--seconds", 0.2)
    assert result.exit_code == 0, result.output
    assert "nothing was committed meanwhile" in result.stderr
    assert "kept it" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("open_order",), 2, "did you mean 'open_orders'?"),
        (("open_orders", "--strategy", "swep"), 2, "did you mean sweep?"),
        (("open_orders", "--strategy", "pvm q=2"), 2, "its options: p="),
        (("open_orders", "--strategy", "strobe"), 2, "needs the tables' keys"),
        (("open_orders", "--strategy", "pull-push"), 2, "real sources are polled"),
        (("per_customer",), 2, "select-project-join"),
        (("named",), 2, "reads other views: open_orders"),
        (("open_orders", "--transactions", "0"), 2, "not in the range x>=1"),
    ],
)
def test_live_refuses_with_a_reason(
    headwater: Headwater, shop: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    headwater("setup", "--project", shop)
    result = headwater("lab", "live", shop, *arguments)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.output.replace("│", " ").split())


def test_live_installs_nothing(headwater: Headwater, shop: Path) -> None:
    result = headwater("lab", "live", shop, "open_orders", "--seconds", 0.1)
    assert result.exit_code == 1, result.output
    assert "not captured" in result.stderr
    assert "headwater setup" in result.stderr
    with closing(sqlite3.connect(shop / "shop.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert not [name for (name,) in tables if "headwater" in name]


@pytest.mark.postgres
def test_live_on_postgresql_beside_sqlite(headwater: Headwater, shop: Path, postgres: PostgresServer) -> None:
    url = postgres.create_database("lab_live")
    settings = f'[sources.shop]\nurl = "{url}"\n[sources.crm]\nurl = "sqlite:///crm.db"\n'
    (shop / "headwater.toml").write_text(settings, encoding="utf-8")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, item text, open int)")
        assert headwater("setup", "--project", shop).exit_code == 0
        over = threading.Event()

        def write() -> None:
            for n in count(1):
                connection.execute("INSERT INTO orders VALUES (%s, %s, 'more', %s)", (n, 1 + n % 3, n % 2))
                if over.wait(0.05):
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            result = headwater("lab", "live", shop, "open_orders", "--transactions", 6, "--seconds", 60)
        finally:
            over.set()
            writer.join()
    assert result.exit_code == 0, result.output
    assert "verdict: complete consistency" in result.stdout


def test_without_matplotlib_it_says_what_to_install(headwater: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cli.lab.find_spec", lambda name: None)
    refused = headwater("lab", "run", "pvm-fig22")
    assert refused.exit_code == 2
    assert "pip install 'headwater[lab]'" in refused.stderr
