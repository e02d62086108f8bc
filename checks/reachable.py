"""Public names that nothing a user can start or import ever uses.

The names of every module are followed from the roots (commands, the front door, what plug-ins
import) through all names that reached code mentions. Importing or exporting a name is not a use
of it, and tests are not looked at. The analysis is static and errs on the side of "reachable".
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Module", "Source", "imported_by", "unreachable"]

Name = tuple[str, str]  # module and name; the name is "" for the module as a whole


class Module:
    """One module: what it defines, what it imports, and the strings in it."""

    def __init__(self, name: str, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.name, self.is_package = name, path.name == "__init__.py"
        self.definitions: dict[str, list[ast.AST]] = {}
        self.body: list[ast.AST] = []  # what runs on import and defines nothing
        self.imports: dict[str, list[Name]] = {}
        self.strings = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        self.exported: list[str] = []
        for statement in tree.body:
            self._add(statement)
        for node in ast.walk(tree):
            self._bind(node)

    def _add(self, node: ast.stmt) -> None:
        names = list(_defined(node))
        if names == ["__all__"] and isinstance(node, ast.Assign):
            self.exported = list(ast.literal_eval(node.value))
        elif names:
            for name in names:
                self.definitions.setdefault(name, []).append(node)
        elif isinstance(node, ast.If | ast.Try):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    self._add(child)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            self.body.append(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                target = alias.name if alias.asname else name
                self.imports.setdefault(name, []).append((target, ""))
        elif isinstance(node, ast.ImportFrom):
            origin = self._origin(node)
            for alias in node.names:
                bound = self.imports.setdefault(alias.asname or alias.name, [])
                bound.append((origin, alias.name))

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        package = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*package, node.module] if node.module else package)

    @property
    def package(self) -> str:
        """The package whose idea this module belongs to; a module at the top stands for itself."""
        inside = self.name.count(".") > 1 and not self.is_package
        return self.name.rpartition(".")[0] if inside else self.name

    @property
    def public(self) -> list[str]:
        """Functions, classes and exported constants that this module defines for others."""
        return [name for name in self.definitions if name in self.exported or self._offers(name)]

    def _offers(self, name: str) -> bool:
        node = self.definitions[name][0]
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        return name[0] != "_" and isinstance(node, kinds)


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    targets: Iterable[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


class Source:
    """All modules of some packages, and who mentions whom."""

    def __init__(self, *folders: Path) -> None:
        self.modules: dict[str, Module] = {}
        for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
            root = next(folder for folder in folders if path.is_relative_to(folder))
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = Module(name, path)

    def resolve(self, module: str, name: str) -> set[Name]:
        """Return what a name in a module stands for: definitions, or ("module", "")."""
        seen: set[Name] = set()
        found: set[Name] = set()
        waiting = [(module, name)]
        while waiting:
            at = waiting.pop()
            if at in seen or at[0] not in self.modules:
                continue
            seen.add(at)
            if not at[1] or at[1] in self.modules[at[0]].definitions:
                found.add(at)
            else:
                waiting.extend(self._leads(*at))
        return found

    def _leads(self, module: str, name: str) -> list[Name]:
        place = self.modules[module]
        leads = [*place.imports.get(name, ()), (f"{module}.{name}", "")]
        if "__getattr__" not in place.definitions:
            return leads
        # a lazy front door: its table names modules by strings
        lazy = (text if text[:1] != "." else module + text for text in place.strings)
        return leads + [(text, name) for text in lazy if text != module]

    def mentioned(self, module: str, node: ast.AST) -> set[Name]:
        """Return all definitions and modules that a piece of a module's code mentions."""
        parts = list(ast.walk(node))
        owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
        found: set[Name] = set()
        for part in parts:
            if isinstance(part, ast.Attribute):
                found |= self._attribute(module, part)
            elif isinstance(part, ast.Name):
                names = self.resolve(module, part.id)
                found |= names if id(part) in owners else self._handed_over(names)
        return found

    def _handed_over(self, names: set[Name]) -> set[Name]:
        """Return names, and for a module that is used as a value all that it has to offer."""
        modules = [module for module, name in names if not name]
        return names | {
            (module, name) for module in modules for name in self.modules[module].public
        }

    def _attribute(self, module: str, node: ast.Attribute) -> set[Name]:
        """Return what `package.module.name` stands for; nothing for attributes of objects."""
        if isinstance(node.value, ast.Name):
            owners = self.resolve(module, node.value.id)
        elif isinstance(node.value, ast.Attribute):
            owners = self._attribute(module, node.value)
        else:
            return set()
        found = [self.resolve(owner, node.attr) for owner, name in owners if not name]
        return set().union(*found)

    def reached(self, roots: Iterable[Name]) -> set[Name]:
        """Return everything that can be reached from some names."""
        waiting = [found for root in roots for found in self.resolve(*root)]
        reached: set[Name] = set()
        while waiting:
            at = waiting.pop()
            if at in reached or at[0] not in self.modules:
                continue
            reached.add(at)
            waiting.append((at[0], ""))  # what is reached was imported, so its module has run
            for node in self._code(*at):
                waiting.extend(self.mentioned(at[0], node))
                waiting.extend(_loop_of(at, node))
        return reached

    def _code(self, module: str, name: str) -> list[ast.AST]:
        place = self.modules[module]
        return place.definitions[name] if name else place.body


def _loop_of(at: Name, node: ast.AST) -> list[Name]:
    """Return the compiled loop that runs instead of a function decorated with `twin`."""
    decorators = getattr(node, "decorator_list", ())
    is_twin = any(isinstance(one, ast.Name) and one.id == "twin" for one in decorators)
    return [(f"{at[0].rpartition('.')[0]}.loops", at[1])] if is_twin else []


def imported_by(folder: Path) -> set[Name]:
    """Return everything that the modules in another folder import."""
    modules = [Module(path.stem, path) for path in folder.rglob("*.py")]
    return {name for module in modules for names in module.imports.values() for name in names}


def unreachable(source: Source, roots: Iterable[Name]) -> list[str]:
    """Return the public names that the roots do not reach, as `package.name`, sorted."""
    reached = source.reached(roots)
    return sorted(
        f"{place.package}.{name}"
        for module, place in source.modules.items()
        for name in place.public
        if (module, name) not in reached
    )
