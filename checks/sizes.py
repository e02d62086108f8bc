"""How large the house is: tokens, files, lines of code, modules with one importer."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

__all__ = ["code_lines", "report", "single_importers", "tokens", "twins_and_choices"]

_COUNTED = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def tokens(text: str) -> int:
    """Count names, operators, numbers and strings: a measure that layout cannot change.

    >>> tokens("x = (1,\\n     y)  # two") == tokens("x = (1, y)")
    True
    """
    return sum(token.type in _COUNTED for token in _tokens(text))


def code_lines(text: str) -> int:
    '''Count the lines of a module that are code: no docstrings, comments and blank lines.

    >>> code_lines('"""What it is."""\\n\\nx = 1  # one\\n\\n\\n# two\\ny = (\\n    2\\n)\\n')
    4
    '''
    lines: set[int] = set()
    for token in _tokens(text):
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


def twins_and_choices(text: str) -> tuple[int, int]:
    """Count functions that have a compiled twin, and places that ask which of the two runs.

    Places in the module that decides it do not count.

    >>> twins_and_choices("@twin\\ndef add(x): ...\\n\\nif CHOICE.mode == 'never':\\n    x = 1\\n")
    (1, 1)
    """
    nodes = list(ast.walk(ast.parse(text)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    twins = sum(_is_name(mark, "twin") for node in functions for mark in node.decorator_list)
    if any(node.name == "twin" for node in functions):
        return twins, 0
    asked = (node for node in nodes if isinstance(node, ast.Attribute))
    return twins, sum(_is_name(node.value, "CHOICE") for node in asked)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def single_importers(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """Return modules that exactly one other module imports, with it; packages count as neither."""
    pairs = []
    for module in sorted(graph.modules):
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1 and not graph.find_children(module):
            (importer,) = importers
            if not graph.find_children(importer):
                pairs.append((module, importer))
    return pairs


def _package_lines(package: Path) -> Iterator[str]:
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    whole = sum(len(text.splitlines()) for text in texts)
    code = sum(map(code_lines, texts))
    yield f"{package.name}: {sum(map(tokens, texts)):,} tokens in {len(texts)} files"
    yield f"{package.name}: {code:,} lines of code, {whole - code:,} other lines"
    counts = [twins_and_choices(text) for text in texts]
    twins, choices = (sum(count) for count in zip(*counts, strict=True))
    yield (
        f"{package.name}: {twins} functions with a compiled twin; "
        f"places outside `twin` that ask which one runs: {choices}"
    )


def _bases() -> int:
    """Return the largest number of bases between a built-in learner and `object`, without ABC."""
    from abc import ABC
    from typing import Generic

    from dealfl.learners import LEARNERS

    skipped = (object, ABC, Generic)
    return max(len([b for b in kind.__mro__[1:] if b not in skipped]) for kind in LEARNERS.values())


def report(root: Path) -> list[str]:
    """Return what is counted, a line each."""
    source = root / "src"
    packages = sorted(path.parent for path in source.glob("*/__init__.py"))
    lines = [line for package in packages for line in _package_lines(package)]
    house = source / "dealfl"
    top = [path.stem for path in house.glob("*.py") if not path.stem.startswith("__")]
    lines.append(f"modules at the top: {len(top)} ({', '.join(sorted(top))})")
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    lines += [f"layers: {len(c['layers'])}" for c in contracts if c["type"] == "layers"]
    alone = single_importers(grimp.build_graph("dealfl", cache_dir=None))
    lines.append(f"modules with a single importer: {len(alone)}")
    lines += [f"  {module} <- {importer}" for module, importer in alone]
    lines.append(f"bases of a learner: {_bases()} at most")
    return lines


if __name__ == "__main__":
    print("\n".join(report(Path(__file__).parents[1])))
