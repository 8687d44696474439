"""What a command that only reads does without: pandas.

pyarrow imports pandas, where it is installed, with the first array that it makes of a Python list: a third of a second
and sixty megabytes, for a look at whether the list is one of pandas' own. Commands that hand rows to no other library
say that there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Without(MetaPathFinder):
    """Asked before the others. (`sys.modules["pandas"] = None` would do for `import`, but some look there first.)"""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_pandas() -> None:
    """From here on, this process does not find it. (What has imported it already, keeps it.)"""
    if not any(isinstance(finder, _Without) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Without())
