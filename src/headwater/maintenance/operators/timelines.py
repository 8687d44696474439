"""What some keys looked like after each transaction that touched them: for operators whose result for a key depends on
nothing but the rows with that key.

    versions   (k…, v, next)   every transaction v of the batch that touches key k, and the batch's beginning (v = −1);
                               `next` is the one after it
    rows       (v, …, n)       the rows of a child at each version of their key: asked, less what changed after v

An operator is evaluated over such rows with `v` beside its key, all versions at once; then the result at v comes in
with v and goes with `next`:

    Δ(s) = − result(k, before s) + result(k, s)                     for every key k that s touches
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.algebra.relations import Name, Relation
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, END, SEQ, Keys, listed, total

BEGIN = -1
VERSION, NEXT = "v_", "next_"

Keyed = tuple[Relation, tuple[Name, ...]]
"""A child, and its columns that are the key."""


def versions(parts: Sequence[Keyed], m: Maintenance) -> str:
    """Of the keys that the children's changes touch: k0, k1, …, VERSION, NEXT."""
    return versions_of([(m.changes(child), columns) for child, columns in parts], m)


def versions_of(parts: Sequence[tuple[str, tuple[Name, ...]]], m: Maintenance) -> str:
    """The same of steps that hold changes, each with its columns that are the key."""
    keys = [f"k{i}" for i in range(len(parts[0][1]))]
    touched = " UNION ".join(
        f"SELECT DISTINCT {listed(map('{} AS {}'.format, columns, keys), [f'{SEQ} AS {VERSION}'])} FROM {step}"
        for step, columns in parts
    )
    every = m.draft.local(touched, *(step for step, _ in parts))
    first = f"CAST({BEGIN} AS BIGINT) AS {VERSION}"
    begun = f"SELECT * FROM {every} UNION ALL SELECT DISTINCT {listed(keys, [first])} FROM {every}"
    by = f"PARTITION BY {listed(keys)} " if keys else ""
    return m.draft.local(
        f"SELECT *, LEAD({VERSION}) OVER ({by}ORDER BY {VERSION}) AS {NEXT} FROM ({begun}) AS t_", every, every
    )


def at_versions(part: Keyed, moments: str, m: Maintenance) -> str:
    """The child's rows at each version of their key: VERSION, its columns, COUNT."""
    child, columns = part
    width = len(columns)
    keys = m.draft.keys([(moments, [f"k{i}" for i in range(width)])], range(width))
    return at_moments(part, moments, (m.ask(child, columns, keys), m.changes(child)), m)


def at_moments(part: Keyed, moments: str, known: tuple[str, str], m: Maintenance) -> str:
    """The same from what is `known`: rows at the batch's end, and changes."""
    (child, columns), (asked, changes) = part, known
    there = m.draft.local(
        f"SELECT {listed(child.columns)}, {COUNT}, CAST({END} AS BIGINT) AS {SEQ} FROM {asked}"
        f" UNION ALL SELECT {listed(child.columns)}, -{COUNT}, {SEQ} FROM {changes}",
        asked,
        changes,
    )
    text = (
        f"SELECT t_.{VERSION}, {listed(f'r_.{c}' for c in child.columns)}, {total(f'r_.{COUNT}')} AS {COUNT}"
        f" FROM {moments} AS t_ JOIN {there} AS r_ ON {_meets(columns)} AND r_.{SEQ} > t_.{VERSION}"
        f" GROUP BY t_.{VERSION}, {listed(f'r_.{c}' for c in child.columns)} HAVING SUM(r_.{COUNT}) > 0"
    )
    return m.draft.local(text, moments, there)


def differences(results: str, keys: Sequence[Name], columns: Sequence[Name], moments: str, m: Maintenance) -> str:
    """From results at versions (VERSION, columns…, COUNT) to changes; `keys` are the columns by which they are kept
    apart."""
    both = (
        f"SELECT {listed(columns, (COUNT,))}, {VERSION} AS {SEQ} FROM {results} WHERE {VERSION} > {BEGIN} UNION ALL"
        f" SELECT {listed(f'r_.{c}' for c in columns)}, -r_.{COUNT}, t_.{NEXT} FROM {results} AS r_"
        f" JOIN {moments} AS t_ ON {_meets(keys)} AND r_.{VERSION} = t_.{VERSION} WHERE t_.{NEXT} IS NOT NULL"
    )
    text = (
        f"SELECT {listed(columns)}, {total()} AS {COUNT}, {SEQ} FROM ({both}) AS b_"
        f" GROUP BY {listed(columns, (SEQ,))} HAVING SUM({COUNT}) <> 0"
    )
    return m.draft.local(text, results, results, moments)


def repeated(step: str, columns: Sequence[Name], m: Maintenance) -> str:
    """These columns, every row as often as it counts."""
    chosen = listed(columns) or "i_"  # of a row without columns there is still how often it is there
    text = f"SELECT {chosen} FROM (SELECT *, UNNEST(range({COUNT})) AS i_ FROM {step}) AS e_"
    return m.draft.local(text, step)


def through(
    keys: Keys, columns: Sequence[Name], known: Sequence[Name], m: Maintenance
) -> tuple[tuple[Name, ...], Keys]:
    """A question, restricted to those of its columns that are `known` below."""
    below = [i for i, c in enumerate(columns) if c in known]
    return tuple(columns[i] for i in below), m.draft.some_keys(keys, below)


def _meets(columns: Sequence[Name]) -> str:
    return " AND ".join(f"t_.k{i} IS NOT DISTINCT FROM r_.{c}" for i, c in enumerate(columns)) or "TRUE"
