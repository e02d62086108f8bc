"""A contract for import-linter: a package is used through its `__init__`."""

import grimp
from importlinter import Contract, ContractCheck, output

__all__ = ["FrontDoor", "side_doors"]


def side_doors(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """Return imports (importer, imported) of a module from outside its own package's folder.

    Imports inside functions and under TYPE_CHECKING count. A sub-package is a package; the modules
    directly in a root package are open to all.
    """
    found: list[tuple[str, str]] = []
    for module in sorted(graph.modules):
        package = module.rpartition(".")[0]
        if graph.find_children(module) or "." not in package:
            continue
        importers = sorted(graph.find_modules_that_directly_import(module))
        outside = (
            name
            for name in importers
            if not f"{name}.".startswith(f"{package}.") and not _are_loops(name, module)
        )
        found.extend((importer, module) for importer in outside)
    return found


def _are_loops(importer: str, imported: str) -> bool:
    """Return whether compiled loops call compiled loops: importing those takes numba."""
    return importer.endswith("loops") and imported.endswith("loops")


class FrontDoor(Contract):
    """No module is imported from outside its package."""

    type_name = "front_door"

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """List the imports that go past a package's `__init__`."""
        output.verbose_print(verbose, "Looking for imports past a package's __init__...")
        found = side_doors(graph)
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print every import that should name the package instead."""
        for importer, imported in check.metadata["found"]:
            package = imported.rpartition(".")[0]
            output.print_error(f"{importer} imports {imported}: import from {package}", bold=False)
        output.new_line()
