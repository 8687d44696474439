"""Who maintains a view: the option, and what each algorithm refuses."""

from __future__ import annotations

import pytest

from headwater.algebra import ViewDefinition, define, parse_views
from headwater.algebra.methods import METHODS
from headwater.model.errors import HeadwaterError, UnknownName
from headwater.runtime.project.about import maintained_by, statement_of

from .shop import CATALOG, views

APART = "SELECT o.id, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id"
TOGETHER = "SELECT p.sku, q.price FROM stock.products p JOIN stock.prices q ON q.sku = p.sku"


def view(options: str, select: str = APART) -> ViewDefinition:
    """The view v with these options, which begin in line 3 of f.sql."""
    (parsed,) = parse_views(f"\nCREATE MATERIALIZED VIEW v WITH (\n{options}\n) AS {select}", "f.sql")
    return define(parsed, CATALOG)


@pytest.mark.parametrize(
    ("options", "maintenance", "parallel", "words"),
    [
        ("consistency = complete", "wave", 1, ""),
        ("maintenance = 'wave', every = 3", "wave", 1, ""),
        ("maintenance = 'SWEEP'", "sweep", 1, "SWEEP"),
        ("maintenance = sweep, consistency = strong", "sweep", 1, "SWEEP"),
        ("maintenance = sweep, consistency = convergent", "sweep", 1, "SWEEP"),
        ("maintenance = 'nested-sweep', consistency = strong", "nested-sweep", 1, "Nested SWEEP"),
        ("maintenance = 'pvm-cc'", "pvm-cc", 4, "PVM CC, 4 at a time"),
        ("maintenance = 'pvm-cc', parallel = 1", "pvm-cc", 1, "PVM CC, 1 at a time"),
        ("maintenance = pvm, parallel = 64, consistency = convergent", "pvm", 64, "PVM, 64 at a time"),
        ("maintenance = tid, consistency = strong", "tid", 1, "the TID rules"),
    ],
)
def test_the_option_and_its_way_through_the_warehouse(
    options: str, maintenance: str, parallel: int, words: str
) -> None:
    defined = view(options)
    assert (defined.maintenance, defined.parallel) == (maintenance, parallel)
    (parsed,) = parse_views(statement_of(defined), "view.json")
    again = define(parsed, CATALOG)
    assert (again.maintenance, again.parallel, again.level) == (maintenance, parallel, defined.level)
    assert maintained_by(defined) == words


def test_the_tid_rules_take_several_tables_of_a_source() -> None:
    assert view("maintenance = tid, consistency = strong", TOGETHER).maintenance == "tid"
    twice = "SELECT a.sku FROM stock.products a JOIN stock.products b ON a.sku = b.sku"
    assert view("maintenance = tid, consistency = strong", twice).maintenance == "tid"


def test_groups_over_a_join_are_fine() -> None:
    grouped = (
        "SELECT c.name, COUNT(*) AS n FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id GROUP BY c.name"
    )
    assert view("maintenance = sweep", grouped).aggregation is not None
    assert view("maintenance = sweep", "SELECT id FROM shop.orders").maintenance == "sweep"


SWEEP, TID = "maintenance = sweep", "maintenance = tid, consistency = strong"
REFUSED = [
    # options, query, line, what, fix
    ("maintenance = 'swep'", APART, 3, "unknown value of option maintenance 'swep' of view v", "'sweep'"),
    ("maintenance = 'eager'", APART, 3, "unknown value of option maintenance 'eager'", "nested-sweep"),
    ("maintenance = pvm", APART, 3, "what PVM can give is convergence (its states in between need not be states of"
     " the sources), and this view promises to be complete",
     "write consistency = 'convergent', or maintenance = 'sweep' or 'pvm-cc'"),
    ("consistency = strong,\nmaintenance = pvm", APART, 4, "promises to be strong",
     "write consistency = 'convergent', or maintenance = 'sweep' or 'nested-sweep' or 'pvm-cc' or 'tid'"),
    ("maintenance = 'nested-sweep'", APART, 3, "what Nested SWEEP can give is strong consistency",
     "consistency = 'strong'"),
    ("maintenance = tid", APART, 3, "what the TID rules can give is strong consistency", "consistency = 'strong'"),
    ("maintenance = sweep, consistency = periodic, schedule = '1 hour'", APART, 3, "a periodic view is recomputed",
     "write consistency = 'complete'"),
    ("maintenance = sweep,\nevery = 10", APART, 4, "SWEEP does not know every", "remove every"),
    ("maintenance = sweep,\nauxiliary = auto", APART, 4, "keeps nothing", "remove auxiliary"),
    ("maintenance = sweep,\nparallel = 4", APART, 4, "SWEEP handles one", "maintenance = 'pvm' or 'pvm-cc'"),
    ("parallel = 4", APART, 3, "the wave handles one", "remove parallel"),
    ("maintenance = 'pvm-cc', parallel = 0", APART, 3, "option parallel = 0 is not a whole number from 1 to 64", "4"),
    ("maintenance = 'pvm-cc', parallel = 65", APART, 3, "option parallel = 65 is not a whole number", "parallel = 4"),
    ("maintenance = 'pvm-cc', parallel = many", APART, 3, "option parallel = many is not a whole number", "4"),
    (SWEEP, TOGETHER, 3, "stock.products and stock.prices are tables of one source, so one transaction can change both",
     "maintenance = 'tid', or maintenance = 'wave'"),
    (SWEEP, "SELECT a.sku FROM stock.products a JOIN stock.products b ON a.sku = b.sku", 3,
     "it names stock.products twice", "maintenance = 'tid'"),
    (SWEEP, "SELECT o.id FROM shop.orders o CROSS JOIN crm.customers c", 3, "no equality joins c with the others",
     "maintenance = 'wave'"),
    (TID, "SELECT a.id FROM shop.orders a JOIN shop.orders b ON a.weight = b.weight", 3,
     "it joins on a.weight, a floating-point number", "maintenance = 'wave'"),
    (SWEEP, "SELECT id FROM shop.orders UNION ALL SELECT id FROM crm.customers", 3, "SWEEP maintains joins of tables",
     "maintenance = 'wave'"),
    (SWEEP, "SELECT o.id FROM shop.orders o LEFT JOIN crm.customers c ON c.id = o.customer_id", 3, "joins of tables",
     "maintenance = 'wave'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "select", "line", "what", "fix"), REFUSED)
def test_refusals(options: str, select: str, line: int, what: str, fix: str) -> None:
    with pytest.raises(HeadwaterError) as raised:
        view(options, select)
    assert f"f.sql:{line}" in raised.value.what
    assert what in raised.value.what
    assert fix in raised.value.fix


def test_views_over_views_are_the_waves() -> None:
    with pytest.raises(HeadwaterError, match="it reads the view first, and SWEEP knows tables of sources only"):
        views(
            "CREATE MATERIALIZED VIEW first AS SELECT id FROM shop.orders;"
            "CREATE MATERIALIZED VIEW v WITH (maintenance = sweep) AS SELECT id FROM first;"
        )


def test_a_view_may_read_one_that_another_algorithm_maintains() -> None:
    found = views(
        "CREATE MATERIALIZED VIEW first WITH (maintenance = sweep) AS SELECT id FROM shop.orders;"
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM first;"
    )
    assert [view.maintenance for view in found.values()] == ["sweep", "wave"]


def test_every_value_is_offered() -> None:
    with pytest.raises(UnknownName) as raised:
        view("maintenance = 'q'")
    assert all(name in raised.value.fix for name in METHODS)
