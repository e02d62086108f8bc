"""The machines on which results are exact."""

import struct
import sys

from dealfl.errors import DealError


def require_machine(
    byte_order: str = sys.byteorder, pointer_bits: int = 8 * struct.calcsize("P")
) -> None:
    """Refuse a machine on which the bytes or the sizes of integers differ.

    Examples
    --------
    >>> require_machine("big", 64)
    Traceback (most recent call last):
    dealfl.errors.DealError: this machine is big-endian; dealfl needs little-endian and 64 bits
    """
    needed = "dealfl needs little-endian and 64 bits"
    if byte_order != "little":
        raise DealError(f"this machine is {byte_order}-endian; {needed}")
    if pointer_bits != 64:
        raise DealError(f"this Python has {pointer_bits} bits; {needed}")
