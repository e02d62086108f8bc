"""One example of each kind of plug-in; a phone is a TOML file."""

from pathlib import Path

__all__ = ["BRICK"]

BRICK = Path(__file__).parent / "brick.toml"
