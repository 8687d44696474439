"""An object store: whole objects, and puts that happen only if nobody came between.

Three libraries reach it: obstore for whole objects, pyarrow for Parquet, deltalake for tables. They all go where
`settings` says, which is where the ordinary AWS_* variables say. Keys are left to each library's own look at the
environment (variables, or the machine's role), so that no object of ours holds a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
import pyarrow.fs as pafs
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store, from_url

from headwater.model.errors import WarehouseError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as Store

PATIENCE = timedelta(seconds=15)
"""How long a request is tried again for. Shorter than a lease, so that who cannot reach the store learns in time."""
RETRIES = 5


@dataclass(frozen=True)
class Tagged:
    """An object's bytes, and the store's mark for exactly this version of it."""

    data: bytes
    tag: str


def settings(url: str) -> dict[str, str]:
    """Where the store of this url is, as deltalake and obstore call it."""
    if not url.startswith("s3://"):
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    found = {"aws_region": region, "aws_conditional_put": "etag"}
    if endpoint:
        found |= {"aws_endpoint_url": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}
    return found


def arrow_filesystem(url: str) -> tuple[pafs.FileSystem, str]:
    """The same place for pyarrow, and the path of the root there."""
    if not url.startswith("s3://"):
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(url)
        return found
    options = settings(url)
    # given as an override, an endpoint is asked with the bucket in the path, which every server understands
    s3 = pafs.S3FileSystem(region=options["aws_region"], endpoint_override=options.get("aws_endpoint_url"))
    return s3, url.removeprefix("s3://")


class ObjectStore:
    """The objects below one url. Paths are relative to it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store = _connected(url)

    def get(self, path: str) -> Tagged | None:
        with self._explained():
            try:
                found = obstore.get(self._store, path)
                return Tagged(bytes(found.bytes()), found.meta["e_tag"] or "")
            except FileNotFoundError as error:
                _check_bucket(error)
                return None

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        with self._explained():
            obstore.put(self._store, path, memoryview(data).cast("B"))

    def put_new(self, path: str, data: bytes) -> str | None:
        """Only if nothing is there: the new version's tag, or None."""
        with self._explained():
            try:
                return obstore.put(self._store, path, data, mode="create")["e_tag"] or ""
            except AlreadyExistsError:
                return None

    def put_instead(self, path: str, data: bytes, tag: str) -> str | None:
        """Only if the version with this tag is still there: the new version's tag, or None."""
        with self._explained():
            try:
                return obstore.put(self._store, path, data, mode={"e_tag": tag})["e_tag"] or ""
            except PreconditionError:
                return None
            except FileNotFoundError as error:
                _check_bucket(error)
                return None

    def names(self, folder: str) -> list[str]:
        """Stores that keep folders of their own may name one that was just emptied."""
        with self._explained():
            found = obstore.list_with_delimiter(self._store, folder or None)
        paths = [*found["common_prefixes"], *(item["path"] for item in found["objects"])]
        names = {path.rstrip("/").rsplit("/", 1)[-1] for path in paths if path.strip("/") != folder}
        return sorted(names - {""})

    def delete(self, path: str) -> None:
        with self._explained():
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError as error:
                _check_bucket(error)

    def delete_folder(self, folder: str) -> None:
        with self._explained():
            for items in obstore.list(self._store, f"{folder}/"):
                obstore.delete(self._store, [item["path"] for item in items])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A store's refusals as errors that say what to do, without its answer's text, which may name keys."""
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            kind, said = type(error).__name__, str(error)
            if "NoSuchBucket" in said:
                raise WarehouseError(f"there is no bucket for {self._url}", "create it, or correct the path") from error
            if kind in ("PermissionDeniedError", "UnauthenticatedError") or "AccessDenied" in said:
                raise WarehouseError(
                    f"{self._url} refuses access", "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and its rights"
                ) from error
            where = settings(self._url).get("aws_endpoint_url", "")
            raise WarehouseError(
                f"cannot reach {self._url}{f' at {where}' if where else ''} ({kind})",
                "check the network and AWS_ENDPOINT_URL; nothing is lost, run again when it answers",
            ) from error


def _connected(url: str) -> Store:
    options = settings(url)
    client: ClientConfig = {"allow_http": options.get("aws_allow_http") == "true", "timeout": PATIENCE}
    retry: RetryConfig = {"max_retries": RETRIES, "retry_timeout": PATIENCE}
    if not options:
        return from_url(url, client_options=client, retry_config=retry)
    place: S3Config = {"region": options["aws_region"]}
    if "aws_endpoint_url" in options:
        place["endpoint"] = options["aws_endpoint_url"]
    return S3Store.from_url(url, config=place, client_options=client, retry_config=retry)


def _check_bucket(error: FileNotFoundError) -> None:
    """No such object is an answer; no such bucket is not."""
    if "NoSuchBucket" in str(error):
        raise error
