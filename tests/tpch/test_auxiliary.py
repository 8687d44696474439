"""What WITH (auxiliary = 'auto') keeps for TPC-H's queries, and that query and parts say what the query alone says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.algebra.auxiliary import defined
from headwater.algebra.statements import parse_views
from headwater.algebra.view import ViewDefinition
from headwater.model.names import ViewName
from headwater.runtime.project.about import statement_of

from .data import QUERIES, SCHEMA, tiny
from .maintained import View, difference, evaluated
from .standard import StandardCatalog, read_views
from .world import World

VIEWS = read_views(QUERIES)
SEED = 7
PARTS = {"q03": 1, "q10": 1, "q11": 2, "q15": 2, "q18": 1, "q21": 1, "q22": 1}
"""How many are kept: groups under a LIMIT, groups compared with a total, and totals."""


def parts(name: str) -> list[ViewDefinition]:
    options = {**VIEWS[name].options, "auxiliary": "auto"}
    return defined(replace(VIEWS[name], options=options), StandardCatalog(SCHEMA))


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_kept(name: str) -> None:
    found = parts(name)
    assert len(found) == 1 + PARTS.get(name, 0)
    assert [view.name for view in found] == [*(f"{name}__{n}" for n in range(1, len(found))), name]
    assert all(view.aggregation is not None and view.kept_for == name for view in found[:-1])
    assert found[-1].kept_for is None
    assert {(view.file, view.line) for view in found} == {(VIEWS[name].file, VIEWS[name].line)}
    (whole,) = defined(VIEWS[name], StandardCatalog(SCHEMA))
    assert found[-1].columns == whole.columns
    assert found[-1].order == whole.order


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_make_the_whole(name: str) -> None:
    world = World(SCHEMA, tiny(SEED))
    *kept, rest = map(as_written, parts(name))
    queries = ", ".join(f"{view.parsed.name} AS ({view.written})" for view in kept)
    together = f"WITH {queries} SELECT * FROM ({rest.written}) AS rest"
    wanted = evaluated(View(VIEWS[name], SCHEMA).written, world)
    assert wanted
    assert not difference(evaluated(together, world), wanted)


def as_written(view: ViewDefinition) -> View:
    (parsed,) = parse_views(statement_of(view), "stored.sql")
    return View(parsed, SCHEMA)


def test_a_name_that_is_taken() -> None:
    options = {**VIEWS["q03"].options, "auxiliary": "auto"}
    with pytest.raises(Exception, match="would be called q03__1, and so is another view"):
        defined(replace(VIEWS["q03"], options=options), StandardCatalog(SCHEMA), {}, ["Q03__1"])


def test_an_unknown_kind() -> None:
    with pytest.raises(Exception, match="unknown value of option auxiliary 'al'"):
        defined(replace(VIEWS["q03"], options={"auxiliary": "al"}), StandardCatalog(SCHEMA))


def test_nothing_is_kept_for_a_query_that_needs_nothing() -> None:
    assert [view.name for view in parts("q01")] == [ViewName("q01")]
