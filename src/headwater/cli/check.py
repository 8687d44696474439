"""check: is everything as it should be? For cron, CI and load balancers."""

from __future__ import annotations

import typer
from rich.text import Text

from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import results, said
from headwater.cli.values import to_json
from headwater.runtime.project.secrets import without_secrets


def check(project: Project = HERE, as_json: Json = False) -> None:
    """Exit with code 1 if a view is halted, late against its target, or was wrong when last verified.

    Also if a source cannot be read, or nothing is maintained. A target is [views.NAME] freshness = "5 s" in
    headwater.toml. Asks the sources how much waits there; starts no JVM. 'headwater verify' is what verifies: let cron
    run it at night, and this every minute.

    Examples:  headwater check || mail -s "views" me   ·   headwater check --json | jq -r '.findings[].what'
    """
    from headwater.api import open_warehouse
    from headwater.runtime.reading.check import check as find
    from headwater.warehouse.verdicts import VerdictLog

    warehouse = open_warehouse(project)
    status = warehouse.status()
    findings = find(status, warehouse.config, VerdictLog(warehouse.storage).all())
    if as_json:
        told = [
            {"word": f.word, "grade": f.grade.name.lower(), "what": without_secrets(f.what), "fix": f.fix}
            for f in findings
        ]
        write_lines([to_json({"ok": not findings, "cut": status.cut.number, "seq": status.cut.seq, "findings": told})])
    else:
        screen = results()
        for finding in findings:
            screen.print(said(finding.what, "red" if finding.grade >= 3 else "yellow"), soft_wrap=True)
            if finding.fix:
                screen.print(Text.assemble("  → ", said(finding.fix)), soft_wrap=True)
        if not findings:
            views = len(status.cut.views)
            screen.print(f"all is well: {views} view{'' if views == 1 else 's'} at transaction {status.cut.seq:,}")
    if findings:
        raise typer.Exit(1)
