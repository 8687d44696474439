"""A plain question has the answer that the engine gives, at the newest cut, and by every kind of value."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from psycopg import sql

from cli.small import small_project
from headwater.model.changelog import COUNT, SEQ
from headwater.serve import states
from headwater.serve.statements import translated
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut
from headwater.warehouse.sessions import PinnedCut, pins
from serve.conftest import serving
from serve.test_serve import ask, refused, write

PLAIN = [
    "SELECT id, name FROM people WHERE id = $1",
    "SELECT * FROM people",
    "SELECT p.name AS who FROM public.people AS p WHERE 'Anne' = p.name AND (p.id = $1::bigint) LIMIT 3",
    "SELECT id, id FROM people WHERE id = -1",
]
NOT_PLAIN = [
    "SELECT id + 1 FROM people", "SELECT id FROM people ORDER BY id", "SELECT id FROM people WHERE id > $1",
    "SELECT DISTINCT id FROM people", "SELECT id FROM people, late", "SELECT count(*) FROM people",
    "SELECT id FROM people WHERE id = 1 OR id = 2", "SELECT id FROM people WHERE id = 1 AND id = 2",
    "WITH people AS (SELECT 1 AS id) SELECT id FROM people", "SELECT id FROM people p(id)", "SELECT 1",
    "SELECT id FROM people WHERE id = (SELECT 1)", "SELECT id FROM people GROUP BY id", "SELECT x.id FROM people",
    "SELECT id FROM people LIMIT 1 OFFSET 1", "SELECT * EXCLUDE (id) FROM people",
]  # fmt: skip


def test_what_is_plain() -> None:
    for text in PLAIN:
        assert translated(text).plain is not None, text
    for text in NOT_PLAIN:
        assert translated(text).plain is None, text


def test_by_key_and_by_the_engine_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with duplicates, some taken back; by whole numbers, texts, and what no key can be."""
    folder, chance = small_project(tmp_path / "small"), random.Random(5)
    ids, counts, seqs = [], [], []
    for _ in range(300):
        ids.append(chance.randrange(40))
        counts.append(chance.choice([1, 1, 2]))
        seqs.append(4)
    for n in chance.sample(range(300), 80):
        ids.append(ids[n])
        counts.append(-1)
        seqs.append(4)
    names = [f"it's {n % 5}" for n in ids]
    small = pa.array([n - 20 for n in ids], pa.int16())
    write(folder, "many", pa.table({"id": ids, "name": names, "small": small, COUNT: counts, SEQ: seqs}), 4)
    questions: list[tuple[str, tuple[Any, ...]]] = [
        ("SELECT id, name, small FROM many WHERE id = %s", (7,)),
        ("SELECT id, name AS who FROM many WHERE name = %s AND id = %s", ("it's 2", 7)),
        ("SELECT small FROM many WHERE small = %s", (-3,)),
        ("SELECT small FROM many WHERE small = %s", (70_000,)),
        ("SELECT id FROM many WHERE id = %s::int", ("12",)),
        ("SELECT id FROM many WHERE id = %s", (2.0,)),
        ("SELECT id FROM many WHERE id = %s", (None,)),
        ("SELECT id FROM many WHERE name = %s LIMIT 2", ("it's 1",)),
        ("SELECT * FROM many", ()),
        ("SELECT id, id FROM many WHERE id = 3", ()),
    ]
    with serving(folder) as served, served.connect() as client:
        for question, values in questions:
            found = [sorted(ask(client, question, *values)) for _ in range(4)]  # from the third time on by key
            with monkeypatch.context() as without:
                without.setattr(states.States, "_plain", lambda *_: None)
                wanted = sorted(ask(client, question, *values))
            if "LIMIT" in question:
                found, wanted = [[row[:0] for row in one] for one in found], [row[:0] for row in wanted]
            assert found == [wanted] * 4, question
        for _ in range(4):
            assert refused(client, "SELECT id FROM many WHERE id = %s", "seven").sqlstate == "22P02"
            assert refused(client, "SELECT nope FROM many WHERE id = 1").sqlstate == "42703"
        with client.cursor(binary=True) as cursor:
            assert len(cursor.execute("SELECT id, name FROM many WHERE id = 7").fetchall()) > 0


def test_every_statement_reads_the_newest_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a writer shows one transaction after the other, a reader who knows of one sees it at once."""
    folder = small_project(tmp_path / "small")
    write(folder, "moving", pa.table({"n": [4], COUNT: [1], SEQ: [4]}), 4)
    shown, failed, written, statements = [4], list[str](), list[int](), 0
    storage = Storage(str(folder / "warehouse"))

    def pinned(storage: Storage, cut: Cut, seq: int | None) -> PinnedCut:
        written.append(cut.number)
        return PinnedCut(storage, cut, seq)

    monkeypatch.setattr("headwater.serve.pins.PinnedCut", pinned)

    def move() -> None:
        for seq in range(5, 25):
            write(folder, "moving", pa.table({"n": [seq], COUNT: [1], SEQ: [seq]}), seq)
            shown[0] = seq
            time.sleep(0.02)

    with serving(folder) as served, served.connect() as client:
        writer = threading.Thread(target=move)
        writer.start()
        while writer.is_alive():
            known, statements = shown[0], statements + 2
            (by_key,) = ask(client, "SELECT count(*) FROM moving WHERE n = %s", known)
            if by_key != (1,) or ask(client, "SELECT n FROM moving WHERE n = %s", known) != [(known,)]:
                failed.append(f"{known} is not there")
        writer.join()
        assert not failed
        assert ask(client, "SELECT max(n), count(*) FROM moving") == [(24, 21)]
        assert len(written) <= 21 < statements  # a pin for a cut, not for a statement
        patience = time.monotonic() + 20
        while len(pins(storage)) > 1:  # and those of older cuts go
            assert time.monotonic() < patience
            time.sleep(0.05)
    assert pins(storage) == []


def test_a_question_written_once_is_the_question_written_anew() -> None:
    """Values are put into a text; whatever they hold, it is the same as putting them into the query."""
    chance = random.Random(1)
    template = translated("SELECT 1 FROM t WHERE a = $1 AND b IN ($2, 'x') AND c LIKE $1").template
    assert template._beside
    letters = "a'\"\\;-\n\x02\x03\x00½$1 0"
    for _ in range(300):
        values = ["".join(chance.choices(letters, k=chance.randrange(8))) for _ in range(2)]
        oids = [chance.choice([0, 25, 1043, 23, 1082, 114]) for _ in range(2)]
        assert template.bound(values, oids) == template._with(values, tuple(oids))
    assert not translated("SELECT to_char(a, $1) FROM t").template._beside
    assert not translated("SELECT '\x02' FROM t WHERE a = $1").template._beside


def test_what_is_prepared_once_reads_anew(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    write(folder, "moving", pa.table({"n": [4], COUNT: [1], SEQ: [4]}), 4)
    with serving(folder) as served, served.connect() as client:
        query = sql.SQL("SELECT n FROM moving WHERE n = %s")
        for _ in range(5):
            assert client.execute(query, (4,), prepare=True).fetchall() == [(4,)]
        write(folder, "moving", pa.table({"n": [4, 9], COUNT: [-1, 1], SEQ: [5, 5]}), 5)
        assert client.execute(query, (4,), prepare=True).fetchall() == []
        assert client.execute(query, (9,), prepare=True).fetchall() == [(9,)]
        client.execute("SET headwater.at = 4")
        assert client.execute(query, (4,), prepare=True).fetchall() == [(4,)]
