"""An authority that signs certificates, as openssl makes them: good ones, and such as nobody should take."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_CONFIG = """
[ca]
default_ca = here
[here]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
default_md = sha256
default_days = 2
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Made:
    certificate: str
    key: str


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.file = folder, str(folder / "ca.pem")
        (folder / "ca.cnf").write_text(_CONFIG.format(folder=folder))
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        _openssl("req", "-x509", *_KEY, "-days", "2", "-keyout", f"{folder}/ca.key",
                 "-out", self.file, "-subj", f"/CN={folder.name}")  # fmt: skip

    def sign(self, name: str, *dates: str, also: str = "") -> Made:
        """A certificate of this name. `dates`: of its beginning and its end; `also`: a subjectAltName."""
        path = str(self.folder / f"{name}-{len(list(self.folder.iterdir()))}")
        request = [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            f"{path}.key",
            "-out",
            f"{path}.csr",
        ]
        more = ["-addext", f"subjectAltName={also}"] if also else []
        _openssl(*request, "-subj", f"/CN={name}", *more)
        when = ["-startdate", dates[0], "-enddate", dates[1]] if dates else []
        _openssl("ca", "-batch", "-notext", "-config", f"{self.folder}/ca.cnf", "-in", f"{path}.csr", "-out",
                 f"{path}.pem", *when)  # fmt: skip
        return Made(f"{path}.pem", f"{path}.key")


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
