"""What a process holds while it runs, by the names of the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.lab.stepping.frames import Item, Queue
from headwater.maintenance.strategies.contract import Ask, Label, Update
from headwater.maintenance.strategies.pvm import Stamped
from headwater.maintenance.strategies.threads import Threads
from headwater.maintenance.strategies.waves import WavePoll

Named = Callable[[Label], str]

NAMES = {
    "umq": "UMQ",
    "ppu": "PPU",
    "rpu": "RPU",
    "temp_view": "Temp_View",
    "temp_frwrd": "Temp_frwrd",
    "temp_bckwrd": "Temp_bckwrd",
}
"""Attributes of the algorithms' processes, as their papers call them."""


def queues_of(process: object, named: Named) -> tuple[Queue, ...]:
    """Every queue and set that a process has; empty ones too, so that one sees them fill."""
    inner = getattr(process, "pvm", getattr(process, "process", process))  # one with a planted fault holds the real one
    found = [
        Queue(name, tuple(Item(_said(one, named)) for one in _values(getattr(inner, attribute))))
        for attribute, name in NAMES.items()
        if hasattr(inner, attribute)
    ]
    threads = getattr(inner, "_threads", None)
    if isinstance(threads, Threads) and not hasattr(inner, "ppu"):
        handled = tuple(Item(about_of(about, named, "a batch")) for about in threads.under_way)
        found.append(Queue("being handled", handled))
    ordered = getattr(inner, "commit_queue", [])
    if ordered or type(getattr(inner, "_order", None)).__name__ == "InOrder":
        found.append(Queue("CommitQueue", tuple(Item(_said(one, named), done) for one, done in ordered)))
    return tuple(found)


def about_of(about: Iterable[Label], named: Named, otherwise: str = "no update") -> str:
    return ", ".join(named(label) for label in about) or otherwise


def asked(ask: Ask, named: Named) -> str:
    """What a question is about; the wave's are about a batch."""
    batch = "what is new" if isinstance(ask.question, WavePoll) else "the batch, as of P"
    return about_of(ask.about, named, batch)


def _values(held: Any) -> Iterable[Any]:
    return held.values() if isinstance(held, Mapping) else held


def _said(one: Any, named: Named) -> str:
    if isinstance(one, Update):
        return named(one.label)
    if isinstance(one, Stamped):
        return f"{named(one.update.label)} @{one.stamp}"
    about = getattr(one, "about", None)
    if about is not None:
        return about_of(about, named)
    return type(one).__name__
