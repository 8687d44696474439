"""[sources.NAME]: one source as headwater.toml names it, made into a SourceSpec.

    url = "postgresql://reader:${SHOP_PASSWORD}@db.example/shop"
    url = "mariadb://reader:${SHOP_PASSWORD}@db.example/shop"
    kind = "postgresql", host = …, port = …, database = …, user = …, password = …       instead of a url, or beside it
    ask = false                 never asked once views over it are loaded: what they need of it is kept beside them
    capture = "log"             how a server's changes are seen: by its "log" (so it is at MariaDB), by "triggers" (so
                                it is at PostgreSQL), or "auto": by the log where the server allows it
    questions = "visit"         of a database with an agent (agent://NAME): they wait until it is there; "copy": none is
                                asked once views over it are loaded, what they need of it is kept beside them;
                                "chain": agents join rows between themselves (maintenance = 'pull-push')
    log_limit = "10 GB"         so much of its log a server may keep for Headwater; beyond, views are loaded again
    parts_seconds = 86400       how long the parts of a global transaction wait for the one here
    [sources.NAME.tables.TABLE] a table of it ("schema.table" where its name alone is not enough)
    changes = "never"           it does not change: what is joined with it need not be kept for its sake
    changes = "inserts"         rows only come to it: what refers to it by a foreign key need not be kept for its sake
    changes = "deletes"         rows only go from it: what is joined with it need not be kept where the view has its key
    delay_ms = 20               every question takes so much longer: to see what a source far away would cost

A variable in the user, password, host or database part of a url may hold any characters: it is percent-encoded here.
One that is not set matters to those who connect: the spec then carries its name (`missing`), and connecting says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from headwater.model.errors import ConfigError, UnknownName
from headwater.model.names import SourceName
from headwater.model.sizes import bytes_of
from headwater.model.source import ASK, CAPTURE, CHAINED, CHANGES, DELAY, LOG_LIMIT, MISSING, PARTS, SourceSpec
from headwater.runtime.project.secrets import remember

SCHEMES = ("postgresql", "postgres", "mariadb", "mysql", "sqlite", "delta", "delta+s3", "files", "agent", "memory")
FILES = ("sqlite", "delta", "files")
POSTGRES = ("postgresql", "postgres")
MARIADB = ("mariadb", "mysql")
SERVERS = (*POSTGRES, *MARIADB)
QUESTIONS = "questions"
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PARTS = ("host", "port", "database", "user", "password")
TABLES = "tables"
_KEYS = ("url", "kind", *_PARTS, ASK, CAPTURE, LOG_LIMIT, QUESTIONS, PARTS, DELAY, TABLES)
_ENCODE = "write it percent-encoded (@ is %40, / is %2F, : is %3A), or give it as a setting of its own: password = …"


def source_spec(name: str, settings: Any, path: Path) -> SourceSpec:
    """The source that [sources.NAME] describes."""
    where = f"[sources.{name}] of {path}"
    if not isinstance(settings, dict) or not ("url" in settings or "kind" in settings):
        raise ConfigError(
            f"[sources.{name}] in {path} has no url",
            'add one, such as url = "sqlite:///crm.db"; or kind = "postgresql" with host, database, user, password',
        )
    for key in settings:
        if key not in _KEYS:
            raise UnknownName("setting", key, _KEYS, f"in {where}")
    missing: list[str] = []
    written = settings.get("url", f"{settings.get('kind')}://")
    url = expand_url(written, missing) if isinstance(written, str) else ""
    parts = {key: _part(key, settings[key], where, missing) for key in _PARTS if key in settings}
    if parts.get("password"):
        remember(parts["password"])
    scheme = url.partition(":")[0]
    if not (missing and VARIABLE.match(url)):
        _check(url, scheme, settings, where)
    if scheme in FILES:
        url = f"{scheme}:///{path.parent / url.removeprefix(f'{scheme}:///')}"  # four slashes: an absolute path
    own = (
        *_asked(settings, scheme, where),
        *_capture(settings, scheme, where),
        *_log_limit(settings, scheme, where),
        *_number(settings, PARTS, where),
        *_number(settings, DELAY, where),
        *_tables(settings, name, path),
    )
    options = (*parts.items(), *own, *((MISSING, variable) for variable in dict.fromkeys(missing)))
    return SourceSpec(SourceName(name), url, options)


def expand_url(url: str, missing: list[str]) -> str:
    """The url with its variables; those in its parts are encoded, so that their characters mean nothing there. A
    variable that holds the whole url is taken as it is, and so is one that is not set: its name is added to
    `missing`."""
    scheme, separator, rest = url.partition("://")
    server = bool(separator) and scheme.lower() in SERVERS and not VARIABLE.fullmatch(rest)
    masked = VARIABLE.sub(lambda match: "x" * len(match.group()), url)  # its characters are no delimiters

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if found is None:
            missing.append(match.group(1))
            return match.group()
        safe = _safe(masked, match.start()) if server else None
        return found if safe is None else quote(found, safe=safe)

    expanded = VARIABLE.sub(value, url)
    for secret in _secrets(expanded):
        remember(secret)
    return expanded


def _safe(masked: str, at: int) -> str | None:
    """Which reserved characters keep their meaning at this place of a url; None: all of them."""
    start = masked.index("://") + 3
    if at < start:
        return None
    userinfo, host = _authority(masked[start:])
    host_end = start + (len(userinfo) + 1 if userinfo is not None else 0) + len(host)
    if userinfo is not None and at < start + len(userinfo):
        return ""
    if at < host_end:
        return ":,[]"  # host:port, several hosts, an IPv6 address
    query = masked.find("?", host_end)
    if query < 0 or at < query:
        return ""
    return "" if "=" in re.split("[?&]", masked[query:at])[-1] else None


def _authority(rest: str) -> tuple[str | None, str]:
    """User and password (None: not given), and the hosts, of what follows `://`; delimited as libpq does it."""
    ends = re.search("[@/]", rest)
    userinfo = rest[: ends.start()] if ends and ends.group() == "@" else None
    after = rest if userinfo is None else rest[len(userinfo) + 1 :]
    return userinfo, re.split("[/?]", after, maxsplit=1)[0]


def _secrets(url: str) -> list[str]:
    """What may be a password in this url, also in one that is written wrongly: then up to its last @."""
    _, _, rest = url.partition("://")
    found = []
    before, at, _ = rest.partition("?")[0].rpartition("@")
    if at and ":" in before:
        found.append(before.partition(":")[2])
    userinfo, _ = _authority(rest)
    if userinfo is not None and ":" in userinfo:
        found.append(userinfo.partition(":")[2])
    found += [value for key, value in parse_qsl(rest.partition("?")[2]) if key == "password"]
    return [form for secret in found for form in (secret, unquote(secret)) if form and not VARIABLE.search(form)]


def _check(url: str, scheme: str, settings: Mapping[str, Any], where: str) -> None:
    said = "url" if "url" in settings else "kind"
    if scheme not in SCHEMES:
        raise UnknownName("kind of source", scheme, SCHEMES[:-1], f"in the {said} of {where}")
    kind = settings.get("kind", scheme)
    if kind != scheme and not any(kind in family and scheme in family for family in (POSTGRES, MARIADB)):
        raise ConfigError(f"the kind of {where} is not that of its url", "leave out kind: the url says it")
    if scheme not in SERVERS:
        given = [key for key in _PARTS if key in settings]
        if given or "url" not in settings:
            what = f"{', '.join(given)} in {where}" if given else f"{where} has no url: it"
            raise ConfigError(f"{what} cannot say where a {scheme} source is", f'write url = "{scheme}:///…"')
        return
    rest = url.partition("://")[2]
    userinfo, host = _authority(rest)
    path = rest.partition("?")[0][(len(userinfo) + 1 if userinfo is not None else 0) + len(host) :]
    if "@" in host or "@" in path:
        # a message of the driver would take a piece of the password for the host and name it
        raise ConfigError(f"the url of {where} has an @ or a / that must be encoded, in the password perhaps", _ENCODE)


_QUESTIONS = ("copy", "visit", "chain")


def _asked(settings: Mapping[str, Any], scheme: str, where: str) -> list[tuple[str, str]]:
    how = settings.get(QUESTIONS, "copy" if scheme == "agent" else "visit")
    if how not in _QUESTIONS:
        raise UnknownName(QUESTIONS, str(how), _QUESTIONS, f"in {where}")
    if QUESTIONS in settings and scheme != "agent":
        raise ConfigError(f"{QUESTIONS} in {where} is for agents", f"write {ASK} = false to keep what is needed of it")
    said = settings.get(ASK, how != "copy")
    if not isinstance(said, bool):
        raise ConfigError(f"{ASK} in {where} must be true or false", "correct it")
    if how == "chain":
        return [(CHAINED, "true")]
    return [] if said else [(ASK, "false")]


_CAPTURES = ("triggers", "log", "auto")


def _capture(settings: Mapping[str, Any], scheme: str, where: str) -> list[tuple[str, str]]:
    if CAPTURE not in settings:
        return []
    said = settings[CAPTURE]
    if said not in _CAPTURES:
        raise UnknownName(CAPTURE, str(said), _CAPTURES, f"in {where}")
    if scheme not in (*SERVERS, "agent") and said == "log":
        raise ConfigError(f"{CAPTURE} in {where}: a {scheme} source has no log to read", "leave it out")
    return [(CAPTURE, said)]


def _log_limit(settings: Mapping[str, Any], scheme: str, where: str) -> list[tuple[str, str]]:
    if LOG_LIMIT not in settings:
        return []
    said = settings[LOG_LIMIT]
    if scheme not in (*POSTGRES, "agent"):
        raise ConfigError(f"{LOG_LIMIT} in {where}: a {scheme} source keeps no log for Headwater", "leave it out")
    if said == "none":
        return [(LOG_LIMIT, said)]
    size = bytes_of(said) if isinstance(said, str) else None
    if not size:
        raise ConfigError(f'{LOG_LIMIT} in {where} must be a size such as "10 GB", or "none"', "correct it")
    return [(LOG_LIMIT, str(size))]


_LIMITS = {DELAY: ("milliseconds", 60_000), PARTS: ("seconds", 31_536_000)}


def _number(settings: Mapping[str, Any], key: str, where: str) -> list[tuple[str, str]]:
    if key not in settings:
        return []
    said, (unit, most) = settings[key], _LIMITS[key]
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= most:
        raise ConfigError(f"{key} in {where} must be a number of {unit} from 0 to {most}", "correct it")
    return [(key, str(said))]


_CHANGES = ("never", "inserts", "deletes", "any")


def _tables(settings: Mapping[str, Any], name: str, path: Path) -> list[tuple[str, str]]:
    """[sources.NAME.tables.TABLE]: what is promised of tables."""
    found, tables = list[tuple[str, str]](), settings.get(TABLES, {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{TABLES} in [sources.{name}] of {path} is not a section", f"write [sources.{name}.{TABLES}.T]"
        )
    for table, said in tables.items():
        where = f"[sources.{name}.{TABLES}.{table}] of {path}"
        if not isinstance(said, dict):
            raise ConfigError(f"{where} is not a section", 'write changes = "never" below it')
        for key in said:
            if key != "changes":
                raise UnknownName("setting", key, ["changes"], f"in {where}")
        how = said.get("changes", "any")
        if how not in _CHANGES:
            raise UnknownName("value of changes", str(how), _CHANGES, f"in {where}")
        found += [(f"{CHANGES}{table}", how)] if how != "any" else []
    return found


def _part(key: str, value: Any, where: str, missing: list[str]) -> str:
    if key == "port" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        kind = "a number" if key == "port" else "text in quotes"
        raise ConfigError(f"{key} in {where} must be {kind}", "correct it")

    def found(match: re.Match[str]) -> str:
        said = os.environ.get(match.group(1))
        if said is None:
            missing.append(match.group(1))
            return match.group()
        return said

    said = VARIABLE.sub(found, value)
    if key == "port" and not said.isdigit() and not VARIABLE.search(said):
        raise ConfigError(f"port in {where} must be a number", "correct it")
    return said
