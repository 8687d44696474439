"""An envelope: what the hub reads of a letter between members of a chain and their warehouse.

X-Chain, X-Epoch, X-To, X-Kind       from whom is for the hub to say: it knows whose token was shown
body                                 the message, as frames (`letters`): the hub does not look
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 64 * 1024 * 1024
"""No letter is larger."""


@dataclass(frozen=True)
class Letter:
    """`sender` is empty on the way to the hub."""

    chain: str
    epoch: int
    sender: str
    to: str
    kind: str
    body: bytes

    def headers(self) -> dict[str, str]:
        return {"X-Chain": self.chain, "X-Epoch": str(self.epoch), "X-From": self.sender, "X-To": self.to,
                "X-Kind": self.kind}  # fmt: skip
