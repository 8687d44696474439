"""Tiny data for TPC-H: what dbgen makes, with fewer rows and smaller domains, so that every query finds something.

As in the standard: every third customer never orders; a line's flags follow from its dates; an order's status and
price follow from its lines; a part has several suppliers, and a line has one of them.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

from headwater.model.names import TableName

from .standard import read_schema
from .world import Row

SCHEMA = read_schema(Path(__file__).parent / "schema.sql")
QUERIES = Path(__file__).parent / "queries"
REGION, NATION, SUPPLIER, PART, PARTSUPP, CUSTOMER, ORDERS, LINEITEM = SCHEMA

TODAY = date(1995, 6, 17)
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    *(("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3)),
    *(("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4)),
    *(("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3)),
    *(("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)),
)
LIVED_IN = (1, 2, 2, 6, 6, 6, 7, 7, 23)
"""Where customers and suppliers are, so that they meet: Argentina, Brazil, France, Germany, the United Kingdom."""
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "REG AIR", "MAIL", "SHIP")
INSTRUCTIONS = ("DELIVER IN PERSON", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
COLORS = ("forest", "green", "almond", "azure")
TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED BRASS", "MEDIUM POLISHED TIN", "SMALL PLATED BRASS")
SIZES = (3, 5, 9, 14, 15)
CASES = (("Brand#12", "SM BOX"), ("Brand#23", "MED BOX"), ("Brand#34", "LG CASE"), ("Brand#45", "JUMBO PKG"))
REMARKS = ("furiously final", "special quick requests", "slyly bold", "Customer angry Complaints")


def money(random: Random, low: int, high: int) -> Decimal:
    return Decimal(random.randint(low * 100, high * 100)) / 100


class Rows:
    """Makes rows of each table, with whatever keys they are given."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def supplier(self, key: int) -> Row:
        nation = self.random.choice(LIVED_IN)
        balance, remark = money(self.random, -999, 9999), self.random.choice(REMARKS)
        return (key, f"Supplier#{key:09}", f"street {key}", nation, phone(nation, key), balance, remark)

    def part(self, key: int) -> Row:
        choose = self.random.choice
        brand, container = choose(CASES)
        name = " ".join(self.random.sample(COLORS, 2))
        price = 900 + Decimal(key % 1000) / 10
        return (
            key,
            name,
            f"Manufacturer#{brand[6]}",
            brand,
            choose(TYPES),
            choose(SIZES),
            container,
            price,
            "carefully",
        )

    def partsupp(self, part: int, supplier: int) -> Row:
        return (part, supplier, self.random.randint(1, 99), money(self.random, 1, 40), "even ideas")

    def customer(self, key: int) -> Row:
        nation = self.random.choice(LIVED_IN)
        balance, segment = money(self.random, -999, 9999), self.random.choice(SEGMENTS)
        name, remark = f"Customer#{key:09}", self.random.choice(REMARKS)
        return (key, name, f"road {key}", nation, phone(nation, key), balance, segment, remark)

    def line(self, order: int, number: int, ordered: date, supplied: tuple[int, int]) -> Row:
        random = self.random
        quantity = Decimal(random.randint(1, 50))
        price = quantity * (90 + supplied[0] % 20)
        shipped = ordered + timedelta(random.randint(1, 121))
        committed, received = ordered + timedelta(random.randint(45, 110)), shipped + timedelta(random.randint(1, 30))
        flag = random.choice("RA") if received <= TODAY else "N"
        cut, tax = Decimal(random.randint(0, 10)) / 100, Decimal(random.randint(0, 8)) / 100
        return (
            *(order, *supplied, number, quantity, price, cut, tax, flag, "O" if shipped > TODAY else "F"),
            *(shipped, committed, received, random.choice(INSTRUCTIONS), random.choice(MODES), "blithely"),
        )

    def order(self, key: int, customer: int, ordered: date, lines: list[Row]) -> Row:
        states = {line[9] for line in lines}
        status = states.pop() if len(states) == 1 else "P"
        total = sum((line[5] * (1 + line[7]) * (1 - line[6]) for line in lines), Decimal(0)).quantize(Decimal("0.01"))
        choose = self.random.choice
        return (key, customer, status, total, ordered, choose(PRIORITIES), f"Clerk#{key % 5:09}", 0, choose(REMARKS))

    def ordered(self) -> date:
        return date(1994, 1, 1) + timedelta(self.random.randint(0, 729))


def phone(nation: int, key: int) -> str:
    return f"{10 + nation}-{key % 900 + 100}-{key % 800 + 100}-1234"


def tiny(seed: int, orders: int = 80) -> dict[TableName, list[Row]]:
    """All tables; a few hundred lines."""
    random = Random(seed)
    make = Rows(random)
    suppliers, parts, customers = range(1, 9), range(1, 17), range(1, 22)
    pairs = [(p, 1 + (p + i * 3) % len(suppliers)) for p in parts for i in range(3)]
    data: dict[TableName, list[Row]] = {
        REGION: [(i, name, "") for i, name in enumerate(REGIONS)],
        NATION: [(i, name, region, "") for i, (name, region) in enumerate(NATIONS)],
        SUPPLIER: [make.supplier(key) for key in suppliers],
        PART: [make.part(key) for key in parts],
        PARTSUPP: [make.partsupp(*pair) for pair in pairs],
        CUSTOMER: [make.customer(key) for key in customers],
        ORDERS: [],
        LINEITEM: [],
    }
    for key in range(1, orders + 1):
        day = make.ordered()
        lines = [make.line(key, n, day, random.choice(pairs)) for n in range(1, random.randint(2, 7))]
        data[ORDERS].append(make.order(key, random.choice([c for c in customers if c % 3]), day, lines))
        data[LINEITEM].extend(lines)
    return data
