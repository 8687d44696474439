"""Keys as ordinals: the joins of a wave without a row-at-a-time loop.

The distinct keys of a question are numbered; partial results, answers and journal rows then carry that number, and a
join is a binary search over sorted integers followed by an Arrow `take`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.conditions import digits

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeySet:
    """The distinct keys of one question. `columns` hold one dictionary per key column. `levels[c]` are the distinct
    prefixes of c + 1 columns, each as `number of the prefix one shorter · len(columns[c]) + code`, sorted; a prefix's
    number is its place there, and the numbers of the last level are those of the keys. No product of more than two
    sizes is ever formed, so many columns of many values do not overflow."""

    columns: tuple[pa.Array, ...]
    levels: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.levels[-1])

    def table(self, names: Sequence[str], types: Sequence[pa.DataType]) -> tuple[pa.Table, Ints]:
        """The keys as the target's own column types, and the number of each; a key that the target's type cannot
        represent matches nothing and is left out."""
        number = np.arange(len(self))
        codes: list[Ints] = []
        for dictionary, level in zip(reversed(self.columns), reversed(self.levels), strict=True):
            number, code = np.divmod(level[number], max(1, len(dictionary)))
            codes.append(code)
        codes.reverse()
        arrays, fits = [], np.ones(len(self), bool)
        for dictionary, code, wanted in zip(self.columns, codes, types, strict=True):
            converted, ok = _convert(dictionary, wanted)
            fits &= ok[code]
            arrays.append(converted.take(pa.array(code)))
        keep = np.flatnonzero(fits)
        return pa.table(arrays, names=list(names)).take(pa.array(keep)), keep

    def numbers(self, arrays: Sequence[pa.ChunkedArray]) -> Ints:
        """The number of each row's key, −1 where it is none of these (or has a NULL)."""
        number, known = np.zeros(len(arrays[0]), np.int64), np.ones(len(arrays[0]), bool)
        for array, dictionary, level in zip(arrays, self.columns, self.levels, strict=True):
            wanted = _wider(array.type, dictionary.type)  # either side may hold what the other cannot represent
            code = _codes(pc.index_in(_common(array, wanted), value_set=_common(dictionary, wanted)))
            packed = number * len(dictionary) + code
            number = np.minimum(np.searchsorted(level, packed), max(0, len(level) - 1))
            known &= (code >= 0) & (level[number] == packed if len(level) else False)
        return np.where(known, number, -1).astype(np.int64)


def key_set(sides: Sequence[Sequence[pa.ChunkedArray]]) -> tuple[KeySet, list[Ints]]:
    """Number the distinct keys of several tables together; `sides[i][c]` is column c of table i. Returns the key set
    and, for each table, the number of every row's key (−1 where it holds a NULL: NULL joins nothing)."""
    dictionaries: list[pa.Array] = []
    levels: list[Ints] = []
    lengths = [len(side[0]) for side in sides]
    number, known = np.zeros(sum(lengths), np.int64), np.ones(sum(lengths), bool)
    for column in zip(*sides, strict=True):
        wanted = reduce(_wider, (array.type for array in column))
        chunks = [chunk for array in column for chunk in _common(array, wanted).chunks]
        encoded = pa.chunked_array(chunks, wanted).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # combine_chunks keeps chunks only past 2 GiB of text
            encoded = pa.concat_arrays(encoded.chunks)
        encoded = encoded.dictionary_encode()
        code = _codes(encoded.indices)
        known &= code >= 0
        if levels:
            level, number[known] = np.unique((number * len(encoded.dictionary) + code)[known], return_inverse=True)
        else:
            level, number = np.arange(len(encoded.dictionary)), code.copy()
        dictionaries.append(encoded.dictionary)
        levels.append(level)
    everywhere = np.where(known, number, -1)
    parts = np.split(everywhere, np.cumsum(lengths)[:-1])
    return KeySet(tuple(dictionaries), tuple(levels)), [np.ascontiguousarray(part) for part in parts]


def equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Where two columns are equal, as in Spark: NaN equals itself, NULL nothing."""
    wanted = _wider(left.type, right.type)
    left, right = _common(left, wanted), _common(right, wanted)
    same = pc.equal(left, right)
    if pa.types.is_floating(wanted):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which both sides of an equality are compared."""
    return _wider(left, right)


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right:
        return left
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return pa.float64()
    if _is_exact(left) and _is_exact(right):
        whole, scale = (max(digits(left)[n], digits(right)[n]) for n in (0, 1))
        return pa.decimal128(min(38, whole + scale), scale) if whole + scale <= 38 else pa.decimal256(76, scale)
    raise TypeError(f"cannot compare {left} with {right}")


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _common(array: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """A column as another type that can represent all of it; −0.0, which equals 0.0, becomes 0.0."""
    array = array if array.type == wanted else array.cast(wanted)
    return pc.add(array, pa.scalar(0.0, wanted)) if pa.types.is_floating(wanted) else array


def _convert(dictionary: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Values as another type, and which of them it represents exactly."""
    if dictionary.type == wanted:
        return dictionary, np.ones(len(dictionary), bool)
    common = _common(
        dictionary, _wider(dictionary.type, wanted)
    )  # from there to `wanted`, every value counts by itself
    try:
        converted = common.cast(wanted)
    except pa.ArrowInvalid:
        converted = pa.array([_fitting(value, wanted) for value in common], wanted)
    exact = pc.fill_null(equal(common, converted), False)  # a cast of doubles to singles rounds, and says nothing
    return converted, np.asarray(exact.to_numpy(zero_copy_only=False), bool)


def _fitting(value: pa.Scalar, wanted: pa.DataType) -> object:
    try:
        return value.cast(wanted).as_py()
    except pa.ArrowInvalid:
        return None


def _codes(indices: pa.Array | pa.ChunkedArray) -> Ints:
    filled = pc.fill_null(indices, -1)
    return np.asarray(filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(False), np.int64)
