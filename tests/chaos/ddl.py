"""What may be done to a table beside changing its rows: statements, and which views may have to halt for it.

Whether they must is for the rows to say: a view that goes on is right or it is a fault. A view that is not named here
must go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from .business import CUSTOMERS_DDL, views_over


@dataclass(frozen=True)
class Alteration:
    """`steps` are transactions of their own, each of one or more statements; `then` are writes that applications make
    right after it; `columns` of `table` are others afterwards: none, some, or all (None)."""

    name: str
    table: str
    columns: tuple[str, ...] | None
    steps: tuple[str, ...]

    @property
    def touched(self) -> frozenset[str]:
        if self.columns is None:
            return views_over(self.table)
        return frozenset().union(*(views_over(self.table, column) for column in self.columns))


_RECEIPTS = "CREATE TABLE receipts (id int PRIMARY KEY, period int, note text)"

ALTERATIONS = {
    a.name: a
    for a in (
        Alteration("upper", "shop.orders", ("status",),
                   ("ALTER TABLE orders ALTER status TYPE text USING upper(status)",)),
        Alteration("double", "shop.orders", ("qty",), ("ALTER TABLE orders ALTER qty TYPE int USING qty * 2",)),
        Alteration("seconds", "shop.orders", ("placed",), ("ALTER TABLE orders ALTER placed TYPE timestamp(0)",)),
        Alteration("fractions", "shop.orders", ("placed",), ("ALTER TABLE orders ALTER placed TYPE timestamp",)),
        Alteration("another-column", "shop.orders", ("qty",),
                   ("ALTER TABLE orders DROP COLUMN qty; ALTER TABLE orders ADD COLUMN qty int DEFAULT 7",)),
        Alteration("another-column-slowly", "shop.orders", ("status",),
                   ("ALTER TABLE orders DROP COLUMN status", "ALTER TABLE orders ADD COLUMN status text DEFAULT 'n'")),
        Alteration("swap-names", "shop.orders", ("sku", "status"),
                   ("ALTER TABLE orders RENAME sku TO other; ALTER TABLE orders RENAME status TO sku;"
                    " ALTER TABLE orders RENAME other TO status",)),
        Alteration("rename-value", "shop.orders", ("kind",), ("ALTER TYPE order_kind RENAME VALUE 'web' TO 'net'",)),
        Alteration("rename-value-back", "shop.orders", ("kind",),
                   ("ALTER TYPE order_kind RENAME VALUE 'net' TO 'web'",)),
        Alteration("swap-values", "shop.orders", ("kind",),
                   ("ALTER TYPE order_kind RENAME VALUE 'web' TO 'x';"
                    " ALTER TYPE order_kind RENAME VALUE 'desk' TO 'web';"
                    " ALTER TYPE order_kind RENAME VALUE 'x' TO 'desk'",)),
        Alteration("add-column", "shop.orders", (),
                   ("ALTER TABLE orders ADD COLUMN IF NOT EXISTS more int DEFAULT 3",)),
        Alteration("drop-column", "shop.orders", (), ("ALTER TABLE orders DROP COLUMN IF EXISTS more",)),
        Alteration("not-null", "shop.receipts", (), ("ALTER TABLE receipts ALTER period SET NOT NULL",)),
        Alteration("nullable", "shop.receipts", (), ("ALTER TABLE receipts ALTER period DROP NOT NULL",)),
        Alteration("default", "shop.orders", (), ("ALTER TABLE orders ALTER qty SET DEFAULT 1",)),
        Alteration("vacuum-full", "shop.orders", (), ("VACUUM FULL orders",)),
        Alteration("cluster", "shop.receipts", (), ("CLUSTER receipts USING receipts_pkey",)),
        Alteration("rename-and-truncate", "shop.lines", None,
                   ("ALTER TABLE lines RENAME TO lines_old", "TRUNCATE lines_old",
                    "ALTER TABLE lines_old RENAME TO lines")),
        Alteration("blind-write", "shop.orders", None,
                   ("ALTER TABLE orders DISABLE TRIGGER USER", "UPDATE orders SET qty = qty + 1 WHERE id % 2 = 0",
                    "ALTER TABLE orders ENABLE TRIGGER USER")),
        Alteration("blind-write-at-once", "shop.lines", None,
                   ("ALTER TABLE lines DISABLE TRIGGER USER; UPDATE lines SET note = 'blind';"
                    " ALTER TABLE lines ENABLE TRIGGER USER",)),
        Alteration("recreate", "shop.receipts", None,
                   (f"DROP TABLE receipts; {_RECEIPTS}; INSERT INTO receipts VALUES (1, 1, 'again')",)),
        Alteration("recreate-slowly", "shop.receipts", None,
                   ("DROP TABLE receipts", _RECEIPTS, "INSERT INTO receipts VALUES (2, 1, 'again')")),
        Alteration("attach", "shop.events", None, ("ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES IN (2)",)),
        Alteration("detach", "shop.events", None, ("ALTER TABLE events DETACH PARTITION events_2",)),
        Alteration("write-partition", "shop.events", None, ("UPDATE events_0 SET note = 'direct'",)),
        Alteration("insert-partition", "shop.events", None, ("INSERT INTO events_1 VALUES (77, 1, 'direct')",)),
        Alteration("truncate-partition", "shop.events", None, ("TRUNCATE events_1",)),
        Alteration("write-apart", "shop.events", None, ("UPDATE events_2 SET note = note || '!'",)),
        Alteration("infinite-due", "shop.orders", ("due",),
                   ("UPDATE orders SET due = 'infinity' WHERE id = (SELECT min(id) FROM orders)",)),
        Alteration("no-number", "shop.orders", ("price",),
                   ("UPDATE orders SET price = 'NaN' WHERE id = (SELECT max(id) FROM orders)",)),
        Alteration("unused-infinity", "shop.orders", (), ("UPDATE orders SET odd = 'infinity' WHERE id % 3 = 1",)),
        Alteration("word-for-age", "crm.customers", ("age",), ("UPDATE customers SET age = 'old' WHERE id < 3",)),
        Alteration("huge-age", "crm.customers", ("age",), ("UPDATE customers SET age = 1.5 WHERE id < 3",)),
        Alteration("unused-word", "crm.customers", (), ("UPDATE customers SET junk = 'a word' WHERE id < 4",)),
        Alteration("rebuild", "crm.customers", None,
                   ("{new}; INSERT INTO made SELECT id, name, upper(city), age, 0 FROM customers;"
                    " DROP TABLE customers; ALTER TABLE made RENAME TO customers".format(
                        new=CUSTOMERS_DDL.format("made")),)),
        Alteration("drop-trigger", "stock.bins", None,
                   ("SELECT drop_capture", "INSERT INTO bins VALUES ('a', 'unseen')")),
    )
}  # fmt: skip

REPAIRS = {
    "shop.orders": (
        "UPDATE orders SET due = NULL WHERE due = 'infinity'",
        "UPDATE orders SET price = 0 WHERE price = 'NaN'",
    ),
    "crm.customers": ("UPDATE customers SET age = 1 WHERE typeof(age) <> 'integer'",),
}
"""What takes out values that a view cannot hold, before it is built anew."""

REWRITING = (
    "upper", "double", "seconds", "fractions", "another-column", "another-column-slowly", "swap-names", "rename-value",
    "rename-value-back", "swap-values", "recreate", "recreate-slowly", "rename-and-truncate", "blind-write",
    "blind-write-at-once", "rebuild", "drop-trigger",
)  # fmt: skip
DEFINES = {"not-null": "period", "nullable": "period", "default": "qty"}
"""The columns that are defined anew, and whose values stay."""
WRITES_ANEW = ("vacuum-full", "cluster", "upper", "double", "seconds", "fractions")
"""After these the table is stored anew."""
HARMLESS = ("add-column", "drop-column", "not-null", "nullable", "default", "vacuum-full", "cluster")
PARTITIONS = ("attach", "detach", "write-partition", "insert-partition", "truncate-partition", "write-apart")
VALUES = ("infinite-due", "no-number", "unused-infinity", "word-for-age", "huge-age", "unused-word")
