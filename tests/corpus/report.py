"""Suites of a corpus, their files one after the other, and what became of their views, counted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import psql, slt
from .playing import Outcome, Verdict, judged
from .source import Source, Story
from .written import Written

_DIALECTS = {
    "risingwave": "risingwave",
    "materialize": "materialize",
    "pg_ivm": "postgres",
    "openivm": "duckdb",
    "ivm-extension": "duckdb",
}
"""Of a suite, which is a folder of the corpus; any other speaks PostgreSQL, or DuckDB in files called `.test`."""


@dataclass(frozen=True)
class Found:
    """A view of a suite, and what became of it."""

    suite: str
    written: Written
    name: str
    query: str
    outcome: Outcome


@dataclass
class Counts:
    """Of a suite."""

    files: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    states: int = 0
    empty: int = 0
    """Maintained views that never had a row."""
    reasons: dict[Verdict, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, found: Found) -> None:
        outcome = found.outcome
        self.verdicts[outcome.verdict] += 1
        self.states += outcome.states
        if outcome.states and not outcome.rows:
            self.empty += 1
        if outcome.reason:
            self.reasons[outcome.verdict][general(outcome.reason)] += 1


def general(reason: str) -> str:
    """A reason without the names and numbers of one view."""
    text = re.sub(r"corpus\.sql:\d+(:\d+)?(: )?", "", reason)
    text = re.sub(r"(?<![\w])(\"[^\"]*\"|'[^']*'|`[^`]*`)", "…", text)
    text = re.sub(r"reads what is no table: .*", "reads what is no table", text)
    text = re.sub(r"(Line|Col): ?\d+|Line \d+, Col: \d+", "", text)
    return re.sub(r"\d+", "#", text)[:110]


def suites(corpus: Path) -> list[str]:
    return sorted(path.name for path in corpus.iterdir() if path.is_dir())


def files(suite: Path) -> list[Path]:
    """The scripts of a suite; those that are parts of others are read there."""
    found = sorted(p for p in suite.rglob("*") if p.is_file() and p.name.endswith((*slt.ENDINGS, *psql.ENDINGS)))
    parts = slt.all_included([p for p in found if p.name.endswith(slt.ENDINGS)])
    return [p for p in found if p.resolve() not in parts]


def story_of(path: Path, corpus: Path, queries: bool = False) -> Story:
    script = psql.read_psql(path, corpus) if path.name.endswith(psql.ENDINGS) else slt.read_slt(path, corpus)
    suite = path.relative_to(corpus).parts[0]
    source = Source(_DIALECTS.get(suite, "duckdb" if path.suffix == ".test" else "postgres"), queries)
    try:
        return source.play(script)
    finally:
        source.close()


Said = set[tuple[object, ...]]
"""Queries with the tables that they read."""


def found_in(path: Path, corpus: Path, said: Said, queries: bool = False) -> Iterator[Found]:
    """Every view that a file defines; those that were said before are not judged again."""
    story = story_of(path, corpus, queries)
    suite = path.relative_to(corpus).parts[0]
    for number, view in enumerate(story.views):
        key = (
            view.head.query if view.query is None else view.query.sql(),
            *(shape for shape, _ in view.tables.values()),
        )
        outcome = Outcome(Verdict.REPEATED) if key in said else judged(view, story, number)
        said.add(key)
        yield Found(suite, view.written, view.head.name, view.head.query, outcome)


def table(counted: dict[str, Counts]) -> str:
    """Counts for a person, and below them the reasons."""
    width = max([len(name) for name in counted] + [8])
    lines = [f"{'':28}" + "".join(f"{name:>{width + 2}}" for name in counted)]
    rows: list[tuple[str, list[int]]] = [("files", [c.files for c in counted.values()])]
    rows.append(("definitions", [c.verdicts.total() for c in counted.values()]))
    rows += [(verdict.value, [c.verdicts[verdict] for c in counted.values()]) for verdict in Verdict]
    rows.append(("states compared", [c.states for c in counted.values()]))
    rows.append(("maintained, always empty", [c.empty for c in counted.values()]))
    lines += [f"{word:28}" + "".join(f"{n:>{width + 2}}" for n in numbers) for word, numbers in rows]
    for verdict in Verdict:
        reasons: Counter[str] = sum((c.reasons[verdict] for c in counted.values()), Counter())
        if reasons:
            lines += ["", f"{verdict.value}:"]
            lines += [f"{n:6}  {reason}" for reason, n in reasons.most_common(40)]
    return "\n".join(lines)
