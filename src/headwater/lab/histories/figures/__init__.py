"""Figures of the papers, as histories that can be read, played and checked."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def figure(name: str) -> Path:
    return FOLDER / f"{name}.history"


def figures() -> dict[str, str]:
    """The name of each, and its title: the first line."""
    return {
        p.stem: p.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for p in sorted(FOLDER.glob("*.history"))
    }
