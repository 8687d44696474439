"""What a run leaves behind: per experiment the data, the plot and the claims; for all of them one page.

The page needs nothing but itself: pictures are inside it. The same seed gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from headwater.lab.algorithms import ALGORITHMS
from headwater.lab.checker.levels import Consistency
from headwater.lab.experiment import PAPERS, Claim, ClaimKind, Experiment, Findings
from headwater.lab.reporting.plot import drawn, png, svg


@dataclass(frozen=True)
class WrittenReport:
    """An experiment's files, and what the page needs of it."""

    experiment: str
    folder: str
    svg: str
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    rows: int

    @property
    def measured(self) -> int:
        """Claims that could have failed."""
        return sum(1 for c in self.claims if c.kind is ClaimKind.MEASURED)

    @property
    def confirmed(self) -> int:
        return sum(1 for c in self.claims if c.confirmed)

    @property
    def undecided(self) -> int:
        """Claims that the confidence intervals do not decide."""
        return sum(1 for c in self.claims if c.undecided)

    @property
    def identities(self) -> int:
        """Claims that are true by construction."""
        return len(self.claims) - self.measured


def summary(written: Sequence[WrittenReport]) -> str:
    """What a run confirmed. Identities are told apart: they confirm nothing."""
    confirmed, measured = sum(w.confirmed for w in written), sum(w.measured for w in written)
    identities, undecided = sum(w.identities for w in written), sum(w.undecided for w in written)
    left = f", {undecided} {'is' if undecided == 1 else 'are'} undecided" if undecided else ""
    apart = f"; {identities} more {'is' if identities == 1 else 'are'} true by construction" if identities else ""
    return f"{confirmed} of {measured} measured claims hold{left}{apart}"


def write(experiment: Experiment, findings: Findings, out: Path, seed: int) -> WrittenReport:
    """OUT/NAME/: data.csv, plot.svg, plot.png, claims.md."""
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    figure = drawn(experiment.title, findings.panels)
    picture = svg(figure)
    (folder / "data.csv").write_text(_csv(findings), encoding="utf-8", newline="")
    (folder / "plot.svg").write_text(picture, encoding="utf-8")
    (folder / "plot.png").write_bytes(png(figure))
    (folder / "claims.md").write_text(claims_text(experiment, findings, seed), encoding="utf-8")
    return WrittenReport(
        experiment.name, str(folder), picture, tuple(findings.claims), tuple(findings.notes), len(findings.rows)
    )


def _csv(findings: Findings) -> str:
    names = list(dict.fromkeys(name for row in findings.rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in findings.rows:
        writer.writerow({k: _number(v) for k, v in row.items()})
    return out.getvalue()


def _number(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def claims_text(experiment: Experiment, findings: Findings, seed: int) -> str:
    lines = [f"# {experiment.title}", "", f"{experiment.paper}, {experiment.shows}; seed {seed}", ""]
    for claim in findings.claims:
        who = "we say" if experiment.paper == "ours" else "the paper"
        lines += [f"- {mark(claim)} {who}: {claim.said}", f"  measured: {claim.measured}"]
        if claim.why:
            lines.append(f"  {reason(claim)}: {claim.why}")
    for note in findings.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def mark(claim: Claim) -> str:
    """✓ confirmed, = true by construction, ✗ not so, ? undecided."""
    if claim.undecided:
        return "?"
    if not claim.holds:
        return "✗"
    return "✓" if claim.kind is ClaimKind.MEASURED else "="


def reason(claim: Claim) -> str:
    return "why" if claim.kind is ClaimKind.MEASURED else "true by construction"


def page(experiments: Sequence[Experiment], written: Sequence[WrittenReport], seed: int) -> str:
    """The report: contents, then every experiment in the order of the papers."""
    by_name = {w.experiment: w for w in written}
    shown = [e for e in experiments if e.name in by_name]
    papers = list(dict.fromkeys(e.paper for e in shown))
    contents = "".join(
        f"<h3>{_headed(p)}</h3><ul>" + "".join(_entry(e, by_name[e.name]) for e in shown if e.paper == p) + "</ul>"
        for p in papers
    )
    body = "".join(
        f'<section class="paper"><h2>{_headed(p)}</h2>'
        + "".join(_section(e, by_name[e.name]) for e in shown if e.paper == p)
        + "</section>"
        for p in papers
    )
    return _PAGE.format(
        style=_STYLE,
        words=_words(),
        contents=contents,
        body=body,
        seed=seed,
        summary=summary(written),
        experiments=len(shown),
    )


def _headed(paper: str) -> str:
    return f"{paper}: {escape(PAPERS[paper])}"


def _words() -> str:
    """What a newcomer needs to read the page."""
    levels = [(c.value, c.meaning) for c in Consistency if c is not Consistency.NONE]
    algorithms = [(a.title, f"{a.paper}; promises {a.level.value}; needs {a.needs}") for a in ALGORITHMS.values()]
    parts = {"Levels": levels, "Algorithms": algorithms, "Symbols": SYMBOLS}
    return "".join(
        f"<h3>{name}</h3><dl class='words'>"
        + "".join(f"<dt>{escape(word)}</dt><dd>{_text(meaning)}</dd>" for word, meaning in words)
        + "</dl>"
        for name, words in parts.items()
    )


SYMBOLS = (
    ("IS1, IS2, …", "information sources, each with a relation R1, R2, …"),
    ("DU1, DU2, …", "data updates: transactions at the sources, in the order in which the warehouse hears of them"),
    ("SQ1,2 and SQR1,2", "the subquery for DU1 at IS2, and its result"),
    ("UMQ, PPU, RPU", "updates that wait, that are being handled, that are done but still needed (PVM)"),
    ("m, n, p, q, c", "sources, updates, updates handled at once, questions a source handles at once, updates in a row "
     "from the same source"),
    ("REL_i, AL_i^x", "which views transaction i concerns; the changes that bring view x to the state after i (MVC)"),
    ("w, r, g, b", "white, red, gray, black: an action list is awaited, is there, is applied, is not needed (MVC)"),
    ("V1 … V4", "Pull-Push's views over one to four relations"),
    ("t, T", "simulated time: seconds where the paper says so, else units"),
)  # fmt: skip


def _entry(experiment: Experiment, written: WrittenReport) -> str:
    state = "all" if written.confirmed == written.measured else "some"
    return (
        f'<li><a href="#{experiment.name}">{escape(experiment.title)}</a> <small>{escape(experiment.shows)}</small>'
        f'<span class="count {state}">{counted(written)}</span></li>'
    )


def counted(written: WrittenReport) -> str:
    """`5/6 +2=`: five of six measured claims hold, two more are true by construction."""
    found = [f"{written.confirmed}/{written.measured}"] if written.measured else []
    return " ".join([*found, *([f"+{written.identities}="] if written.identities else [])])


def _section(experiment: Experiment, written: WrittenReport) -> str:
    claims = "".join(
        f'<tr class="{_shade(c)}"><td>{mark(c)}</td><td>{_text(c.said)}</td><td>{_text(c.measured)}'
        + (
            f'<p class="why">{_text(c.why if c.kind is ClaimKind.MEASURED else f"True by construction: {c.why}")}</p>'
            if c.why
            else ""
        )
        + "</td></tr>"
        for c in written.claims
    )
    notes = "".join(f"<pre>{escape(n)}</pre>" if "\n" in n else f"<p>{_text(n)}</p>" for n in written.notes)
    who = "We say" if experiment.paper == "ours" else "The paper says"
    return f"""
<article id="{experiment.name}">
<h3>{escape(experiment.title)} <small>{escape(experiment.shows)}</small></h3>
<dl><dt>The paper did</dt><dd>{_text(experiment.did)}</dd>
<dt>It found</dt><dd>{_text(experiment.found)}</dd>
<dt>Here</dt><dd>{_text(experiment.here)}</dd></dl>
<figure>{_inline(written.svg, experiment.name)}</figure>
<table class="claims"><thead><tr><th></th><th>{who}</th><th>Measured here</th></tr></thead>
<tbody>{claims}</tbody></table>
{notes}
<p class="files">headwater lab run {experiment.name} · <a href="{experiment.name}/data.csv">data.csv</a>
({written.rows} rows) · <a href="{experiment.name}/plot.svg">plot.svg</a> ·
<a href="{experiment.name}/plot.png">plot.png</a> · <a href="#top">top</a></p>
</article>"""


def _shade(claim: Claim) -> str:
    return "yes" if claim.confirmed else "same" if claim.holds or claim.undecided else "no"


def _text(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", re.sub(r"\s+", " ", escape(text)).strip())


def _inline(picture: str, name: str) -> str:
    """The SVG element alone; its ids get the experiment's name, or pictures of one page would share them."""
    element = picture[picture.index("<svg") :]
    for attribute in (r'id="', r'href="#', r"url\(#"):
        element = re.sub(attribute, lambda m: f"{m[0]}{name}-", element)
    return element


_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #5f6c7b; --line: #e3e8ee; --ours: #0b6e99; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: #fafbfc; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 80px; }
h1 { font-size: 30px; margin: 0 0 4px; } h2 { margin: 56px 0 8px; padding-top: 16px; border-top: 2px solid var(--ink); }
h3 small, li small { color: var(--soft); font-weight: 400; }
nav { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 8px 24px 16px; }
nav ul { list-style: none; padding: 0; margin: 0; } nav li { padding: 2px 0; display: flex; gap: 8px; }
details { margin: 12px 0; } summary { cursor: pointer; }
.words { grid-template-columns: 190px 1fr; font-size: 14px; }
nav h3 { margin: 14px 0 2px; font-size: 15px; }
.count { margin-left: auto; font-variant-numeric: tabular-nums; } .count.all { color: #2f7d4f; }
.count.some { color: #b3541e; }
article { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 8px 24px 12px; margin: 20px 0; }
dl { display: grid; grid-template-columns: 110px 1fr; gap: 4px 14px; } dt { color: var(--soft); } dd { margin: 0; }
figure { margin: 16px 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
table.claims { border-collapse: collapse; width: 100%; }
.claims th { text-align: left; color: var(--soft); font-weight: 500; }
.claims td, .claims th { border-top: 1px solid var(--line); padding: 6px 10px 6px 0; vertical-align: top; }
.claims td:nth-child(2) { width: 44%; } .claims tr.yes td:first-child { color: #2f7d4f; }
.claims tr.same { color: var(--soft); }
.claims tr.no td:first-child { color: #b3541e; font-weight: 700; } .why { margin: 4px 0 0; color: var(--soft); }
pre { background: #f5f7f9; padding: 12px; border-radius: 6px; overflow-x: auto; font-size: 13px; line-height: 1.4; }
a { color: var(--ours); } .files, .about { color: var(--soft); font-size: 13px; }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headwater lab</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>
<body id="top"><main>
<h1>Headwater lab</h1>
<p class="about">{experiments} experiments of five papers on view maintenance, run again in virtual time, seed {seed}.
{summary} here, the papers' and ours; where one does not hold (✗), the page says why, and where one could not fail (=),
by which construction. Times are those of the simulated clock. Made by
<code>headwater lab run all --seed {seed}</code>.</p>
<details><summary>Words: levels, algorithms, symbols</summary>{words}</details>
<nav>{contents}</nav>
{body}
</main></body></html>
"""
