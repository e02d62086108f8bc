"""Logs as lines of JSON: event, job, scheme, round, worker, reason, and numbers.

A log contains nothing of the examples: only the fixed text of a message, the numbers among its
arguments, and the type and place of an error. Each record is exactly one line, so no content can
forge another record.

    configure_logs(Path("runs/digits/log.jsonl"))
    log("round closed", job="digits", round=3, reason="majority", updates=7)
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from dealfl.errors import BadInput
from dealfl.storage.atomic_files import is_disk_failure, make_private

LOG = logging.getLogger("dealfl")
LEVELS = ("debug", "info", "warning", "error")

_PLACES = ("job", "scheme", "round", "worker", "reason")
_LARGEST_BYTES = 10_000_000
_KEPT = 5
_MAX_LENGTH = 200
_CONVERSION = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa])")


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON.

    Examples
    --------
    >>> record = logging.LogRecord("dealfl", logging.INFO, "", 0, "a\\nb", (), None)
    >>> print(JsonLines().format(record).partition('"level"')[2])
    : "info", "event": "a\\nb"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _event(record)[:_MAX_LENGTH],
        }
        for name in _PLACES:
            value = getattr(record, f"deal_{name}", None)
            if value is not None:
                line[name] = value if isinstance(value, int) else str(value)[:_MAX_LENGTH]
        figures = {**_numbers(record.args), **getattr(record, "deal_figures", {})}
        if figures:
            line["figures"] = {key: _plain(value) for key, value in figures.items()}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = _kind(record.exc_info)
        return json.dumps(line)


def _event(record: logging.LogRecord) -> str:
    """Return the fixed text of a message: with its numbers, and … for texts.

    A message that says more on a terminal has a short event of its own.
    """
    given = list(record.args) if isinstance(record.args, tuple) else []
    event = getattr(record, "deal_event", None)
    if event is not None or not given:
        return str(event or record.msg)

    def fill(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = given.pop(0) if given else None
        return match[0] % value if _is_number(value) and match[0][-1] not in "ra" else "…"

    return _CONVERSION.sub(fill, str(record.msg))


def _numbers(args: object) -> dict[str, object]:
    """Return the numbers among the arguments of a message; texts can be personal data."""
    given = args if isinstance(args, tuple) else ()
    return {f"value{index}": value for index, value in enumerate(given, 1) if _is_number(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _plain(value: object) -> object:
    """Return a value that JSON can express."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if _is_number(value) else None


def _kind(error: Any) -> dict[str, object]:  # noqa: ANN401 - what logging calls exc_info
    kind, _, trace = error
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    fields: dict[str, object] = {"kind": kind.__name__}
    if trace is not None:
        fields["file"] = Path(trace.tb_frame.f_code.co_filename).name
        fields["line"] = trace.tb_lineno
    return fields


def log(
    event: str,
    *,
    job: str | None = None,
    scheme: str | None = None,
    round: int | None = None,  # noqa: A002 - the name used everywhere
    worker: str | None = None,
    reason: str | None = None,
    level: str = "info",
    **figures: float,
) -> None:
    """Log an event."""
    extra: dict[str, object] = {"deal_job": job, "deal_scheme": scheme, "deal_round": round}
    extra |= {"deal_worker": worker, "deal_reason": reason, "deal_figures": figures}
    LOG.log(logging.getLevelName(level.upper()), event, extra=extra)


def configure_logs(
    path: Path | None,
    level: str = "info",
    *,
    largest_bytes: int = _LARGEST_BYTES,
    kept: int = _KEPT,
) -> logging.Handler:
    """Send the logs of this package to a rotating file, or to standard error.

    A second call replaces the earlier configuration.
    """
    if level not in LEVELS:
        raise BadInput(f"log level is {level!r}; known: {', '.join(LEVELS)}")
    handler = _handler(path, largest_bytes, kept)
    handler.setFormatter(JsonLines())
    for old in list(LOG.handlers):
        if isinstance(old.formatter, JsonLines):
            LOG.removeHandler(old)
            old.close()
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    LOG.propagate = False  # otherwise each record would be written twice
    return handler


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Send the logs of this package to a file while a block runs."""
    handler = configure_logs(path)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        handler.close()
        LOG.propagate = True
        LOG.setLevel(logging.NOTSET)


def _handler(path: Path | None, largest_bytes: int, kept: int) -> logging.Handler:
    if path is None:
        return logging.StreamHandler(sys.stderr)
    try:
        return _LogFile(path, maxBytes=largest_bytes, backupCount=kept, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}; use another file") from error


class _LogFile(RotatingFileHandler):
    """A log file of its owner that ignores a full disk: saving the next result reports it."""

    def _open(self) -> TextIOWrapper:
        make_private(Path(self.baseFilename))
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Drop the record if the disk is full."""
        error = sys.exception()
        if not isinstance(error, OSError) or not is_disk_failure(error):
            super().handleError(record)

    def close(self) -> None:
        """Close the file even if its last records cannot be written."""
        with suppress(OSError):
            super().close()
