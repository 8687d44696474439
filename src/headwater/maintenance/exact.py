"""Sums that can be taken back.

A view's SUM is updated by adding and subtracting, so it must not depend on the order of additions: integers and
decimals are summed as whole numbers, and floats too: every double is a whole multiple of 2^-1074, so their sum is kept
as an integer and rounded once, when it is shown. The result is the correctly rounded sum, what `math.fsum` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Objects = npt.NDArray[np.object_]

_UNIT = 1074
_EXACT = Context(prec=200)  # Python's own context would round to 28 digits without a word
# Infinities and NaN travel in counters above any finite sum: 2^4096 units each, so that they can be taken back too.
_SPECIAL = {"nan": 4096 * 3, "inf": 4096 * 2, "-inf": 4096}


@dataclass(frozen=True)
class Sum:
    """How values of one type are summed: `whole` turns a column into integers (0 for NULL), `shown` turns a sum and the
    number of values into SUM's value, `mean` into AVG's."""

    whole: Callable[[pa.ChunkedArray], Objects]
    shown: Callable[[int], object]
    mean: Callable[[int, int], object]


def sum_of(argument: pa.DataType, average: pa.DataType | None = None) -> Sum:
    """The Sum of an argument type; `average` is the type AVG is shown in."""
    if pa.types.is_floating(argument):
        return Sum(_whole_floats, _float, lambda total, n: _float(total, n))
    if pa.types.is_decimal(argument):
        scale = argument.scale
        shown_scale = average.scale if average is not None and pa.types.is_decimal(average) else scale + 4
        return Sum(
            lambda column: _whole_decimals(column, scale),
            lambda total: Decimal(total).scaleb(-scale, _EXACT),
            lambda total, n: Decimal(_half_up(total * 10 ** (shown_scale - scale), n)).scaleb(-shown_scale, _EXACT),
        )
    return Sum(_whole_integers, lambda total: total, lambda total, n: total / n)


def _whole_integers(column: pa.ChunkedArray) -> Objects:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy()).astype(object)


def _whole_decimals(column: pa.ChunkedArray, scale: int) -> Objects:
    values = [0 if v is None else int(v.scaleb(scale, _EXACT)) for v in column.to_pylist()]
    return np.array(values, dtype=object)


def _whole_floats(column: pa.ChunkedArray) -> Objects:
    return np.array([0 if v is None else whole_float(v) for v in column.to_pylist()], dtype=object)


def whole_float(value: float) -> int:
    """A double in units of 2^-1074."""
    if math.isnan(value):
        return 1 << _SPECIAL["nan"]
    if math.isinf(value):
        return 1 << _SPECIAL["inf" if value > 0 else "-inf"]
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT - denominator.bit_length() + 1)


def _float(total: int, n: int = 1) -> float:
    for kind in ("nan", "inf", "-inf"):
        half = 1 << (_SPECIAL[kind] - 1)
        if (total + half) >> _SPECIAL[kind]:
            rest = total - (((total + half) >> _SPECIAL[kind]) << _SPECIAL[kind])
            opposite = kind == "inf" and (rest + (1 << (_SPECIAL["-inf"] - 1))) >> _SPECIAL["-inf"]
            return math.nan if opposite else float(kind)
    try:
        return total / (n << _UNIT)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _half_up(numerator: int, denominator: int) -> int:
    """Rounded division, halves away from zero, as SQL's decimals round."""
    quotient, rest = divmod(abs(numerator), denominator)
    quotient += 2 * rest >= denominator
    return quotient if numerator >= 0 else -quotient
