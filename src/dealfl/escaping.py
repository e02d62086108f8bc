"""Text of unknown origin, made safe for the place where it is shown.

Names of jobs, workers, devices, owners and files come from messages, job files and data. Each place
has its own dangerous characters: a terminal obeys control characters, a spreadsheet computes cells
that start with `=`, HTML has tags, and plotly reads some of them.
"""

from __future__ import annotations

import html
import re

__all__ = ["UNPRINTABLE", "for_csv", "for_html", "for_plotly", "for_terminal"]

# Control and format characters (they move the cursor, hide text or reverse it), and surrogates.
UNPRINTABLE = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def for_terminal(text: object, max_length: int | None = None) -> str:
    r"""Return a text without characters that a terminal, a log or a page would obey.

    Examples
    --------
    >>> print(for_terminal("a\x1b[2J\nb"), for_terminal("abcdef", 4))
    a\x1b[2J\nb abc…
    """
    shown = str(text)
    if max_length is not None and len(shown) > max_length:
        shown = shown[: max_length + 1]  # a text may be long; what is cut is not escaped
    if not shown.isprintable():
        shown = _UNPRINTABLE.sub(_escape, shown)
    if max_length is not None and len(shown) > max_length:
        shown = shown[: max_length - 1] + "…"
    return shown


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def for_html(text: object) -> str:
    """Return a text for the content or an attribute of an element.

    Examples
    --------
    >>> for_html("<b>")
    '&lt;b&gt;'
    """
    return html.escape(_UNPRINTABLE.sub(_keep_lines, str(text)))


def for_plotly(text: object) -> str:
    """Return a text for plotly, which interprets some HTML tags."""
    return html.escape(for_terminal(text), quote=False)


def _keep_lines(match: re.Match[str]) -> str:
    return match[0] if match[0] in "\n\t" else _escape(match)


def for_csv(value: object) -> object:
    r"""Return the value of a cell that a spreadsheet does not compute.

    Examples
    --------
    >>> for_csv("=1+1"), for_csv("-1.5"), for_csv(-1.5), for_csv("a-b")
    ("'=1+1", '-1.5', -1.5, 'a-b')
    """
    if not isinstance(value, str):
        return value
    shown = _UNPRINTABLE.sub(_keep_lines, value)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
