"""A chain as a source: what its adapter has to know, in the words that any source is described with."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from headwater.model.chain import Chain
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.sources.agent.frames import Kind, frame, frames
from headwater.sources.agent.values import heard, told

SCHEME = "chain"
_CHAIN, _MEMBERS = "chain", "members"


def chain_spec(chain: Chain, members: Sequence[SourceSpec]) -> SourceSpec:
    """`members` are the sources of the chain's tables, in its order."""
    said = base64.b64encode(b"".join([*told(chain), frame(Kind.END)])).decode()
    specs = json.dumps([[spec.name, spec.url, spec.options] for spec in members])
    return SourceSpec(chain.source, f"{SCHEME}://{chain.view}", ((_CHAIN, said), (_MEMBERS, specs)))


def read_spec(spec: SourceSpec) -> tuple[Chain, list[SourceSpec]]:
    options = dict(spec.options)
    chain = heard(frames([base64.b64decode(options[_CHAIN])]))
    assert isinstance(chain, Chain)
    members = [
        SourceSpec(SourceName(name), url, tuple((key, value) for key, value in said))
        for name, url, said in json.loads(options[_MEMBERS])
    ]
    return chain, members
