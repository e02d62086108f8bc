"""The notebook in examples runs from top to bottom, and shows what it says."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notebooks: Any = import_module("nbformat")
    clients: Any = import_module("nbclient")
    monkeypatch.setenv(
        "PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    )
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = notebooks.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    client = clients.NotebookClient(
        notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [
        text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for text in output.get("data", {}).values()
    ]
    assert any("<b>Fleet data</b>" in text for text in shown), "a fleet is shown as a table"
    assert any("digest = central training" in text and "<td>" in text for text in shown)
    assert shown[-1] == "True"
