"""The pages of docs/ that are made from the code, so that they say what is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from typer.main import get_command

from headwater.cli.main import app
from headwater.model import errors
from headwater.model.errors import HeadwaterError
from headwater.page.metrics import _COUNTS, metrics
from headwater.runtime.project import source_config
from headwater.runtime.project.settings import reference as settings
from headwater.warehouse.cuts import Cut

DOCS = Path(__file__).parent.parent
_MADE = "Made from the code by `make docs`.\n"


def commands() -> str:
    lines = ["# Commands", "", _MADE]
    _command(get_command(app), "headwater", lines)
    return "\n".join(lines).rstrip() + "\n"


def _command(command: Any, path: str, lines: list[str]) -> None:
    if path != "headwater":
        lines += [f"## {path}", ""]
    lines += [_plain(command.help or ""), ""]
    rows = [_parameter(p) for p in command.params if getattr(p, "name", "") not in ("help", "install_completion")]
    if rows:
        lines += ["| | |", "| --- | --- |", *rows, ""]
    for name, inner in getattr(command, "commands", {}).items():
        _command(inner, f"{path} {name}", lines)


def _parameter(parameter: Any) -> str:
    if parameter.opts[0].startswith("-"):
        name = ", ".join(f"`{option}`" for option in parameter.opts)
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    else:
        name, value = f"`{(parameter.metavar or parameter.name or '').upper()}`", ""
    return f"| {name}{value} | {_plain(getattr(parameter, 'help', '') or '').replace('|', '&#124;')} |"


def _plain(text: str) -> str:
    """What rich's markup says, without it."""
    return re.sub(r"\\(\[)", r"\1", text).strip()


def error_page() -> str:
    lines = [
        "# Errors", "", _MADE,
        "Every error says what happened and what to do. Exit codes: 2 the input is wrong, 1 the data or the run is not",
        "good, 130 interrupted. With `--json` it is one object on standard error: `error`, `fix`.", "",
        "| error | exit code | trying again helps | |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, HeadwaterError):
            about = " ".join((inspect.getdoc(kind) or "").split()).replace("|", "&#124;")
            lines.append(f"| `{name}` | {kind.exit_code} | {'yes' if kind.retry_helps else ''} | {about} |")
    return "\n".join(lines) + "\n"


def metric_page() -> str:
    """The families of one look at a run that has everything."""
    now = SimpleNamespace(
        running=SimpleNamespace(fence=1, since=0.0),
        report={"at": 0.0, "totals": {"counts": dict.fromkeys(_COUNTS, 0)}},
        cut=Cut(), by_view={}, verdicts=(), at=0.0, told_of_source=lambda name: None,
    )  # fmt: skip
    config = SimpleNamespace(sources={}, freshness={})
    lines = ["# Metrics", "", _MADE, "At `/metrics` of the page, and of `headwater run --metrics-port`.", ""]
    lines += ["| metric | kind | labels | |", "| --- | --- | --- | --- |"]
    for family in metrics(now, config, {}):  # type: ignore[arg-type]
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(getattr(family, "_labelnames", ()))
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def source_page() -> str:
    about = inspect.getdoc(source_config) or ""
    _, _, rest = about.partition("\n\n")
    example, _, words = rest.partition("\n\n")
    lines = ["# Sources", "", _MADE, "What `[sources.NAME]` of headwater.toml may say:", "", "```toml"]
    lines += [line.strip() if line.startswith("    ") else line for line in example.split("\n")]
    lines += ["```", "", words, "", "Kinds of url: " + ", ".join(f"`{s}://`" for s in source_config.SCHEMES[:-1]) + "."]
    return "\n".join(lines) + "\n"


PAGES = {
    "reference/commands.md": commands,
    "reference/errors.md": error_page,
    "reference/metrics.md": metric_page,
    "reference/sources.md": source_page,
    "settings.md": settings,
}


def main() -> None:
    for path, made in PAGES.items():
        (DOCS / path).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
