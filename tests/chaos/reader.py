"""Reads many states of a warehouse quickly: one process that answers for as long as the world lasts.

It calls the public Python API, which reads from the warehouse alone; the world's own process holds SQLite files open
and must not load Headwater's library beside them.

    {"rows": [["orders_all", 17], …]}   → the rows of each view at each state, in written form
    {"log": 12}                         → the numbered transactions from 12 on, without their changes
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

if __package__:
    from .business import Bag, canonical
else:
    from business import Bag, canonical  # type: ignore[no-redef] # as a script

Told = tuple[int, str, str]
"""seq, source, label."""


class Unreadable(Exception):
    """A state that should be there could not be read."""


class Reader:
    def __init__(self, project: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(project)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def rows(self, wanted: Sequence[tuple[str, int | None]]) -> list[Bag]:
        """The rows of each view at each state, all of which must be there."""
        found = []
        for (view, at), bag in zip(wanted, self.kept(wanted), strict=True):
            if bag is None:
                raise Unreadable(f"{view} at {at}: there is no such state, it says")
            found.append(bag)
        return found

    def kept(self, wanted: Sequence[tuple[str, int | None]]) -> list[Bag | None]:
        """The same; None where a view that was halted and resumed says that it has no state."""
        found: list[Bag | None] = []
        for (view, at), answer in zip(wanted, self._ask({"rows": list(wanted)}), strict=True):
            if isinstance(answer, str):
                if "was halted at" not in answer:
                    raise Unreadable(f"{view} at {at}: {answer}")
                found.append(None)
            else:
                found.append(Counter(tuple(row) for row in answer))
        return found

    def log(self, first: int) -> list[Told]:
        answer = self._ask({"log": first})
        if isinstance(answer, str) and "there is nothing in the warehouse" in answer:
            return []
        if isinstance(answer, str):
            raise Unreadable(f"log from {first}: {answer}")
        return [(seq, source, label) for seq, source, label in answer]

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _serve(project: str) -> None:
    import warnings

    import headwater

    warnings.simplefilter("ignore")  # that a view is halted, its status says
    for line in sys.stdin:
        question = json.loads(line)
        answer: Any
        try:
            warehouse = headwater.open(project)
            if "log" in question:
                answer = [[t["seq"], t["source"], t["transaction"]] for t in warehouse.log(question["log"])]
            else:
                answer = [_rows(warehouse, view, at) for view, at in question["rows"]]
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
            if "rows" in question:
                answer = [answer] * len(question["rows"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _rows(warehouse: Any, view: str, at: int | None) -> Any:
    try:
        return [[canonical(v) for v in row.values()] for row in warehouse.rows(view, at).to_pylist()]
    except Exception as error:  # the world judges what it means
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    _serve(sys.argv[1])
