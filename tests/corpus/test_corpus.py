"""Views of other people's test suites, maintained: HEADWATER_CORPUS names a folder that has a folder for each suite.

Nothing of theirs is kept here. Without the folder, small scripts of our own show that the runner counts what it should,
and that it notices what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import playing
from .comparing import alike, settled
from .playing import Verdict, judged
from .psql import split
from .report import Counts, Found, Said, files, found_in, suites, table
from .source import NAN, Bag, Source, Story
from .written import Written

CORPUS = os.environ.get("HEADWATER_CORPUS", "")
FILES = int(os.environ.get("FILES", "0")) or None
"""Of each suite, at most."""

SCRIPT = """
CREATE TABLE t (id SERIAL PRIMARY KEY, a INT, b TEXT);
CREATE TABLE u (a INT, x DOUBLE PRECISION, xs INT[]);
INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y'), (2, 'z');
INSERT INTO u VALUES (1, 0.1, NULL), (2, 0.2, NULL), (2, 0.7, NULL), (NULL, 0.3, NULL);
CREATE VIEW both_of AS SELECT t.a, t.b, u.x FROM t JOIN public.u ON t.a = u.a;
CREATE MATERIALIZED VIEW sums (k, total) AS SELECT b, sum(x) FROM both_of GROUP BY b;
CREATE MATERIALIZED VIEW over_it AS SELECT count(*), max(total) FROM sums;
SELECT create_immv('outer_one', 'SELECT t.id, t.b, u.x FROM t LEFT JOIN u USING (a)');
CREATE MATERIALIZED VIEW some AS SELECT a FROM t LIMIT 1;
CREATE MATERIALIZED VIEW lists AS SELECT xs FROM u;
CREATE MATERIALIZED VIEW now_and_then AS SELECT a, now() AS at FROM t;
CREATE MATERIALIZED VIEW elsewhere AS SELECT * FROM kafka;
CREATE MATERIALIZED VIEW unheard_of AS SELECT frobnicate(a) AS f FROM t;
CREATE MATERIALIZED VIEW unreadable AS SELECT FROM WHERE;
UPDATE t SET a = 1 WHERE b = 'z';
BEGIN;
DELETE FROM u WHERE a = 2;
ROLLBACK;
TRUNCATE t;
"""


def story(script: str) -> Story:
    source = Source("postgres")
    try:
        return source.play(Written(text, "own.sql", line) for text, line in split(script))
    finally:
        source.close()


def test_what_becomes_of_views() -> None:
    told = story(SCRIPT)
    assert [sorted(change) for change in told.transactions] == [["t"], ["u"], ["t"], ["u"], ["u"], ["t"]]
    found = {view.head.name: judged(view, told) for view in told.views}
    assert {name: outcome.verdict for name, outcome in found.items()} == {
        "sums": Verdict.MAINTAINED,
        "over_it": Verdict.MAINTAINED,
        "outer_one": Verdict.MAINTAINED,
        "some": Verdict.OPEN,
        "lists": Verdict.REFUSED,
        "now_and_then": Verdict.REFUSED,
        "elsewhere": Verdict.UNANSWERED,
        "unheard_of": Verdict.UNANSWERED,
        "unreadable": Verdict.UNTRANSLATED,
    }
    assert all(outcome.states >= 8 and outcome.rows for outcome in found.values() if outcome.states)


def test_a_view_ends_with_its_table() -> None:
    told = story(
        """
        CREATE TABLE t (a INT);
        CREATE MATERIALIZED VIEW v AS SELECT a FROM t;
        INSERT INTO t VALUES (1);
        DROP TABLE t CASCADE;
        CREATE TABLE t (b TEXT);
        INSERT INTO t VALUES ('x');
        CREATE MATERIALIZED VIEW w AS SELECT b FROM t;
        """
    )
    assert [(view.since, view.until) for view in told.views] == [(0, 1), (2, None)]
    assert [judged(view, told).verdict for view in told.views] == [Verdict.MAINTAINED] * 2


def test_what_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    build = playing.built
    monkeypatch.setattr(playing, "built", lambda spark, shapes: build(spark.replace("> 1", ">= 1"), shapes))
    outcome = judged(told.views[0], told)
    assert outcome.verdict is Verdict.WRONG
    assert "the tree is not the query" in outcome.reason


def test_a_program_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
    other = playing.built("SELECT a, SUM(b) AS s FROM s.t WHERE b > 1 GROUP BY a", [told.views[0].tables["t"][0]])
    plan = playing.planned
    monkeypatch.setattr(
        playing, "planned", lambda tree, shapes: (plan(tree, shapes)[0], plan(other.relation, shapes)[1])
    )
    outcome = judged(told.views[0], told)
    assert outcome.verdict is Verdict.WRONG
    assert "the program is not the tree" in outcome.reason


def test_floats_may_differ_in_the_last_digit() -> None:
    assert alike(Bag([("x", 0.1 + 0.2), (NAN,)]), Bag([("x", 0.3), (NAN,)]))
    assert not alike(Bag([("x", 0.31)]), Bag([("x", 0.3)]))
    assert not alike(Bag([(1, 0.3), (1, 0.3)]), Bag([(1, 0.3)]))
    assert settled(Bag({(0.3,): -1, (0.1 + 0.2,): 1})) == Bag()
    assert settled(Bag({(0.3,): -1, (0.4,): 1})) == Bag({(0.3,): -1, (0.4,): 1})


def test_a_folder_of_suites(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.slt").write_text(
        "statement ok\nCREATE TABLE t (a INT)\n\nstatement ok\nCREATE MATERIALIZED VIEW v AS SELECT a FROM t\n"
    )
    (tmp_path / "mine" / "b.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT * FROM nothing;")
    assert suites(tmp_path) == ["mine"]
    counts = Counts()
    said: Said = set()
    for path in [*files(tmp_path / "mine"), tmp_path / "mine" / "a.slt"]:
        counts.files += 1
        for found in found_in(path, tmp_path, said):
            counts.add(found)
    assert counts.verdicts == {Verdict.MAINTAINED: 1, Verdict.UNANSWERED: 1, Verdict.REPEATED: 1}
    assert "1  reads what is no table" in table({"mine": counts})


@pytest.mark.timeout(0)
@pytest.mark.skipif(not CORPUS, reason="HEADWATER_CORPUS names no folder of other people's test suites")
def test_other_peoples_views() -> None:
    wrong: list[Found] = []
    seen = 0
    for suite in suites(Path(CORPUS)):
        said: Said = set()
        for path in files(Path(CORPUS) / suite)[:FILES]:
            for found in found_in(path, Path(CORPUS), said):
                seen += found.outcome.verdict is Verdict.MAINTAINED
                if found.outcome.verdict in (Verdict.WRONG, Verdict.FAILED):
                    wrong.append(found)
    told = [f"{w.written.file}:{w.written.line} {w.name}: {w.outcome.reason[:300]}\n  {w.outcome.spark}" for w in wrong]
    assert not wrong, "\n".join(told)
    assert seen
