"""The options that every command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Project = Annotated[
    Path,
    typer.Option(
        "--project", "-p", metavar="DIR", help="The project's folder; else found from here upward.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output: JSON, or JSON lines.")]
At = Annotated[
    int | None,
    typer.Option("--at", metavar="SEQ", min=0, help="The state after this source transaction; else the newest."),
]

HERE = Path(".")
