"""Draws panels: one look for all figures, an algorithm the same colour in each of them, the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from headwater.lab.experiment import Panel

OURS = "#0b6e99"
_PALETTE = (
    "#c44536",
    "#e09f3e",
    "#6a994e",
    "#7b4b94",
    "#8d6e63",
    "#5c6b73",
    "#d67ab1",
    "#3d5a80",
    "#a3b18a",
    "#222222",
)
_MARKERS = "osD^vPX*<>"
_COLORS = {
    "SWEEP": "#c44536",
    "Nested SWEEP": "#e09f3e",
    "PVM": "#6a994e",
    "PVM CC": "#386641",
    "Pure-Push": "#7b4b94",
    "Interleaved Pull-Push": "#3d5a80",
    "Pull-Push": "#3d5a80",
    "Strobe": "#8d6e63",
    "C-Strobe": "#d67ab1",
    "ECA": "#5c6b73",
    "POSSE": "#b08968",
}
INK, GRID = "#1f2933", "#d9dee3"

matplotlib.rcParams.update(
    {
        "svg.hashsalt": "headwater",
        "svg.fonttype": "path",
        "font.size": 10,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
)


def drawn(title: str, panels: Sequence[Panel]) -> Figure:
    """All panels, row by row: two pictures or three narrow tables in a row, one wide table."""
    across = min(_across(panels), max(1, len(panels)))
    down = -(-len(panels) // across)
    heights = [max(_height(p) for p in panels[i * across : (i + 1) * across]) for i in range(down)]
    figure = Figure(figsize=(11.2 if across > 1 else 8.0, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    axes = figure.subplots(down, across, squeeze=False, gridspec_kw={"height_ratios": heights})
    for place, ax in enumerate(axes.flat):
        if place < len(panels):
            _panel(ax, panels[place])
        else:
            ax.set_axis_off()
    return figure


def _across(panels: Sequence[Panel]) -> int:
    if not any(p.kind == "grid" for p in panels):
        return 2
    return 3 if all(p.kind == "grid" and sum(_widths(p)) < 40 for p in panels) else 1


def _widths(panel: Panel) -> list[int]:
    """How many characters each column of a table needs."""
    columns = zip(*_wrapped(panel), strict=True)
    return [max(5, *(len(part) for c in column for part in c.split("\n"))) for column in columns]


def svg(figure: Figure) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue().decode()


def png(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _height(panel: Panel) -> float:
    if panel.kind != "grid":
        return 4.0
    return 0.4 + 0.27 * len(panel.cells) + 0.14 * sum(_lines_in(row) - 1 for row in _wrapped(panel))


WIDE = 56
"""So many characters of a cell stand in one line."""


def _wrapped(panel: Panel) -> list[list[str]]:
    return [[fill(str(c), WIDE) if len(str(c)) > WIDE else str(c) for c in row] for row in panel.cells]


def _lines_in(row: Sequence[str]) -> int:
    return max(c.count("\n") + 1 for c in row)


def _panel(ax: Axes, panel: Panel) -> None:
    ax.set_title(fill(panel.title, 90 if panel.kind == "grid" else 60), fontsize=10.5, loc="left")
    if panel.kind == "grid":
        _grid(ax, panel)
        return
    ax.set_xlabel(panel.x)
    ax.set_ylabel(fill(panel.y, 44))
    ax.grid(True, color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    {"lines": _lines, "bars": _bars, "stacked": _stacked}[panel.kind](ax, panel)
    if panel.log_y:
        ax.set_yscale("log")
        _plain(ax.yaxis, [y for points in panel.series.values() for _, y in points])
    elif panel.kind != "lines" or min((y for s in panel.series.values() for _, y in s), default=0) >= 0:
        ax.set_ylim(bottom=0)
    if panel.log_x:
        ax.set_xscale("log")
        _plain(ax.xaxis, [x for points in panel.series.values() for x, _ in points])
    elif panel.kind == "lines" and all(isinstance(x, int) for points in panel.series.values() for x, _ in points):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(panel.series) > 4 or panel.kind == "bars":
        ax.legend(fontsize=8, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    elif panel.series:
        ax.legend(fontsize=8.5, frameon=False)


def _plain(axis: Axis, values: Sequence[float]) -> None:
    """Numbers as people write them; between powers of ten only if there are few of those."""
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(plain)
    positive = [v for v in values if v > 0]
    few = bool(positive) and max(positive) < 20 * min(positive)
    axis.set_minor_formatter(plain if few else NullFormatter())


def _lines(ax: Axes, panel: Panel) -> None:
    colors = _colors(panel)
    for i, (name, points) in enumerate(panel.series.items()):
        ours = _ours(name)
        ax.plot(
            [x for x, _ in points],
            [y for _, y in points],
            label=name,
            color=colors[name],
            marker="o" if ours else _MARKERS[i % len(_MARKERS)],
            markersize=max(4.0, 6.5 - 0.5 * i),
            linewidth=2.4 if ours else max(1.2, 3.4 - 0.4 * i),  # what lies below is wider, and so is seen
            linestyle="--" if i % 2 and not ours else "-",  # lines that coincide show both
            zorder=5 if ours else 3,
        )
        if name in panel.spread:
            _intervals(ax, points, panel.spread[name], colors[name])


def _intervals(ax: Axes, points: Sequence[tuple[Any, float]], spread: Sequence[float], color: str) -> None:
    """Confidence intervals: a bar over each point, and the band between them."""
    x, y = [x for x, _ in points], [y for _, y in points]
    low = [max(value - half, 0.0) for value, half in zip(y, spread, strict=True)]
    high = [value + half for value, half in zip(y, spread, strict=True)]
    ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    ax.errorbar(x, y, yerr=list(spread), fmt="none", ecolor=color, elinewidth=1.0, capsize=3)


def _bars(ax: Axes, panel: Panel) -> None:
    categories = list(dict.fromkeys(x for points in panel.series.values() for x, _ in points))
    width, colors = 0.8 / max(1, len(panel.series)), _colors(panel)
    for i, (name, points) in enumerate(panel.series.items()):
        heights = dict(points)
        places = [categories.index(c) - 0.4 + width * (i + 0.5) for c in heights]
        ax.bar(places, list(heights.values()), width, label=name, color=colors[name])
    _categories(ax, categories)


def _stacked(ax: Axes, panel: Panel) -> None:
    categories = list(dict.fromkeys(x for points in panel.series.values() for x, _ in points))
    below = dict.fromkeys(categories, 0.0)
    for i, (name, points) in enumerate(panel.series.items()):
        heights = {**dict.fromkeys(categories, 0.0), **dict(points)}
        ax.bar(
            range(len(categories)),
            [heights[c] for c in categories],
            0.7,
            bottom=[below[c] for c in categories],
            label=name,
            color=_PALETTE[i % len(_PALETTE)],
        )
        below = {c: below[c] + heights[c] for c in categories}
    _categories(ax, categories)


def _categories(ax: Axes, categories: Sequence[Any]) -> None:
    long = max((len(str(c)) for c in categories), default=0) * len(categories) > 60
    ax.set_xticks(range(len(categories)), [str(c) for c in categories])
    if long:
        for label in ax.get_xticklabels():
            label.set_rotation(30)
            label.set_horizontalalignment("right")
            label.set_fontsize(8)


def _grid(ax: Axes, panel: Panel) -> None:
    ax.set_axis_off()
    if not panel.cells:
        return
    head, *rows = _wrapped(panel)
    widths = _widths(panel)
    table = ax.table(
        cellText=rows or [[""] * len(head)],
        colLabels=head,
        colWidths=[w / sum(widths) for w in widths],
        loc="upper left",
        cellLoc="left",
        bbox=Bbox.unit(),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8.5 if sum(widths) < 110 else 7)
    for (row, column), cell in table.get_celld().items():
        cell.PAD = 0.8 / (widths[column] + 2)
        cell.set_height(1 + 0.52 * (_lines_in([head, *rows][row]) - 1))
        cell.set_edgecolor(GRID)
        cell.set_linewidth(0.6)
        if row == 0:
            cell.set_text_props(fontweight="bold")
            cell.set_facecolor("#f3f5f7")


def _ours(name: str) -> bool:
    return "wave" in name.lower()


def _colors(panel: Panel) -> dict[str, str]:
    """Its own for each algorithm; others take what is left."""
    known = {name: OURS if _ours(name) else _COLORS[name] for name in panel.series if _ours(name) or name in _COLORS}
    left = iter([c for c in _PALETTE if c not in known.values()] * len(panel.series))
    return {name: known.get(name) or next(left) for name in panel.series}
