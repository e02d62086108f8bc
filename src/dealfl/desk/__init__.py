"""A desk in the browser: pages that show a run or a running server, and forms that change it.

A `Source` reads the run, a `Watch` reads it again while somebody looks, the pages are functions of
its `View`, and the `Guard` decides who gets one. A name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dealfl.loading import load_when_used

if TYPE_CHECKING:
    from dealfl.desk.child import PARENT, start_child
    from dealfl.desk.serving import Listening, serve_desk
    from dealfl.desk.sources import open_source
else:
    __getattr__ = load_when_used(
        __name__,
        {
            "child": ("PARENT", "start_child"),
            "serving": ("Listening", "serve_desk"),
            "sources": ("open_source",),
        },
    )

__all__ = ["PARENT", "Listening", "open_source", "serve_desk", "start_child"]
