"""Capture that several projects share."""

from __future__ import annotations

import pytest

from headwater.model.errors import PositionTrimmed
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.postgres.adapter import PostgresSource

from .postgres_database import SRC, Database, db, fold

__all__ = ["db"]

pytestmark = pytest.mark.postgres

A, B, C = (TableName(SRC, name, "public") for name in "abc")


def project(db: Database, owner: str, label: str = "") -> PostgresSource:
    return PostgresSource(SourceSpec(SRC, db.url, (("owner", owner), ("owner_label", label or f"/{owner}"))))


@pytest.fixture
def shared(db: Database) -> tuple[Database, PostgresSource, PostgresSource]:
    db.run("CREATE TABLE a (id int)", "CREATE TABLE b (id int)", "CREATE TABLE c (id int)")
    one, two = project(db, "one"), project(db, "two")
    one.install([A, B])
    two.install([B, C])
    return db, one, two


Shared = tuple[Database, PostgresSource, PostgresSource]


def test_each_has_its_own_tables_and_knows_of_the_others(shared: Shared) -> None:
    _, one, two = shared
    found = [source.capture() for source in (one, two)]
    assert [capture.tables for capture in found if capture] == [{A, B}, {B, C}]
    assert [capture.others for capture in found if capture] == [("/two",), ("/one",)]
    assert found[0].generation == found[1].generation  # type: ignore[union-attr]  # both are installed
    assert two.plan_install([A]) == ["share the capture of pg.public.a that is here"]
    assert two.install([A]) == two.plan_install([A]) or two.plan_install([A]) == []
    assert two.capture().tables == {A, B, C}  # type: ignore[union-attr]  # as above


def test_nothing_is_forgotten_that_one_of_them_may_still_need(shared: Shared) -> None:
    db, one, two = shared
    start = two.position()
    db.run("INSERT INTO b VALUES (1)", "INSERT INTO b VALUES (2)")
    assert one.trim(one.position()) == 0, "two has not let it go"
    assert fold(two.poll(start, {B: ["id"]}, 10).changes[B]) == {(1,): 1, (2,): 1}
    middle = two.poll(start, {B: ["id"]}, 1).end
    assert two.trim(middle) == 1
    assert fold(two.poll(middle, {B: ["id"]}, 10).changes[B]) == {(2,): 1}
    with pytest.raises(PositionTrimmed):
        two.poll(start, {B: ["id"]}, 10)
    assert two.trim(two.position()) == 1
    assert one.waiting(start) == 0


def test_a_project_leaves_without_taking_anything_from_the_others(shared: Shared) -> None:
    db, one, two = shared
    start = two.position()
    assert one.remove() == ["dropped capture of public.a"]
    assert one.remove() == []
    assert two.capture().tables == {B, C}  # type: ignore[union-attr]  # it is installed
    assert two.capture().others == ()  # type: ignore[union-attr]  # as above
    assert one.capture().tables == frozenset()  # type: ignore[union-attr]  # as above
    db.run("INSERT INTO b VALUES (1)", "INSERT INTO a VALUES (1)")
    assert fold(two.poll(start, {B: ["id"]}, 10).changes[B]) == {(1,): 1}
    assert two.trim(two.position()) == 1, "nobody else is waited for"
    assert two.remove()[-1] == "dropped schema headwater"
    assert not any("headwater" in name for name in db.objects())


def test_a_project_releases_what_it_no_longer_needs(shared: Shared) -> None:
    _, one, two = shared
    assert one.release([A]) == [], "two still captures b"
    assert one.capture().tables == {A}  # type: ignore[union-attr]  # it is installed
    assert two.capture().tables == {B, C}  # type: ignore[union-attr]  # as above
    assert two.release([C]) == ["dropped capture of public.b"]
    assert two.release([C]) == []
    assert two.capture().tables == {C}  # type: ignore[union-attr]  # as above


def test_a_project_made_anew_in_its_place_takes_over(shared: Shared) -> None:
    db, _, two = shared
    again = project(db, "one again", "/one")
    assert again.plan_install([A]) == ["share the capture of pg.public.a that is here"]
    again.install([A])
    assert again.capture().others == ("/two",)  # type: ignore[union-attr]  # it is installed
    assert two.capture().others == ("/one",)  # type: ignore[union-attr]  # as above
    assert again.release([A]) == [], "b is two's as well"
    assert again.capture().tables == {A}  # type: ignore[union-attr]  # as above


def test_a_project_that_is_gone_for_good(shared: Shared) -> None:
    db, _, two = shared
    db.run("INSERT INTO b VALUES (1)")
    assert two.trim(two.position()) == 0
    db.run("DELETE FROM headwater.consumers WHERE label = '/one'")
    db.run("INSERT INTO b VALUES (2)")
    assert two.trim(two.position()) == 2
    assert two.release([B, C]) == ["dropped capture of public.a"]
