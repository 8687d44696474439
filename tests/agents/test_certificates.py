"""Certificates of agents, over real TLS: who may pass with one, and what is said to those who may not."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.authority import Authority, Made
from agents.hub_here import HubHere, running
from headwater.agent.agent import Agent
from headwater.agent.joining import Invitation, join, read_settings
from headwater.agent.line import HubLine, NotStarted
from headwater.hub.settings import Opens
from headwater.model.errors import ConfigError, SourceRefused, UsageError
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.runtime.project.config import load_config
from headwater.sources import connect
from headwater.sources.agent.line import AUTHORITY

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")

PAST = ("20200101000000Z", "20210101000000Z")


class World:
    """A hub with a certificate, and an authority whose certificates it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ours = folder, Authority(folder / "ours")
        self.hub = HubHere(folder)
        sqlite3.connect(folder / "crm.db").execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").connection.close()
        self.secure("either")

    def secure(self, opens: Opens) -> None:
        self.hub.close()
        own = self.ours.sign("hub", also="IP:127.0.0.1")
        self.hub.settings = replace(
            self.hub.settings, address=self.hub.settings.address.replace("http:", "https:"), opens=opens,
            certificate=own.certificate, key=own.key, authority=self.ours.file, clients=self.ours.file,
        )  # fmt: skip
        self.hub.open()

    def laptop(self, made: Made | None, by_certificate: bool = True) -> Path:
        folder = self.folder / "laptop"
        token = self.hub.enrolment.enrol("laptop", by_certificate)
        invitation = Invitation.read(Invitation("laptop", self.hub.settings.address, token).word())
        files = {"certificate": made.certificate, "key": made.key} if made is not None else {}
        join(folder, invitation, f"sqlite:///{self.folder}/crm.db", {"authority": self.ours.file, **files})
        return folder

    def answers(self) -> bool:
        options = {**self.hub.options(), AUTHORITY: self.ours.file}
        source = connect(SourceSpec(SourceName("crm"), "agent://laptop", tuple(options.items())))
        return [table.table for table in source.describe()] == ["t"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.hub.close()


def refused(folder: Path) -> str:
    with pytest.raises(SourceRefused) as found:
        Agent(read_settings(folder)).run()
    return found.value.what


@pytest.mark.parametrize("opens", ["either", "certificate"])
def test_a_certificate_instead_of_a_token(world: World, opens: Opens) -> None:
    world.secure(opens)
    with running(world.laptop(world.ours.sign("laptop"))):
        assert world.answers()


def test_a_dns_name_names_an_agent_too(world: World) -> None:
    with running(world.laptop(world.ours.sign("Anna's machine", also="DNS:laptop"))):
        assert world.answers()


def test_with_a_token_too_both_are_asked_for(world: World) -> None:
    world.secure("certificate")
    folder = world.laptop(world.ours.sign("laptop"), by_certificate=False)
    with running(folder):
        assert world.answers()
    text = (folder / "agent.toml").read_text()
    (folder / "agent.toml").write_text(text.replace(read_settings(folder).token, "another"))
    assert "has this token" in refused(folder)
    (folder / "agent.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("token")))
    assert "has this certificate" in refused(folder), "it was enrolled with a token"


def test_a_hub_for_certificates_takes_no_token(world: World) -> None:
    world.secure("certificate")
    assert "a certificate only" in refused(world.laptop(None, by_certificate=False))
    world.secure("either")
    with running(world.folder / "laptop"):
        assert world.answers()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda world: world.ours.sign("laptop", *PAST), "its time is over"),
        (lambda world: Authority(world.folder / "theirs").sign("laptop"), "an authority that the hub does not know"),
        (lambda world: world.ours.sign("desktop"), "the certificate names desktop, and not laptop"),
    ],
    ids=["expired", "foreign", "another's"],
)
def test_what_does_not_prove_it_is_refused_with_the_reason(world: World, wrong, said) -> None:  # type: ignore[no-untyped-def]
    assert said in refused(world.laptop(wrong(world)))
    with running(world.laptop(world.ours.sign("laptop"))):
        assert world.answers()


def test_a_certificate_whose_time_ends_while_it_is_connected(world: World) -> None:
    end = time.time() + 4
    folder = world.laptop(world.ours.sign("laptop", PAST[0], time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end))))
    line = HubLine(read_settings(folder), 1)
    with pytest.raises(NotStarted):
        line.life("one", [], {})
    time.sleep(max(end - time.time(), 0) + 0.5)
    with pytest.raises(SourceRefused, match="the certificate's time is over"):  # on the same connection
        line.life("one", [], {})


def test_a_revoked_one_opens_nothing_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.hub.enrolment.LATELY", 0.0)
    stolen = world.ours.sign("laptop")
    with running(world.laptop(stolen)):
        assert world.answers()
    world.hub.enrolment.revoke("laptop")
    assert "no agent of that name" in refused(world.folder / "laptop")
    assert "has this certificate" in refused(world.laptop(stolen)), "also after the agent was enrolled again"
    with running(world.laptop(world.ours.sign("laptop"))):
        assert world.answers()


def test_what_cannot_be_is_said_before_anything_begins(world: World) -> None:
    with pytest.raises(UsageError, match="give --certificate"):
        world.laptop(None)
    folder = world.laptop(replace(world.ours.sign("laptop"), key=world.ours.sign("laptop").key))
    with pytest.raises(ConfigError, match="cannot be used"):
        Agent(read_settings(folder))


def test_settings_of_a_hub(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    settings = tmp_path / "headwater.toml"
    settings.write_text('[sources.a]\nurl = "agent://a"\n[hub]\nclients = "ca.pem"\n')
    with pytest.raises(ConfigError, match="over TLS only"):
        load_config(tmp_path)
    settings.write_text('[sources.a]\nurl = "agent://a"\n[hub]\nopens = "certificate"\n')
    with pytest.raises(ConfigError, match="does not say whose"):
        load_config(tmp_path)
    settings.write_text(
        '[sources.a]\nurl = "agent://a"\n[hub]\nopens = "certificate"\nclients = "ca.pem"\n'
        'certificate = "h"\nkey = "k"\n'
    )
    hub = load_config(tmp_path).hub
    assert hub is not None
    assert (hub.clients, hub.opens) == (str(tmp_path / "ca.pem"), "certificate")
