"""How large the source is: files, lines of code, and files that are too long."""

import ast
import io
import tokenize
from pathlib import Path

__all__ = ["MAX_LINES", "code_lines", "count", "too_long"]

MAX_LINES = 300  # a longer file has two ideas

_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    '''Count the lines of a module that are code: no docstrings, comments and blank lines.

    >>> code_lines('"""What it is."""\\n\\nx = 1  # one\\n\\n\\n# two\\ny = (\\n    2\\n)\\n')
    4
    '''
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(text)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def too_long(source: Path) -> list[str]:
    """Return a complaint for every file with more than MAX_LINES lines, docstrings included."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    return [
        f"{path}: {length} lines, at most {MAX_LINES}"
        for path, length in lengths.items()
        if length > MAX_LINES
    ]


def count(source: Path) -> str:
    """Return the number of files and lines of code under `source`, as one line of text."""
    texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py")]
    return f"{len(texts)} files, {sum(map(code_lines, texts)):,} lines of code"
