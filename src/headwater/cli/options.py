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
    str | None,
    typer.Option(
        "--at",
        metavar="SEQ|TIME",
        help="The state after this source transaction, or the one shown at this time (2024-05-31T12:00, or"
        " '10 minutes ago'); else the newest.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 1 if anything is not good.")]

HERE = Path(".")
