"""Views as values: parsed from SQL, and evaluated on bags in plain Python as the reference."""

from headwater.algebra.bag import Bag, Relation, Row
from headwater.algebra.evaluate import evaluate, evaluate_all
from headwater.algebra.parse import Catalog, ParsedView, define, in_order, parse_views, references
from headwater.algebra.view import (
    UNTYPED,
    AggregateCall,
    Aggregation,
    Equality,
    Occurrence,
    Output,
    ViewDefinition,
    as_table,
)

__all__ = [
    "UNTYPED",
    "AggregateCall",
    "Aggregation",
    "Bag",
    "Catalog",
    "Equality",
    "Occurrence",
    "Output",
    "ParsedView",
    "Relation",
    "Row",
    "ViewDefinition",
    "as_table",
    "define",
    "evaluate",
    "evaluate_all",
    "in_order",
    "parse_views",
    "references",
]
