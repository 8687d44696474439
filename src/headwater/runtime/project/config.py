"""headwater.toml: where the sources and the warehouse are, and the few settings there are.

Found from the current folder upward. `${NAME}` in any value is replaced by that environment variable, so secrets stay
out of the file; they also stay out of every message and out of the warehouse. A variable of a source that is not set
matters only to those who connect to it (`source_config`); any other is an error here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.model.errors import ConfigError, UnknownName
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.runtime.project.source_config import VARIABLE, source_spec

FILE = "headwater.toml"


@dataclass(frozen=True)
class Config:
    """A project: its folder, its sources, its warehouse and how it runs."""

    folder: Path
    sources: Mapping[SourceName, SourceSpec]
    warehouse: str
    views: Path
    history: int = 100_000
    """How many transactions back every state stays readable; compaction folds what is older."""
    publish_seconds: float = 0.0
    """Refresh the published tables this often while running; 0 only when asked to."""
    poll_seconds: float = 0.2
    batch_changes: int = 500_000
    parallel: int = 2
    """How many batches of one view are computed at once."""
    managers: int = 8
    """How many batches of all views together are computed at once; 1: one view after the other."""
    sequencing: str = "dependency"
    """How warehouse transactions follow each other: "dependency", "sequential" or "batched"."""
    parts_seconds: float = 10.0
    """How long the parts of a global transaction wait for each other."""
    chunk_rows: int = 250_000
    lost_history: str = "halt"
    """When a source's past cannot be continued (a restored backup, a rewritten column): "halt" its views and say so, or
    "reload" them."""
    spark_master: str = "local[*]"
    spark_options: Mapping[str, str] = field(default_factory=dict)


_SETTINGS: Mapping[str, Mapping[str, tuple[str, type]]] = {
    "warehouse": {
        "path": ("warehouse", str),
        "history": ("history", int),
        "publish_seconds": ("publish_seconds", float),
    },
    "run": {
        "poll_seconds": ("poll_seconds", float),
        "batch_changes": ("batch_changes", int),
        "parallel": ("parallel", int),
        "managers": ("managers", int),
        "sequencing": ("sequencing", str),
        "parts_seconds": ("parts_seconds", float),
        "chunk_rows": ("chunk_rows", int),
        "lost_history": ("lost_history", str),
    },
    "spark": {"master": ("spark_master", str), "options": ("spark_options", dict)},
    "views": {"path": ("views", str)},
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "sequencing": ("dependency", "sequential", "batched"),
    "lost_history": ("halt", "reload"),
}
_LEAST: Mapping[str, float] = {
    "history": 0,
    "publish_seconds": 0,
    "poll_seconds": 0.01,
    "batch_changes": 1,
    "parallel": 1,
    "managers": 1,
    "parts_seconds": 0,
    "chunk_rows": 1,
}


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
    raw = {section: value if section == "sources" else _expand(value, path, section) for section, value in raw.items()}
    for section in raw:
        if section not in (*_SETTINGS, "sources"):
            raise UnknownName("section", section, [*_SETTINGS, "sources"], f"in {path}")
    values: dict[str, Any] = {}
    for section, settings in _SETTINGS.items():
        for key, value in _table(raw, section, path).items():
            if key not in settings:
                raise UnknownName("setting", key, settings, f"in [{section}] of {path}")
            name, kind = settings[key]
            values[name] = _checked(f"[{section}] {key}", name, value, kind, path)
    folder = path.parent
    warehouse = values.pop("warehouse", "warehouse")
    if "://" not in warehouse:
        warehouse = str((folder / Path(warehouse).expanduser()).absolute())
    views = (folder / values.pop("views", "views")).absolute()
    return Config(folder=folder, sources=_sources(raw, path), warehouse=warehouse, views=views, **values)


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


def _checked(what: str, name: str, value: Any, kind: type, path: Path) -> Any:
    if kind is dict and isinstance(value, dict):
        return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        raise ConfigError(f"{what} in {path} must be of type {kind.__name__}, it is {value!r}", "correct it")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise UnknownName(f"value of {what}", str(value), _CHOICES[name], f"in {path}")
    if isinstance(value, (int, float)) and value < _LEAST.get(name, value):
        raise ConfigError(f"{what} in {path} must be at least {_LEAST[name]}, it is {value}", "correct it")
    return value


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
