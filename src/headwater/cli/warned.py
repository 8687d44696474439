"""What must be known of a result though it was given: warnings of the library, in the command line's words.

    warning: view open_orders is halted: …
      → what to do

on stderr; one JSON object each under --json. Rows stay rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.cli.errors import tell
from headwater.model.errors import HeadwaterWarning, ViewHalted


@contextmanager
def heard() -> Iterator[list[HeadwaterWarning]]:
    """Collects what Headwater warns of; the warnings of others are shown as usual."""
    ours: list[HeadwaterWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HeadwaterWarning)
        yield ours
    for one in caught:
        if isinstance(one.message, HeadwaterWarning):
            ours.append(one.message)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def warn(said: Sequence[HeadwaterWarning], as_json: bool) -> None:
    """Print warnings to stderr."""
    for one in said:
        facts: dict[str, object] = {"warning": one.what, "fix": one.fix}
        if isinstance(one, ViewHalted):
            facts |= {"view": one.view, "state": "halted", "seq": one.seq, "reason": one.reason}
        tell("warning", facts, as_json)
