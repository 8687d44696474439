"""Files below one root, on disk or in an object store, with one promise: `put` is all or nothing.

On disk a file appears under its name only when it is complete and flushed (write aside, fsync, rename); in an object
store a single PUT has that property by itself.

Who maintains a warehouse holds a lease on it. While it does, its storage asks the lease before every write: once the
lease is lost, nothing is written through this storage any more.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.model.errors import HeadwaterError, WarehouseError

if TYPE_CHECKING:  # the object store's library is loaded by who has a warehouse there
    from headwater.storage.object_store import ObjectStore

_UNFINISHED = ".tmp"
"""How the name of a file ends that is not complete yet."""


class Lease(Protocol):
    """The right to write, as long as `check` raises no LeaseLost. Its `fence` is higher than any earlier lease's."""

    @property
    def fence(self) -> int: ...

    def check(self) -> None: ...


class Storage:
    """All paths are relative to the root, with forward slashes."""

    lease: Lease | None = None
    """Set by who holds the warehouse's lock, through this storage."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.local = "://" not in url or url.startswith("file://")
        if self.local:
            self._root = str(Path(url.removeprefix("file://")).absolute())
            self._fs: pafs.FileSystem = pafs.LocalFileSystem()
            self.url = self._root
        else:
            from headwater.storage.object_store import arrow_filesystem

            self._fs, self._root = arrow_filesystem(self.url)

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return Storage, (self.url,)

    def path(self, relative: str) -> str:
        """The path as this storage's file system wants it."""
        return f"{self._root}/{relative}" if relative else self._root

    def uri(self, relative: str) -> str:
        """The path as Delta and Spark want it. Delta wants no percent signs: see `folder_name`."""
        return f"{self.url}/{relative}"

    def uri_of(self, path: str) -> str:
        """What `path` returned, as Delta and Spark want it."""
        return f"{self.url}{path.removeprefix(self._root)}"

    @property
    def filesystem(self) -> pafs.FileSystem:
        return self._fs

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store itself, for those who need its conditional puts."""
        from headwater.storage.object_store import ObjectStore

        assert not self.local
        return ObjectStore(self.url)

    @cached_property
    def delta_options(self) -> dict[str, str]:
        """What deltalake must know to reach this place."""
        if self.local:
            return {}
        from headwater.storage.object_store import settings

        return settings(self.url)

    def fence(self) -> int:
        """The number of the lease under which is written here, 0 if none was taken. LeaseLost if it is over."""
        if self.lease is None:
            return 0
        self.lease.check()
        return self.lease.fence

    def make_folder(self, relative: str = "") -> None:
        if self.local:  # an object store has no folders
            with explained(self.url):
                os.makedirs(self.path(relative), exist_ok=True)

    def put(self, relative: str, data: bytes | pa.Buffer) -> None:
        """Write a whole file, or nothing."""
        self.fence()
        if not self.local:
            self.objects.put(relative, data)
            return
        with explained(self.url), self._aside(relative, data) as aside:
            os.replace(aside, self.path(relative))

    def put_new(self, relative: str, data: bytes) -> bool:
        """Write a whole file where there is none; False, and nothing is written, where there is another one."""
        self.fence()
        if not self.local:
            # one that is there already may be ours: a request that was tried again after its answer was lost
            return self.objects.put_new(relative, data) is not None or self.get(relative) == data
        with explained(self.url), self._aside(relative, data) as aside:
            try:
                os.link(aside, self.path(relative))
            except FileExistsError:
                return False
            except OSError:  # a file system that knows no second names
                if os.path.exists(self.path(relative)):
                    return False
                os.replace(aside, self.path(relative))
        return True

    def get(self, relative: str) -> bytes | None:
        if not self.local:
            found = self.objects.get(relative)
            return None if found is None else found.data
        try:
            with open(self.path(relative), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def names(self, relative: str) -> list[str]:
        """The names directly below a folder, sorted; empty if it does not exist."""
        if not self.local:
            return self.objects.names(relative)
        selector = pafs.FileSelector(self.path(relative), allow_not_found=True)
        return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def delete(self, relative: str) -> None:
        """Remove a file; fine if it is gone already."""
        self.fence()
        if not self.local:
            self.objects.delete(relative)
            return
        with suppress(FileNotFoundError):
            self._fs.delete_file(self.path(relative))

    def delete_folder(self, relative: str) -> None:
        self.fence()
        if not self.local:
            self.objects.delete_folder(relative)
            return
        with suppress(FileNotFoundError):
            self._fs.delete_dir(self.path(relative))

    @contextmanager
    def _aside(self, relative: str, data: bytes | pa.Buffer) -> Iterator[str]:
        """A complete and flushed file beside the one it is for, to be given its name."""
        path = self.path(relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        aside = f"{path}.{uuid.uuid4().hex}{_UNFINISHED}"
        try:
            with open(aside, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            yield aside
        finally:
            if os.path.exists(aside):
                os.unlink(aside)
        flush_folder(os.path.dirname(path))

    def forget_unfinished(self, folder: str) -> None:
        """Remove what writers that died an hour ago or more left without its name."""
        if not self.local:
            return
        with suppress(OSError):
            for entry in os.scandir(self.path(folder)):
                if entry.name.endswith(_UNFINISHED) and time.time() - entry.stat().st_mtime > 3600:
                    os.unlink(entry.path)

    def write_arrow(self, relative: str, table: pa.Table) -> None:
        """An Arrow IPC file, readable by memory map on disk."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.put(relative, sink.getvalue())

    def read_arrow(self, relative: str) -> pa.Table:
        if self.local:
            with pa.memory_map(self.path(relative)) as source:
                return pa.ipc.open_file(source).read_all()
        data = self.get(relative)
        if data is None:
            raise FileNotFoundError(f"{self.url}/{relative}")
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def folder_name(name: str) -> str:
    """Any name as one part of a path, each another one. Not with percent signs, as in a url: deltalake decodes those
    once too often and looks for the table elsewhere."""
    return quote(name, safe="").replace("%", "=")


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn the operating system's refusals into errors that say what to do. Libraries may have wrapped them in
    exceptions of their own, so the words count too."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        number, said = getattr(error, "errno", None), str(error)
        if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in said or "os error 28" in said:
            raise WarehouseError(
                f"no space left at {where}",
                "free some space and run again: nothing was lost, the last cut is still the newest one",
            ) from error
        if number in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise WarehouseError(f"cannot write to {where}: {os.strerror(number)}", "check who owns it") from error
        if number in (errno.ENOTDIR, errno.EEXIST):
            raise WarehouseError(f"cannot write to {where}: a file is in the way", "choose another path") from error
        raise


def flush_folder(path: str) -> None:
    """Make a rename durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
