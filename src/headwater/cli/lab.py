"""lab: the published algorithms in virtual time, and the checker. None of it starts a JVM."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from headwater.cli.judging import judge
from headwater.cli.lab_live import live
from headwater.cli.options import HERE, Project
from headwater.cli.screen import busy, grid, messages, results
from headwater.model.errors import HeadwaterError, UsageError

if TYPE_CHECKING:
    from headwater.lab.checker.levels import Consistency
    from headwater.lab.experiment import Experiment
    from headwater.lab.histories.history import History
    from headwater.lab.histories.player import Played
    from headwater.lab.reporting.report import WrittenReport
    from headwater.lab.reporting.running import Tell

ALL = "all"
HISTORIES = "histories"
LEVELS = "levels"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="""
    The published algorithms, run in virtual time, judged by a checker, beside the papers' own experiments.

    Start with 'headwater lab list'; 'headwater lab run all' writes a report with every figure.
    """)  # fmt: skip
app.command()(live)
app.command()(judge)


@app.command("list")
def list_() -> None:
    """The experiments, the algorithms and the hand-written histories there are."""
    from headwater.lab.algorithms import ALGORITHMS
    from headwater.lab.experiment import PAPERS
    from headwater.lab.experiments import all_experiments
    from headwater.lab.histories.figures import figures

    screen = results()
    table = _named("experiment", "paper", "what it shows")
    for e in all_experiments().values():
        table.add_row(e.name, f"{e.paper}, {e.shows}", e.title)
    screen.print(table)
    screen.print()
    table = _named("algorithm", "from", "promises", "needs")
    for a in ALGORITHMS.values():
        table.add_row(a.name, a.paper, a.level.value, a.needs)
    screen.print(table)
    screen.print()
    table = _named("history", "what it shows")
    for path, title in figures().items():
        table.add_row(path, title)
    screen.print(table)
    screen.print()
    table = _named("paper", "")
    for name, title in PAPERS.items():
        table.add_row(name, title)
    screen.print(table)


def _named(*columns: str) -> Table:
    """A table whose names can be copied: they are never broken."""
    table = grid(*columns)
    table.columns[0].no_wrap = True
    return table


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment, or 'all'.", show_default=False)],
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same results.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")] = Path("lab-report"),
) -> None:
    """Run an experiment: data (CSV), plot (SVG, PNG), and the paper's claims beside what was measured.

    'all' runs every one and writes a page with all figures.

    Examples:  headwater lab run pvm-fig21   ·   headwater lab run all --out report
    """
    from headwater.lab.experiments import all_experiments

    if find_spec("matplotlib") is None:
        raise UsageError("experiments are drawn with matplotlib, which is not here", "pip install 'headwater[lab]'")
    from headwater.lab.reporting.report import summary
    from headwater.lab.reporting.running import REPORT, run_many, run_one

    known = all_experiments()
    chosen = list(known.values()) if name == ALL else [_experiment(name)]
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder", "give --out a folder, or a name that does not exist yet")
    started = time.monotonic()
    with _bars(chosen) as tell:
        written = run_many(chosen, seed, out, tell) if name == ALL else [run_one(name, seed, out, tell)]
    for experiment, what in zip(chosen, written, strict=True):
        _print_claims(experiment, what, brief=name == ALL)
    took = time.monotonic() - started
    where = out / REPORT if name == ALL else Path(written[0].folder)
    messages().print(f"{summary(written)}; {took:.0f} s; see {where}", style="bold", markup=False)


@app.command()
def explain(
    name: Annotated[
        str, typer.Argument(help="An experiment, an algorithm, 'levels' or 'histories'.", show_default=False)
    ],
) -> None:
    """What an experiment does and what its paper found; what an algorithm does; the levels; how histories are written.

    Examples:  headwater lab explain pvm-fig22   ·   headwater lab explain sweep   ·   headwater lab explain levels
    """
    from headwater.lab.algorithms import ALGORITHMS, explained
    from headwater.lab.checker import levels
    from headwater.lab.experiments import all_experiments
    from headwater.lab.histories import script
    from headwater.lab.histories.figures import figure, figures

    screen = results()
    name = name.lower()
    if name == HISTORIES:
        screen.print((script.__doc__ or "").strip(), markup=False)
    elif name == LEVELS:
        screen.print((levels.__doc__ or "").strip() + "\n", markup=False)
        table = grid("level", "what it means", "defined in")
        for level in levels.Consistency:
            table.add_row(level.value, level.meaning, level.citation)
        screen.print(table)
    elif name in ALGORITHMS:
        algorithm = ALGORITHMS[name]
        screen.print(f"{algorithm.title} ({algorithm.paper})", style="bold", markup=False)
        screen.print(f"promises {algorithm.level.value}, needs {algorithm.needs}\n", markup=False)
        screen.print(explained(name), markup=False)
    elif name in figures() and name not in all_experiments():
        screen.print(figure(name).read_text(encoding="utf-8").rstrip(), markup=False)
    else:
        e = _experiment(name, [*ALGORITHMS, *figures(), HISTORIES, LEVELS])
        screen.print(Text(e.title, "bold"), Text(f"({e.paper}, {e.shows})", "dim"))
        for head, text in (("The paper did", e.did), ("It found", e.found), ("Here", e.here)):
            screen.print(Text(f"\n{head}", "bold"))
            screen.print(Padding(Text(" ".join(text.split())), (0, 0, 0, 2), expand=False))
        screen.print(f"\nheadwater lab run {e.name}", style="dim", markup=False)


@app.command()
def check(
    file: Annotated[
        str,
        typer.Argument(help="A history: a file, recorded or written by hand, or a figure's name.", show_default=False),
    ],
    strategy: Annotated[
        str, typer.Option("--strategy", help="Play a hand-written history with this algorithm instead of its own.")
    ] = "",
    at_least: Annotated[
        str, typer.Option("--at-least", metavar="LEVEL", help="Fail (exit code 1) if the history's level is below.")
    ] = "",
) -> None:
    """Which consistency level a history has, and a witness of why it has no more.

    Recorded histories come from 'headwater lab record'; 'headwater lab explain histories' tells how to write one.

    Examples:  headwater lab check pvm-fig6   ·   headwater lab check pvm-fig6 --strategy pvm   ·
    headwater lab check run.jsonl --at-least complete
    """
    from headwater.lab.checker.verdict import check as judged
    from headwater.lab.checker.verdict import check_each
    from headwater.lab.histories.recorded import is_recorded, read_history

    path = _history(file)
    named: Callable[[object], str] = str
    wanted = _level(at_least) if at_least else None
    screen = results()
    if is_recorded(path):
        if strategy:
            raise UsageError("a recorded history has happened already", "leave out --strategy")
        history = read_history(path)
    else:
        played, expected = _played(path, strategy)
        history, named = played.history, lambda verdict: played.named(str(verdict))
    if not history.states and not history.cuts:
        screen.print("no state but the first: the warehouse never changed", style="yellow", markup=False)
    counts = [_count(len(history.transactions), "transaction")]
    counts += [_count(len(history.states), "state") + " after the first"] if history.states or not history.cuts else []
    counts += [_count(len(history.cuts), "cut")] if history.cuts else []
    screen.print(", ".join([*counts, _count(len(history.views), "view")]), style="dim", markup=False)
    short: list[str] = []
    if history.states or not history.cuts:
        with busy("checking"):
            verdict = judged(history)
            each = check_each(history) if len(history.views) > 1 else {}
        for view, one in each.items():
            screen.print(Text.assemble((f"{view}: ", "bold"), named(one)))
        screen.print(Text.assemble(("all views together: " if each else "", "bold"), named(verdict)))
        if not is_recorded(path):
            _compare(played, expected, verdict.level, strategy)
        if wanted is not None and wanted not in verdict.holds:
            short.append(f"the history does not have {wanted.value}" + (" (undecided)" * (wanted in verdict.undecided)))
    if history.cuts:
        short += _check_cuts(history, wanted)
    if short:
        raise HeadwaterError("; ".join(short), "the witness above says why")


def _check_cuts(history: History, wanted: Consistency | None) -> list[str]:
    """Judge what readers saw; returns what it falls short of. Where every transaction can be asked for, its cuts need
    not show each of them."""
    from headwater.lab.checker.cuts import check_cuts
    from headwater.lab.checker.levels import Consistency

    with busy("checking the cuts"):
        verdict = check_cuts(history)
    results().print(Text.assemble(("cuts: ", "bold"), str(verdict)))
    least = Consistency.STRONG if history.states and wanted is Consistency.COMPLETE else wanted
    if least is None or least in verdict.holds:
        return []
    return [f"the cuts do not have {least.value}" + (" (undecided)" * (least in verdict.undecided))]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _compare(played: Played, expected: str, level: Consistency, strategy: str) -> None:
    """What the file says should be, beside what was."""
    wrong = [f"line {s.step.line}: {s.step.text}: {s.wrong}" for s in played.surprises]
    if expected and _level(expected) is not level:
        wrong.append(f"expected exactly {_level(expected).value}, it is {level.value}")
    if not wrong:
        return
    if strategy:
        for line in wrong:
            messages().print(f"differs from the file's own strategy: {line}", style="dim", markup=False)
        return
    raise HeadwaterError("the history is not what its file says: " + "; ".join(wrong), "correct the file, or the code")


def _played(path: Path, strategy: str) -> tuple[Played, str]:
    """A hand-written history, told step by step."""
    from headwater.lab.algorithms import factory
    from headwater.lab.histories.player import play, shown
    from headwater.lab.histories.script import read_script

    screen = results()
    script = read_script(path)
    screen.print(Text(script.title, "bold"))
    if script.comment.strip():
        screen.print(Text(script.comment.strip(), "dim"))
    name, *said = strategy.split() or [script.strategy, *(f"{k}={v}" for k, v in script.options.items())]
    played = play(script, factory(name, dict(option.partition("=")[::2] for option in said)))
    table = grid("", "what happens", *(str(v.name) for v in script.world.views))
    table.add_row("", f"(strategy {' '.join([name, *said])})", *(shown(bag) for bag in played.history.content.values()))
    for number, seen in enumerate(played.seen, 1):
        mark = "" if seen.right else "[yellow]✗ [/]"
        table.add_row(str(number), mark + escape(seen.step.text), *(shown(bag) for bag in seen.views.values()))
    screen.print(table)
    return played, script.expected


def _history(name: str) -> Path:
    from headwater.lab.histories.figures import figure, figures

    if Path(name).is_file():
        return Path(name)
    if Path(name).is_dir():
        raise UsageError(f"{name} is a folder", "name a file with a history")
    if name in figures():
        return figure(name)
    raise UsageError(f"there is no file and no figure {name!r}", f"figures are: {', '.join(figures())}")


def _level(name: str) -> Consistency:
    from headwater.lab.checker.levels import Consistency

    known = {c.name.lower(): c for c in Consistency}
    if name.lower() not in known:
        raise UsageError(f"there is no level {name!r}", f"there are: {', '.join(known)}")
    return known[name.lower()]


@app.command()
def record(
    views: Annotated[list[str] | None, typer.Argument(help="Views; all of them if none are named.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("history.jsonl"),
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, help="Only the last N transactions, or a few more where a state covers several."),
    ] = None,
    project: Project = HERE,
) -> None:
    """Record what a project's sources and warehouse went through, for 'headwater lab check'.

    Reads the sources' tables as of the newest cut, takes the numbered transactions back, and tells them one by one,
    with the states that readers could ask for and the cuts that they saw. Starts no JVM. The file holds the tables'
    contents.

    Example:  headwater lab record --last 500 --out run.jsonl && headwater lab check run.jsonl
    """
    from headwater.api import open_warehouse
    from headwater.cli.recording import recorded
    from headwater.lab.histories.recorded import write_history
    from headwater.runtime.reading.recording import record as take

    with busy("recording"):
        recording = take(open_warehouse(project).project, views or (), last)
        history = recorded(recording)
        types = {t: {f.name: f.type for f in schema} for t, schema in recording.schemas.items()}
        write_history(history, out, types)
    messages().print(
        f"{out}: {_count(len(history.transactions), 'transaction')}, {_count(len(history.states), 'state')} and "
        f"{_count(len(history.cuts), 'cut')} of {_count(len(history.views), 'view')}",
        markup=False,
    )
    if recording.not_complete:
        messages().print(
            f"cuts only, because of {', '.join(recording.not_complete)}; name only complete views to record every "
            "transaction as a state, too",
            style="dim",
            markup=False,
        )


def _experiment(name: str, others: Sequence[str] = ()) -> Experiment:
    from headwater.lab.experiments import all_experiments

    known = all_experiments()
    if name not in known:
        there = [*known, *others] if others else [*known, ALL]
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.6)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no {'such thing' if others else 'experiment'} {name!r}", f"{meant}there are: {', '.join(there)}"
        )
    return known[name]


def _print_claims(experiment: Experiment, written: WrittenReport, brief: bool) -> None:
    from headwater.lab.reporting.report import counted, mark, reason

    screen = results()
    state = "green" if written.confirmed == written.measured else "yellow"
    counts = f"[{state}]{counted(written)}[/]"
    screen.print(f"[bold]{escape(experiment.name)}[/] {counts} [dim]{escape(experiment.title)}[/]")
    for claim in written.claims:
        if brief and claim.holds:
            continue
        color = "green" if claim.confirmed else "dim" if claim.holds or claim.undecided else "yellow"
        screen.print(Text.assemble((f"  {mark(claim)} ", color), claim.said))
        screen.print(Padding(Text.assemble(("measured: ", "dim"), claim.measured), (0, 0, 0, 4), expand=False))
        if claim.why:
            screen.print(Padding(Text.assemble((f"{reason(claim)}: ", "dim"), claim.why), (0, 0, 0, 4), expand=False))
    if not brief:
        for note in written.notes:
            screen.print(Padding(Text(note), (1, 0, 0, 2), expand=False))


@contextmanager
def _bars(experiments: Sequence[Experiment]) -> Iterator[Tell]:
    """A bar for the whole and one for each experiment under way; in a file, a line for each that is done."""
    screen = messages()
    if not screen.is_terminal:
        finished: list[str] = []

        def line(name: str, done: int, of: int) -> None:
            if (done, of) == (1, 1) and len(experiments) > 1 and name not in finished:
                finished.append(name)
                screen.print(f"{len(finished)}/{len(experiments)} {name}", markup=False)

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bars:
        whole = bars.add_task("experiments", total=len(experiments)) if len(experiments) > 1 else None
        tasks: dict[str, object] = {}

        def tell(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=of)
            bars.update(tasks[name], completed=done, total=of)  # type: ignore[arg-type]  # what add_task gave
            if (done, of) == (1, 1) and whole is not None:
                bars.update(tasks[name], visible=False)  # type: ignore[arg-type]
                bars.advance(whole)

        yield tell
