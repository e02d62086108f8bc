"""All errors that dealfl raises on purpose.

DealError
├── BadInput (also a ValueError)       an argument cannot be used; nothing was changed
│   ├── OutOfBounds                    a value is outside its declared bounds
│   ├── UnknownName                    no learner, dataset, feature map … has this name
│   ├── Incompatible                   statistics and model have different settings
│   ├── Impossible                     no set of examples has these statistics
│   └── BadBytes                       bytes are truncated, damaged or hostile
├── NotLearned (also a ValueError)     the examples or the model were never learned
├── MissingExtra (also an ImportError) an optional package is not installed
├── Fenced                             another process writes this file now
├── WriteFailed                        the disk is full or fails; the old file is still there
└── DatasetMissing                     a dataset is not available and cannot be downloaded
"""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "BadBytes",
    "BadInput",
    "DatasetMissing",
    "DealError",
    "Fenced",
    "Impossible",
    "Incompatible",
    "MissingExtra",
    "NotLearned",
    "OutOfBounds",
    "UnknownName",
    "WriteFailed",
    "argument",
    "describe_without_values",
    "instruction",
    "meant_path",
    "needs_extra",
    "options_named",
    "unknown_name",
    "unreadable",
]

_words = {"shell": False}  # how messages name arguments and commands


class DealError(Exception):
    """Base class of all errors that a caller may want to handle."""


class BadInput(DealError, ValueError):
    """An argument cannot be used; nothing was changed.

    Attributes
    ----------
    rule : str
        The message without any value of an example, for what is stored or sent; "" if unknown.
    """

    def __init__(self, message: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class OutOfBounds(BadInput):
    """A value is outside its declared bounds."""


class UnknownName(BadInput):
    """Nothing is registered under a name."""


class Incompatible(BadInput):
    """Statistics and model have different settings."""


class Impossible(BadInput):
    """No set of examples has these statistics."""


class BadBytes(BadInput):
    """Bytes are truncated, damaged or hostile."""


class NotLearned(DealError, ValueError):
    """The examples to forget, or the model to predict with, were never learned."""


class MissingExtra(DealError, ImportError):
    """A package of an extra of dealfl is not installed."""


class Fenced(DealError):
    """Another process writes this file now; this one must stop, and has changed nothing."""


class WriteFailed(DealError):
    """A file cannot be written because the disk is full or fails; the old file is still there."""


class DatasetMissing(DealError):
    """A dataset is not in the cache or in DEALFL_DATA and cannot be downloaded."""


def describe_without_values(error: Exception, otherwise: str) -> str:
    """Return the reason of an error that may be stored or sent: it names no value of an example.

    Parameters
    ----------
    error : Exception
        The error.
    otherwise : str
        Text for errors without a rule.

    Returns
    -------
    str
        The rule that was broken, or `otherwise`.
    """
    if isinstance(error, Incompatible):  # it names settings
        return str(error)
    return (error.rule if isinstance(error, BadInput) else "") or otherwise


def argument(name: str, value: object = None) -> str:
    """Return how the caller gives an argument: in Python, or as an option of a command.

    Parameters
    ----------
    name : str
        Name of the argument in Python.
    value : object, optional
        The value to give.

    Returns
    -------
    str
        Words for a message.

    Examples
    --------
    >>> argument("skip_lines", 2), argument("resume", True), argument("target")
    ('skip_lines=2', 'resume=True', 'target=')
    >>> with options_named():
    ...     argument("skip_lines", 2), argument("resume", True), argument("target", "my price")
    ('--skip-lines 2', '--resume', "--target 'my price'")
    """
    if not _words["shell"]:
        return f"{name}=" if value is None else f"{name}={value!r}"
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    return f"{option} {'no' if value is False else shlex.quote(str(value))}"


def instruction(python: str, shell: str) -> str:
    """Return how the caller does something: in Python, or by a command.

    Parameters
    ----------
    python : str
        Words for a caller in Python.
    shell : str
        Words for a caller of a command.

    Returns
    -------
    str
        Words for a message.

    Examples
    --------
    >>> instruction("result.owners()", "`dealfl show RUN --owners`")
    'result.owners()'
    >>> with options_named():
    ...     instruction("result.owners()", "`dealfl show RUN --owners`")
    '`dealfl show RUN --owners`'
    """
    return shell if _words["shell"] else python


def meant_path(path: str | Path) -> str:
    """Return the question whether a path with nearly the name of a missing one is meant.

    Parameters
    ----------
    path : str or Path
        Path of a file or folder that does not exist.

    Returns
    -------
    str
        Words for a message; "" if no name is near.
    """
    from difflib import get_close_matches  # only where something is wrong

    path = Path(path)
    try:
        names = sorted(other.name for other in path.parent.iterdir())
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def unreadable(path: str | Path, error: OSError, otherwise: str = "") -> BadInput:
    """Create the error for a file that cannot be read; it names a remedy.

    Parameters
    ----------
    path : str or Path
        Path of the file.
    error : OSError
        Why it cannot be read.
    otherwise : str
        Remedy, unless a file of nearly this name is there.

    Returns
    -------
    BadInput
        The error.

    Examples
    --------
    >>> raise unreadable("none.toml", FileNotFoundError(2, "No such file or directory"))
    Traceback (most recent call last):
    dealfl.errors.BadInput: none.toml cannot be read: No such file or directory; check the name
    """
    remedy = otherwise or "make it readable"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        remedy = meant_path(path) or otherwise or "check the name"
    if isinstance(error, IsADirectoryError):
        remedy = otherwise or "name a file in it"
    return BadInput(f"{path} cannot be read: {error.strerror}; {remedy}")


@contextmanager
def options_named() -> Iterator[None]:
    """Let messages name arguments as options of a command, in a block.

    Yields
    ------
    None
        While a command runs.
    """
    before, _words["shell"] = _words["shell"], True
    try:
        yield
    finally:
        _words["shell"] = before


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """Create the error for an unknown name.

    Parameters
    ----------
    kind : str
        Kind of the named thing, for example "dataset".
    name : object
        The unknown name.
    known : iterable of str
        All known names.

    Returns
    -------
    UnknownName
        The error, which lists the known names.

    Examples
    --------
    >>> raise unknown_name("dataset", "mnist", ["digits", "covtype"])
    Traceback (most recent call last):
    dealfl.errors.UnknownName: no dataset called 'mnist'; known: covtype, digits
    """
    return UnknownName(f"no {kind} called {name!r}; known: {', '.join(sorted(known))}")


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import optional packages in a block; `MissingExtra` says what they are needed for.

    Parameters
    ----------
    extra : str
        Extra of dealfl that has the packages.
    purpose : str
        What needs them, as the subject of a sentence in the singular.

    Yields
    ------
    None
        The block imports.

    Raises
    ------
    MissingExtra
        A package is not installed.

    Examples
    --------
    >>> with needs_extra("kites", "flying"):
    ...     import kites
    Traceback (most recent call last):
    dealfl.errors.MissingExtra: flying needs kites; install it with: pip install 'dealfl[kites]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or extra).partition(".")[0]
        raise MissingExtra(
            f"{purpose} needs {package}; install it with: pip install 'dealfl[{extra}]'"
        ) from None
