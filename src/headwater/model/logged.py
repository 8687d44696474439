"""What a line of the log is about, beside its sentence: the name of the event, and facts that programs search by.

    log.warning("view %s halted: %s", name, reason, extra=event("view.halted", view=name, reason=reason))

The sentence is for people; a reader of JSON lines (`--log json`) finds the facts as fields. A fact is never a secret,
and what it quotes of others goes through the same net as the sentence.
"""

from __future__ import annotations

EVENT, FACTS = "event", "facts"
"""The attributes that a log record has of them."""


def event(name: str, **facts: object) -> dict[str, object]:
    """For `extra=` of a logging call."""
    return {EVENT: name, FACTS: facts}
