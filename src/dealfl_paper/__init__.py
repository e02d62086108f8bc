"""The paper beside the library: its figures and claims, and a laboratory for selection.

`dealfl` never imports this package: its commands reach it by entry points.
"""
