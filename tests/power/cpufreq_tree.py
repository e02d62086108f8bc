"""Files like those in which the kernel shows the clocks of a machine."""

from pathlib import Path

LITTLE = (480000, 807000, 1306000, 1709000)
BIG = (1402000, 1805000, 2016000, 2112000)


def policy(root: Path, number: int, table: tuple[int, ...] = (), **files: int | str | None) -> Path:
    """Make the folder of one policy; a file given as None is left out."""
    cpus = root / "devices/system/cpu"
    folder = cpus / f"cpufreq/policy{number}"
    folder.mkdir(parents=True)
    low, high = (table[0], table[-1]) if table else (800000, 4000000)
    content: dict[str, int | str | None] = {
        "cpuinfo_min_freq": low,
        "cpuinfo_max_freq": high,
        "scaling_min_freq": low,
        "scaling_max_freq": high,
        "scaling_governor": "interactive",
        "scaling_available_frequencies": " ".join(map(str, reversed(table))) + " \n",
    }
    if not table:
        content["scaling_available_frequencies"] = None
    for name, value in {**content, **files}.items():
        if value is not None:
            (folder / name).write_text(f"{value}\n")
    return folder


def limit(folder: Path) -> int:
    return int((folder / "scaling_max_freq").read_text())
