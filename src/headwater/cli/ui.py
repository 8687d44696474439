"""ui: the live page."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Annotated

import typer

from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import messages, results
from headwater.cli.values import to_json

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; elsewhere a token is wanted.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Which port; 0: any that is free.")]
LOOPBACK = "127.0.0.1"
PORT = 7411


def ui(
    host: Host = LOOPBACK,
    port: Port = PORT,
    attached: Annotated[bool, typer.Option("--attached", hidden=True, help="End when standard input does.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """The live page: health, map, painting, time travel, queries, freshness, trust and the lab, in a browser.

    Works while 'headwater run' runs and while nothing does; it reads the warehouse and what the run tells, asks no
    source, starts no JVM and changes nothing. On a button it starts the command that one would type: 'verify', 'lab
    judge', and, if it has a token, 'apply' once confirmed. /metrics is there for Prometheus.

    It answers on this machine only. With another --host it wants a token: the one in the environment variable
    HEADWATER_TOKEN, or one that is made up and printed with the address. There is no encryption: put a proxy before it
    where others can listen.

    Examples:  headwater ui   ·   headwater ui --port 0 --json   ·   headwater ui --host 0.0.0.0
    """
    from headwater.page.serving import TOKEN_VARIABLE, Address, serve, token_for
    from headwater.runtime.project.config import load_config
    from headwater.runtime.project.project import Project as Opened

    opened = Opened(load_config(project))
    opened.cut(create=True)  # a warehouse that cannot be read is told of here
    if attached:
        threading.Thread(target=_end_with_input, name="headwater-attached", daemon=True).start()

    def ready(address: Address) -> None:
        if as_json:
            write_lines([to_json({"event": "listening", "url": address.url, "pid": os.getpid()})])
            print(end="", flush=True)
        else:
            results().print(f"the page is at [bold]{address.url}[/]", soft_wrap=True)
            messages().print("[dim]Ctrl-C stops it; nothing else stops with it[/]")

    serve(opened, host, port, token_for(host, os.environ.get(TOKEN_VARIABLE)), ready)


def _end_with_input() -> None:
    """Whoever started us has gone."""
    while sys.stdin.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
