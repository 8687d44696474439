"""A view over a chain of agents: its join becomes a table that the agents bring about between themselves.

    V = γ π σ (R1 ⋈ … ⋈ Rn)     is written as     V = γ π σ' (chain_V.rows)

The chain says the equalities and those conditions that every source understands; whatever else the view says stays
with it and is evaluated by Spark on the joined rows. By substitution the two are equal, state by state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.auxiliary import restated
from headwater.algebra.conditions import check_equalities
from headwater.algebra.methods import CHAIN, MAINTENANCE, METHODS, WINDOW, window_of
from headwater.algebra.names import Catalog
from headwater.algebra.statements import ParsedView
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.keeping.partition import Block, Stand, auxiliary_view, over
from headwater.model.chain import Chain, ChainMember
from headwater.model.errors import UnknownName
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema

Define = Callable[[ParsedView, Catalog], ViewDefinition]


def is_chained(parsed: ParsedView) -> bool:
    """Whether a view is to be maintained along a chain."""
    method = METHODS.get(parsed.options.get(MAINTENANCE, "").lower())
    return method is not None and method.chained


def over_chain(parsed: ParsedView, block: Block, catalog: Catalog, define: Define) -> tuple[ParsedView, ViewDefinition]:
    """The view as written, put over its chain: the statement that is stored, and what it means."""
    said = _said(parsed, block, catalog, define)
    query, stand = _joined(parsed, block, said)
    chain = chain_of(parsed, query, catalog, define)
    stand = replace(stand, table=chain.table)
    rest = restated(parsed, parsed.name, over(block, [stand]), {CHAIN: chain.query})
    return rest, define_over(rest, chain, catalog, define)


def define_over(rest: ParsedView, chain: Chain, catalog: Catalog, define: Define) -> ViewDefinition:
    """A view that reads its chain."""
    view = define(rest, WithChain(catalog, chain))
    return replace(view, maintenance="wave", chain=chain)


def chain_of(parsed: ParsedView, query: exp.Expr | str, catalog: Catalog, define: Define) -> Chain:
    """The chain that a join of tables is."""
    joined = _alone(parsed, query, catalog, define)
    tables = {o.table: catalog.resolve(o.table.source, o.table.schema, o.table.table) for o in joined.occurrences}
    members = tuple(ChainMember(o.table, o.columns, o.conditions) for o in joined.occurrences)
    of = {f"`{o.core(c)}`": (i, c) for i, o in enumerate(joined.occurrences) for c in o.columns}
    chain = Chain(
        ViewName(parsed.name),
        parsed.options[MAINTENANCE].lower(),
        window_of(parsed),
        members,
        tuple((*e.left, *e.right) for e in joined.equalities),
        tuple((output.name, *of[output.expression]) for output in joined.outputs),
        joined.text,
    ).typed(tables)
    check_equalities(joined, {member.table: member.schema for member in chain.members})
    return chain


def _said(parsed: ParsedView, block: Block, catalog: Catalog, define: Define) -> list[int]:
    """The clauses that the chain applies, by their place: equalities, and what is said of one table and understood by
    its source."""
    found = []
    for place, clause in enumerate(block.clauses):
        tables = {column.table for column in clause.find_all(exp.Column)}
        ends = (clause.this, clause.expression) if isinstance(clause, exp.EQ) else ()
        if len(tables) == 2 and ends and all(isinstance(end, exp.Column) for end in ends):
            found.append(place)
        elif len(tables) == 1:
            alone, _ = auxiliary_view(block, [b.index for b in block.bounds if b.alias in tables], "", {place})
            if not _alone(parsed, alone, catalog, define, shaped=False).residual:
                found.append(place)
    return found


def _joined(parsed: ParsedView, block: Block, said: Sequence[int]) -> tuple[exp.Select, Stand]:
    return auxiliary_view(block, [bound.index for bound in block.bounds], "chain", set(said))


def _alone(
    parsed: ParsedView, query: exp.Expr | str, catalog: Catalog, define: Define, shaped: bool = True
) -> ViewDefinition:
    """A join by itself; `shaped`: refused if the algorithm cannot go along it."""
    part = restated(parsed, parsed.name, query)
    kept = {key: value for key, value in part.options.items() if shaped or key not in (MAINTENANCE, WINDOW)}
    return define(replace(part, options=kept), catalog)


@dataclass(frozen=True)
class WithChain:
    """What is known of the sources, and a chain beside them."""

    known: Catalog
    chain: Chain

    def sources(self) -> Sequence[str]:
        return [*self.known.sources(), self.chain.source]

    def tables(self, source: str) -> Sequence[str]:
        return [self.chain.table.table] if source == self.chain.source else self.known.tables(source)

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        if source != self.chain.source:
            return self.known.resolve(source, schema, table)
        if schema or table != self.chain.table.table:
            raise UnknownName("table", table, [self.chain.table.table], f"in {source}")
        members = (m.table for m in self.chain.members)
        return self.chain.described({t: self.known.resolve(t.source, t.schema, t.table) for t in members})


def check_sources(parsed: ParsedView, tables: Sequence[TableName], chained: frozenset[SourceName]) -> None:
    """Chains go along agents that are asked in no other way, and nothing else reads those."""
    inside = [t.source for t in tables if t.source in chained]
    outside = [t.source for t in tables if t.source not in chained]
    if is_chained(parsed) and outside:
        title = METHODS[parsed.options[MAINTENANCE].lower()].title
        raise parsed.option_error(
            MAINTENANCE,
            f"{title} goes from agent to agent, and source {outside[0]} is not part of a chain",
            f'run an agent beside it: url = "agent://NAME" and questions = "chain" in [sources.{outside[0]}]',
        )
    if inside and not is_chained(parsed):
        raise parsed.error(
            f'source {inside[0]} says questions = "chain": its rows are joined by agents, and asked for by nobody',
            "write maintenance = 'pull-push', or questions = \"copy\" in its section of headwater.toml",
        )
