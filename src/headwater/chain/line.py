"""The warehouse's line to the hub, where the members of its chain can be reached."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import urllib3

from headwater.chain.letter import Letter
from headwater.model.chain import ChainEpoch
from headwater.model.errors import HeadwaterError, SourceUnavailable
from headwater.model.source import SourceSpec
from headwater.sources.agent.frames import Kind, frame
from headwater.sources.agent.line import AUTHORITY, HUB, SECRET, refusal, trusting, whole
from headwater.sources.agent.values import told

_PATIENCE = urllib3.Timeout(connect=5, read=60)
AWAY = "X-Away"


class EpochOver(HeadwaterError):
    """The hub does not know this epoch any more: a new one must begin."""


@dataclass(frozen=True)
class Fetched:
    """A letter, or who is away while there is none."""

    letter: Letter | None
    away: tuple[str, ...] = ()


class ChainLine:
    """`member` is any source of the chain: all have the same hub."""

    def __init__(self, chain: str, member: SourceSpec) -> None:
        options = dict(member.options)
        self._chain, self._base = chain, f"{options[HUB]}/chains/{quote(chain, safe='')}"
        self._headers = {"Authorization": f"Bearer {options.get(SECRET, '')}"}
        authority = options.get(AUTHORITY, "")
        context = trusting(authority) if self._base.startswith("https:") else None
        self._pool = urllib3.PoolManager(1, ssl_context=context)

    def begin(self, epoch: ChainEpoch) -> None:
        nodes = ",".join(member.source for member in epoch.chain.members)
        headers = {"X-Epoch": str(epoch.number), "X-Nodes": nodes, "X-Agents": ",".join(epoch.agents)}
        self._post("", b"".join([*told(epoch), frame(Kind.END)]), headers)

    def send(self, letter: Letter) -> None:
        self._post("/letters", letter.body, letter.headers())

    def fetch(self, epoch: int, wait: float) -> Fetched:
        found = self._post("/box", msgspec.json.encode({"wait": wait}), {"X-Epoch": str(epoch)})
        if found.status == 204:
            return Fetched(None, tuple(filter(None, found.headers.get(AWAY, "").split(","))))
        said = {name: found.headers.get(f"X-{name}", "") for name in ("From", "To", "Kind")}
        return Fetched(Letter(self._chain, epoch, said["From"], said["To"], said["Kind"], found.data))

    def done(self, epoch: int, window: int, members: int) -> None:
        """A window is over."""
        said = msgspec.json.encode({"window": window, "members": members})
        self._post("/done", said, {"X-Epoch": str(epoch)})

    def _post(self, door: str, body: bytes, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            response = self._pool.request(
                "POST", f"{self._base}{door}", body=body, headers={**self._headers, **headers}, timeout=_PATIENCE,
                retries=False, redirect=False,
            )  # fmt: skip
        except urllib3.exceptions.HTTPError as error:
            raise SourceUnavailable(
                f"{self._chain}: the hub does not answer ({type(error).__name__})", "is its address right?"
            ) from error
        if response.status in (200, 204):
            if not whole(response):
                raise SourceUnavailable(f"{self._chain}: an answer of the hub was cut off", "it is asked again")
            return response
        said = refusal(response.data)
        if response.status == 410:
            raise EpochOver(said.what, said.fix)
        raise SourceUnavailable(f"{self._chain}: {said.what}", said.fix)

    def close(self) -> None:
        self._pool.clear()
