"""The pages of the desk: functions of a view, one file for each entry of the menu."""

from dealfl.desk.pages.energy import energy_page
from dealfl.desk.pages.erasure import (
    certificate_page,
    erasure_page,
    held_page,
    newest,
    request_page,
    uncertified,
)
from dealfl.desk.pages.fleet import Search, fleet_counts, fleet_page, fleet_rows, worker_page
from dealfl.desk.pages.job import job_page
from dealfl.desk.pages.model import model_page
from dealfl.desk.pages.rounds import rounds_page

__all__ = [
    "Search",
    "certificate_page",
    "energy_page",
    "erasure_page",
    "fleet_counts",
    "fleet_page",
    "fleet_rows",
    "held_page",
    "job_page",
    "model_page",
    "newest",
    "request_page",
    "rounds_page",
    "uncertified",
    "worker_page",
]
