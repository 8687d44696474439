"""Pure-Push and Interleaved Pull-Push over real agents: members (`member`, `windows`, `pins`), the warehouse (`source`,
`round`) and what they send each other (`letters`)."""

from headwater.chain.spec import SCHEME, chain_spec
from headwater.model.source import Source, SourceSpec
from headwater.sources import register

__all__ = ["chain_spec"]


def _connected(spec: SourceSpec) -> Source:
    from headwater.chain.source import ChainSource  # with the algorithms comes a parser: who connects pays for it

    return ChainSource(spec)


register(SCHEME, _connected)
