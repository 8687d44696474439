"""agent: databases that nobody can reach. enroll, list and revoke at the hub; join and run beside the database."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import grid, messages, plain, results, said
from headwater.cli.values import to_json
from headwater.model.errors import ConfigError

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="""
    Databases that nobody can reach: a small program beside each connects outwards, to the hub of a project.

    At the hub: 'enroll' makes an invitation, 'list' shows who was there, 'revoke' shuts one out.
    Beside the database: 'join' takes the invitation, 'run' does the work.
    """)  # fmt: skip

Folder = Annotated[Path, typer.Option("--folder", "-f", metavar="DIR", help="The agent's folder, with its agent.toml.")]

Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where neighbours in chains may reach it directly.")
]


@app.command()
def enroll(
    name: Annotated[str, typer.Argument(help="What the agent is called: the NAME of url = 'agent://NAME'.")],
    project: Project = HERE,
    by_certificate: Annotated[
        bool, typer.Option("--by-certificate", help="It proves itself by a certificate that names it, not by a token.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an invitation for an agent. It is shown once; one that was made for this agent before is void.

    An agent whose machine was restored from a backup needs a new one, too.

    One that proves itself by a certificate has no secret in its invitation: [hub] clients says by which authority the
    certificate must be signed, and the certificate names the agent (CN, or a DNS name).
    """
    from headwater.agent.joining import Invitation
    from headwater.hub.enrolment import Enrolment

    warehouse, address = _hub(project)
    warehouse.project.claim()
    if by_certificate and not warehouse.config.hub.clients:
        raise ConfigError(
            "the hub does not say whose certificates it takes",
            'name a PEM file of authorities in headwater.toml: [hub] clients = "agents-ca.pem"',
        )
    token = Enrolment(warehouse.storage).enrol(name, by_certificate)
    word = Invitation(name, address, token).word()
    if as_json:
        write_lines([to_json({"agent": name, "hub": address, "invitation": word})])
        return
    screen = results()
    screen.print(said(f"{name} may connect to {address}. Beside its database:"))
    proof = " --certificate FILE --key FILE" if by_certificate else ""
    screen.print(said(f"\n  headwater agent join {word} --database sqlite:///FILE{proof}\n"), soft_wrap=True)
    if not by_certificate:
        screen.print(said("The word is a secret, and is not shown again."))


@app.command("list")
def list_(project: Project = HERE, as_json: Json = False) -> None:
    """The agents of a project: since when they may connect, and when they were last there."""
    from headwater.hub.contacts import Contacts
    from headwater.hub.enrolment import Enrolment
    from headwater.runtime.reading.values import duration

    warehouse, _ = _hub(project)
    contacts, found = Contacts(warehouse.storage), []
    for agent in Enrolment(warehouse.storage).all():
        last = contacts.last(agent.name)
        found.append((agent, last))
    if as_json:
        write_lines([
            to_json({
                "agent": agent.name, "revoked": agent.revoked, "enrolled_at": agent.enrolled_at,
                "last_contact": last.at if last else None, "waits": last.waits if last else None,
                "database": last.database if last else None, "version": last.version if last else None,
            })
            for agent, last in found
        ])  # fmt: skip
        return
    if not found:
        results().print(said("no agent is enrolled: 'headwater agent enroll NAME' makes an invitation"))
        return
    table = grid("agent", "state", "last contact", "waits there", "database", numbers=("waits there",))
    for agent, last in found:
        state = "revoked" if agent.revoked else "enrolled"
        waits = f"{last.waits:,}" if last is not None and last.waits is not None else "?"
        table.add_row(
            plain(agent.name),
            state,
            f"{duration(time.time() - last.at)} ago" if last else "never",
            waits,
            plain(last.database if last else ""),
        )
    results().print(table)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The agent that may not connect any longer.")], project: Project = HERE
) -> None:
    """Shut an agent out, within seconds. Views over its database stay readable and wait for it."""
    from headwater.hub.enrolment import Enrolment

    warehouse, _ = _hub(project)
    Enrolment(warehouse.storage).revoke(name)
    results().print(said(f"{name} may not connect any longer; 'headwater agent enroll {name}' lets it in again"))


@app.command()
def join(
    invitation: Annotated[str, typer.Argument(help="The word that 'headwater agent enroll' printed at the hub.")],
    database: Annotated[str, typer.Option("--database", "-d", metavar="URL", help="sqlite:///FILE or postgresql://…")],
    folder: Folder = HERE,
    authority: Annotated[
        str, typer.Option("--authority", metavar="FILE", help="A PEM file that the hub's certificate is proven by.")
    ] = "",
    certificate: Annotated[
        str, typer.Option("--certificate", metavar="FILE", help="A PEM file that proves who this agent is.")
    ] = "",
    key: Annotated[str, typer.Option("--key", metavar="FILE", help="The PEM file of its private key.")] = "",
    listen: Listen = "",
) -> None:
    """Take an invitation: writes agent.toml, which is the agent's secret."""
    from headwater.agent.agent import check_database
    from headwater.agent.joining import Invitation, database_url
    from headwater.agent.joining import join as write

    invited = Invitation.read(invitation)
    check_database(invited.name, database_url(database, folder.absolute()))
    files = {"authority": authority, "certificate": certificate, "key": key}
    more = {name: str(Path(file).absolute()) for name, file in files.items() if file}
    path = write(folder, invited, database, {**more, "listen": listen})
    screen = results()
    screen.print(said(f"{path} is written, and the database answers"), soft_wrap=True)
    screen.print("\nnext: [bold]headwater agent run[/]")


@app.command("run")
def run_(
    folder: Folder = HERE,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Where neighbours in chains may reach it, as in agent.toml."
        ),
    ] = "",
) -> None:
    """Speak for a database until Ctrl-C. Needs neither Spark nor Java.

    It may be stopped, killed or cut off at any moment: what changes meanwhile waits in the database's own capture.
    """
    from headwater.agent.agent import Agent
    from headwater.agent.joining import read_settings

    settings, screen = read_settings(folder), messages()
    if listen:
        settings = replace(settings, listen=listen)
    agent = Agent(settings, lambda text: screen.print(said(text), soft_wrap=True))
    screen.print(said(f"agent {settings.name} · hub {settings.hub}"), soft_wrap=True)
    before = {kind: signal.signal(kind, lambda number, frame: agent.stop()) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        agent.run()
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
    screen.print(said("stopped"))


def _hub(project: Path):  # type: ignore[no-untyped-def]  # the api is imported by those who use it
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    if warehouse.config.hub is None:
        raise ConfigError(
            f"the project {warehouse.config.folder} has no hub that agents could connect to",
            "add a section [hub] to headwater.toml: it listens on this machine only, unless it says otherwise",
        )
    return warehouse, warehouse.config.hub.address
