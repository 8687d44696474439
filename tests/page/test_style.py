"""Whoever sees little can read it: every colour of words has enough contrast on every ground it may stand on."""

from __future__ import annotations

import re
from itertools import product

import pytest

from headwater.page.server import STATIC

WORDS = ("ink", "soft", "faint", "accent", "good", "warn", "bad")
GROUNDS = ("paper", "raised", "sunk", "accent-soft", "good-soft", "warn-soft", "bad-soft")
ENOUGH = 4.5
"""WCAG 2.2, 1.4.3, level AA."""


def colours() -> dict[str, dict[str, str]]:
    """What the variables of the style are, by scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", (STATIC / "style.css").read_text(), re.DOTALL)
    return {
        name: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", text))
        for name, text in (("light", light), ("dark", dark))
    }


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(scheme: str) -> None:
    said = colours()[scheme]
    weak = {
        (word, ground): round(contrast(said[word], said[ground]), 2)
        for word, ground in product(WORDS, GROUNDS)
        if contrast(said[word], said[ground]) < ENOUGH
    }
    assert weak == {}


def test_fields_can_be_found() -> None:
    for said in colours().values():
        assert contrast(said["field"], said["raised"]) >= 3  # 1.4.11


def test_a_contrast_is_what_the_standard_says() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54
