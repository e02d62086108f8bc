"""The bounds of every field of a message, and the check of a message on entry.

A worker may lie, and bytes may be damaged. A message is checked once: decoding refuses a value out
of bounds; `problem_of` checks records that are handed over without bytes in between.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

import msgspec
from msgspec import Meta

from dealfl.errors import BadInput
from dealfl.escaping import UNPRINTABLE

MAX_NAME = 128
MAX_EXAMPLES = 10**9
MAX_OWNERS = 5_000  # in one message: 175 kB
MAX_WITHDRAWN = 64  # updates of an incarnation that an announcement names
MAX_HEADERS = 1 << 16  # in one request to a keyholder: 10 MB
_MAX_AMOUNT = 1e9
_TINY = 1e-30  # a figure closer to 0 is refused: quotients would overflow
_ID = r"[A-Za-z0-9_-]{1,64}"
_FIELD = re.compile(r"\$\.(\w+)")

Number = Annotated[int, Meta(ge=0, le=2**53)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Examples = Annotated[int, Meta(ge=0, le=MAX_EXAMPLES)]
Operations = Annotated[int, Meta(ge=0, le=10**18)]
Amount = Annotated[float, Meta(ge=0.0, le=_MAX_AMOUNT)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Time = Annotated[float, Meta(ge=-1e12, le=1e12)]
Ratio = Annotated[str, Meta(max_length=32, pattern=r"^[0-9./]*\Z")]
Name = Annotated[str, Meta(max_length=MAX_NAME, pattern=rf"^[^{UNPRINTABLE}]*\Z")]
WorkerId = Annotated[str, Meta(max_length=64, pattern=rf"^{_ID}\Z")]
WorkerOrAll = Annotated[str, Meta(max_length=64, pattern=rf"^({_ID})?\Z")]
Bytes = Annotated[bytes, Meta(max_length=2**28)]
Hash = Annotated[bytes, Meta(max_length=64)]
Hashes = Annotated[tuple[Hash, ...], Meta(max_length=MAX_OWNERS)]


def plain_name(owner: str) -> str:
    r"""Return the form in which names of owners are compared: NFC, words with one blank between.

    A name with a line break can so be given on one line.

    Examples
    --------
    >>> plain_name(" Rene\u0301\nDe  Cartes ") == "Ren\u00e9 De Cartes"
    True
    """
    return " ".join(unicodedata.normalize("NFC", owner).split())


def problem_of(message: msgspec.Struct) -> str | None:
    """Return why a message is refused on entry.

    Examples
    --------
    >>> from dealfl.protocol.messages import Withdraw
    >>> problem_of(Withdraw(job="j", worker="w", incarnation=1, sequence=2**70))
    'Withdraw message: sequence is out of bounds'
    """
    kind = type(message)
    values = msgspec.to_builtins(message, builtin_types=(bytes,))
    try:
        msgspec.convert(values, kind, builtin_types=(bytes,))  # no base64
    except msgspec.ValidationError as error:
        match = _FIELD.search(str(error))
        wrong: str | None = match[1] if match else "a field"
    else:
        wrong = find_tiny(message)
    return f"{kind.__name__} message: {wrong} is out of bounds" if wrong else None


def find_tiny(message: msgspec.Struct) -> str | None:
    """Return the field of a message whose figure is too close to 0; None if there is none."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, float) and 0.0 < abs(value) < _TINY:
            return name
    return None


def bounded(amount: float) -> float:
    """Return an amount as a message can state it."""
    return min(float(amount), _MAX_AMOUNT) if amount > _TINY else 0.0


def check_id(name: str, what: str = "worker") -> str:
    """Return a name that can be part of a topic; refuse others."""
    if not re.fullmatch(_ID, name):
        raise BadInput(
            f"{what} is called {name[:MAX_NAME]!r}; a name has 1 to 64 letters, digits, '-' and '_'"
        )
    return name
