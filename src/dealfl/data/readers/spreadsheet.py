"""Old spreadsheets (.xls) as delimited text."""

import csv
import io

from dealfl.data.readers.content import Content
from dealfl.errors import BadBytes, needs_extra

_FIRST_BYTES = bytes.fromhex("d0cf11e0a1b11ae1")


def as_text(content: Content) -> Content:
    """Return the first sheet of a spreadsheet as comma-separated text; other content as it is.

    Examples
    --------
    >>> as_text(Content("t.csv", b"1,2")).data
    b'1,2'
    """
    if not content.data.startswith(_FIRST_BYTES):
        return content
    with needs_extra("datasets", f"the spreadsheet {content.name}"):
        from python_calamine import CalamineError, CalamineWorkbook
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(content.data)) as book:
            rows = book.get_sheet_by_index(0).to_python()
    except CalamineError as error:
        problem = f"{content.name}: truncated or damaged ({error}); get the file again"
        raise BadBytes(problem) from error
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return Content(content.name, text.getvalue().encode())
