"""Every setting of headwater.toml, once: its name, type, default, limits and what it does.

Reading the file (`config`), the commented file that `headwater init` writes, and docs/settings.md follow this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from headwater.runtime.project.view_config import SETTINGS as OF_A_VIEW


class WarehouseSettings(Struct, frozen=True):
    """[warehouse]"""

    path: Annotated[
        str,
        Meta(min_length=1, description="a folder relative to this file, or an object-store URL (s3://bucket/folder)"),
    ] = "warehouse"
    history: Annotated[
        int, Meta(ge=0, description="how many of the newest transactions keep a readable state each")
    ] = 100_000
    publish_seconds: Annotated[
        float, Meta(ge=0, description="refresh the plain tables this often; 0: on 'headwater publish'")
    ] = 0.0


class ViewsSettings(Struct, frozen=True):
    """[views]"""

    path: Annotated[str, Meta(min_length=1, description="a folder of .sql files, relative to this file")] = "views"
    auxiliary: Annotated[
        Literal["none", "auto", "equal", "frequency", "all"],
        Meta(
            description="what is kept beside views that do not say it themselves, to ask the sources less:",
            extra={
                "none": "nothing",
                "auto": "groupings and totals inside a query, and copies where asking takes longer than keeping",
                "equal": "joins of groups of tables, equally many each",
                "frequency": "joins of groups of tables, by how often they change and how large they are",
                "all": "a copy of what is needed of every table: no question leaves the warehouse",
            },
        ),
    ] = "none"
    groups: Annotated[
        int, Meta(ge=0, description="how many groups of tables 'equal' and 'frequency' make; 0: one per core")
    ] = 0


class RunSettings(Struct, frozen=True):
    """[run]"""

    poll_seconds: Annotated[float, Meta(ge=0.01, description="how often a quiet source is asked for news")] = 0.2
    batch_changes: Annotated[int, Meta(ge=1, description="about how many changed rows a batch takes at most")] = 500_000
    parallel: Annotated[int, Meta(ge=1, description="how many batches of one view are computed at once")] = 2
    managers: Annotated[
        int, Meta(ge=1, description="how many batches of all views together; 1: one view after the other")
    ] = 8
    sequencing: Annotated[
        Literal["dependency", "sequential", "batched"],
        Meta(
            description="how changes of several views follow each other into the warehouse:",
            extra={
                "dependency": "side by side unless they share a view; each is a cut",
                "sequential": "one at a time; each is a cut; slower",
                "batched": "all that is ready is one cut: cheapest, but cuts skip states",
            },
        ),
    ] = "dependency"
    parts_seconds: Annotated[
        float, Meta(ge=0, description="so long the parts of a global transaction wait for each other")
    ] = 10.0
    tick_seconds: Annotated[
        float, Meta(ge=0.1, description="how often time passes for views that compare with now()")
    ] = 10.0
    join_at_sources: Annotated[
        bool, Meta(description="ask tables of one source that a view joins with each other in one question")
    ] = True
    small_batch: Annotated[
        int,
        Meta(
            ge=0,
            description="up to so many changed rows are computed without a Spark job, if Spark has nothing to evaluate",
        ),
    ] = 4_000
    chunk_rows: Annotated[int, Meta(ge=1, description="about how many rows a first load reads at a time")] = 250_000
    lost_history: Annotated[
        Literal["halt", "reload"],
        Meta(
            description="a source's past cannot be continued (restored, rewritten, recreated):",
            extra={
                "halt": "its views stop and say why; 'headwater apply' loads them again",
                "reload": "they are loaded again by themselves",
            },
        ),
    ] = "halt"


class SparkSettings(Struct, frozen=True):
    """[spark]"""

    master: Annotated[str, Meta(min_length=1, description="or the URL of a cluster: spark://host:7077")] = "local[*]"
    options: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="any Spark setting, such as", examples=['"spark.driver.memory" = "1g"']),
    ] = msgspec.field(default_factory=dict)


class HubSection(Struct, frozen=True):
    """[hub]"""

    listen: Annotated[str, Meta(min_length=1, description="where agents connect to: host:port")] = "127.0.0.1:7437"
    address: Annotated[str, Meta(description="how agents reach it, if not as it listens: https://hub.example:7437")] = (
        ""
    )
    certificate: Annotated[
        str, Meta(description="a PEM file, with its chain; needed where others than this machine connect")
    ] = ""
    key: Annotated[str, Meta(description="the PEM file of its private key")] = ""
    authority: Annotated[
        str, Meta(description="a PEM file that the certificate is proven by, if this machine does not know it")
    ] = ""
    clients: Annotated[
        str, Meta(description="a PEM file of authorities: agents may show a certificate of theirs that names them")
    ] = ""
    opens: Annotated[
        Literal["either", "certificate"],
        Meta(
            description="what opens the hub for an agent, with clients:",
            extra={
                "either": "the token or the certificate that it was enrolled with",
                "certificate": "a certificate; an agent that has a token shows both",
            },
        ),
    ] = "either"


class ServeSection(Struct, frozen=True):
    """[serve]"""

    user: Annotated[str, Meta(min_length=1, description="the name that clients of 'headwater serve' log in with")] = (
        "headwater"
    )
    password: Annotated[
        str, Meta(description="their password, such as ${HEADWATER_PASSWORD}; none: one is made up and printed")
    ] = ""
    certificate: Annotated[str, Meta(description="a PEM file, with its chain: connections can be encrypted")] = ""
    key: Annotated[str, Meta(description="the PEM file of its private key")] = ""
    seconds: Annotated[float, Meta(ge=0.1, description="a statement is broken off after so long")] = 300.0
    rows: Annotated[int, Meta(ge=0, description="an answer may have so many rows; 0: any number")] = 0
    memory: Annotated[str, Meta(min_length=2, description="what one engine may take; there are a few")] = "1GB"
    connections: Annotated[int, Meta(ge=1, description="so many clients at once")] = 100


class LineageSection(Struct, frozen=True):
    """[lineage]"""

    url: Annotated[
        str, Meta(description="events are posted there: http://marquez.example:5000/api/v1/lineage; none: not posted")
    ] = ""
    token: Annotated[str, Meta(description="sent along as a bearer token, such as ${LINEAGE_TOKEN}")] = ""
    file: Annotated[str, Meta(description="or they are lines of this file, relative to this one")] = ""
    namespace: Annotated[str, Meta(min_length=1, description="what jobs and views are called by, with their names")] = (
        "headwater"
    )
    seconds: Annotated[
        float, Meta(ge=0, description="batches of a view that are shown within so long are told as one")
    ] = 10.0


TRUTH = "true | false"

SECTIONS: dict[str, type[Struct]] = {
    "warehouse": WarehouseSettings,
    "views": ViewsSettings,
    "run": RunSettings,
    "spark": SparkSettings,
    "hub": HubSection,
    "serve": ServeSection,
    "lineage": LineageSection,
}


_ONLY_IF_SAID = {
    "hub": "for databases that nobody can reach: their agents connect to it",
    "serve": "the views as a PostgreSQL database, by 'headwater serve'",
    "lineage": "loads and batches told as OpenLineage events",
}
"""Sections that are nothing unless they are there."""


class Setting(Struct, frozen=True):
    """One line of the table. `choices` say what each value means, where only some are allowed."""

    section: str
    name: str
    type: Any
    default: Any
    about: str
    choices: dict[str, str]
    example: str
    least: float | None

    @property
    def kind(self) -> str:
        """Its type as people say it."""
        plain = get_args(self.type)[0]
        if self.choices:
            return " | ".join(f'"{choice}"' for choice in self.choices)
        return {"str": "text", "int": "whole number", "float": "number", "bool": TRUTH}.get(
            getattr(plain, "__name__", ""), "table"
        )  # fmt: skip


@cache  # it is asked for section by section, and taking types apart is what takes time
def settings() -> tuple[Setting, ...]:
    """The table, section by section."""
    return tuple(_settings())


def _settings() -> Iterator[Setting]:
    for section, struct in SECTIONS.items():
        for one in msgspec.structs.fields(struct):
            plain, meta = get_args(one.type)[0], get_args(one.type)[1]
            choices = get_args(plain) if get_origin(plain) is Literal else ()
            default = {} if one.default is msgspec.NODEFAULT else one.default
            said = {choice: (meta.extra or {}).get(choice, "") for choice in choices}
            example = (meta.examples or [""])[0]
            yield Setting(section, one.name, one.type, default, meta.description or "", said, example, meta.ge)


def commented() -> str:
    """The sections of a headwater.toml that shows every setting at its default."""
    lines: list[str] = []
    for section in SECTIONS:
        heading = f"[{section}]"
        lines += ["", f"{f'# {heading}':<37}# {_ONLY_IF_SAID[section]}" if section in _ONLY_IF_SAID else heading]
        for setting in (s for s in settings() if s.section == section):
            if setting.default == {}:
                lines += [f"{f'# [{section}.{setting.name}]':<37}# {setting.about}", f"# {setting.example}"]
                continue
            lines.append(f"{f'# {setting.name} = {_toml(setting.default)}':<37}# {setting.about}")
            width = max([len(choice) + 2 for choice in setting.choices], default=0)
            for choice, means in setting.choices.items():
                quoted = f'"{choice}"'
                lines.append(f"{'':<37}#   {quoted:<{width}}  {means}")
        if section == "views":
            lines.append(f"{'# [views.NAME]':<37}# what is wanted of one view")
            shown = {f'# {name} = "5 s"': about for name, about in OF_A_VIEW.items()}
            lines += [f"{line:<37}# {about}" for line, about in shown.items()]
    return "\n".join(lines[1:]) + "\n"


def reference() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Everything that headwater.toml may say beside its sources (reference/sources.md). `${NAME}` in any value is",
        "that environment variable. Made from `runtime/project/settings.py`.",
    ]
    for section in SECTIONS:
        lines += ["", f"## [{section}]", "", "| setting | type | default | |", "| --- | --- | --- | --- |"]
        for s in (s for s in settings() if s.section == section):
            means = "; ".join(f'"{choice}": {what}' for choice, what in s.choices.items())
            least = "" if s.least is None else f" (at least {s.least:g})"
            default = "" if s.default == {} else f"`{_toml(s.default)}`"
            kind = s.kind.replace("|", "\\|")
            about = " ".join(part for part in (s.about, means, f"`{s.example}`" if s.example else "") if part)
            lines.append(f"| `{s.name}` | {kind}{least} | {default} | {about} |")
    lines += [
        "",
        "## [views.NAME]",
        "",
        "What is wanted of one view.",
        "",
        "| setting | type | |",
        "| --- | --- | --- |",
    ]
    lines += [f'| `{name}` | a span of time: "5 s", "500 ms", "2 min" | {about} |' for name, about in OF_A_VIEW.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:_}" if isinstance(value, int) else str(value)
