"""How each kind of event is done."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from .business import views_of, views_over
from .ddl import ALTERATIONS, DEFINES, REPAIRS, WRITES_ANEW, Alteration
from .judge import Wrong
from .processes import daemon, headwater, jvm, worker
from .storm import rage

if TYPE_CHECKING:
    from .grammar import Event
    from .world import World

LEAST_PATIENCE = 30.0
"""How long views may take to show what was committed; more where starting took longer: machines differ."""
STOP_SECONDS = 10.0
"""How long Ctrl-C may take, where that patience is enough."""


def _pg(world: World, event: Event) -> None:
    world.shop.execute(event.who, event.text)


def _sqlite(world: World, event: Event) -> None:
    world.files[event.who].transaction(event.text)


def _sleep(world: World, event: Event) -> None:
    time.sleep(float(event.text))


def _check(world: World, event: Event) -> None:
    world.check()


def _storm(world: World, event: Event) -> None:
    rage(world.shop, int(event.text), 2)


UNSEEN_SECONDS = 30.0
"""Two looks at a source are at most so far apart on a busy machine."""


def _alter(world: World, event: Event) -> None:
    """DDL, or a write that no capture can represent."""
    alteration = ALTERATIONS[event.text]
    source, _, name = alteration.table.partition(".")
    added = _added_with_default(world, name) if source == "shop" else []
    done = False
    for step in alteration.steps:
        if source == "shop":
            if not _alter_shop(world, step):
                world.shop.end_open()  # somebody may have held the table
                if not _alter_shop(world, step):
                    break
            done = True
        elif step == "SELECT drop_capture":
            done |= _drop_triggers(world, source, alteration.table.partition(".")[2])
        else:
            done |= world.files[source].transaction(step.replace("; ", "\n"))
        time.sleep(0.1 if len(alteration.steps) > 1 else 0)
    if done:
        for view in alteration.touched.union(*(views_over(alteration.table, column) for column in added)):
            world.may_halt[view] = event.text
        _both_at_once(world, alteration)
        world.repairs.update({alteration.table: REPAIRS.get(alteration.table, ())})
    else:
        world.note(f"{event.text} was not possible")


def _both_at_once(world: World, alteration: Alteration) -> None:
    """A column defined anew and its table stored anew, between two looks at it, cannot be told from a column whose
    values were rewritten: Headwater may stop for it, and says so (decision 11)."""
    if alteration.name not in (*DEFINES, *WRITES_ANEW):
        return
    now = time.monotonic()
    world.altered = [(at, a) for at, a in world.altered if now - at < UNSEEN_SECONDS] + [(now, alteration)]
    lately = [a for _, a in world.altered if a.table == alteration.table]
    if any(a.name in WRITES_ANEW for a in lately):
        for defined in (a for a in lately if a.name in DEFINES):
            for view in views_over(alteration.table, DEFINES[defined.name]):
                world.may_halt[view] = f"{defined.name}, while the table was stored anew"


def _added_with_default(world: World, table: str) -> list[str]:
    """Columns whose default is kept beside the table. When the table is written anew, for whatever reason, the server
    redefines them, and nobody can tell that from a column whose values were rewritten."""
    found = world.shop.connection("oracle").execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND atthasmissing", [table]
    )
    return [column for (column,) in found]


def _alter_shop(world: World, step: str) -> bool:
    if step.startswith(("VACUUM", "CLUSTER")):
        try:
            world.shop.connection("oracle").execute(step)
        except psycopg.Error:
            return False
        return True
    told = step.startswith(("UPDATE", "INSERT", "TRUNCATE"))
    return world.shop.at_once(step, told=told)


def _drop_triggers(world: World, source: str, table: str) -> bool:
    connection = world.files[source].connection
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name GLOB '_headwater*'", [table]
    ).fetchall()
    for (name,) in names:
        connection.execute(f'DROP TRIGGER "{name}"')
    return bool(names)


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────

_VICTIMS = {"worker": worker, "daemon": daemon, "jvm": jvm}


def _kill(world: World, event: Event) -> None:
    if not world.run.alive:
        return
    if event.who == "run":
        world.run.kill()
    elif not world.run.kill_one(_VICTIMS[event.who]):
        world.note(f"there was no {event.who} to kill")


def _pause(world: World, event: Event) -> None:
    if world.run.alive:
        world.run.pause()


def _go_on(world: World, event: Event) -> None:
    world.run.go_on()


def _interrupt(world: World, event: Event) -> None:
    """Ctrl-C, at any moment."""
    if world.run.alive:
        patience = STOP_SECONDS * world.patience / LEAST_PATIENCE
        seconds = world.run.interrupt(patience)
        if seconds is None:
            raise Wrong(f"Ctrl-C did not end the run within {patience:.0f} s")
        world.note(f"Ctrl-C took {seconds:.1f} s")


def _start(world: World, event: Event) -> None:
    if not world.run.alive:
        world.start()


# ── servers and files ────────────────────────────────────────────────────────────────────────────────────────────


def _copy_server(world: World, event: Event) -> None:
    world.shop.close()
    world.copied["server"] = world.shop.history.labels
    world.server.copy()
    world.shop.end_open()


def _restore_server(world: World, event: Event) -> None:
    if "server" not in world.copied:
        world.note("there is no copy of the server yet")
        return
    world.run.go_on()
    world.shop.close()
    world.server.stop()
    since = world.stable_log()
    world.server.restore()
    world.shop.forget_prepared()
    world.shop.end_open()
    world.shop.history.new_life(since, world.shop.read(None), "restored from a copy", world.copied["server"])
    _suspect(world, "shop", "the server was restored")


def _crash(world: World, event: Event) -> None:
    """Commits that did not wait for the log, then an immediate stop. What is lost, nobody may have been told of."""
    shop = world.shop
    before = shop.history.newest.index
    writer = shop.connection("careless")
    writer.execute("SET synchronous_commit = off")
    for n in range(4):
        world.ticks += 1
        shop.at_once(f"INSERT INTO receipts VALUES ({world.ticks}, 1, 'careless')", who="careless")
        shop.at_once(f"UPDATE control SET current = current + {n + 1} WHERE id = 1", who="careless")
    time.sleep(float(event.text))
    shop.close()
    world.server.stop_at_once()
    world.stable_log()
    world.server.start()
    now = shop.read(shop.history.newest.state)
    survived = next((c.index for c in reversed(shop.history.commits) if c.index >= before and c.state == now), None)
    if survived is None:
        raise AssertionError("the server came back in a state that no commit of ours left")
    world.note(f"the crash took back {shop.history.newest.index - survived} of {shop.history.newest.index - before}")
    shop.history.lose(survived)
    shop.end_open()


def _back_up(world: World, event: Event) -> None:
    file = world.files[event.who]
    backup = file.path.with_suffix(".backup")
    backup.unlink(missing_ok=True)
    target = sqlite3.connect(backup)
    file.connection.backup(target)
    target.close()
    world.copied[event.who] = file.history.labels


def _restore_file(world: World, event: Event) -> None:
    """Put the backup in the file's place, and go on writing, past the number that the old one had reached."""
    file = world.files[event.who]
    backup = file.path.with_suffix(".backup")
    if not backup.exists():
        world.note(f"there is no backup of {event.who} yet")
        return
    world.run.go_on()
    reached = int(file.label() or 0)
    file.close()
    since = world.stable_log()
    _replace(file.path, backup)
    file.history.new_life(since, file.read(), "restored from a backup", world.copied[event.who])
    _suspect(world, event.who, "the file was restored")
    for _ in range(40):
        if int(file.label() or 0) > reached or event.text == "short":
            break
        world.tick_file(event.who)


def _copy_file(world: World, event: Event) -> None:
    """The same content in another file."""
    file = world.files[event.who]
    _back_up(world, event)
    file.close()
    _replace(file.path, file.path.with_suffix(".backup"))
    _suspect(world, event.who, "the file was replaced by a copy")


def _replace(path: Path, by: Path) -> None:
    fresh = path.with_suffix(".fresh")
    shutil.copy(by, fresh)
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    fresh.rename(path)


def _move_file(world: World, event: Event) -> None:
    """Away for a moment, and back."""
    file = world.files[event.who]
    file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    parts = [p for p in file.path.parent.glob(file.path.name + "*") if p.suffix != ".backup"]
    for part in parts:
        part.rename(part.with_name("away-" + part.name))
    time.sleep(float(event.text))
    for part in reversed(parts):
        part.with_name("away-" + part.name).rename(part)


def _remove_warehouse(world: World, event: Event) -> None:
    """Somebody removes the warehouse under the run. A new run begins from nothing."""
    warehouse = world.project / "warehouse"
    for _ in range(20):
        shutil.rmtree(warehouse, ignore_errors=True)
        if not warehouse.exists():
            break
    time.sleep(float(event.text))
    world.run.end()
    shutil.rmtree(warehouse, ignore_errors=True)
    world.judge.forget_warehouse()
    world.start()


def _neighbour(world: World, event: Event) -> None:
    """Another project over the same databases sets up, or takes its capture away again."""
    project = world.folder / "neighbour"
    if not project.exists():
        (project / "views").mkdir(parents=True)
        settings = (world.project / "headwater.toml").read_text()
        (project / "headwater.toml").write_text(settings.replace("sqlite:///", f"sqlite:///{world.project}/"))
        (project / "views" / "all.sql").write_text(
            "CREATE MATERIALIZED VIEW mine AS SELECT o.id, c.name FROM shop.orders o"
            " JOIN crm.customers c ON c.id = o.customer;"
        )
    arguments = ("teardown", "--yes") if event.text == "teardown" else ("setup",)
    answer = headwater(project, *arguments)
    world.note(f"neighbour: {' '.join(arguments)}: {answer.code} {answer.err.strip()[:200]}")


def _suspect(world: World, source: str, why: str) -> None:
    for view in views_of(source):
        world.may_halt[view] = why


def _end(world: World, event: Event) -> None:
    """The last check, and what a person would look at: verify, Ctrl-C, read at some states."""
    world.check()
    if world.seed % 4 == 0:
        answer = headwater(world.project, "verify", "--json")
        if answer.code:
            raise Wrong(f"headwater verify failed ({answer.code}): {answer.out} {answer.err}")
    _interrupt(world, event)
    newest = world.judge.numbered
    for view, at in (("orders_all", newest), ("bought", newest), ("bought", newest - 1)):
        answer = headwater(world.project, "read", view, "--json", "--at", str(at))
        if answer.code:
            raise Wrong(f"headwater read {view} --at {at} failed: {answer.err}")
        (rows,) = world.reader.rows([(view, at)])
        if len(answer.out.splitlines()) != rows.total():
            raise Wrong(f"headwater read {view} --at {at} --json shows {len(answer.out.splitlines())} rows, not {rows}")


DEEDS: Mapping[str, Callable[[World, Event], None]] = {
    "pg": _pg, "sqlite": _sqlite, "sleep": _sleep, "check": _check, "storm": _storm, "alter": _alter, "kill": _kill,
    "pause": _pause, "go-on": _go_on, "interrupt": _interrupt, "start": _start, "copy-server": _copy_server,
    "restore-server": _restore_server, "crash": _crash, "back-up": _back_up, "restore-file": _restore_file,
    "copy-file": _copy_file, "move-file": _move_file, "remove-warehouse": _remove_warehouse, "neighbour": _neighbour,
    "end": _end,
}  # fmt: skip
