"""Where bytes rest: a folder, or an object store."""

from headwater.storage.files import Storage, folder_name

__all__ = ["Storage", "folder_name"]
