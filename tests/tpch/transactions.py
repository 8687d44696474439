"""Random transactions over TPC-H: the refreshes of the standard (orders come and go with their lines), and updates of
everything. References hold, except where a supplier goes and leaves what speaks of it behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

from headwater.model.names import TableName

from . import data
from .data import CUSTOMER, LINEITEM, NATION, ORDERS, PART, PARTSUPP, SCHEMA, SUPPLIER, Rows, money
from .world import Edit, Row, World


class Transactions:
    def __init__(self, world: World, seed: int) -> None:
        self._world, self._random = world, Random(seed)
        self._make, self._last = Rows(self._random), 1000
        self._kinds: dict[Callable[[], list[Edit]], int] = {
            self.new_order: 5,
            self.order_gone: 3,
            self.lines_change: 5,
            self.order_changes: 2,
            self.customer_changes: 2,
            self.part_changes: 2,
            self.offer_changes: 2,
            self.supplier_changes: 2,
            self.supplier_gone: 1,
            self.new_offers: 1,
            self.nation_moves: 1,
        }

    def next(self) -> list[Edit]:
        """One transaction: one of these, or a few."""
        kinds = self._random.choices(list(self._kinds), list(self._kinds.values()), k=self._random.choice((1, 2, 4)))
        return [edit for kind in kinds for edit in kind()]

    def new_order(self) -> list[Edit]:
        key, day = self._key(), self._make.ordered()
        offers = list(self._world.rows[PARTSUPP])
        lines = [
            self._make.line(key, n, day, self._random.choice(offers)) for n in range(1, self._random.randint(2, 7))
        ]
        customer = self._any(CUSTOMER)[0]
        return [
            (ORDERS, None, self._make.order(key, customer, day, lines)),
            *((LINEITEM, None, line) for line in lines),
        ]

    def order_gone(self) -> list[Edit]:
        order = self._any(ORDERS)
        return [(ORDERS, order, None), *((LINEITEM, line, None) for line in self._lines(order))]

    def lines_change(self) -> list[Edit]:
        edits: list[Edit] = []
        for line in self._lines(self._any(ORDERS)):
            if self._random.random() < 0.5:
                late = timedelta(self._random.randint(-60, 60))
                new = self._with(
                    LINEITEM, line, l_receiptdate=line[12] + late, l_quantity=Decimal(self._random.randint(1, 50))
                )
                edits.append((LINEITEM, line, new))
            elif self._random.random() < 0.3:
                edits.append((LINEITEM, line, None))
        return edits

    def order_changes(self) -> list[Edit]:
        order = self._any(ORDERS)
        status, remark = self._random.choice("FOP"), self._random.choice(data.REMARKS)
        customer = self._any(CUSTOMER)[0]
        return [(ORDERS, order, self._with(ORDERS, order, o_orderstatus=status, o_comment=remark, o_custkey=customer))]

    def customer_changes(self) -> list[Edit]:
        if self._random.random() < 0.3:
            return [(CUSTOMER, None, self._make.customer(self._key()))]
        old = self._any(CUSTOMER)
        return [(CUSTOMER, old, self._make.customer(old[0]))]

    def part_changes(self) -> list[Edit]:
        old = self._any(PART)
        return [(PART, old, self._make.part(old[0]))]

    def offer_changes(self) -> list[Edit]:
        old = self._any(PARTSUPP)
        if self._random.random() < 0.2:
            return [(PARTSUPP, old, None)]
        return [(PARTSUPP, old, self._with(PARTSUPP, old, ps_supplycost=money(self._random, 1, 40)))]

    def supplier_changes(self) -> list[Edit]:
        old = self._any(SUPPLIER)
        return [(SUPPLIER, old, self._make.supplier(old[0]))]

    def supplier_gone(self) -> list[Edit]:
        """Its offers and lines stay; another one comes, who offers something."""
        new = self._make.supplier(self._key())
        return [
            (SUPPLIER, self._any(SUPPLIER), None),
            (SUPPLIER, None, new),
            (PARTSUPP, None, self._make.partsupp(self._any(PART)[0], new[0])),
        ]

    def new_offers(self) -> list[Edit]:
        part = self._make.part(self._key())
        suppliers = {self._any(SUPPLIER)[0] for _ in range(3)}
        return [(PART, None, part), *((PARTSUPP, None, self._make.partsupp(part[0], s)) for s in sorted(suppliers))]

    def nation_moves(self) -> list[Edit]:
        old = self._world.rows[NATION][(self._random.choice(data.LIVED_IN),)]
        return [(NATION, old, self._with(NATION, old, n_regionkey=self._random.choice((1, 3))))]

    def _any(self, table: TableName) -> Row:
        return self._random.choice(list(self._world.rows[table].values()))

    def _lines(self, order: Row) -> list[Row]:
        return [line for line in self._world.rows[LINEITEM].values() if line[0] == order[0]]

    def _key(self) -> int:
        self._last += 1
        return self._last

    def _with(self, table: TableName, row: Row, **new: Any) -> Row:
        names = [c.name for c in SCHEMA[table].columns]
        return tuple(new.get(name, value) for name, value in zip(names, row, strict=True))
