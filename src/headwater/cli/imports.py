"""What a command that only reads does without: pandas and dateutil.

pyarrow imports them, where they are installed, with the first array that it makes of a Python list. pandas takes a
third of a second and sixty megabytes, for a look at whether the list is one of its own; dateutil a tenth of a lookup by
key, for a look at whether an item is one of its time spans. Commands that hand rows to no other library say that there
are none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

_OTHERS = ("pandas", "dateutil")


class _Without(MetaPathFinder):
    """Asked before the others. (`sys.modules["pandas"] = None` would do for `import`, but some look there first.)"""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in _OTHERS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_others() -> None:
    """From here on, this process does not find them. (What has imported one already, keeps it.)"""
    if not any(isinstance(finder, _Without) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Without())
