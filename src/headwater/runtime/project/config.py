"""headwater.toml: where the sources and the warehouse are, and the few settings there are.

Found from the current folder upward. `${NAME}` in any value is replaced by that environment variable, so secrets stay
out of the file; they also stay out of every message and out of the warehouse. A variable of a source, of
[serve] or of [lineage] that is not set matters only to those who use it (`source_config`, `serve_settings`,
`lineage_settings`); any other is an error here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headwater.hub.settings import HubSettings
from headwater.model.errors import ConfigError, UnknownName
from headwater.model.names import CLOCK, SourceName, ViewName
from headwater.model.source import SourceSpec
from headwater.runtime.project.hub_config import hub_settings
from headwater.runtime.project.secrets import remember
from headwater.runtime.project.settings import (
    SECTIONS,
    TRUTH,
    LineageSection,
    RunSettings,
    ServeSection,
    Setting,
    SparkSettings,
    ViewsSettings,
    WarehouseSettings,
    settings,
)
from headwater.runtime.project.source_config import VARIABLE, source_spec
from headwater.runtime.project.view_config import freshness_targets

FILE = "headwater.toml"
_LATER = ("sources", "serve", "lineage")
"""Sections whose variables matter only to those who use them."""
_PRESENT = re.compile(r"\b(now\s*\(|current_date\b|current_timestamp\b|curdate\s*\()", re.IGNORECASE)


_RUN, _WAREHOUSE, _SPARK, _VIEWS = RunSettings(), WarehouseSettings(), SparkSettings(), ViewsSettings()


@dataclass(frozen=True)
class Config:
    """A project: its folder, its sources, its warehouse and how it runs (`settings` says what each setting does)."""

    folder: Path
    sources: Mapping[SourceName, SourceSpec]
    warehouse: str
    views: Path
    history: int = _WAREHOUSE.history
    publish_seconds: float = _WAREHOUSE.publish_seconds
    poll_seconds: float = _RUN.poll_seconds
    batch_changes: int = _RUN.batch_changes
    parallel: int = _RUN.parallel
    managers: int = _RUN.managers
    sequencing: str = _RUN.sequencing
    parts_seconds: float = _RUN.parts_seconds
    tick_seconds: float = _RUN.tick_seconds
    join_at_sources: bool = _RUN.join_at_sources
    small_batch: int = _RUN.small_batch
    chunk_rows: int = _RUN.chunk_rows
    lost_history: str = _RUN.lost_history
    auxiliary: str = _VIEWS.auxiliary
    groups: int = _VIEWS.groups
    spark_master: str = _SPARK.master
    spark_options: Mapping[str, str] = field(default_factory=dict)
    hub: HubSettings | None = None
    serve: ServeSection = ServeSection()  # noqa: RUF009 # a frozen value
    lineage: LineageSection = LineageSection()  # noqa: RUF009 # a frozen value
    freshness: Mapping[ViewName, float] = field(default_factory=dict)
    """How fresh views are wanted, in seconds from commit to visible."""

    @property
    def chained(self) -> frozenset[SourceName]:
        """The sources whose agents join their rows between themselves."""
        return frozenset(name for name, spec in self.sources.items() if spec.chained)

    @property
    def unasked(self) -> frozenset[SourceName]:
        """The sources that are not to be asked once views over them are loaded."""
        return frozenset(name for name, spec in self.sources.items() if not spec.asked)


def find_config(start: Path) -> Path:
    """headwater.toml in `start` or the nearest folder above it."""
    start = start.absolute()
    if start.is_file():
        return start
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder / FILE
    raise ConfigError(f"no {FILE} in {start} or above it", "run 'headwater init DIR' to start a project")


def load_config(start: Path | str = ".") -> Config:
    """Read and check a project's configuration."""
    path = find_config(Path(start))
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "correct that line") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", "save it as UTF-8") from error
    raw = {section: value if section in _LATER else _expand(value, path, section) for section, value in raw.items()}
    for section in raw:
        if section not in (*SECTIONS, "sources"):
            raise UnknownName("section", section, [*SECTIONS, "sources"], f"in {path}")
    views_of = _table(raw, "views", path)
    targets = freshness_targets({name: views_of.pop(name) for name in _views_named(views_of)}, path)
    found: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for setting in settings():
        given = _table(raw, setting.section, path)
        if setting.name in given:
            found[setting.section][setting.name] = _checked(setting, given[setting.name], path)
    for section in SECTIONS:
        names = [s.name for s in settings() if s.section == section]
        for key in _table(raw, section, path):
            if key not in names:
                raise UnknownName("setting", key, names, f"in [{section}] of {path}")
    folder = path.parent
    warehouse = found["warehouse"].pop("path", WarehouseSettings().path)
    if "://" not in warehouse:
        warehouse = str((folder / Path(warehouse).expanduser()).absolute())
    views = (folder / found["views"].pop("path", ViewsSettings().path)).absolute()
    spark = {f"spark_{name}": value for name, value in found["spark"].items()}
    values = {**found["warehouse"], **found["views"], **found["run"], **spark}
    sources = _sources(raw, path)
    if _mention_the_present(views):
        sources.setdefault(CLOCK, clock_spec(values.get("tick_seconds", _RUN.tick_seconds)))
    hub = hub_settings(found["hub"], folder) if "hub" in raw else None
    if hub is None and (far := [name for name, spec in sources.items() if spec.url.startswith("agent://")]):
        raise ConfigError(
            f"source {far[0]} in {path} has an agent, and there is no hub that it could connect to",
            "add a section [hub]: it listens on this machine only, unless it says otherwise",
        )
    return Config(
        folder=folder, sources=sources, warehouse=warehouse, views=views, hub=hub, freshness=targets,
        serve=ServeSection(**found["serve"]), lineage=LineageSection(**found["lineage"]), **values,
    )  # fmt: skip


def serve_settings(config: Config) -> ServeSection:
    """[serve], with the variables that it names; its password is kept out of every message from now on."""
    path = config.folder / FILE
    found = msgspec.convert(_expand(msgspec.to_builtins(config.serve), path, "serve"), ServeSection)
    if found.password:
        remember(found.password)
    if bool(found.certificate) != bool(found.key):
        raise ConfigError(f"[serve] in {path} has one of certificate and key", "give both")
    return found


def lineage_settings(config: Config) -> LineageSection | None:
    """[lineage], with the variables that it names, if it says where events go; its token is in no message."""
    path = config.folder / FILE
    if not (config.lineage.url or config.lineage.file):
        return None
    found = msgspec.convert(_expand(msgspec.to_builtins(config.lineage), path, "lineage"), LineageSection)
    if found.token:
        remember(found.token)
    if found.url and found.file:
        raise ConfigError(f"[lineage] in {path} has a url and a file", "choose one of them")
    if found.url and not found.url.startswith(("http://", "https://")):
        raise ConfigError(f"[lineage] url in {path} is not one of HTTP", "it begins with https:// or http://")
    return found


def clock_spec(seconds: float) -> SourceSpec:
    """The source of time; nobody has to name it."""
    return SourceSpec(CLOCK, f"clock://{seconds:g}")


def _mention_the_present(views: Path) -> bool:
    files = sorted(views.glob("*.sql")) if views.is_dir() else []
    return any(_PRESENT.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)


def _sources(raw: Mapping[str, Any], path: Path) -> dict[SourceName, SourceSpec]:
    settings = _table(raw, "sources", path)
    if not settings:
        raise ConfigError(f"{path} names no source", 'add one: [sources.shop] with url = "postgresql://…"')
    return {SourceName(name): source_spec(name, given, path) for name, given in settings.items()}


def _table(raw: Mapping[str, Any], section: str, path: Path) -> dict[str, Any]:
    value = raw.get(section, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{section!r} in {path} is not a section", f"write [{section}]")
    return value


def _views_named(section: Mapping[str, Any]) -> list[str]:
    """What [views] says of single views: its tables."""
    return [name for name, value in section.items() if isinstance(value, dict)]


def _checked(setting: Setting, value: Any, path: Path) -> Any:
    what = f"[{setting.section}] {setting.name}"
    if setting.choices and isinstance(value, str) and value not in setting.choices:
        raise UnknownName(f"value of {what}", value, setting.choices, f"in {path}")
    try:
        found = msgspec.convert(value, setting.type)
    except msgspec.ValidationError:
        least = isinstance(value, (int, float)) and not isinstance(value, bool) and setting.least is not None
        plain = setting.choices or setting.kind in ("text", TRUTH)
        kind = setting.kind if plain else f"a {setting.kind}"
        must = f"be at least {setting.least:g}" if least else f"be {kind}"
        raise ConfigError(f"{what} in {path} must {must}, it is {value!r}", "correct it") from None
    if isinstance(found, dict):
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}
    return found


def _expand(value: Any, path: Path, where: str) -> Any:
    if isinstance(value, dict):
        return {k: _expand(v, path, f"{where}.{k}" if where else k) for k, v in value.items()}
    if isinstance(value, list):
        return [_expand(v, path, where) for v in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if found is None:
            raise ConfigError(
                f"environment variable {match.group(1)} is not set; {where} in {path} needs it",
                f"export {match.group(1)}=… and try again",
            )
        return found

    return VARIABLE.sub(replace, value)
