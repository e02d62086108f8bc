"""Time and energy of a command, measured with the best meter of this machine."""

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

_READ_EVERY_S = 10.0  # an energy counter can wrap around; each read detects one wrap
_SIGNALLED = 128  # a shell returns 128 + the number of the signal that ended a command


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """Time and energy of one command.

    Parameters
    ----------
    exit_code : int
        Exit code of the command; 128 + n if signal n ended it.
    elapsed_s : float
        Wall-clock time, in seconds.
    cpu_s : float
        Processor time of the command and its children, in seconds.
    reading : Reading or None
        Energy; None if no meter works.
    refused : dict of str to str
        The reason why each meter does not work, by its name.
    """

    exit_code: int
    elapsed_s: float
    cpu_s: float
    reading: Reading | None
    refused: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        """Return all values, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
        return {
            "exit_code": self.exit_code,
            "elapsed_s": self.elapsed_s,
            "cpu_s": self.cpu_s,
            "reading": self.reading.as_dict() if self.reading else None,
            "refused": self.refused,
        }


def measure_command(words: Sequence[str], root: str, output: Any) -> MeasuredCommand:  # noqa: ANN401
    """Run a command and measure its time and energy.

    Parameters
    ----------
    words : sequence of str
        The command and its arguments.
    root : str
        Mount point of sysfs.
    output : file or None
        Standard output of the command, as in `subprocess.Popen`.

    Returns
    -------
    MeasuredCommand
        Time, energy and exit code.

    Raises
    ------
    BadInput
        If the command cannot be started.
    """
    choice = best_meter(root)
    refused = dict(choice.refused)
    before_s, start_s = _children_s(), time.perf_counter()
    if choice.meter:
        choice.meter.start()
    exit_code, failure = _wait(_start(words, output), choice.meter)
    reading: Reading | None = None
    elapsed_s = time.perf_counter() - start_s
    if choice.meter and not failure:
        reading, failure = _read(choice.meter)
    if failure:
        refused["the selected meter"] = failure
    return MeasuredCommand(exit_code, elapsed_s, _children_s() - before_s, reading, refused)


def _start(words: Sequence[str], output: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
    try:
        return subprocess.Popen(list(words), stdout=output)  # noqa: S603 - the user's own command
    except OSError as error:
        raise BadInput(f"{words[0]!r} cannot be run: {error.strerror}") from None


def _wait(process: subprocess.Popen[bytes], meter: Meter | None) -> tuple[int, str]:
    """Return the exit code, and why the meter failed; a failing meter does not stop the command."""
    failure = ""
    while True:
        try:
            code = process.wait(_READ_EVERY_S)
        except subprocess.TimeoutExpired:
            if meter and not failure:
                failure = _read(meter)[1]
        except KeyboardInterrupt:
            continue  # the command receives it too and decides
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
