"""serve: the views as a PostgreSQL database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import messages, results
from headwater.cli.values import to_json

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere set a password.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Which port; 0: any that is free.")]
Flight = Annotated[
    int | None,
    typer.Option("--flight", metavar="PORT", min=0, max=65535, help="Also for Arrow clients, by Flight SQL, there."),
]
Password = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="A file that holds the password.", dir_okay=False)
]
LOOPBACK = "127.0.0.1"
PORT = 7432


def serve(
    host: Host = LOOPBACK,
    port: Port = PORT,
    flight: Flight = None,
    password_file: Password = None,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """The views as a read-only PostgreSQL database: for psql, psycopg, JDBC and the tools built on them.

    Views are tables of schema public. Each statement reads the newest cut; BEGIN keeps one until COMMIT, so that
    several queries see one state. SET headwater.at = 1042 (or '10 minutes ago') reads an older state, and
    SHOW headwater.cut tells which cut is read.

    There is always a password: --password-file, the environment variable HEADWATER_PASSWORD, or 'password' in section
    serve of headwater.toml. Without one it is made up and printed, on this machine; elsewhere one must be set.
    'certificate' and 'key' there let clients encrypt.

    --flight 7433 answers clients of Arrow Flight SQL (ADBC, pyarrow) too, with the same name and password: whole
    columns instead of rows. The header headwater.at names an older state.

    Examples:  headwater serve   ·   headwater serve --flight 7433   ·   headwater serve --host 0.0.0.0
    """
    from headwater.runtime.project.config import load_config
    from headwater.runtime.project.project import Project as Opened
    from headwater.serve.serving import Address, Where
    from headwater.serve.serving import serve as answer

    opened = Opened(load_config(project))
    opened.cut(create=True)  # a warehouse that cannot be read is told of here

    def ready(address: Address) -> None:
        if as_json:
            said = {"event": "listening", "url": address.url, "pid": os.getpid()}
            write_lines([to_json({**said, "flight": address.flight} if address.flight else said)])
            print(end="", flush=True)
        else:
            results().print(f"the views are at [bold]{address.url}[/]", soft_wrap=True)
            if address.flight:
                results().print(f"for Arrow clients at [bold]{address.flight}[/]", soft_wrap=True)
            if address.made_up:
                messages().print("[dim]the password is new with every start; set \\[serve] password to keep one[/]")
            messages().print("[dim]Ctrl-C stops it; nothing else stops with it[/]")

    answer(opened, Where(host, port, flight), password_file, os.environ, ready)
