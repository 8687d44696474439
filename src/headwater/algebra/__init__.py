"""Views as values: parsed from SQL, and evaluated on bags in plain Python as the reference."""

from headwater.algebra.bag import Bag, Relation, Row
from headwater.algebra.evaluate import evaluate
from headwater.algebra.parse import Catalog, ParsedView, define, parse_views
from headwater.algebra.view import (
    AggregateCall,
    AggregateFunction,
    Aggregation,
    Equality,
    Occurrence,
    Output,
    ViewDefinition,
)

__all__ = [
    "AggregateCall",
    "AggregateFunction",
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
    "define",
    "evaluate",
    "parse_views",
]
