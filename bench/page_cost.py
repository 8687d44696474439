"""What the page and metrics cost maintenance, and how soon the page shows a cut.

    cost        small batches (50 transactions, to the visible cut) with a page beside the run that somebody watches and
                Prometheus scrapes every second, and without, in turns; the sum of their times, and what they took of
                processors, which other work on the machine changes little: maintenance with the page beside that
                without (processor_ratio), and the page itself
    update      steady transactions; from the moment the cut's file is there until a watching browser's stream has it
    paint       first contentful paint, and the overview's content, in a real browser, where Debian's chromium-driver is

python bench/page_cost.py [--n 100000] [--turns 6] [--batches 25]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EACH = 50
RATE = 100
SECONDS = 15
SETTLING = 10
"""Batches that are not counted after something was begun or ended."""


def watch(url: str) -> None:
    """What a browser and Prometheus do; prints when each cut came."""

    def scrape() -> None:
        while True:
            urllib.request.urlopen(f"{url}metrics").read()
            time.sleep(1.0)

    threading.Thread(target=scrape, daemon=True).start()
    with urllib.request.urlopen(f"{url}api/events") as stream:
        for line in stream:
            if line.startswith(b"data: "):
                cut = json.loads(line[6:]).get("cut")
                if cut:
                    print(json.dumps({"cut": cut["number"], "came": time.time()}), flush=True)


@contextmanager
def watched(folder: Path) -> Iterator[tuple[str, list[dict[str, float]], list[int]]]:
    """A page beside the run, somebody who watches it, and what they saw; the page's process."""
    from headwater.cli import beside

    seen: list[dict[str, float]] = []
    pids: list[int] = []
    started = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        process = started(*args, **kwargs)
        pids.append(process.pid)
        return process

    beside.subprocess.Popen = noted  # type: ignore[misc,assignment]
    try:
        page = beside.page_beside(folder, "127.0.0.1", 0)
        with page as url:
            beside.subprocess.Popen = started  # type: ignore[misc]
            watcher = started([sys.executable, __file__, "--watch", url], stdout=subprocess.PIPE, text=True)
            lines = watcher.stdout
            assert lines is not None
            threading.Thread(target=lambda: seen.extend(json.loads(line) for line in lines), daemon=True).start()
            end = time.monotonic() + 20
            while not seen and time.monotonic() < end:
                time.sleep(0.05)
            try:
                yield url, seen, pids
            finally:
                watcher.terminate()
                watcher.wait()
    finally:
        beside.subprocess.Popen = started  # type: ignore[misc]


def settled(small: Callable[[], float]) -> None:
    """What begins or ends takes processors of its own for a while."""
    time.sleep(2)
    for _ in range(SETTLING):
        small()


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(n: int, turns: int, batches: int) -> dict[str, Any]:
    import chain_sqlite
    import measure
    from chain import Chain
    from scenarios import running, sqlite_project, warm
    from writer import applied, write

    assert chain_sqlite
    chain = Chain(n, 1000 + EACH * (batches + SETTLING) * (2 * turns + 2) + RATE * SECONDS)
    data, warehouse = sqlite_project(chain, "[run]\npoll_seconds = 0.05\n")
    took: dict[str, list[float]] = {"alone": [], "page": []}
    busy = {"page": 0.0, "alone": 0.0, "maintenance": 0.0, "wall": 0.0}
    with running(warehouse) as (engine, _):
        at = warm(engine, data, chain)

        def small() -> float:
            nonlocal at
            applied(data, chain, at, at + EACH)
            at += EACH
            begun = time.perf_counter()
            engine.catch_up()
            return time.perf_counter() - begun

        def tree() -> float:
            """Processor seconds of this run, its workers and its JVM; not of the page, nor of who watches it."""
            own = [pid for pid in measure.descendants(os.getpid()) if Path(f"/proc/{pid}").exists()]
            beside = ("headwater.cli.main", "--watch", "chromedriver", "chromium")
            return sum(processor_seconds(pid) for pid in own if not any(word in _words(pid) for word in beside))

        for _ in range(batches):
            small()
        for _ in range(turns):
            settled(small)
            spent = tree()
            took["alone"] += [small() for _ in range(batches)]
            busy["alone"] += tree() - spent
            with watched(warehouse.config.folder) as (url, _, pids):
                settled(small)
                before, spent, begun = processor_seconds(pids[0]), tree(), time.perf_counter()
                took["page"] += [small() for _ in range(batches)]
                busy["page"] += processor_seconds(pids[0]) - before
                busy["maintenance"] += tree() - spent
                busy["wall"] += time.perf_counter() - begun
        with watched(warehouse.config.folder) as (url, seen, _):
            known = len(seen)
            writer = write(data, chain, at, at + RATE * SECONDS, RATE)
            while writer.poll() is None:
                engine.step()
            engine.catch_up()
            time.sleep(1.0)
            lags = late(warehouse.config.folder / "warehouse" / "cuts" / "_delta_log", seen[known:])
            painted = paint(url)
    alone, page = (statistics.fmean(took[case]) for case in ("alone", "page"))
    middle = {case: statistics.median(took[case]) for case in took}
    return {
        "batches": turns * batches,
        "alone_s": alone,
        "page_s": page,
        "ratio": page / alone,
        "median_ratio": middle["page"] / middle["alone"],
        "processor_ratio": busy["maintenance"] / busy["alone"],
        "page_of_a_core": busy["page"] / busy["wall"],
        "maintenance_of_a_core": busy["maintenance"] / busy["wall"],
        "cuts_seen": len(lags),
        "update_p50_ms": 1000 * statistics.median(lags),
        "update_p99_ms": 1000 * sorted(lags)[int(0.99 * (len(lags) - 1))],
        "update_max_ms": 1000 * max(lags),
        **painted,
    }


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def late(log: Path, seen: list[dict[str, float]]) -> list[float]:
    """How long after its file was there each cut came."""
    made = {}
    for file in log.glob("*.json"):
        text = file.read_text()
        for line in text.splitlines():
            info = json.loads(line).get("commitInfo")
            if info and "headwater.cut" in info:
                made[json.loads(info["headwater.cut"])["number"]] = file.stat().st_mtime
    return [one["came"] - made[int(one["cut"])] for one in seen if int(one["cut"]) in made]


def paint(url: str) -> dict[str, Any]:
    """When something is seen, and when the overview is: medians of five visits."""
    driver = shutil.which("chromedriver")
    if driver is None:
        return {}
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as folder:
        for flag in ("headless=new", "no-sandbox", "disable-gpu", f"user-data-dir={folder}", "incognito"):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            found: dict[str, list[float]] = {"first-contentful-paint": [], "headwater-content": []}
            for _ in range(5):
                browser.get("about:blank")
                browser.get(url)
                time.sleep(2.5)
                for name, times in found.items():
                    script = f"return performance.getEntriesByName('{name}').map((e) => e.startTime)"
                    times += browser.execute_script(script)[:1]
        finally:
            browser.quit()
    paints, content = found.values()
    return {"first_paint_ms": round(statistics.median(paints)), "content_ms": round(statistics.median(content))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--batches", type=int, default=25)
    parser.add_argument("--watch", default="")
    options = parser.parse_args()
    if options.watch:
        watch(options.watch)
        return
    facts = cost(options.n, options.turns, options.batches)
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"scenario": "page", "n": options.n, "machine_load": load, **facts}))


if __name__ == "__main__":
    main()
