"""Where bytes rest: a folder, or an object store."""

from headwater.storage.files import Storage

__all__ = ["Storage"]
