"""A desk in the browser: pages that show a run or a running server, and forms that change it.

A `Source` reads the run, a `Watch` reads it again while somebody looks, the pages are functions of
its `View`, and the `Guard` decides who gets one.
"""

from dealfl.desk.serving import Listening, serve_desk
from dealfl.desk.sources import open_source

__all__ = ["Listening", "open_source", "serve_desk"]
