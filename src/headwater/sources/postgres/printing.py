"""`headwater setup --print`: what somebody else is to run where the project's role may not install capture.

Whoever runs it owns schema, publication and triggers; the project's role gets what reading and polling take. After that
`headwater setup` finds everything in place. It may be run again: what is there then is left out of the next page.

    begin                 schema, publication, change tables, triggers, REPLICA IDENTITY: with the tables' writers out
    commit
    the slot              in no transaction, and after the publication
    begin                 where capture of the tables begins, now that the slot is there; what the role may do
    commit
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.postgres import grants, log_needs, log_setup
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.making import make_schema, make_table, note_logged, to_log
from headwater.sources.postgres.patience import ONE_AT_A_TIME
from headwater.sources.postgres.script import Page
from headwater.sources.postgres.standing import Standing, new_tables, standing, unwatched

Tables = Sequence[tuple[TableName, int]]

_RIGHTS = (
    "GRANT USAGE ON SCHEMA headwater TO {}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA headwater TO {}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA headwater TO {}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA headwater TO {}",
)


def script(connection: Connection, spec: SourceSpec, wanted: Tables) -> list[str]:
    """The statements, a line or more each, with comments between them; none if everything is in place."""
    if grants.is_strange(connection):
        return _rights_first(connection, spec)
    found = standing(connection, spec.owner)
    new = new_tables(found, wanted)
    others = [one for one in wanted if one not in new]
    switched = _switched(spec, found, others)
    by_log = _by_log(connection, spec, [*new, *switched])
    bare = [one for one in others if unwatched(connection, one[1])]
    role, rights = _rights(connection, wanted, by_log or bool(found.logged))
    if not (new or switched or bare or rights):
        return []
    page = Page(connection)
    database = connection.info.dbname
    page.say(
        f"Headwater's capture at source {spec.name}: database {database}, for the role {role}.\n"
        "To be run by a superuser, or by the owner of these tables who may create schemas and publications here.\n"
        "Each transaction gives up if tables stay locked for 10 s; then run all of it again."
    )
    _begin(page)
    make_schema(page, found, by_log, connection.info.server_version)
    for one in [*new, *bare]:
        page.say(f"table {one[0]}")
        make_table(connection, page, found, one, by_log)
    page("COMMIT")
    if by_log:
        page.say("the replication slot; in no transaction. It waits for transactions that are under way")
        log_setup.begin_slot(connection, page, anew=found.stale or not found.there)
    page.say("from here on everything is captured; what the role needs to read it")
    _begin(page)
    if by_log and new:
        note_logged(page, new)
    for table, oid in switched:
        page(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(table.schema, table.table)))
        to_log(connection, page, table, oid)
    _give(page, role)
    page.lines += rights
    page("COMMIT")
    return page.lines


def _rights_first(connection: Connection, spec: SourceSpec) -> list[str]:
    """Whoever may not look at the capture that is there cannot say what it lacks."""
    role, page = grants.to_read(connection, ())[0], Page(connection)
    page.say(
        f"source {spec.name}: the role {role} may not use the capture that is there. Run this as its owner;"
        "\nafter that 'headwater setup', or 'headwater setup --print' once more, sees whether anything else is needed."
    )
    _give(page, role)
    return page.lines


def _give(page: Page, role: str) -> None:
    for statement in _RIGHTS:
        page(sql.SQL(statement).format(sql.Identifier(role)))


def _begin(page: Page) -> None:
    page("BEGIN")
    page("SET LOCAL lock_timeout = '10s'")
    page(ONE_AT_A_TIME)


def _by_log(connection: Connection, spec: SourceSpec, tables: Tables) -> bool:
    """What the role may not do does not matter here."""
    if spec.capture == "triggers" or not tables:
        return False
    why = log_needs.server_unable(connection, [oid for _, oid in tables])
    if why is not None and spec.capture == "log":
        raise SourceRefused(f"source {spec.name} cannot be captured by its log: {why[0]}", why[1])
    return why is None


def _switched(spec: SourceSpec, found: Standing, others: Tables) -> Tables:
    if spec.capture == "log":
        return [one for one in others if one[1] not in found.logged]
    if spec.capture == "triggers" and spec.says_capture and any(oid in found.logged for _, oid in others):
        raise SourceRefused(
            f"source {spec.name}: going from the log back to triggers is more than statements",
            "run 'headwater setup' as a role that owns the tables and the schema headwater",
        )
    return []


def _rights(connection: Connection, wanted: Tables, by_log: bool) -> tuple[str, list[str]]:
    """The role, and what it lacks to read the tables and the slot."""
    role, statements = grants.to_read(connection, wanted)
    if by_log:
        lacks = log_needs.role_lacks(connection, ())
        statements += [lack.statement for lack in lacks if lack.what.endswith(log_needs.MAY_NOT_REPLICATE)]
    return role, statements
