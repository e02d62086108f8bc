"""The error tree in the docstring is the one there is."""

import pytest

from dealfl import errors
from dealfl.errors import BadInput, DealError, NotLearned, UnknownName, unknown_name


def test_every_error_is_in_the_tree_and_in_all() -> None:
    tree = errors.__doc__ or ""
    own = [
        kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__
    ]
    kinds = {kind.__name__ for kind in own if isinstance(kind, type)}
    assert kinds == {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    for name in kinds:
        assert issubclass(getattr(errors, name), DealError)
        assert name in tree


@pytest.mark.parametrize(
    "name", ["OutOfBounds", "UnknownName", "Incompatible", "Impossible", "BadBytes"]
)
def test_whatever_is_wrong_with_the_input_is_bad_input(name: str) -> None:
    assert issubclass(getattr(errors, name), BadInput)


def test_bad_input_and_not_learned_are_value_errors_and_different() -> None:
    assert issubclass(BadInput, ValueError)
    assert issubclass(NotLearned, ValueError)
    assert not issubclass(NotLearned, BadInput)


def test_an_unknown_name_is_answered_with_the_known_ones_in_order() -> None:
    error = unknown_name("phone", "nokia", {"pixel", "honor"})
    assert isinstance(error, UnknownName)
    assert str(error) == "no phone called 'nokia'; known: honor, pixel"
