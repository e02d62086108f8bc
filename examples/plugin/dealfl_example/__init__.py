"""One of each that dealfl can be extended by; a phone is a TOML file."""

from pathlib import Path

__all__ = ["BRICK"]

BRICK = Path(__file__).parent / "brick.toml"
