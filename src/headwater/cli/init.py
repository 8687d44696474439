"""init: a project to start from. The file it writes shows every setting with its default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Json
from headwater.cli.rows import write_lines
from headwater.cli.screen import results
from headwater.cli.values import to_json
from headwater.model.errors import UsageError
from headwater.runtime.project.config import FILE
from headwater.runtime.project.settings import commented

SOURCES = """\
# A Headwater project. Lines that start with # show settings at their defaults.
# ${NAME} in any value is replaced by that environment variable: keep passwords there, not here. In a url it may hold
# any characters: they are percent-encoded for you, so do not do it yourself. Only commands that connect need it.

# ---------------------------------------------------------------- sources
# The databases that views read. A view calls their tables source.table or source.schema.table.

# [sources.shop]
# url = "postgresql://reader:${SHOP_PASSWORD}@db.example/shop"
# capture = "log"                    # by the server's log instead of triggers: writers pay nothing

# [sources.till]                     # the same without a url; each may also stand beside one
# kind = "postgresql"
# host = "db.example"
# port = 5432
# database = "shop"
# user = "reader"
# password = "${TILL_PASSWORD}"

# [sources.stock]
# url = "mariadb://reader:${STOCK_PASSWORD}@db.example:3306/stock"     # or mysql://; by its log; a database is a source

[sources.crm]
url = "sqlite:///crm.db"             # relative to this file; sqlite:////four/slashes for an absolute path

# [sources.lake]
# url = "delta:///lake/orders"       # a Delta table; each of its versions is a transaction
"""

VIEW = """\
-- A view is a SELECT over tables of any of the sources, and over other views: joins, DISTINCT, GROUP BY with COUNT,
-- SUM, AVG, MIN, MAX, and HAVING. Several views may stand in one file.
--
-- consistency = 'complete'     every source transaction is a state of the view, in order
--               'complete', every = 100       every 100th is
--             = 'strong'       states are real and in order, some are skipped
--             = 'periodic', schedule = '10 minutes'   recomputed then; views that share its tables wait for it
--             = 'convergent'   right when things settle; does not wait for other views, nor they for it
--
-- Take the dashes away, put your own tables and columns in, then try 'headwater plan'.

-- CREATE MATERIALIZED VIEW customers_by_city WITH (consistency = 'complete') AS
-- SELECT c.city, COUNT(*) AS customers
-- FROM crm.customers c
-- GROUP BY c.city;
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the project goes.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Start a project: a commented headwater.toml, views/, and a first view.

    Example:  headwater init my-project
    """
    config, views = folder / FILE, folder / "views"
    example = views / "example.sql"
    for file in (config, example):
        if file.exists():
            raise UsageError(f"{file} is there already", "nothing was changed; choose another folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "choose another folder")
    try:
        views.mkdir(parents=True, exist_ok=True)
        example.write_text(VIEW, encoding="utf-8")
        config.write_text(settings(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}", "choose another folder") from None
    if as_json:
        write_lines([to_json({"project": str(folder.absolute()), "files": [str(config), str(example)]})])
        return
    screen = results()
    screen.print(f"made {config}\nmade {example}\n\nNow", markup=False)
    for number, (what, command) in enumerate(
        (
            ("name your databases in headwater.toml", ""),
            ("write a view into views/", ""),
            ("see what would happen:", "headwater plan"),
            ("install change capture at the sources:", "headwater setup"),
            ("load and maintain the views:", "headwater run"),
        ),
        1,
    ):
        screen.print(f"  {number}. {what}", f"[bold]{command}[/]" if command else "")


def settings() -> str:
    """The commented headwater.toml."""
    return f"{SOURCES}\n{commented()}"
