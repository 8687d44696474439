"""Who may ask: names of this machine on loopback, the token elsewhere, no other site, nothing large."""

from __future__ import annotations

import pytest

from page.conftest import Page

TOKEN = "a-token-that-nobody-guesses"


@pytest.mark.parametrize("host", ["127.0.0.1:7411", "localhost", "[::1]:80", "127.8.8.8"])
def test_this_machine_may_ask(page: Page, host: str) -> None:
    assert page(host=host).get("/api/overview", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "", "["]
)
def test_a_name_that_was_pointed_here_reads_nothing(page: Page, host: str) -> None:
    for path in ("/", "/api/overview", "/metrics", "/static/app.js"):
        assert page().get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ],
)
def test_another_site_cannot_make_a_browser_ask(page: Page, headers: dict[str, str]) -> None:
    assert page().post("/api/query", json={"sql": "SELECT 1"}, headers=headers).status_code == 403
    assert page().get("/api/overview", headers=headers).status_code == 403


def test_our_own_page_may(page: Page) -> None:
    own = {"origin": "http://127.0.0.1:7411", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert page().post("/api/query", json={"sql": "SELECT * FROM people"}, headers=own).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert page().get("/", headers=link).status_code == 200  # a link in a mail


def test_elsewhere_the_token_is_wanted(page: Page) -> None:
    client = page(TOKEN, "views.example:7411")
    for path in ("/", "/api/overview", "/metrics", "/static/app.js", "/api/events", "/api/views/people/changes"):
        assert client.get(path).status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/api/overview", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/api/overview", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/api/overview", headers={"cookie": "headwater=\xe9".encode("latin-1")}).status_code == 401


def test_the_token_leaves_the_address_and_becomes_a_cookie(page: Page) -> None:
    client = page(TOKEN, "views.example:7411")
    moved = client.get(f"/?token={TOKEN}&x=1", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (303, "/?x=1")
    cookie = moved.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/api/overview").status_code == 200


def test_a_redirect_stays_here(page: Page) -> None:
    client = page(TOKEN, "views.example")
    moved = client.get(f"http://views.example//evil.example/?token={TOKEN}", follow_redirects=False)
    assert not moved.headers.get("location", "").startswith("//")


def test_large_requests_are_refused(page: Page) -> None:
    assert page().post("/api/query", content=b"x" * 100_000).status_code == 413
    assert page().post("/api/query", content=b"", headers={"content-length": "-1"}).status_code == 413

    def endless() -> object:
        for _ in range(100):
            yield b"x" * 10_000

    assert page().post("/api/query", content=endless()).status_code >= 400  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd", "/static/"],
)
def test_no_other_file_is_served(page: Page, path: str) -> None:
    assert page().get(path).status_code == 404


def test_what_goes_out_may_load_nothing_from_elsewhere(page: Page) -> None:
    for path in ("/", "/api/overview", "/nowhere", "/static/app.js"):
        headers = page().get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_only_questions_are_asked_by_post(page: Page) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert page().request(method, "/api/overview").status_code == 405
