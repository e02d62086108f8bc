"""The checks of language: phrases in what people read, and docstrings that leave something out."""

import importlib
import sys
from pathlib import Path

import pytest

from checks.docstrings import undocumented
from checks.english import phrases_in, unplain

MODULE = '''\
"""Bread."""
from dataclasses import dataclass
from typing import Annotated, Protocol

from msgspec import Meta, Struct

__all__ = ["Baker", "Key", "Loaf", "Oven", "bake", "knead"]


class Baker(Protocol):
    """Somebody who bakes."""

    def bake(self, loaf: int) -> int:
        """Bake a loaf.

        Parameters
        ----------
        loaf : int
            Which one.

        Returns
        -------
        int
            How good it is, from 0 to 10.
        """


class Oven(Baker):
    """An oven."""

    def bake(self, loaf: int) -> int:
        """Bake a loaf at once."""
        return loaf

    @property
    def hot(self) -> bool:
        """Whether it is hot."""
        return True

    def read(self) -> int:
        """Return the heat, in °C."""
        return 200


@dataclass
class Loaf:
    """A loaf.

    Attributes
    ----------
    size, weight : float
        In cm and kg.
    """

    size: float
    weight: float


class Key(Struct):
    """A section."""

    heat: Annotated[int, Meta(description="heat of the oven")] = 200


def bake(loaf: int) -> int:
    """Bake."""
    return loaf


def knead(dough: int) -> None:
    """Knead.

    Parameters
    ----------
    dough : int
        What is kneaded.
    flour : int
        What there is not.
    """
'''


def test_public_names_without_parameters_or_returns_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "bakery"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    found = undocumented([importlib.import_module("bakery")])
    del sys.modules["bakery"]
    assert found == [
        "bakery.bake: Parameters loaf not documented",
        "bakery.bake: No Returns section found",
        "bakery.knead: Unknown parameters flour",
    ]


@pytest.mark.parametrize(
    "text", ["can not", "from 0 on", "from {} on", "Anew", "so\nmany", "goes on", "was asked"]
)
def test_a_phrase_is_found(text: str) -> None:
    assert len(phrases_in(f"It is said: {text}.")) == 1


@pytest.mark.parametrize("text", ["cannot", "from 0 to 1", "asked_s", "it goes on the shelf"])
def test_ordinary_words_are_left(text: str) -> None:
    assert phrases_in(text) == []


def test_of_a_module_only_strings_are_read(tmp_path: Path) -> None:
    module, page = tmp_path / "a.py", tmp_path / "b.md"
    module.write_text('told = 1  # anew\nraise ValueError(\n    f"{told} can "\n    "not be"\n)\n')
    page.write_text("first\nbegin anew\n")
    assert [line.partition(";")[0] for line in unplain([page, module])] == [
        f"{module}:3: 'can not'",
        f"{page}:2: 'anew'",
    ]
