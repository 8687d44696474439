"""From views as written to what is maintained: each view, after the views that are kept for it.

    1. auxiliary = 'auto'                   the query is taken apart (algebra/auxiliary), and see 2
       auxiliary = 'equal' | 'frequency'    a block of joins is put over auxiliary views of groups of its tables
    2. auxiliary = 'all', ask = false       what would be asked for is read in copies; with 'auto', where that costs
                                            less than asking (`costs`)

Step 2 looks at what step 1 made of all views, so one copy serves them all. Everything that is kept is a view like any
other: loads, batches, cuts and recovery know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from headwater.algebra.auxiliary import check_free, restated, taken_apart
from headwater.algebra.methods import CHAIN, MAINTENANCE, WAVE
from headwater.algebra.names import Catalog, Names, Views
from headwater.algebra.parse import define
from headwater.algebra.promise import AUXILIARY as VALUES
from headwater.algebra.promise import KEPT_FOR
from headwater.algebra.statements import ParsedView
from headwater.algebra.view import Relied, ViewDefinition
from headwater.maintenance.keeping.chains import (
    Define,
    chain_of,
    check_sources,
    define_over,
    is_chained,
    over_chain,
)
from headwater.maintenance.keeping.copies import Copy, Use, asked_tables, copy_in, over_copies, smallest_copy, uses
from headwater.maintenance.keeping.groups import equal_groups, frequency_groups
from headwater.maintenance.keeping.known import AUXILIARY, GROUPS, NOTHING_KNOWN, Keeping
from headwater.maintenance.keeping.partition import auxiliary_view, block_of, over
from headwater.maintenance.keeping.relying import over_copies_of, relied_on
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError
from headwater.model.names import SourceName, TableName, ViewName

Definitions = Mapping[ViewName, ViewDefinition]


@dataclass(frozen=True)
class Defined:
    """Views that mean something over the sources as they are, each after those it reads, and what is wrong with the
    others."""

    views: dict[ViewName, ViewDefinition] = field(default_factory=dict)
    errors: dict[ViewName, HeadwaterError] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stated:
    """A view as it is maintained, so far, and the one that somebody wrote it as a part of. `relied` is what it counts
    on, to ask for less."""

    parsed: ParsedView
    view: ViewDefinition
    written: ParsedView
    relied: frozenset[Relied] = frozenset()

    @property
    def asked(self) -> frozenset[TableName]:
        return asked_tables(replace(self.view, relies=tuple(self.relied)))


def define_each(
    parsed: Sequence[ParsedView],
    catalog: Catalog,
    known: Definitions = MappingProxyType({}),
    keeping: Keeping = NOTHING_KNOWN,
) -> Defined:
    """Each view by itself: one that does not resolve keeps no other from being maintained, but for those that read
    it. `known` are maintained already; they may be read, and are not in the answer."""
    names = [*known, *(one.name for one in parsed)]
    chooser = _Chooser(catalog, keeping, names, known)
    stated, errors = list[_Stated](), dict[ViewName, HeadwaterError]()
    found = dict(known)
    for one in parsed:
        try:
            made = chooser.parts(one, found)
        except HeadwaterError as error:
            errors[ViewName(one.name)] = error
            continue
        stated += made
        found |= {part.view.name: part.view for part in made}
    return chooser.with_copies(stated, errors)


class _Chooser:
    def __init__(self, catalog: Catalog, keeping: Keeping, names: Sequence[str], known: Definitions) -> None:
        self._catalog, self._keeping, self._names, self._known = catalog, keeping, names, known

    # ── step 1 ───────────────────────────────────────────────────────────────────────────────────────────────────

    def parts(self, parsed: ParsedView, found: Definitions) -> list[_Stated]:
        if CHAIN in parsed.options:
            chain = chain_of(parsed, parsed.options[CHAIN], self._catalog, self._beside(found))
            return [_Stated(parsed, define_over(parsed, chain, self._catalog, self._beside(found)), parsed)]
        if is_chained(parsed):
            return [self._along_chain(parsed, found)]
        how = auxiliary_of(parsed, self._keeping)
        if how == "auto":
            return [_Stated(p, v, parsed) for p, v in taken_apart(parsed, self._catalog, found, self._names)]
        if how in ("equal", "frequency"):
            made = self._partition(parsed, found, how)
            if made:
                return made
        view = self._define(parsed, found)
        self._check_chained(parsed, view)
        return [_Stated(parsed, view, parsed)]

    def _along_chain(self, parsed: ParsedView, found: Definitions) -> _Stated:
        whole = self._define(parsed, found)
        self._check_chained(parsed, whole)
        block = block_of(Names(parsed, self._catalog, Views(found, frozenset(self._names))))
        assert block is not None, "the algorithm refuses what is more than a join"
        rest, view = over_chain(parsed, block, self._catalog, self._beside(found))
        assert view.columns == whole.columns, f"{parsed.name} over its chain has other columns"
        return _Stated(rest, view, parsed)

    def _check_chained(self, parsed: ParsedView, view: ViewDefinition) -> None:
        if self._keeping.chained is not None:
            check_sources(parsed, view.base_tables, self._keeping.chained)

    def _beside(self, found: Definitions) -> Define:
        return lambda parsed, catalog: define(parsed, catalog, found, [*self._names, *found])

    def _partition(self, parsed: ParsedView, found: Definitions, how: str) -> list[_Stated]:
        whole = self._define(parsed, found)
        names = Names(parsed, self._catalog, Views(found, frozenset(self._names)))
        block = block_of(names) if whole.level is not Level.PERIODIC else None
        if block is None:
            if AUXILIARY not in parsed.options:
                return []
            why = "it is recomputed" if whole.level is Level.PERIODIC else "its query is more than a join of tables"
            raise parsed.option_error(
                AUXILIARY, f"'{how}' puts joined tables into groups, and {why}", "write 'auto', 'all' or 'none'"
            )
        k = groups_of(parsed, self._keeping, len(block.bounds))
        if len(block.bounds) < 2:
            return []
        choose = equal_groups if how == "equal" else frequency_groups
        groups = choose(block.graph(self._keeping.changes), k)
        known, made, stands = dict(found), list[_Stated](), []
        for number, group in enumerate(groups, 1):
            name = f"{parsed.name}__{number}"
            check_free(parsed, name, (*self._names, *known))
            query, stand = auxiliary_view(block, group, name)
            part = restated(parsed, name, query, {KEPT_FOR: parsed.name})
            made.append(_Stated(part, self._define(part, known), parsed))
            known[made[-1].view.name] = made[-1].view
            stands.append(stand)
        rest = restated(parsed, parsed.name, over(block, stands))
        last = self._define(rest, known)
        assert last.columns == whole.columns, f"{parsed.name} over its auxiliary views has other columns"
        return [*made, _Stated(rest, last, parsed)]

    # ── step 2 ───────────────────────────────────────────────────────────────────────────────────────────────────

    def with_copies(self, stated: Sequence[_Stated], errors: dict[ViewName, HeadwaterError]) -> Defined:
        """The views, those that would ask for what is to be kept over copies of it."""
        wanted: dict[int, list[Use]] = {}
        stated = [self._relying(one) for one in stated]
        for place, one in enumerate(stated):
            try:
                tables = self._kept_tables(one)
                wanted[place] = uses(one.view, one.parsed.select, tables, self._catalog) if tables else []
            except HeadwaterError as error:
                errors[ViewName(one.written.name)] = error
        copies, found = self._copies(stated, wanted), dict(self._known)
        for place, one in enumerate(stated):
            if ViewName(one.written.name) in errors:
                continue
            try:
                mine = {use.table: copies[use.table, use] for use in wanted[place]}
                for copy, view in mine.values():
                    found.setdefault(ViewName(copy.view), view)
                found[one.view.name] = self._over(one, {t: copy for t, (copy, _) in mine.items()}, found)
            except HeadwaterError as error:
                errors[ViewName(one.written.name)] = error
        return Defined({name: view for name, view in found.items() if name not in self._known}, errors)

    def _relying(self, one: _Stated) -> _Stated:
        """With what it can count on, where that spares it copies that it must have otherwise."""
        if one.view.level is Level.PERIODIC or one.view.relies:
            return replace(one, relied=frozenset(one.view.relies))
        tables = frozenset(one.view.base_tables)
        if auxiliary_of(one.written, self._keeping) != "all":
            tables = frozenset(t for t in tables if t.source in self._keeping.unasked)
        return replace(one, relied=frozenset(relied_on(one.view, tables, self._keeping.promised, self._catalog)))

    def _kept_tables(self, one: _Stated) -> frozenset[TableName]:
        """The tables of which a view must not ask."""
        unasked = frozenset(t for t in one.view.base_tables if t.source in self._keeping.unasked)
        if one.view.level is Level.PERIODIC:
            if unasked:
                raise one.written.error(
                    f"a periodic view reads its tables again and again, and source {next(iter(unasked)).source} is not"
                    " to be asked (ask = false)",
                    "choose another consistency level, or remove ask = false from the source",
                )
            return frozenset()
        if one.view.chain is not None:
            return frozenset()
        asked = one.asked
        if asked & unasked and one.view.maintenance != WAVE:
            raise one.written.option_error(
                MAINTENANCE,
                f"'{one.view.maintenance}' asks source {next(iter(asked & unasked)).source}, which is not to be asked"
                " (ask = false)",
                "remove maintenance, or ask = false from the source",
            )
        how = auxiliary_of(one.written, self._keeping)
        if how == "auto":
            return (asked & unasked) | frozenset(t for t in asked if self._pays(one, t))
        return asked if how == "all" else asked & unasked

    def _pays(self, one: _Stated, table: TableName) -> bool:
        """Whether 'auto' keeps what a view needs of a table."""
        measured = self._keeping.measured
        schema = self._catalog.resolve(table.source, table.schema, table.table)
        columns = {c for o in one.view.occurrences if o.table == table for c in o.columns}
        return one.view.maintenance == WAVE and measured.pays(
            schema, len(columns), _called(table) in measured.maintained
        )

    def _copies(
        self, stated: Sequence[_Stated], wanted: Mapping[int, Sequence[Use]]
    ) -> dict[tuple[TableName, Use], tuple[Copy, ViewDefinition]]:
        """For every use the copy that serves it: one that is maintained already, else one for all uses of a table."""
        maintained = [(copy, view) for view in self._known.values() if (copy := copy_in(view)) is not None]
        found: dict[tuple[TableName, Use], tuple[Copy, ViewDefinition]] = {}
        left: dict[TableName, list[tuple[Use, ParsedView]]] = {}
        for place, mine in wanted.items():
            for use in mine:
                there = next((pair for pair in maintained if pair[0].serves(use)), None)
                if there is not None:
                    found[use.table, use] = there
                else:
                    left.setdefault(use.table, []).append((use, stated[place].written))
        taken = {name.lower() for name in (*self._names, *(one.view.name for one in stated))}
        for table, needed in sorted(left.items()):
            schema = self._catalog.resolve(table.source, table.schema, table.table)
            name = _free(_called(table), taken)
            taken.add(name.lower())
            copy = smallest_copy(name, schema, [use for use, _ in needed])
            view = self._define(_stated_copy(copy, needed[0][1], table.source), {})
            found |= {(table, use): (copy, view) for use, _ in needed}
        return found

    def _over(self, one: _Stated, copies: Mapping[TableName, Copy], found: Definitions) -> ViewDefinition:
        if not copies:
            return replace(one.view, relies=over_copies_of(one.relied, one.view, one.view, {}))
        names = Names(one.parsed, self._catalog, Views(found, frozenset(self._names)))
        rest = restated(one.parsed, one.parsed.name, over_copies(names, copies))
        made = self._define(rest, found)
        assert made.columns == one.view.columns, f"{one.parsed.name} over copies has other columns"
        return replace(made, relies=over_copies_of(one.relied, one.view, made, copies))

    def _define(self, parsed: ParsedView, found: Definitions) -> ViewDefinition:
        return define(parsed, self._catalog, found, [*self._names, *found])


def auxiliary_of(parsed: ParsedView, keeping: Keeping) -> str:
    """What a view wants kept; one that is kept for another wants nothing."""
    if KEPT_FOR in parsed.options:
        return VALUES[0]
    named = parsed.options.get(MAINTENANCE, WAVE).lower()
    if named != WAVE:
        if parsed.options.get(AUXILIARY, VALUES[0]).lower() != VALUES[0]:
            raise parsed.option_error(
                AUXILIARY,
                f"maintenance = '{named}' asks the sources, and keeps nothing beside the view",
                "remove one of the two options",
            )
        return VALUES[0]
    return parsed.options.get(AUXILIARY, keeping.auxiliary).lower()


def groups_of(parsed: ParsedView, keeping: Keeping, tables: int) -> int:
    """K: what the view says, what the project says, or the cores; never more than there are tables."""
    said = parsed.options.get(GROUPS)
    if said is None:
        return min(keeping.groups or keeping.cores, tables)
    if int(said) > tables:
        raise parsed.option_error(
            GROUPS, f"{said} groups, and the view joins {tables} tables", f"write groups = {tables} or fewer"
        )
    return int(said)


def _stated_copy(copy: Copy, written: ParsedView, source: SourceName) -> ParsedView:
    made = restated(written, copy.view, copy.query())
    return replace(made, options={KEPT_FOR: f"views over {source}".replace("'", "")})


def _called(table: TableName) -> str:
    """`shop__orders`: a view's name has letters, digits and _ only."""
    schema = "" if table.schema in ("", "public", "main") else f"{table.schema}__"
    text = f"{table.source}__{schema}{table.table}"
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)[:80].lstrip("_")
    return name if name[:1].isalpha() else f"copy_{name}"


def _free(name: str, taken: Iterable[str]) -> str:
    known = set(taken)
    return name if name.lower() not in known else next(
        made for n in range(2, len(known) + 3) if (made := f"{name}__{n}").lower() not in known
    )  # fmt: skip
