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

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeySet:
    """The distinct keys of one question. `columns` hold one dictionary per key column, `packed` the sorted combined
    codes; key number k has the codes packed[k]."""

    columns: tuple[pa.Array, ...]
    packed: Ints

    def __len__(self) -> int:
        return len(self.packed)

    def table(self, names: Sequence[str], types: Sequence[pa.DataType]) -> tuple[pa.Table, Ints]:
        """The keys as the target's own column types, and the number of each; a key that the target's type cannot
        represent matches nothing and is left out."""
        rest = self.packed.copy()
        codes: list[Ints] = []
        for dictionary in reversed(self.columns):
            codes.append(rest % len(dictionary))
            rest //= len(dictionary)
        codes.reverse()
        arrays, fits = [], np.ones(len(self.packed), bool)
        for dictionary, code, wanted in zip(self.columns, codes, types, strict=True):
            converted, ok = _convert(dictionary, wanted)
            fits &= ok[code]
            arrays.append(converted.take(pa.array(code)))
        keep = np.flatnonzero(fits)
        return pa.table(arrays, names=list(names)).take(pa.array(keep)), keep

    def numbers(self, arrays: Sequence[pa.ChunkedArray]) -> Ints:
        """The number of each row's key, −1 where it is none of these (or has a NULL)."""
        if not self.columns:
            return np.zeros(len(arrays[0]) if arrays else 0, np.int64)
        codes = [
            _codes(pc.index_in(_common(array, dictionary.type), value_set=dictionary))
            for array, dictionary in zip(arrays, self.columns, strict=True)
        ]
        packed, known = _pack(codes, [len(d) for d in self.columns])
        at = np.searchsorted(self.packed, packed)
        at[at == len(self.packed)] = 0
        if len(self.packed):
            known &= self.packed[at] == packed
        return np.where(known, at, -1).astype(np.int64)


def key_set(sides: Sequence[Sequence[pa.ChunkedArray]]) -> tuple[KeySet, list[Ints]]:
    """Number the distinct keys of several tables together; `sides[i][c]` is column c of table i. Returns the key set
    and, for each table, the number of every row's key (−1 where it holds a NULL: NULL joins nothing)."""
    dictionaries, coded = [], []
    for column in zip(*sides, strict=True):
        wanted = reduce(_wider, (array.type for array in column))
        chunks = [chunk for array in column for chunk in _common(array, wanted).chunks]
        encoded = pa.chunked_array(chunks, wanted).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # combine_chunks keeps chunks only past 2 GiB of text
            encoded = pa.concat_arrays(encoded.chunks)
        encoded = encoded.dictionary_encode()
        dictionaries.append(encoded.dictionary)
        coded.append(_codes(encoded.indices))
    packed, known = _pack(coded, [len(d) for d in dictionaries])
    unique, numbers = np.unique(packed[known], return_inverse=True)
    everywhere = np.full(len(packed), -1, np.int64)
    everywhere[known] = numbers
    lengths = np.cumsum([len(side[0]) for side in sides])[:-1]
    return KeySet(tuple(dictionaries), unique), [np.ascontiguousarray(a) for a in np.split(everywhere, lengths)]


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
        whole = max(_digits(left)[0], _digits(right)[0])
        scale = max(_digits(left)[1], _digits(right)[1])
        return pa.decimal128(min(38, whole + scale), scale) if whole + scale <= 38 else pa.decimal256(76, scale)
    raise TypeError(f"cannot compare {left} with {right}")


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (19, 0)


def _common(array: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    return array if array.type == wanted else array.cast(wanted)


def _convert(dictionary: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    if dictionary.type == wanted:
        return dictionary, np.ones(len(dictionary), bool)
    try:
        return dictionary.cast(wanted), np.ones(len(dictionary), bool)
    except pa.ArrowInvalid:
        values, ok = [], np.zeros(len(dictionary), bool)
        for i, scalar in enumerate(dictionary):
            try:
                values.append(scalar.cast(wanted).as_py())
                ok[i] = True
            except pa.ArrowInvalid:
                values.append(None)
        return pa.array(values, wanted), ok


def _codes(indices: pa.Array | pa.ChunkedArray) -> Ints:
    filled = pc.fill_null(indices, -1)
    return np.asarray(filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(False), np.int64)


def _pack(codes: Sequence[Ints], sizes: Sequence[int]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """One integer per row from the codes of its key columns, and whether all of them are known."""
    known = np.ones(len(codes[0]), bool)
    packed = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        if size and packed.size and int(packed.max()) > (2**62) // size:
            raise OverflowError("too many distinct composite keys in one batch")
        known &= code >= 0
        packed = packed * size + code
    return packed, known
