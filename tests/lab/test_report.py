"""What a run leaves behind: complete, readable by itself, and the same for the same seed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.experiments import PAPERS, all_experiments
from headwater.lab.reporting.plot import drawn, png, svg
from headwater.lab.reporting.report import page, write
from headwater.lab.reporting.running import REPORT, run_many

QUICK = ("mvc-examples", "pvm-fig6-7", "pvm-fig15-16")


Told = list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Told]:
    """The same experiments with the same seed, by processes of their own."""
    chosen = [all_experiments()[name] for name in QUICK]
    told: Told = []
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
    for out in folders:
        written = run_many(chosen, 5, out, lambda *said: told.append(said))
        assert [w.experiment for w in written] == list(QUICK)
    return folders[0], folders[1], told


def test_the_same_seed_gives_the_same_report(twice: tuple[Path, Path, Told]) -> None:
    one, two, told = twice
    files = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert len(files) == 4 * len(QUICK) + 1
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file
    assert all((name, 1, 1) in told for name in QUICK)


def test_the_page_needs_nothing_but_itself(twice: tuple[Path, Path, Told]) -> None:
    folder = twice[0]
    text = (folder / REPORT).read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(https?:)?//', text)
    assert text.count("<svg") == len(QUICK)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "pictures of one page must not share ids"
    for link in re.findall(r'<a href="([^"#]+)"', text):
        assert (folder / link).is_file()


def test_what_fails_is_told_and_stops_the_others(tmp_path: Path) -> None:
    broken = Experiment("no-such-experiment", "ours", "", "", "", "", "", lambda run: Findings([], [], []))
    with pytest.raises(KeyError, match="no-such-experiment"):
        run_many([broken], 0, tmp_path, lambda *_: None)
    assert not (tmp_path / REPORT).exists()


def test_the_files_of_one_experiment(tmp_path: Path) -> None:
    claims = [
        Claim("it <holds>", "1.5", True),
        Claim("not", "2", False, "because"),
        identity("always", "1 = 1", True, "one is one"),
    ]
    panels = [
        Panel("lines", "x", "y", {"SWEEP": [(1, 2.0), (2, 3.0)], "our wave": [(1, 1.0)]}),
        Panel("bars", series={"a": [("p", 1.0)], "b": [("p", 2.0), ("q", 3.0)]}, kind="bars"),
        Panel("stacked", series={"a": [("p", 1.0)], "b": [("p", 2.0), ("q", 3.0)]}, kind="stacked", log_y=False),
        Panel("grid", kind="grid", cells=[["head"], ["a long cell " * 12]]),
    ]
    findings = Findings([{"x": 1, "y": 2.5}, {"x": 2, "z": "ü"}], panels, claims, ["a note", "two\nlines"])
    experiment = Experiment("mine", "ours", "here", "A title", "did", "found", "different", lambda run: findings)
    written = write(experiment, experiment.run(Run()), tmp_path, 3)
    assert (written.confirmed, written.measured, written.identities) == (1, 2, 1)
    with (tmp_path / "mine" / "data.csv").open(encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{"x": "1", "y": "2.5", "z": ""}, {"x": "2", "y": "", "z": "ü"}]
    said = (tmp_path / "mine" / "claims.md").read_text(encoding="utf-8")
    assert "✗ we say: not" in said
    assert "why: because" in said
    text = page([experiment], [written], 3)
    assert "it &lt;holds&gt;" in text
    assert "1 of 2 measured claims hold; 1 more is true by construction" in text
    assert '<tr class="same"><td>=</td>' in text
    assert "= we say: always" in said
    assert "true by construction: one is one" in said


def test_pictures_are_the_same_bytes_each_time() -> None:
    panels = [Panel("p", "x", "y", {"a": [(1, 2.0), (2, 3.0)]})]
    assert svg(drawn("t", panels)) == svg(drawn("t", panels))
    assert png(drawn("t", panels)) == png(drawn("t", panels))


def test_every_experiment_says_what_it_is() -> None:
    for name, experiment in all_experiments().items():
        assert experiment.paper in PAPERS
        assert name == experiment.name == name.lower()
        assert all(len(text) > 5 for text in (experiment.title, experiment.shows, experiment.found)), name
        assert all(len(text) > 40 for text in (experiment.did, experiment.here)), name
