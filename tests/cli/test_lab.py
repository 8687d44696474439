"""headwater lab, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Headwater
from headwater.lab.experiments import all_experiments
from headwater.lab.histories.figures import figure, figures


def test_list_names_everything(headwater: Headwater) -> None:
    result = headwater("lab", "list")
    assert result.exit_code == 0
    for name in (*all_experiments(), *figures(), "sweep", "pull-push", "wave"):
        assert name in result.stdout


def test_run_writes_data_plots_and_claims(headwater: Headwater, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for out in (first, second):
        result = headwater("lab", "run", "pvm-fig6-7", "--out", out, "--seed", 7)
        assert result.exit_code == 0, result.output
        assert "2/2" in result.stdout
        assert "claims hold" in result.stderr
    files = ["claims.md", "data.csv", "plot.png", "plot.svg"]
    assert sorted(p.name for p in (first / "pvm-fig6-7").iterdir()) == files
    for name in files:
        assert (first / "pvm-fig6-7" / name).read_bytes() == (second / "pvm-fig6-7" / name).read_bytes()
    assert (first / "pvm-fig6-7" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (first / "pvm-fig6-7" / "plot.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "pvm-fig99"), "there are: c-strobe-messages"),
        (("explain", "nothing"), "sweep, nested-sweep"),
        (("check", "nothing.history"), "figures are: eca-example2"),
        (("check", "pvm-fig7", "--strategy", "swep"), "there are: sweep"),
        (("check", "pvm-fig7", "--strategy", "pvm q=2"), "its options: p="),
        (("explain", "swep"), "did you mean sweep?"),
        (("check", "."), "is a folder"),
        (("check", "pvm-fig7", "--at-least", "perfect"), "there are: none, convergence, weak"),
        (("run", "pvm-fig6-7", "--seed", "x"), "valid integer"),
        (("run", "pvm-fig6-7", "--seed", "-1"), "greater than or equal to 0"),
    ],
)
def test_a_wrong_name_lists_what_exists(headwater: Headwater, arguments: tuple[str, ...], said: str) -> None:
    result = headwater("lab", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_out_must_be_a_folder(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = headwater("lab", "run", "pvm-fig6-7", "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is not a folder" in result.output


def test_a_file_that_cannot_be_written_is_no_bug_of_ours(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = headwater("lab", "run", "pvm-fig6-7", "--out", tmp_path / "file" / "x")
    assert result.exit_code == 1
    assert "not a directory" in result.output
    assert "bug" not in result.output


def test_explain(headwater: Headwater) -> None:
    assert "The paper did" in headwater("lab", "explain", "pvm-fig22").stdout
    assert "local compensation" in headwater("lab", "explain", "sweep").stdout
    assert "IS1 answers DU1" in headwater("lab", "explain", "histories").stdout
    assert "strong consistency" in headwater("lab", "explain", "levels").stdout
    assert "IS1 commits DU1" in headwater("lab", "explain", "pvm-fig6").stdout
    assert "local compensation" in headwater("lab", "explain", "SWEEP").stdout


def test_check_a_figure(headwater: Headwater) -> None:
    result = headwater("lab", "check", "pvm-fig7")
    assert result.exit_code == 0, result.output
    assert "convergence (not weakly consistent): state 1" in result.stdout
    assert headwater("lab", "check", figure("pvm-fig7"), "--at-least", "convergence").exit_code == 0
    refused = headwater("lab", "check", "pvm-fig7", "--at-least", "strong")
    assert refused.exit_code == 1
    assert "does not have strong consistency" in refused.output


def test_check_with_another_strategy(headwater: Headwater) -> None:
    result = headwater("lab", "check", "pvm-fig6", "--strategy", "pvm")
    assert result.exit_code == 0
    assert "differs from the file's own strategy" in result.stderr


def test_a_history_that_is_not_what_its_file_says(headwater: Headwater, tmp_path: Path) -> None:
    path = tmp_path / "wrong.history"
    text = figure("pvm-fig7").read_text(encoding="utf-8").replace("expect convergence", "expect complete")
    path.write_text(text, encoding="utf-8")
    result = headwater("lab", "check", path)
    assert result.exit_code == 1
    assert "expected exactly complete consistency, it is convergence" in " ".join(result.output.split())
