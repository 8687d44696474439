"""What a copy of a table will write, before it has written it.

A view that reads copies does not wait for their files: their changes are the table's, which are in the journal. So its
batch reads a copy in two parts, what is in files up to a transaction, and the journal from there on.

Invariant: every change of the copy up to the batch's end is in exactly one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.model.names import Seq
from headwater.runtime.scheduling.families import Batch
from headwater.warehouse.table import LogFile


def in_two_parts(files: Sequence[LogFile], unwritten: Batch | None, hi: Seq) -> tuple[Sequence[LogFile], Batch | None]:
    """The files to be read, and what of `unwritten` is to be read from the journal. It was true when the batch was
    begun; files may have come since, which are left alone, and files may have been merged, with some that were not
    there then: what is merged is committed, and so is everything before the end of it."""
    if unwritten is None:
        return files, None
    since = max([int(unwritten.lo), *(f.high for f in files if f.low <= unwritten.lo < f.high)])
    if since >= hi:
        return files, None
    return [file for file in files if file.high <= since], replace(unwritten, lo=Seq(since))
