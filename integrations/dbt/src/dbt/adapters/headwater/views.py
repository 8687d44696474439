"""From a model to a maintained view: a file in the project's views/, and `apply`.

Invariant: a file of ours says in its first line which model it is made of. We write no file that lacks this line, nor
one of another model, and put back what was there if the view cannot be made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import headwater
from headwater.model.errors import HeadwaterError, UsageError
from headwater.runtime.change.requests import OTHERWISE
from headwater.runtime.project.config import FILE, load_config
from headwater.warehouse.lock import holder

MADE = "-- made by dbt of {}: edit the model"
OPTIONS = ("consistency", "every", "schedule", "maintenance", "parallel", "auxiliary", "groups")
"""What a model's config may say of its view; docs/reference/levels.md of Headwater says what each means."""
_BEGIN, _END = "# dbt: freshness of its models, written by dbt run", "# dbt: end"
_BLOCK = re.compile(rf"\n*^{re.escape(_BEGIN)}\n(.*?)^{re.escape(_END)}\n?", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r'^\[views\."?([^"\]]+)"?\]\nfreshness = "(.*)"$', re.MULTILINE)

TRIES = 5
"""So often a run is asked that sees views/ otherwise than we do."""

_one_at_a_time = threading.Lock()
_caught_up: set[Path] = set()
"""Projects in which everything was taken in since this process began."""


@dataclass(frozen=True)
class Model:
    """What dbt knows of it. `freshness` is a span of time, or nothing."""

    name: str
    query: str
    made_of: str
    options: Mapping[str, str] = field(default_factory=dict)
    freshness: str = ""

    @property
    def statement(self) -> str:
        """The file of its view."""
        said = ", ".join(f"{name} = {_literal(value)}" for name, value in self.options.items())
        head = f"CREATE MATERIALIZED VIEW {self.name}{f' WITH ({said})' if said else ''} AS"
        return f"{MADE.format(self.made_of)}\n{head}\n{self.query.strip()}\n;\n"


@dataclass(frozen=True)
class Done:
    """What was done for a model: `action` is CREATE, REPLACE, REBUILD, or MAINTAINED where nothing had to be done;
    its view shows transaction `seq`."""

    action: str
    seq: int

    def __str__(self) -> str:
        return f"{self.action} at {self.seq}"


def maintain(project: Path, model: Model, catch_up: bool) -> Done:
    """Have the view of this model maintained; says what was done. One at a time: a warehouse has one writer."""
    with _one_at_a_time:
        done = _made(project, model)
        if catch_up:
            _catch_up(project)
        return Done(done, headwater.open(project)[model.name].seq)


def _made(project: Path, model: Model) -> str:
    """Write what the model says, and apply it; says what that did to its view."""
    view, settings = load_config(project).views / f"{model.name}.sql", project / FILE
    before = {file: file.read_text(encoding="utf-8") if file.exists() else None for file in (view, settings)}
    _check_ours(view, before[view], model)
    view.parent.mkdir(exist_ok=True)
    try:
        _write(view, model.statement)
        _write(settings, with_freshness(before[settings] or "", model.name, model.freshness))
        return _apply(project, model)
    except BaseException:
        for file, text in before.items():
            _write(file, text)
        raise


def _apply(project: Path, model: Model) -> str:
    for tries in range(TRIES, 0, -1):
        warehouse = headwater.open(project)
        plan = warehouse.plan_apply()
        for name, refusal in plan.refused.items():
            if name.lower() == model.name.lower():
                raise refusal
        if not plan:
            break
        try:
            warehouse.apply(plan)
            break
        except HeadwaterError as error:
            if error.what != OTHERWISE or tries == 1:  # nobody agreed to a plan here: views/ counts, as it is by now
                raise
    done = [change.action.upper() for change in plan.changes if change.view.lower() == model.name.lower()]
    return done[0] if done else "MAINTAINED"


def _catch_up(project: Path) -> None:
    if project in _caught_up:
        return
    warehouse = headwater.open(project)
    if warehouse.cut(create=True).views and holder(warehouse.storage) is None:
        warehouse.run(until_caught_up=True)
    _caught_up.add(project)


def _check_ours(file: Path, text: str | None, model: Model) -> None:
    if text is not None and not text.startswith(MADE.format(model.made_of)):
        raise UsageError(
            f"{file} is there already, and is not made of {model.made_of}", "rename the model, or remove the file"
        )


def _literal(value: str) -> str:
    return value if value.isdigit() else "'" + value.replace("'", "''") + "'"


def _write(file: Path, text: str | None) -> None:
    """Whole, or not at all: somebody may read it meanwhile. None: it is not there."""
    if text is None:
        file.unlink(missing_ok=True)
    elif not file.exists() or file.read_text(encoding="utf-8") != text:
        beside = file.with_suffix(f"{file.suffix}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)


def with_freshness(text: str, view: str, target: str) -> str:
    """headwater.toml with this target of a view, in a block of our own at its end; without it, if it is empty."""
    block = _BLOCK.search(text)
    targets = dict(_TARGET.findall(block[1])) if block else {}
    if targets.get(view, "") == target:
        return text
    targets = {name: span for name, span in {**targets, view: target}.items() if span}
    rest = _BLOCK.sub("", text).rstrip("\n") + "\n"
    if not targets:
        return rest
    lines = [f'[views."{name}"]\nfreshness = "{span}"' for name, span in sorted(targets.items())]
    return rest + "\n" + "\n".join([_BEGIN, *lines, _END]) + "\n"
