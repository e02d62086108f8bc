"""The page of the energy of a running server."""

import pytest

from dealfl.desk.pages.energy import energy_page
from dealfl.desk.view import View
from dealfl.runs import WorkerLine

TITLE = "Energy per phone in the present 24 hours, by kind"


def _phone(name: str, device: str) -> WorkerLine:
    return WorkerLine(
        name=name, device=device, battery=0.5, charging=False, capacity_j=40_000.0, incarnation=1,
        counted=1, updates_waiting=0, waiting=0, held=5, heard_s=0.0, training=False,
        busy_until_s=0.0, asleep=False, call_by_s=0.0, fits=True, flag="", spent_j=2.0,
        spent_since_s=0.0, learned=5, evicted=0, selected=1, replied=1, declined=0, reward=1.0,
        energy_j=2.0, last_declined="",
    )  # fmt: skip


@pytest.mark.parametrize(("devices", "is_drawn"), [(["mi", "mi"], False), (["mi", "zte"], True)])
def test_energy_by_kind_is_drawn_only_if_there_are_kinds_to_compare(
    devices: list[str], is_drawn: bool
) -> None:
    workers = {f"w{place}": _phone(f"w{place}", device) for place, device in enumerate(devices)}
    page = energy_page(View(workers=workers))
    assert (TITLE in page.sections["plot-1"]) == is_drawn
    assert "mi" in page.sections["kinds"]  # the table has the figures in any case
