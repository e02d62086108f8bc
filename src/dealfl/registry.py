"""Registries: objects by name, those of dealfl and those that other packages add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from dealfl.errors import BadInput

Thing = TypeVar("Thing")


@cache
def plugins(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group; the search runs once per process.

    Parameters
    ----------
    group : str
        Name of the group, such as "dealfl.phones".

    Returns
    -------
    mapping of str to tuple of EntryPoint
        Entry points by name, in alphabetical order.
    """
    points: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=group):
        # a package is found twice if two entries of sys.path contain it
        points.setdefault(point.name, {})[f"{package_of(point)} {point.value}"] = point
    return {name: tuple(points[name].values()) for name in sorted(points)}


def package_of(point: EntryPoint) -> str:
    """Return the name of the package of an entry point.

    Parameters
    ----------
    point : EntryPoint
        Entry point of a plug-in.

    Returns
    -------
    str
        Name of the distribution.
    """
    return "an unnamed package" if point.dist is None else point.dist.name


def load_plugin(group: str, name: str) -> Any:  # noqa: ANN401 - whatever the package has there
    """Load the object of a plug-in.

    Parameters
    ----------
    group : str
        Name of the group, such as "dealfl.phones".
    name : str
        Name of the entry point.

    Returns
    -------
    object
        The object that the entry point names.

    Raises
    ------
    BadInput
        If two packages use the name, or the object cannot be imported.
    """
    points = plugins(group)[name]
    if len(points) > 1:
        raise BadInput(
            f"{_kind(group)} {name!r} is provided by {' and '.join(map(package_of, points))}; "
            "uninstall one of them"
        )
    try:
        return points[0].load()
    except Exception as error:  # another package can raise anything
        raise _broken(group, points[0], f"{type(error).__name__}: {error}") from error


def _kind(group: str) -> str:
    return group.removeprefix("dealfl.").removesuffix("s")


def _broken(group: str, point: EntryPoint, problem: str) -> BadInput:
    return BadInput(
        f"{_kind(group)} {point.name!r} of the package {package_of(point)} ({point.value}) "
        f"cannot be used: {problem}; fix or uninstall the package"
    )


class Names(Collection[str]):
    """The names in a group: those of dealfl, then those of plug-ins.

    Parameters
    ----------
    group : str
        Group of entry points, such as "dealfl.phones".
    own : collection of str
        Names of dealfl.

    Examples
    --------
    >>> list(Names("example.colours", ("red", "blue")))
    ['red', 'blue']
    """

    def __init__(self, group: str, own: Collection[str]) -> None:
        self._group, self._own = group, own

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in plugins(self._group)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in plugins(self._group) if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Objects by name: those of dealfl, then those of plug-ins.

    Parameters
    ----------
    group : str
        Group of entry points, such as "dealfl.phones".
    own : mapping or callable
        Objects of dealfl by name, or a function that returns them when one is first wanted.
    admit : callable
        Function from a name and the object of a plug-in to the registered object; raises an
        exception if the object is not valid.

    Examples
    --------
    >>> colours = Registry("example.colours", {"red": 0xFF0000}, lambda name, found: int(found))
    >>> list(colours), "red" in colours, colours.problems()
    (['red'], True, [])
    """

    def __init__(
        self,
        group: str,
        own: Mapping[str, Thing] | Callable[[], Mapping[str, Thing]],
        admit: Callable[[str, Any], Thing],
    ) -> None:
        self._group, self._given, self._admit = group, own, admit
        self._admitted: dict[str, Thing] = {}

    @cached_property
    def _own(self) -> dict[str, Thing]:
        return dict(self._given() if callable(self._given) else self._given)

    @property
    def _names(self) -> Names:
        return Names(self._group, self._own)

    def __getitem__(self, name: str) -> Thing:
        if name in self._own:
            return self._own[name]
        if name not in self._admitted:
            self._admitted[name] = self._admit_one(name)
        return self._admitted[name]

    def _admit_one(self, name: str) -> Thing:
        thing = load_plugin(self._group, name)
        try:
            return self._admit(name, thing)
        except Exception as error:  # the object of a plug-in can be anything
            raise _broken(self._group, plugins(self._group)[name][0], f"{error}") from error

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Registry of {self._group}: {', '.join(self)}>"

    def usable(self) -> dict[str, Thing]:
        """Return all objects that work; `problems` describes the others.

        Returns
        -------
        dict
            Objects by name.
        """
        things = {}
        for name in self:
            try:
                things[name] = self[name]
            except BadInput:
                continue
        return things

    def problems(self) -> list[str]:
        """Return the problems of the plug-ins in this group.

        Returns
        -------
        list of str
            One message for each plug-in that cannot be used.
        """
        problems = []
        for name, points in plugins(self._group).items():
            if name in self._own:
                problems.append(
                    f"{_kind(self._group)} {name!r} of the package {package_of(points[0])} is "
                    "not used: dealfl has one with this name; rename the entry point"
                )
                continue
            try:
                self[name]
            except BadInput as error:
                problems.append(str(error))
        return problems
