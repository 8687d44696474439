"""The page in a real browser: every part opens, answers to keys and clicks, and the console stays silent.

Also takes the README's pictures: HEADWATER_SCREENS=docs/screens says where they go.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headwater.page.work import Worker
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.runtime.snapshot import SourceNow
from page.many import ODD, many_project, many_running
from page.shop import SHOP, shop_project, shop_running, verified
from page.test_server import served

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("chromedriver") is None, reason="no chromedriver (Debian: chromium-driver)"),
]
PARTS = {
    "overview": "current",
    "map": "Where rows come from",
    "painting": "Who waits for whom",
    "travel": "Every transaction is a state",
    "query": "Ask all views at one cut",
    "freshness": "From commit to visible",
    "trust": "Every view equalled its sources",
    "lab": "The checker says",
}
SCREENS = os.environ.get("HEADWATER_SCREENS")
Open = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = shop_project(tmp_path / "shop", time.time())
    verified(found)
    return found


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with served(Project(load_config(folder))) as address:
        yield address


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Open]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    opened = []

    def make(width: int = 1280, height: int = 860, scheme: str = "light") -> Any:
        options = webdriver.ChromeOptions()
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
            options.add_argument(f"--{flag}")
        options.add_argument(f"--user-data-dir={tmp_path / f'browser{len(opened)}'}")
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        opened.append(driver)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        return driver

    yield make
    for driver in opened:
        complaints = [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]
        driver.quit()
        assert complaints == []


def until(driver: Any, script: str, seconds: float = 8.0) -> Any:
    """What the script says once it says something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = driver.execute_script(f"return {script}")
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(
        f"never came true: {script}; the page says {driver.execute_script('return document.body.innerText')}"
    )


def see(driver: Any, text: str) -> None:
    until(driver, f"document.querySelector('main').innerText.includes({text!r})")


CONTROLS = {"button", "link", "textbox", "searchbox", "combobox", "slider", "spinbutton", "region", "img"}


def nameless(driver: Any) -> list[str]:
    """What can be used or is a picture, and what a screen reader has no name for."""
    found = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    spoken = [node for node in found if not node["ignored"] and node["role"]["value"] in CONTROLS]
    assert len(spoken) > 8
    return [node["role"]["value"] for node in spoken if not node.get("name", {}).get("value", "").strip()]


def picture(driver: Any, name: str, folder: Path) -> None:
    where = Path(SCREENS or folder)
    where.mkdir(parents=True, exist_ok=True)
    time.sleep(0.6)  # the last numbers, and the lines of a plot
    driver.save_screenshot(str(where / f"{name}.png"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_every_part_opens(url: str, browser: Open, folder: Path, width: int, scheme: str) -> None:
    driver = browser(width, 860, scheme)
    with shop_running(folder):
        for part, says in PARTS.items():
            driver.get(f"{url}/#/{part}")
            see(driver, says)
            fits = "document.documentElement.scrollWidth <= innerWidth"
            assert driver.execute_script(f"return {fits}"), f"{part} is wider than the screen"
            assert nameless(driver) == [], part
            tall = "[...document.querySelectorAll('td .name')].filter((name) => name.offsetHeight > 30).length"
            assert driver.execute_script(f"return {tall}") == 0, f"a short name is broken in two, in {part}"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_lab_is_stepped_through_with_keys(url: str, browser: Open, width: int, scheme: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    driver = browser(width, 860, scheme)
    driver.get(f"{url}/#/lab/four-pvm-cc")
    see(driver, "The checker says: complete consistency")
    body = driver.find_element(By.TAG_NAME, "body")

    def press(key: str, said: str) -> None:
        body.send_keys(key)
        until(driver, f"document.querySelector('.said').innerText.includes({said!r})")

    press(Keys.ARROW_RIGHT, "S1 commits DU1")
    press(Keys.ARROW_RIGHT, "DU1 arrives at warehouse")
    assert "CommitQueue" in driver.find_element(By.CSS_SELECTOR, ".stage svg").text
    assert driver.execute_script("return document.querySelectorAll('.stage .message.question').length") == 1
    press(Keys.ARROW_LEFT, "S1 commits DU1")
    assert driver.execute_script("return location.hash") == "#/lab/four-pvm-cc/1"
    press(Keys.END, "answer to DU4 arrives")
    press(Keys.HOME, "the beginning")
    for name, says in (("pvm-fig6", "no consistency"), ("mvc-example5", "Warehouse transactions so far")):
        driver.get(f"{url}/#/lab/{name}/5")
        see(driver, says)
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_a_view_is_verified_and_judged_with_one_button(browser: Open, folder: Path) -> None:
    """The commands are stood in for: what is looked at is what the page makes of what they say."""
    judged = {
        "view": "open_orders", "ok": False, "promised": "complete consistency", "transactions": 9, "first": 3,
        "states": list(range(4, 12)), "level": "convergence", "meaning": "right at the end", "sources": [], "path": [],
        "reasons": [{"level": "complete", "sentence": "state 3 is no source state", "state": 3,
                     "extra": ["(3, 6)"], "missing": []}],
    }  # fmt: skip
    told = {"event": "progress", "rows": 4200, "of": 9000}

    def command(kind: str, view: str) -> list[str]:
        script = f"import sys, time; print({json.dumps(told)!r}, file=sys.stderr, flush=True); time.sleep(1.5)"
        answer = json.dumps(judged if kind == "judge" else {"ok": True})
        return [sys.executable, "-c", f"{script}; print({answer!r})"]

    driver = browser(1280, 900)
    with served(Project(load_config(folder)), Worker(command)) as url:
        driver.get(f"{url}/#/trust")
        press = "[...document.querySelectorAll('button')].find((b) => b.ariaLabel === '{}').click() || 1"
        until(driver, "document.querySelectorAll('tbody button').length > 3")
        driver.execute_script(press.format("verify open_orders"))
        see(driver, "4,200 rows read")
        until(driver, "!document.querySelector('.busy')")
        driver.execute_script(press.format("judge the history of open_orders"))
        see(driver, "Not complete: state 3 is no source state")
        assert driver.execute_script("return document.querySelectorAll('.states .bad').length") == 1
        see(driver, "should not: (3, 6)")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_a_moment_tells_what_it_waited_for(url: str, browser: Open, folder: Path, width: int, scheme: str) -> None:
    driver = browser(width, 860, scheme)
    with shop_running(folder):
        driver.get(f"{url}/#/freshness/busy_cities")
        see(driver, "What the newest cut waited for")
        see(driver, "was waited for: they share transactions")
        assert driver.execute_script("return document.querySelectorAll('.path li').length") == 5
        until(driver, "document.querySelector('.plot .u-over')")
        click = "const over = document.querySelector('.plot .u-over'); const box = over.getBoundingClientRect();"
        click += "for (const kind of ['mousemove', 'mousedown', 'mouseup', 'click']) over.dispatchEvent("
        click += "new MouseEvent(kind, {bubbles: true, clientX: box.left + 200, clientY: box.top + 50}));"
        driver.execute_script(click)
        see(driver, "What that moment waited for")
        driver.execute_script("[...document.querySelectorAll('button')].find((b) => b.innerText === 'Newest').click()")
        see(driver, "What the newest cut waited for")
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_pictures_for_the_readme(url: str, browser: Open, folder: Path, tmp_path: Path) -> None:
    driver = browser(1280, 880)
    with shop_running(folder):
        driver.get(f"{url}/#/overview")
        see(driver, "current")
        time.sleep(2.5)  # for a rate
        picture(driver, "overview", tmp_path)
        driver.get(f"{url}/#/travel/busy_cities@297")
        see(driver, "What this transaction changed")
        picture(driver, "time-travel", tmp_path)
        driver.get(f"{url}/#/lab/four-pvm-cc/23")
        see(driver, "The checker says")
        picture(driver, "lab", tmp_path)
    assert (Path(SCREENS or tmp_path) / "time-travel.png").stat().st_size > 20_000


def test_what_is_wrong_is_said_at_once(url: str, browser: Open, folder: Path) -> None:
    driver = browser()
    driver.get(url)
    see(driver, "Nothing runs.")
    away = SourceNow(SHOP, "unreachable", "connection refused", time.time() - 30, "1", "1", 8120, None)
    with shop_running(folder, sources=[away]):
        see(driver, "source shop is unreachable: connection refused")
        see(driver, "1 of 3 sources need")
    see(driver, "Nothing runs.")


def test_time_is_travelled_by_keys_and_by_link(url: str, browser: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    driver = browser()
    driver.get(f"{url}/#/travel/open_orders@200")
    see(driver, "shown since cut 25")
    slider = driver.find_element("css selector", "input[type=range]")
    slider.send_keys(Keys.ARROW_RIGHT)
    until(driver, "location.hash.endsWith('201')")
    button = "[...document.querySelectorAll('button')].find(b => b.innerText === 'Next change' && !b.disabled)"
    until(driver, button)
    driver.execute_script(f"{button}.click()")
    until(driver, "!location.hash.endsWith('201')")
    driver.get(f"{url}/#/travel/open_orders@297/busy_cities")
    until(driver, "document.querySelectorAll('.data').length === 2")
    see(driver, "Ghent\t8\t294.00")
    driver.get(f"{url}/#/travel/open_orders@99999")
    see(driver, "there is no state 99999 yet")
    driver.get_log("browser")  # an answer of 400, which the browser notes


def test_a_query_is_run_by_keys(url: str, browser: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    driver = browser()
    driver.get(f"{url}/#/query")
    until(driver, "document.querySelector('textarea')")
    box = driver.find_element("css selector", "textarea")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("SELECT city, orders FROM busy_ci", Keys.TAB, " ORDER BY city")
    box.send_keys(Keys.CONTROL, Keys.ENTER)
    see(driver, "Bergen")
    assert "busy_cities" in driver.execute_script("return decodeURIComponent(location.hash)")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("SELECT * FROM read_text('/etc/passwd')", Keys.CONTROL, Keys.ENTER)
    see(driver, "does not run")
    driver.get_log("browser")  # a refused query is an answer of 400, which the browser notes


def test_the_map_is_walked_by_keys(url: str, browser: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    driver = browser()
    driver.get(f"{url}/#/map")
    until(driver, "document.querySelector('.node.view')")
    driver.execute_script("document.querySelector('[aria-label^=\"view open_orders\"]').focus()")
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    until(
        driver,
        "document.querySelector('.drawer pre') && document.querySelector('.drawer').innerText.includes('JOIN on')",
    )
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(driver, "!document.querySelector('.drawer')")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_two_hundred_views_and_names_of_any_kind(tmp_path: Path, browser: Open, width: int, scheme: str) -> None:
    folder, driver = many_project(tmp_path / "many"), browser(width, 860, scheme)
    with many_running(folder), served(Project(load_config(folder))) as url:
        for part in PARTS:
            driver.get("about:blank")  # each is opened anew: streams of those before must not be in its way
            driver.get(f"{url}/#/{part}")
            until(driver, "document.querySelector('main h1')")
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), part
        driver.get(f"{url}/#/overview")
        until(driver, "document.querySelectorAll('tbody tr').length === 250")
        words = "[...document.querySelectorAll('tbody tr')].every((row) => row.querySelector('.word')"
        assert driver.execute_script(f"return {words}.getBoundingClientRect().right < innerWidth)"), "words are off"
        box = driver.find_element("css selector", "input[type=search]")
        box.send_keys("überschüsse")
        until(driver, "document.querySelectorAll('tbody tr').length === 51")
        driver.execute_script("document.querySelector('tbody a').click()")
        see(driver, "Überschüsse @ heute")
        driver.execute_script("document.querySelector('.drawer a').click()")
        see(driver, "12345678901234.5000")
        chosen = "document.querySelector('main select').value"
        assert driver.execute_script(f"return {chosen}") == ODD[0]
        for name in ODD[1:]:
            driver.get(f"{url}/#/travel/{quote(name)}@2")
            until(driver, f"document.querySelector('main select') && {chosen} === {json.dumps(name)}")
            see(driver, "tab")


def test_what_goes_away_is_said_and_comes_back(url: str, browser: Open, folder: Path) -> None:
    """The warehouse, while the page is open: its last rows stay in view, under a sentence."""
    driver = browser()
    driver.get(url)
    see(driver, "Nothing runs.")
    (folder / "warehouse").rename(folder / "away")
    until(driver, "document.body.innerText.includes('is gone')", 12)
    see(driver, "What is shown below is what was known last")
    see(driver, "open_orders")
    (folder / "away").rename(folder / "warehouse")
    until(driver, "!document.body.innerText.includes('is gone')", 12)
    driver.get_log("browser")  # an answer of 503, which the browser notes


def test_the_newest_state_is_followed_until_one_is_chosen(url: str, browser: Open) -> None:
    driver = browser()
    driver.get(f"{url}/#/travel/busy_cities")
    see(driver, "the newest")
    press = "[...document.querySelectorAll('button')].find(b => b.innerText === '{}' && !b.disabled)"
    until(driver, press.format("Previous change"))
    assert not driver.execute_script(f"return {press.format('Newest')}")
    driver.execute_script(press.format("Previous change") + ".click()")
    until(driver, "/busy_cities@[0-9]+$/.test(location.hash)")
    until(driver, press.format("Newest"))
    driver.execute_script(press.format("Newest") + ".click()")
    until(driver, "location.hash.endsWith('busy_cities')")


def test_a_tab_in_the_background_lets_go_of_its_stream(url: str, browser: Open) -> None:
    """A browser opens six connections to a server at most: the seventh tab would wait for ever."""
    driver = browser()
    driver.set_script_timeout(15)
    driver.set_page_load_timeout(15)
    for _ in range(8):
        driver.switch_to.new_window("tab")
        driver.get(url)
        see(driver, "Nothing runs.")


def test_data_is_text_and_nothing_else(tmp_path: Path, browser: Open) -> None:
    """A value that is HTML is shown as it is written."""
    from cli.small import small_project
    from headwater.model.names import ViewName
    from headwater.storage import Storage
    from headwater.warehouse.cuts import CutLog
    from warehouse.test_changes import replace

    folder = small_project(tmp_path / "small")
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cut = cuts.newest()
    evil = ViewName("<img src=x onerror=alert(1)>")
    cuts.append(replace(cut, number=2, views={evil: cut.views[ViewName("people")]}))
    with served(Project(load_config(folder))) as url:
        driver = browser()
        for part in PARTS:
            driver.get(f"{url}/#/{part}")
            until(driver, "document.querySelector('main h1')")
            assert driver.execute_script("return document.querySelectorAll('main img').length") == 0
