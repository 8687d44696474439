"""make bench: Headwater beside its peers, in one run on one machine, as a table and as JSON.

    python bench/run.py                        everything (about half an hour; data and peers are kept for next time)
    python bench/run.py --quick                a tenth of the size, without growth to 10M
    python bench/run.py --only burst,small     some sections: burst, small, growth, freshness, capture, load, reading,
                                               merging, views, wire, page
    python bench/run.py --no-peers             Headwater alone

Every row says where its clock stops: at the change, at the visible cut, or at the full view. Ratios are from this run;
a machine that is busy with other things makes all of it worthless, so its load is printed beside each row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import measure
import merge
import page_cost
import run_peers
import serve
from chain import Chain

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
SECTIONS = ("burst", "small", "growth", "freshness", "capture", "load", "reading", "merging", "views", "wire", "page")
CONSOLE = Console(width=None if os.isatty(1) else 140)

Facts = dict[str, Any]


def scenario(name: str, n: int, u: int) -> Facts:
    """One scenario in a process of its own, which samples its own memory."""
    CONSOLE.print(f"[dim]headwater {name}, N={n:,} …[/]")
    command = [sys.executable, str(HERE / "scenarios.py"), name, "--n", str(n), "--u", str(u)]
    log = OUT / "logs" / f"headwater-{name}-{n}.err"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=1800, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"scenario": name, "n": n, "note": f"failed, see {log}"}
    return dict(json.loads(lines[-1]))


def show(title: str, rows: list[tuple[str, ...]], columns: tuple[str, ...]) -> None:
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)


def burst(options: argparse.Namespace) -> Facts:
    n, u = options.n, options.u
    ours = scenario("burst", n, u)
    there = scenario("burst_postgres", n, u)
    one = scenario("single", n, u)
    peers = [] if options.no_peers else run_peers.run(Chain(n, u), list(run_peers.PEERS))
    rows = [
        {"peer": "headwater", "version": "SQLite", **ours},
        {"peer": "headwater", "version": "PostgreSQL", "correct": False, **there},
        *peers,
    ]
    measure.print_table(rows, title=f"burst: N={n:,} rows a table, U={u:,} transactions waiting", baseline="headwater")
    if "updates_per_s" in ours and "transactions_per_s" in one:
        ratio = ours["updates_per_s"] / one["transactions_per_s"]
        CONSOLE.print(
            f"one transaction at a time (SWEEP's schedule, {one['sample']} measured, extrapolated): "
            f"{one['transactions_per_s']:.1f}/s, {one['questions'] / one['sample']:.1f} questions each; "
            f"the batch is {ratio:,.0f} times as fast with {ours['questions']} questions in all"
        )
    return {"headwater": ours, "headwater_postgres": there, "single": one, "peers": peers}


def small(options: argparse.Namespace) -> Facts:
    ours = scenario("small", options.n, 0)
    names = [] if options.no_peers else ["spark-recompute", "duckdb-recompute"]
    peers = run_peers.run(Chain(options.n, 1000), names)
    rows = [("headwater, to the visible cut", f"{ours.get('small_s', 0):.3f}", "1.0")]
    rows += [
        (p["peer"], f"{p['burst_s']:.3f}", f"{p['burst_s'] / ours['small_s']:.1f}") for p in peers if "burst_s" in p
    ]
    rows.append(("headwater, reading the full view", f"{ours.get('full_view_read_s', 0):.3f}", ""))
    show(f"small batch: 1,000 transactions, N={options.n:,}", rows, ("", "seconds", "x headwater"))
    return {"headwater": ours, "peers": peers}


def growth(options: argparse.Namespace) -> Facts:
    sizes = [10_000, 100_000, 1_000_000] if options.quick else [10_000, 100_000, 1_000_000, 10_000_000]
    found = {n: scenario("small", n, 0) for n in sizes}
    base = found[sizes[0]].get("small_s")
    rows = [
        (
            f"{n:,}",
            f"{f['small_s']:.3f}",
            f"{f['small_s'] / base:.2f}",
            f"{f['peak_rss_mb']:,.0f}",
            f"{f['load_s']:.1f}",
        )
        if "small_s" in f and base
        else (f"{n:,}", str(f.get("note", "")), "", "", "")
        for n, f in found.items()
    ]
    show("growth: 1,000 transactions", rows, ("N", "seconds", f"x N={sizes[0]:,}", "peak MB", "first load s"))
    return {str(n): f for n, f in found.items()}


def freshness(options: argparse.Namespace) -> Facts:
    f = scenario("freshness", min(options.n, 100_000), 0)
    rows = [(k, f"{f[k]:.3f}" if isinstance(f[k], float) else str(f[k])) for k in f if k.endswith("_s")]
    rows += [(k, str(f[k])) for k in ("transactions", "cuts", "note") if k in f]
    show("freshness: 500 transactions a second for a minute, commit to visible", rows, ("", ""))
    return f


def capture(options: argparse.Namespace) -> Facts:
    f = scenario("capture", 100_000, 20_000)
    rows = []
    for engine in ("sqlite", "postgres"):
        if f"{engine}_plain_tx_per_s" in f:
            plain, captured = f[f"{engine}_plain_tx_per_s"], f[f"{engine}_captured_tx_per_s"]
            rows.append((engine, f"{plain:,.0f}", f"{captured:,.0f}", f"{captured / plain:.2f}"))
    show("capture: single-row transactions a second", rows, ("", "plain", "captured", "ratio"))
    return f


def script(name: str, n: int) -> Facts:
    """A bench that is a script of its own and says what it found in one line."""
    CONSOLE.print(f"[dim]{name}, N={n:,} …[/]")
    command = [sys.executable, str(HERE / f"{name}.py"), "--n", str(n)]
    log = OUT / "logs" / f"{name}-{n}.err"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=7200, check=False)
    lines = done.stdout.strip().splitlines()
    return dict(json.loads(lines[-1])) if done.returncode == 0 and lines else {"note": f"failed, see {log}"}


def load(options: argparse.Namespace) -> Facts:
    f = script("load", options.n)
    rows = [
        (kind, f"{f['rows'][kind]:,}", f"{f[f'{kind}_s']:.1f}", f"{f[f'{kind}_s'] / f['join_s']:.2f}")
        for kind in ("join", "groups")
        if "ratio" in f
    ]
    show(f"first load of {options.n:,} rows; aim: groups in twice the join's", rows, ("", "rows", "seconds", "ratio"))
    return f


def reading(options: argparse.Namespace) -> Facts:
    f = script("reading", options.n)
    if "parquet_scan_s" in f:
        scan, start = f["parquet_scan_s"], f["start_s"]
        rows = [
            ("a plain Parquet scan", f"{scan:.3f}", "1.0", ""),
            ("newest state", f"{f['newest_s']:.3f}", f"{f['newest_s'] / scan:.1f}", "1.5"),
            ("an old state", f"{f['old_s']:.3f}", f"{f['old_s'] / scan:.1f}", "3"),
            ("lookup by key, beyond process start", f"{f['lookup_s'] - start:.3f}", "", "0.050 s"),
            *((f"status, {size:,} rows", f"{f[f'status_{size}_s']:.3f}", "", "the same") for size in (
                options.n // 100, options.n,
            )),
        ]  # fmt: skip
        show(f"reading a view of {f['rows']:,} rows, compacted", rows, ("", "seconds", "x Parquet scan", "aim"))
    return f


def merging(options: argparse.Namespace) -> Facts:
    f = merge.measure()
    rows = []
    for case in merge.CASES:
        speeds = [f"{f[f'{case.name}_{delay}_events_per_s']:,.0f}" for delay in merge.DELAYS]
        rows.append((case.name, *speeds, f"{f[f'{case.name}_cost_ratio']:.2f}"))
    columns = ("", *(f"events/s, delays to {delay:,}" for delay in merge.DELAYS), "cost ratio")
    show("the merge process alone: 100 views, 100,000 transactions, 5 views each, one core", rows, columns)
    return f


def views(options: argparse.Namespace) -> Facts:
    f = scenario("many_views", min(options.n, 100_000), 20_000)
    if "speedup" in f:
        rows = [
            ("managers side by side", f"{f['concurrent_s']:.1f}", "1.0"),
            ("one after the other", f"{f['sequential_s']:.1f}", f"{f['speedup']:.2f}"),
            (f"merging, {100 * f['merge_share']:.2f} % of the first", "", ""),
            (f"{f['groups']} groups", f"{f['groups_s']:.1f}", "1.0"),
            ("the same views as one group", f"{f['one_group_s']:.1f}", f"{f['overhead']:.2f}"),
        ]
        show("24 views over 4 sources, 20,000 transactions", rows, ("", "seconds", "ratio"))
    return f


def wire(options: argparse.Namespace) -> Facts:
    f = serve.measure(options.n)
    show(f"over the wire: a view of {options.n:,} rows", [(k, f"{f[k]:,.3f}") for k in f], ("", ""))
    return f


def page(options: argparse.Namespace) -> Facts:
    """What the page and metrics cost, and how soon they show a cut."""
    f = page_cost.cost(min(options.n, 100_000), 2 if options.quick else 6, 25)
    rows = [
        ("small batches, alone, mean", f"{f['alone_s']:.3f} s", "1.0"),
        (
            "with page, watcher and metrics",
            f"{f['page_s']:.3f} s",
            f"{f['ratio']:.3f} (medians {f['median_ratio']:.3f})",
        ),
        ("the page's processor time", f"{100 * f['page_of_a_core']:.1f} % of a core", ""),
        ("a cut until it is on the page", f"p50 {f['update_p50_ms']:.0f} ms, p99 {f['update_p99_ms']:.0f} ms", ""),
    ]
    if "first_paint_ms" in f:
        rows.append(("first paint, content", f"{f['first_paint_ms']} ms, {f['content_ms']} ms", ""))
    show("the page beside a run", rows, ("", "", "ratio"))
    return f


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="rows per relation")
    parser.add_argument("--u", type=int, default=200_000, help="transactions of the burst")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=OUT / "bench.json")
    options = parser.parse_args()
    if options.quick:
        options.n, options.u = options.n // 10, options.u // 10
    wanted = options.only.split(",")
    if unknown := [name for name in wanted if name not in SECTIONS]:
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    results: Facts = {"cores": os.cpu_count(), "load_at_start": os.getloadavg()[0]}
    for name in wanted:
        results[name] = globals()[name](options)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    CONSOLE.print(f"also in {options.out}")


if __name__ == "__main__":
    main()
