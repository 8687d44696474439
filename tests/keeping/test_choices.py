"""What is kept beside a view and the view over it say what the view alone says; and nobody asks who must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from headwater.algebra.statements import ParsedView, parse_views
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.keeping.choose import define_each
from headwater.maintenance.keeping.copies import asked_tables
from headwater.maintenance.keeping.known import NOTHING_KNOWN, Keeping
from headwater.model.names import SourceName
from headwater.runtime.project.about import statement_of
from selects.grammar import grammar
from selects.oracle import SOURCE, Engine, Unanswerable, _Catalog, duck, numbered_twice, tree_of
from selects.worlds import world_of
from tpch.data import QUERIES, SCHEMA, tiny
from tpch.maintained import View, difference, evaluated
from tpch.standard import StandardCatalog, read_views
from tpch.world import World

VIEWS = read_views(QUERIES)
SIZES = {"region": 5, "nation": 25, "supplier": 10_000, "part": 200_000, "customer": 150_000}
MODES: list[dict[str, str]] = [
    {"auxiliary": "all"},
    {"auxiliary": "auto"},
    *({"auxiliary": how, "groups": str(k)} for how in ("equal", "frequency") for k in (1, 2, 3)),
]


def chosen(parsed: Sequence[ParsedView], keeping: Keeping = NOTHING_KNOWN) -> list[ViewDefinition]:
    made = define_each(parsed, StandardCatalog(SCHEMA), keeping=keeping)
    for error in made.errors.values():
        raise error
    return list(made.views.values())


def composed(views: Sequence[ViewDefinition]) -> str:
    """Views over views as one query of DuckDB's."""
    *kept, rest = [View(parse_views(statement_of(v), "stored.sql")[0], SCHEMA) for v in views]
    queries = ", ".join(f"{view.parsed.name} AS ({view.written})" for view in kept)
    return f"WITH {queries} SELECT * FROM ({rest.written}) AS rest" if kept else rest.written


def is_block(name: str) -> bool:
    return chosen([VIEWS[name]])[0].tree is None


BLOCKS = [name for name in VIEWS if is_block(name)]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(mode.values()))
@pytest.mark.parametrize("name", VIEWS)
def test_query_and_parts_say_what_the_query_says(name: str, mode: dict[str, str]) -> None:
    grouped = mode["auxiliary"] in ("equal", "frequency")
    tables = len(chosen([VIEWS[name]])[0].occurrences)
    if grouped and (name not in BLOCKS or int(mode.get("groups", "1")) > tables):
        return  # refused: see below
    views = chosen([replace(VIEWS[name], options={**VIEWS[name].options, **mode})])
    world = World(SCHEMA, tiny(7))
    wanted = evaluated(View(VIEWS[name], SCHEMA).written, world)
    assert wanted
    assert not difference(evaluated(composed(views), world), wanted)
    assert views[-1].columns == chosen([VIEWS[name]])[0].columns
    assert all(view.kept_for for view in views[:-1])
    if mode["auxiliary"] == "all":
        assert not any(asked_tables(view) for view in views)
    if grouped and tables > 1:
        assert len(views) - 1 >= int(mode["groups"])
        assert sum(len(view.occurrences) for view in views[:-1]) == tables


@pytest.mark.parametrize("sources", ["sales", "parts", "geo", "sales parts", "sales parts geo"])
def test_sources_that_must_not_be_asked_are_not(sources: str) -> None:
    unasked = frozenset(map(SourceName, sources.split()))
    views = chosen(list(VIEWS.values()), Keeping(unasked=unasked))
    assert not [(v.name, t) for v in views for t in asked_tables(v) if t.source in unasked]
    copies = [v for v in views if v.kept_for]
    assert all(len(v.occurrences) == 1 and v.tree is None for v in copies)
    assert len({v.occurrences[0].table for v in copies}) == len(copies), "one copy of a table serves them all"
    assert {v.name for v in views} - {v.name for v in copies} == set(VIEWS)


def test_what_is_chosen_once_more_is_the_same() -> None:
    """A run reads the statements that were stored; nothing is added to them."""
    keeping = Keeping(unasked=frozenset({SourceName("sales")}))
    views = chosen([replace(VIEWS["q05"], options={"auxiliary": "equal", "groups": "2"}), VIEWS["q04"]], keeping)
    again = chosen([parse_views(statement_of(v), v.file)[0] for v in views])
    assert [v.recompute for v in again] == [v.recompute for v in views]


def test_a_copy_that_is_maintained_serves_a_view_that_comes_later() -> None:
    keeping = Keeping(unasked=frozenset({SourceName("geo")}))
    first = define_each([VIEWS["q05"]], StandardCatalog(SCHEMA), keeping=keeping).views
    copies = {name for name, view in first.items() if view.kept_for}
    assert copies == {"geo__nation", "geo__region"}
    same = define_each([replace(VIEWS["q05"], name="again")], StandardCatalog(SCHEMA), first, keeping).views
    assert list(same) == ["again"]
    assert set(same["again"].parents) == copies  # type: ignore[index]
    more = define_each([VIEWS["q08"]], StandardCatalog(SCHEMA), first, keeping).views
    assert "geo__region__2" in more, "another region, of which the first copy holds nothing"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("q02", {"auxiliary": "equal"}, "its query is more than a join of tables"),
        ("q05", {"auxiliary": "frequency", "groups": "7"}, "7 groups, and the view joins 6 tables"),
        ("q05", {"auxiliary": "all", "groups": "2"}, "option groups is for auxiliary = 'equal' and 'frequency'"),
        ("q05", {"auxiliary": "equal", "groups": "none"}, "is not a number of groups"),
        ("q05", {"auxiliary": "equal", "groups": "0"}, "is not a number of groups"),
        ("q05", {"auxiliary": "every"}, "unknown value of option auxiliary 'every'"),
        ("q05", {"auxiliary": "all", "maintenance": "tid"}, "maintenance = 'tid' asks the sources"),
        (
            "q05",
            {"auxiliary": "equal", "consistency": "periodic", "schedule": "1 hour"},
            "puts joined tables into groups, and it is recomputed",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        chosen([replace(VIEWS[name], options=options)])


def test_a_periodic_view_cannot_do_without_asking() -> None:
    options = {"consistency": "periodic", "schedule": "1 hour"}
    with pytest.raises(Exception, match="source geo is not to be asked"):
        chosen([replace(VIEWS["q05"], options=options)], Keeping(unasked=frozenset({SourceName("geo")})))


def test_a_published_algorithm_asks() -> None:
    options = {"maintenance": "tid", "consistency": "strong"}
    with pytest.raises(Exception, match="'tid' asks source geo, which is not to be asked"):
        chosen([replace(VIEWS["q05"], options=options)], Keeping(unasked=frozenset({SourceName("geo")})))
    (alone,) = chosen([replace(VIEWS["q05"], options=options)], Keeping(auxiliary="all"))
    assert alone.maintenance == "tid"


def test_a_default_of_the_project_is_for_views_that_it_fits() -> None:
    views = chosen([VIEWS["q02"], VIEWS["q05"]], Keeping(auxiliary="equal", groups=2))
    assert [v.name for v in views] == ["q02", "q05__1", "q05__2", "q05"]


@pytest.mark.parametrize("share", range(3))
def test_whatever_can_be_said_can_be_said_over_copies(share: int) -> None:
    """Random queries, over copies of all they ask for, at every moment of a random history."""
    answered = 0
    for seed in range(share, 120, 3):
        schema, query = grammar(seed)
        (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS {query}", "v.sql")
        unasked = Keeping(unasked=frozenset({SourceName(SOURCE)}))
        made = define_each([parsed], _Catalog(schema), keeping=unasked)
        assert not made.errors, f"{query}\n{made.errors}"
        *kept, rest = made.views.values()
        assert not any(asked_tables(view) for view in made.views.values())
        world = world_of(schema, Random(seed), 3)
        engine = Engine(world)
        if numbered_twice(tree_of(query, schema).built):
            continue  # leaves open which numbers go together
        try:
            wanted = engine.recomputed(query)
        except Unanswerable:
            continue
        queries = ", ".join(f"{view.name} AS ({view.text})" for view in kept)
        text = duck(f"WITH {queries} SELECT * FROM ({rest.text}) AS rest_" if kept else rest.text)
        for at, rows in enumerate(wanted):
            assert engine.rows(text, at) == rows, f"seed {seed}\n{query}\n{text}"
        answered += 1
    assert answered > 20
