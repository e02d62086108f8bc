"""Reference documentation: public names say what their parameters are and what they return.

Checked are the names in each `__all__` and the public methods of the classes among them, by the
rules of numpydoc. A field that its annotation describes, as it does for the keys of settings files,
needs no second description. A method that overrides a documented one with the same parameters may
leave the rest to that one, and a method without parameters may say in its summary what it returns.
"""

import functools
import importlib
import inspect
from collections.abc import Container, Iterable
from enum import Enum
from types import ModuleType
from typing import Any, get_type_hints, is_typeddict

from msgspec import Meta
from numpydoc.docscrape import get_doc_object  # type: ignore[import-untyped]
from numpydoc.validate import Validator, error, validate  # type: ignore[import-untyped]

__all__ = ["PUBLIC", "public_methods", "public_modules", "public_names", "undocumented"]

PUBLIC = (
    "dealfl",
    "dealfl.errors",
    "dealfl.learners",
    "dealfl.plugins",
    "dealfl.sklearn",
)
Method = Any  # a function, a property, a class method; a class is called like a function
_ANY = frozenset({"GL06", "GL07", "GL08", "SS01"})
_CALLABLE = _ANY | {"PR01", "PR02", "PR07", "RT01", "RT03", "YD01"}


def public_modules() -> list[ModuleType]:
    """Return what users and plug-in authors import from; all else is internal."""
    return [importlib.import_module(name) for name in PUBLIC]


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return the functions and classes in a module's `__all__` that its own program defines."""
    program = module.__name__.partition(".")[0]
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name: one
        for name, one in found.items()
        if str(getattr(one, "__module__", "")).partition(".")[0] == program
        and (inspect.isroutine(inspect.unwrap(one)) or inspect.isclass(one))
    }


def public_methods(kind: type) -> dict[str, Any]:
    """Return the public methods and properties of a class, those of its own bases included."""
    program = kind.__module__.partition(".")[0]
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == program:
            found |= {name: one for name, one in vars(base).items() if _is_method(name, one)}
    return found


def _is_method(name: str, one: object) -> bool:
    kinds = (property, functools.cached_property, classmethod, staticmethod)
    return name[0] != "_" and (inspect.isfunction(one) or isinstance(one, kinds))


def undocumented(modules: Iterable[ModuleType]) -> list[str]:
    """Return a complaint for each public name of modules that is not fully documented."""
    checked: dict[int, list[str]] = {}
    for module in modules:
        for name, one in public_names(module).items():
            if id(one) not in checked:
                checked[id(one)] = _complaints(f"{module.__name__}.{name}", one)
                _check_methods(f"{module.__name__}.{name}", one, checked)
    return [complaint for complaints in checked.values() for complaint in complaints]


def _check_methods(owner: str, kind: Method, checked: dict[int, list[str]]) -> None:
    if not isinstance(kind, type):
        return
    for name, method in public_methods(kind).items():
        if id(method) not in checked:
            codes = _ANY if _may_be_brief(kind, name, method) else _CALLABLE
            checked[id(method)] = _complaints(f"{owner}.{name}", method, codes)


def _may_be_brief(kind: type, name: str, method: Method) -> bool:
    """Whether a summary is enough: of properties, overrides, and `Return …` without parameters."""
    if isinstance(method, property | functools.cached_property):
        return True
    taken = _parameters(method)
    bases = [vars(base)[name] for base in kind.__mro__[1:] if name in vars(base)]
    if any(one is not method and _documents(one, name, taken) for one in bases):
        return True
    return not taken and (method.__doc__ or "").startswith(("Return ", "Yield "))


def _documents(base: Method, name: str, taken: list[str]) -> bool:
    same = _is_method(name, base) and _parameters(base) == taken
    return same and (not taken or "Parameters\n" in (base.__doc__ or ""))


def _parameters(method: Method) -> list[str]:
    names = inspect.signature(_plain(method)).parameters
    return [name for name in names if name not in ("self", "cls")]


def _plain(one: Method) -> Method:
    function: Method = getattr(one, "__func__", one)
    return inspect.unwrap(function)


def _complaints(name: str, one: Method, codes: Container[str] = _CALLABLE) -> list[str]:
    found = validate(_plain(one), _Documented)["errors"]
    return [f"{name}: {text}" for code, text in found if code in codes]


class _Documented(Validator):  # type: ignore[misc]
    """What numpydoc finds, where attributes and annotations may describe parameters."""

    def __init__(self, obj_name: object) -> None:
        super().__init__(get_doc_object(obj_name))

    @property
    def parameter_mismatches(self) -> list[tuple[str, str]]:
        """PR01 and PR02: parameters without a description, descriptions without a parameter."""
        names = [name for name in self.signature_parameters if name.lstrip("*")[0] != "_"]
        inherited = names == ["*args", "**kwargs"]  # from a protocol
        if isinstance(self.obj, type) and (inherited or _has_no_constructor(self.obj)):
            names = []
        taken = {name.lstrip("*") for name in names}
        listed = {name.lstrip("*\\") for name in self.doc_all_parameters}
        attributes = {
            name.strip() for one in self.doc["Attributes"] for name in one.name.split(",")
        }
        missing = sorted(taken - listed - attributes - _described(self.obj))
        unknown = sorted(listed - taken)
        found = [error("PR01", missing_params=", ".join(missing))] if missing else []
        return found + ([error("PR02", unknown_params=", ".join(unknown))] if unknown else [])

    @property
    def doc_all_parameters(self) -> dict[str, tuple[str, list[str]]]:
        """The described parameters; `x, y : float` describes two."""
        return {
            name.strip(): described
            for names, described in super().doc_all_parameters.items()
            for name in names.split(",")
        }

    @property
    def method_returns_something(self) -> bool:
        """Whether there is a value to describe."""
        stated = getattr(self.code_obj, "__annotations__", {}).get("return")
        return stated not in (None, "None", "NoReturn") and bool(super().method_returns_something)


def _has_no_constructor(kind: type) -> bool:
    """Whether it takes no arguments: protocols, enumerations; exceptions take a message."""
    no_call = issubclass(kind, Enum | BaseException) or is_typeddict(kind)
    return no_call or bool(getattr(kind, "_is_protocol", False))


def _described(one: object) -> set[str]:
    """Return the parameters that an annotation describes."""
    is_plain_class = isinstance(one, type) and not hasattr(one, "__struct_fields__")
    called = one.__init__ if is_plain_class else one  # type: ignore[misc]
    try:
        hints = get_type_hints(called, include_extras=True)
    except (NameError, TypeError):  # a name that only type checkers import
        return set()
    notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name for name, found in notes.items() if any(map(_describes, found))}


def _describes(note: object) -> bool:
    return isinstance(note, Meta) and (bool(note.description) or bool(note.extra))
