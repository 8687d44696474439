"""A hub with a certificate: who connects makes sure that it is the hub."""

from __future__ import annotations

import shutil
import sqlite3
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.agent.agent import Agent
from headwater.agent.joining import Invitation, join, read_settings
from headwater.agent.line import _Explained
from headwater.hub.serving import open_hub
from headwater.model.errors import ConfigError, SourceRefused, UnknownName
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.runtime.project.config import load_config
from headwater.sources import connect
from headwater.sources.agent.line import AUTHORITY

from .hub_here import HubHere, running

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")


def certificate(folder: Path) -> tuple[str, str]:
    key, made = folder / "hub.key", folder / "hub.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", made,
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(made), str(key)


class SecureHub(HubHere):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.close()
        made, key = certificate(folder)
        address = self.settings.address.replace("http:", "https:")
        self.settings = replace(self.settings, address=address, certificate=made, key=key, authority=made)
        self.open()


def laptop(hub: SecureHub, authority: str) -> Path:
    folder = hub.folder / "laptop"
    sqlite3.connect(hub.folder / "crm.db").execute("CREATE TABLE t (id INTEGER PRIMARY KEY)").connection.close()
    invitation = Invitation("laptop", hub.settings.address, hub.enrolment.enrol("laptop"))
    join(folder, invitation, f"sqlite:///{hub.folder / 'crm.db'}", {"authority": authority})
    return folder


def test_with_its_authority(tmp_path: Path) -> None:
    hub = SecureHub(tmp_path)
    with running(laptop(hub, hub.settings.certificate)):
        options = {**hub.options(), AUTHORITY: hub.settings.authority}
        source = connect(SourceSpec(SourceName("crm"), "agent://laptop", tuple(options.items())))
        assert [table.table for table in source.describe()] == ["t"]
    assert open_hub(hub.storage, "a warehouse", hub.settings) is None
    hub.close()


def test_who_does_not_know_the_authority_says_nothing_to_it(tmp_path: Path) -> None:
    hub = SecureHub(tmp_path)
    with pytest.raises(SourceRefused, match="cannot prove who it is"):
        Agent(read_settings(laptop(hub, ""))).run()
    hub.close()


def test_a_certificate_that_has_expired_is_said() -> None:
    """As OpenSSL words it; it makes none that has expired."""
    with pytest.raises(SourceRefused, match="its certificate has expired"), _Explained("https://hub.example"):
        raise ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired (_ssl.c:1006)")


def test_without_tls_only_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    settings = tmp_path / "headwater.toml"
    settings.write_text('[sources.a]\nurl = "agent://a"\n[hub]\nlisten = "0.0.0.0:7437"\n')
    with pytest.raises(ConfigError, match="has no certificate") as refused:
        load_config(tmp_path)
    assert "openssl req -x509" in refused.value.fix
    settings.write_text('[sources.a]\nurl = "agent://a"\n')
    with pytest.raises(ConfigError, match="no hub"):
        load_config(tmp_path)
    settings.write_text('[sources.a]\nurl = "agent://a"\nquestions = "never"\n[hub]\n')
    with pytest.raises(UnknownName, match="questions"):
        load_config(tmp_path)
    join(tmp_path / "x", Invitation("x", "http://hub.example:7437", "t"), "sqlite:///x.db")
    with pytest.raises(ConfigError, match="without TLS"):
        read_settings(tmp_path / "x")
