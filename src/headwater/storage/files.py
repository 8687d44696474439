"""Files below one root, on disk or in an object store, with one promise: `put` is all or nothing.

On disk a file appears under its name only when it is complete and flushed (write aside, fsync, rename); in an object
store a single PUT has that property by itself.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.model.errors import HeadwaterError, WarehouseError


class Storage:
    """All paths are relative to the root, with forward slashes."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.local = "://" not in url or url.startswith("file://")
        if self.local:
            self._root = str(Path(url.removeprefix("file://")).absolute())
            self._fs: pafs.FileSystem = pafs.LocalFileSystem()
            self.url = self._root
        else:
            self._fs, self._root = pafs.FileSystem.from_uri(self.url)

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return Storage, (self.url,)

    def path(self, relative: str) -> str:
        """The path as this storage's file system wants it."""
        return f"{self._root}/{relative}" if relative else self._root

    def uri(self, relative: str) -> str:
        """The path as Delta and Spark want it."""
        return f"{self.url}/{relative}"

    def uri_of(self, path: str) -> str:
        """What `path` returned, as Delta and Spark want it."""
        return f"{self.url}{path.removeprefix(self._root)}"

    @property
    def filesystem(self) -> pafs.FileSystem:
        return self._fs

    def make_folder(self, relative: str = "") -> None:
        with explained(self.url):
            self._fs.create_dir(self.path(relative), recursive=True)

    def put(self, relative: str, data: bytes | pa.Buffer) -> None:
        """Write a whole file, or nothing."""
        path = self.path(relative)
        with explained(self.url):
            if not self.local:
                with self._fs.open_output_stream(path) as out:
                    out.write(data)
                return
            os.makedirs(os.path.dirname(path), exist_ok=True)
            aside = f"{path}.{uuid.uuid4().hex}.tmp"
            try:
                with open(aside, "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(aside, path)
            finally:
                if os.path.exists(aside):
                    os.unlink(aside)
            flush_folder(os.path.dirname(path))

    def get(self, relative: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(self.path(relative)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def names(self, relative: str) -> list[str]:
        """The names directly below a folder, sorted; empty if it does not exist."""
        selector = pafs.FileSelector(self.path(relative), allow_not_found=True)
        return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def delete(self, relative: str) -> None:
        """Remove a file; fine if it is gone already."""
        try:
            self._fs.delete_file(self.path(relative))
        except FileNotFoundError:
            return

    def delete_folder(self, relative: str) -> None:
        try:
            self._fs.delete_dir(self.path(relative))
        except FileNotFoundError:
            return

    def write_arrow(self, relative: str, table: pa.Table) -> None:
        """An Arrow IPC file, readable by memory map on disk."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.put(relative, sink.getvalue())

    def read_arrow(self, relative: str) -> pa.Table:
        path = self.path(relative)
        if self.local:
            with pa.memory_map(path) as source:
                return pa.ipc.open_file(source).read_all()
        with self._fs.open_input_file(path) as source:
            return pa.ipc.open_file(source).read_all()


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
