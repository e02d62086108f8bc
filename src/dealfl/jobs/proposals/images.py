"""Tables whose columns are the pixels of images: their limits, and a map that suits them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dealfl.jobs.proposals.survey import Found
from dealfl.jobs.sources import Bounded
from dealfl.settings import toml_value

__all__ = ["Image", "find_image"]

_FEWEST = 64
_WHITE = 255.0
_GREY = 127.0
_CHANNELS = (1, 3)


@dataclass(frozen=True, slots=True)
class Image:
    """The columns of an image, and how many channels, rows and columns of pixels it has."""

    names: tuple[str, ...]
    shape: tuple[int, int, int]

    def features(self) -> dict[str, Bounded]:
        """Return the pixels, from 0 to 255 also where the file does not go so far."""
        return {name: Bounded(low=0.0, high=_WHITE) for name in self.names}

    def draft(self, replaces: bool) -> list[str]:
        """Return a section [features] as a comment; `replaces` if there is one already."""
        channels, height, width = self.shape
        instead = "instead of the section above, " if replaces else ""
        return [
            f"# The {len(self.names)} columns look like the pixels of images, {height} x {width}"
            + (f", {channels} channels in sequence." if channels > 1 else "."),
            "# Seeded filters often give better features than raw pixels. To use them,",
            f"# {instead}remove the # from these lines:",
            "# [features]",
            '# map = "patches"',
            f"# image = {toml_value(list(self.shape))}    # channels, height, width",
            "# filters = 64",
            "",
        ]


def find_image(columns: Sequence[Found], features: Collection[str]) -> Image | None:
    """Return the image that the features of a table are the pixels of; None if they are not.

    Pixels are at least 64 columns of whole numbers in 0 .. 255 that form one or three squares;
    those that are equal in every row belong to them, too.
    """
    pixels = [column for column in columns if _is_pixel(column)]
    kept = [column for column in pixels if column.name in features or not column.low < column.high]
    shape = _square(len(kept))
    if shape is None or len(kept) < _FEWEST or max(one.high for one in kept) <= _GREY:
        return None
    names = tuple(column.name for column in kept)
    return Image(names, shape) if set(features) <= set(names) else None


def _is_pixel(column: Found) -> bool:
    inside = column.low >= 0.0 and column.high <= _WHITE
    return column.kind == "number" and column.whole and not column.missing and inside


def _square(pixels: int) -> tuple[int, int, int] | None:
    for channels in _CHANNELS:
        side = math.isqrt(pixels // channels)
        if channels * side * side == pixels:
            return channels, side, side
    return None
