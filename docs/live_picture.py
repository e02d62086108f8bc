"""Take the picture of the live view: the panel of a real `dealfl run`, at one moment of it.

python -m docs.live_picture
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from dealfl.report import LiveView
from dealfl.runs import Interrupted, Run, RunFolder, default_job
from dealfl.settings import Document
from dealfl.simulate import Progress, read_fleet

PICTURE = Path(__file__).parent / "images" / "live.svg"
_SCHEME, _ROUND = 2, 18  # the first scheme is done by then, and the second well under way
_WIDTH = 66


class PhotographedView(LiveView):
    """A live view that stops the run once the moment has come."""

    def __init__(self, title: str) -> None:
        super().__init__(io.StringIO(), title)
        self.job: Run | None = None
        self.picture = ""

    def show_progress(self, progress: Progress) -> None:
        """Show how far it is, and take the picture if it is time to."""
        super().show_progress(progress)
        if self._place == _SCHEME and progress.rounds == _ROUND and not self.picture:
            self.picture = self._photographed()
            if self.job is not None:
                self.job.stop()

    def _photographed(self) -> str:
        console = Console(file=io.StringIO(), record=True, width=_WIDTH, force_terminal=True)
        console.print(self._panel())
        return console.export_svg(
            title="dealfl run", code_format=_without_fonts(), unique_id="live"
        )


def _without_fonts() -> str:
    """Return the form of the picture, with fonts of the reader's machine only."""
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return form.replace("Fira Code, monospace", "monospace")


def main() -> None:
    """Run the main job until the moment, and write the picture."""
    text = default_job()
    view = PhotographedView("digits")
    with tempfile.TemporaryDirectory() as folder:
        run_folder = RunFolder(Path(folder) / "digits")
        run_folder.prepare(text)
        view.job = Run(read_fleet(Document.parse(text, "digits.toml")), run_folder)
        try:
            with view:
                view.job.run(view)
        except Interrupted:
            PICTURE.write_text(view.picture, "utf-8")


if __name__ == "__main__":
    main()
