"""What other packages add by entry points: learners, selectors, retentions, datasets and phones.

A package names what it adds in its pyproject.toml; nothing of it is imported before it is used:

    [project.entry-points."dealfl.phones"]
    pixel = "their_package.phones:PIXEL"

Names of dealfl itself win. A broken plug-in hurts nobody who does not ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from dealfl.errors import BadInput

__all__ = ["Registry", "package_of", "plugged_in", "plugins"]

Thing = TypeVar("Thing")


@cache
def plugins(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return what packages add to a group, by name; each is found once in a process."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=group):
        # the same package may be seen twice, by two entries of the path
        found.setdefault(point.name, {})[f"{package_of(point)} {point.value}"] = point
    return {name: tuple(found[name].values()) for name in sorted(found)}


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return "an unnamed package" if point.dist is None else point.dist.name


def plugged_in(group: str, name: str) -> Any:  # noqa: ANN401 - whatever the package has there
    """Return the object that a package adds under a name; BadInput names the package."""
    points = plugins(group)[name]
    if len(points) > 1:
        raise BadInput(
            f"{_kind(group)} {name!r} is added by {' and by '.join(map(package_of, points))}; "
            "uninstall one of them"
        )
    try:
        return points[0].load()
    except Exception as error:  # anything can happen in somebody else's package
        raise _broken(group, points[0], f"{type(error).__name__}: {error}") from error


def _kind(group: str) -> str:
    return group.removeprefix("dealfl.").removesuffix("s")


def _broken(group: str, point: EntryPoint, problem: str) -> BadInput:
    return BadInput(
        f"{_kind(group)} {point.name!r} of the package {package_of(point)} ({point.value}) can "
        f"not be used: {problem}; mend or uninstall the package"
    )


class Registry(Mapping[str, Thing], Generic[Thing]):
    """What dealfl has under each name, and after it what other packages add.

    `admit` makes of what a package has what is registered, or raises what is wrong with it.

    >>> colours = Registry("example.colours", {"red": 0xFF0000}, lambda name, found: int(found))
    >>> list(colours), "red" in colours, colours.problems()
    (['red'], True, [])
    """

    def __init__(
        self, group: str, own: Mapping[str, Thing], admit: Callable[[str, Any], Thing]
    ) -> None:
        self._group, self._own, self._admit = group, dict(own), admit
        self._admitted: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        if name in self._own:
            return self._own[name]
        if name not in self._admitted:
            self._admitted[name] = self._admit_one(name)
        return self._admitted[name]

    def _admit_one(self, name: str) -> Thing:
        found = plugged_in(self._group, name)
        try:
            return self._admit(name, found)
        except Exception as error:  # it may be anything that was found there
            raise _broken(self._group, plugins(self._group)[name][0], f"{error}") from error

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in plugins(self._group)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in plugins(self._group) if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Registry of {self._group}: {', '.join(self)}>"

    def usable(self) -> dict[str, Thing]:
        """Return all that can be used; what is broken is left out, and told by `problems`."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except BadInput:
                continue
        return found

    def problems(self) -> list[str]:
        """Return what is wrong with plug-ins of this group."""
        told = []
        for name, points in plugins(self._group).items():
            if name in self._own:
                told.append(
                    f"{_kind(self._group)} {name!r} of the package {package_of(points[0])} is "
                    "never used: dealfl itself has one of that name; it needs another"
                )
                continue
            try:
                self[name]
            except BadInput as error:
                told.append(str(error))
        return told
