"""A plug-in of pytest, `-p tests.without_scipy`: scipy cannot be imported, as on a small worker."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Blocked:
    """A finder before all others that finds no scipy, and nothing that needs it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in ("scipy", "sklearn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


assert "scipy" not in sys.modules, "this plug-in must be loaded before anything imports scipy"
sys.meta_path.insert(0, _Blocked())
