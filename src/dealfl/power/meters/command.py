"""What a command takes: its time, and its energy by the best meter of this machine."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dealfl.errors import BadInput, DealError
from dealfl.power.meters.base import Meter, Reading
from dealfl.power.meters.machine import best_meter

__all__ = ["MeasuredCommand", "measure_command"]

_READ_EVERY_S = 10.0  # an energy counter may wrap around; each read notices one wrap
_SIGNALLED = 128  # the shell's way to tell that a signal ended a command


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """What one command took; a reading, or why each meter has none."""

    exit_code: int
    elapsed_s: float
    cpu_s: float
    reading: Reading | None
    refused: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON."""
        return {
            "exit_code": self.exit_code,
            "elapsed_s": self.elapsed_s,
            "cpu_s": self.cpu_s,
            "reading": self.reading.as_dict() if self.reading else None,
            "refused": self.refused,
        }


def measure_command(words: Sequence[str], root: str, output: Any) -> MeasuredCommand:  # noqa: ANN401
    """Run a command; return its time, and its energy by the best meter that works."""
    choice = best_meter(root)
    refused = dict(choice.refused)
    before_s, start_s = _children_s(), time.perf_counter()
    if choice.meter:
        choice.meter.start()
    exit_code, failure = _wait(_started(words, output), choice.meter)
    reading: Reading | None = None
    elapsed_s = time.perf_counter() - start_s
    if choice.meter and not failure:
        reading, failure = _read(choice.meter)
    if failure:
        refused["the meter that was chosen"] = failure
    return MeasuredCommand(exit_code, elapsed_s, _children_s() - before_s, reading, refused)


def _started(words: Sequence[str], output: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
    try:
        return subprocess.Popen(list(words), stdout=output)  # noqa: S603 - it is the user's own
    except OSError as error:
        raise BadInput(f"{words[0]!r} can not be run: {error.strerror}") from None


def _wait(process: subprocess.Popen[bytes], meter: Meter | None) -> tuple[int, str]:
    """Return the exit code, and why the meter failed, which does not stop the command."""
    failure = ""
    while True:
        try:
            code = process.wait(_READ_EVERY_S)
        except subprocess.TimeoutExpired:
            if meter and not failure:
                failure = _read(meter)[1]
        except KeyboardInterrupt:
            continue  # the command got it, too, and decides
        else:
            return (code if code >= 0 else _SIGNALLED - code), failure


def _read(meter: Meter) -> tuple[Reading | None, str]:
    try:
        return meter.read(), ""
    except DealError as error:
        return None, str(error)


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
