"""A section is declared once: its fields say what a key takes, its default and what it means."""

from decimal import Decimal
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.settings import (
    FLAT,
    As,
    Count,
    Document,
    Fraction,
    Labels,
    Numbers,
    OneOf,
    Positive,
    Share,
    Text,
    check,
    key_table,
    keys_of,
    normalise,
    read_section,
    read_tables,
    read_variant,
)
from dealfl.settings.values import takes

NAMES = {"red": 1, "blue": 2}


class Inner(Struct, frozen=True):
    depth: Annotated[Count, Meta(description="how deep")] = 1
    hidden: int = 0


class Outer(Struct, frozen=True, kw_only=True):
    """The section of these tests."""

    name: Annotated[Text, Meta(description="what it is called")]
    size: Annotated[Positive, Meta(description="how large")] = 2.0
    colour: Annotated[str, OneOf(NAMES), Meta(description="its colour")] = "red"
    fraction: Annotated[Fraction, Meta(description="θ")] = "0.02"
    inner: Annotated[Inner, FLAT] = Inner()
    tables: Annotated[tuple[Inner, ...], Meta(description="more of them")] = ()

    def __post_init__(self) -> None:
        if self.name == "size":
            raise BadInput("size is another thing; take another name")


class Circle(Struct, frozen=True, tag_field="shape", tag="circle"):
    radius: Annotated[Positive, Meta(description="from the centre")] = 1.0


class Square(Struct, frozen=True, tag_field="shape", tag="square"):
    side: Annotated[Positive, Meta(description="of each side")]


def outer(text: str) -> Outer:
    return read_section(Document.parse(f"[outer]\n{text}", "a.toml"), Outer, "outer")


def test_a_section_is_read_with_the_keys_of_a_flat_part() -> None:
    read = outer('name = "a"\nsize = 3\ndepth = 4\nfraction = 0.020')
    assert read == Outer(name="a", size=3.0, fraction="0.020", inner=Inner(depth=4))
    assert isinstance(read.size, float)
    assert list(keys_of(Outer)) == ["name", "size", "colour", "fraction", "depth", "tables"]


def test_a_list_of_tables_is_read_inside_a_section() -> None:
    read = outer('name = "a"\ntables = [{ depth = 2 }, { depth = 3 }]')
    assert [one.depth for one in read.tables] == [2, 3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("size = 1", "a.toml, line 1: the key 'name' is missing in outer; it takes a string"),
        ('name = "a"\nsiez = 1', "line 3: no key 'siez' in outer; did you mean 'size'? Valid: "),
        ('name = "a"\nsize = 0', "line 3: outer.size is 0; it takes a number > 0"),
        ('name = "a"\nsize = nan', "line 3: outer.size is NaN; it takes a number > 0"),
        ('name = "a"\nsize = 1e999', "line 3: outer.size is 1E+999; it takes a number > 0"),
        ('name = "a"\nsize = true', "line 3: outer.size is True; it takes a number > 0"),
        ('name = "a"\nsize = [1.0]', "line 3: outer.size is [1.0]; it takes a number > 0"),
        ('name = "a"\ndepth = 1.0', "line 3: outer.depth is 1.0; it takes a whole number ≥ 1"),
        ('name = "a"\nhidden = 1', "line 3: no key 'hidden' in outer"),
        ('name = "a"\ncolour = "rde"', 'is \'rde\'; it takes one of "blue", "red"'),
        ('name = "a"\nfraction = 1.5', "outer.fraction is 1.5; it takes a decimal from 0 to 1"),
        ('name = " "', "outer.name is ' '; it takes a string"),
        ('name = "a"\ntables = [{ dept = 2 }]', "no key 'dept' in outer.tables.1; did you mean"),
        ('name = "a"\ntables = 3', "outer.tables is 3; it takes sections [[outer.tables]]"),
        ('name = "size"\nsize = 2', "line 3: outer: size is another thing"),
    ],
)
def test_a_mistake_is_reported_with_line_key_value_and_what_the_key_takes(
    text: str, told: str
) -> None:
    with pytest.raises(BadInput) as refused:
        outer(text)
    assert told in str(refused.value)


def test_the_tag_says_which_variant_it_is() -> None:
    def shape(text: str) -> Circle | Square:
        variants: tuple[type[Circle | Square], ...] = (Circle, Square)
        return read_variant(Document.parse(text, "a.toml"), variants, "shape")

    assert shape("") == Circle(1.0)
    assert shape('[shape]\nshape = "square"\nside = 2') == Square(2.0)
    with pytest.raises(BadInput, match='\'oval\'; it takes one of "circle", "square"'):
        shape('[shape]\nshape = "oval"')
    with pytest.raises(BadInput, match="line 3: no key 'side' in shape; valid: radius"):
        shape('[shape]\nshape = "circle"\nside = 2')
    with pytest.raises(BadInput, match="line 3: no key 'shap' in shape; did you mean 'shape'"):
        shape('[shape]\nside = 2\nshap = "square"')


def test_a_list_of_sections_needs_at_least_one() -> None:
    with pytest.raises(BadInput, match=r"there are no \[\[inner\]\]"):
        read_tables(Document.parse("", "a.toml"), Inner, "inner")


class Policy:
    """The annotated parameters of a constructor are keys."""

    def __init__(
        self,
        seed: int = 0,
        *,
        bound: Annotated[Any, As(Numbers), Meta(description="for each column")] = 1.0,
        share: Annotated[Share, Meta(description="a part")] = 0.5,
    ) -> None:
        self.seed, self.bound, self.share = seed, bound, share


def test_the_annotated_parameters_of_a_constructor_are_a_section() -> None:
    read = read_section(Document.parse("[a]\nbound = [1, 2.5]", "a.toml"), Policy, "a", seed=3)
    assert (read.seed, read.bound, read.share) == (3, (1.0, 2.5), 0.5)
    with pytest.raises(BadInput, match="no key 'seed' in a"):
        read_section(Document.parse("[a]\nseed = 1", "a.toml"), Policy, "a")


def test_values_of_a_program_are_checked_alike() -> None:
    assert check(Policy, {"bound": np.array([1, 2]), "share": np.float64(1)}) == {
        "bound": (1.0, 2.0), "share": 1.0,
    }  # fmt: skip
    with pytest.raises(BadInput, match="share is 2; it takes a number from 0 to 1"):
        check(Policy, {"share": 2})


def test_a_struct_normalises_its_keys() -> None:
    made = Inner(depth=np.int64(3))  # type: ignore[arg-type]
    normalise(made)
    assert type(made.depth) is int
    with pytest.raises(BadInput, match="depth is 0; it takes a whole number ≥ 1"):
        normalise(Inner(depth=0))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "a whole number"),
        (Annotated[int, Meta(ge=1, le=9)], "a whole number from 1 to 9"),
        (Annotated[float, Meta(gt=0, le=0.9)], "a number > 0 and ≤ 0.9"),
        (Annotated[float, Meta(gt=0, extra={"inf": True})], "a number > 0, or inf"),
        (bool, "true or false"),
        (Annotated[str, Meta(min_length=1, max_length=1)], "one character"),
        (Literal["a", "b"], 'one of "a", "b"'),
        (Numbers, "a number, or a list of such"),
        (tuple[int, ...] | None, "a list, each a whole number"),
        (float | Text, "a number, or a string"),
        (dict[str, Share], "a table, each value a number from 0 to 1"),
        (Inner, "a table of keys and values"),
        (tuple[Inner, ...], "a list of tables"),
        (Annotated[Any, Labels(2)], "a list of at least 2 strings, or of numbers, no two the same"),
    ],
)
def test_what_a_key_takes_is_derived_from_its_type(kind: Any, words: str) -> None:
    assert takes(kind) == words


@pytest.mark.parametrize("value", [["a"], ["a", "a"], ["a", 1], [1, True], "ab", [1, float("inf")]])
def test_labels_that_are_not_different_or_not_alike_are_refused(value: object) -> None:
    with pytest.raises((ValueError, OverflowError)):
        Labels(2).read(value)


def test_infinity_is_taken_only_where_it_is_declared() -> None:
    def wait(*, s: Annotated[float, Meta(gt=0, extra={"inf": True})], t: Positive) -> None: ...

    assert check(wait, {"s": Decimal("inf")}) == {"s": float("inf")}
    with pytest.raises(BadInput, match="t is Infinity; it takes a number > 0"):
        check(wait, {"t": Decimal("inf")})


def test_the_key_table_is_made_from_the_fields() -> None:
    table = key_table("[outer]", Outer, without=("tables",))
    assert table.startswith("#### [outer]\n\nThe section of these tests.\n\n| key | takes |")
    assert "| `size` | a number > 0 | `2.0` | how large |" in table
    assert "| `name` | a string | required | what it is called |" in table
    assert "| `depth` | a whole number ≥ 1 | `1` | how deep |" in table
    assert "tables" not in table


@pytest.mark.parametrize(
    "value",
    [
        *("9" * 5_000, "0x" + "f" * 5_000, "1e99999999999999999999", "[" * 5_000, "{x=" * 5_000),
        "1\n[b" + ".a" * 2_000 + "]",
    ],
)
def test_hostile_text_is_refused(value: str) -> None:
    with pytest.raises(BadInput, match="hostile has a number of too many digits, or too many"):
        Document.parse(f"a = {value}", "hostile")
