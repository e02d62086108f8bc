"""What others may rely on: public names, commands and their documentation, lazy imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dealfl
import dealfl.errors
import dealfl.features
import dealfl.learners
import dealfl.power
from dealfl.cli import main, parser

ROOT = Path(__file__).parents[2]


def test_the_public_names_of_the_front_door() -> None:
    assert sorted(dealfl.__all__) == [
        "BadBytes", "BadInput", "DatasetMissing", "DealError", "Fleet", "Impossible",
        "Incompatible", "Interrupted", "MissingExtra", "NaiveBayes", "Neighbors", "NotLearned",
        "OutOfBounds", "PersonalizedPageRank", "Result", "Statistics", "Tikhonov",
        "TikhonovClassifier", "UnknownName", "__version__", "compare", "forget", "learn",
        "load", "run", "sweep",
    ]  # fmt: skip
    assert set(dealfl.__all__) <= set(dir(dealfl))
    for name in dealfl.__all__:
        assert getattr(dealfl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        dealfl.runn  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_every_name_of_the_front_door() -> None:
    tree = ast.parse((ROOT / "src" / "dealfl" / "__init__.py").read_text("utf-8"))
    seen = {
        name.name
        for block in tree.body if isinstance(block, ast.If)
        for line in block.body if isinstance(line, ast.ImportFrom)
        for name in line.names
    }  # fmt: skip
    assert seen == set(dealfl.__all__) - {"__version__"}


def test_the_public_names_of_learners() -> None:
    assert sorted(dealfl.learners.__all__) == [
        "Arrays", "Change", "Classifier", "Cycles", "DataLimits", "HeldRecords", "Histories",
        "HistoryLearner",
        "LEARNERS", "Labels", "Learner", "LearnerCycles", "NaiveBayes", "Neighbors",
        "PersonalizedPageRank", "Record", "RowLearner", "Rows", "SavedLearner", "SparseVector",
        "Statistics", "StoredRecord", "Tikhonov", "TikhonovClassifier", "TimedLearner", "Work",
        "Workload", "as_matrix", "column_array", "cycles_of", "dense_blocks", "frame_columns",
        "from_schema", "is_absent", "is_frame", "is_sparse", "learners_for", "load", "settings_for",
        "statistics_of",
    ]  # fmt: skip


def test_the_public_names_of_power() -> None:
    assert sorted(dealfl.power.__all__) == [
        "BaseLoad", "CLOCKS", "Calibration", "Energy", "EnergyModel", "FULL", "Fit",
        "FrequencyControl", "GOVERNORS", "Kind", "METERS", "MachineState", "MeasuredCommand",
        "Meter", "OperatingPoint", "OwnTraffic", "PHONES", "Phone", "PhoneClock",
        "PhoneSpending", "Profile", "QUICK", "RADIOS", "REFERENCE_HZ", "Radio", "Reading",
        "SPEED_BAND", "Signalled", "Source", "Spent", "TARGET_ERROR", "TimeEstimate", "Traffic",
        "Training", "TrainingTime", "calibrate", "charge_per_cycle_c", "clock_hz",
        "efficient_frontier", "governor", "load_phone", "machine_clock", "make_meter",
        "measure_command", "phone", "phone_clock", "read_machine",
    ]  # fmt: skip


def test_errors_are_what_callers_of_the_standard_library_expect() -> None:
    for error in (dealfl.errors.BadInput, dealfl.errors.NotLearned):
        assert issubclass(error, dealfl.errors.DealError)
        assert issubclass(error, ValueError)
    tree = dealfl.errors.__doc__ or ""
    for name in dealfl.errors.__all__:
        assert name in tree or name.islower(), f"{name} is missing in the drawn tree"


def _commands() -> list[str]:
    return re.findall(
        r"^  ([a-z]+) ", parser().format_help().partition("examples:")[0], re.MULTILINE
    )


@pytest.mark.parametrize("command", _commands())
def test_every_command_has_help_with_an_example_and_is_documented(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"dealfl {command}" in capsys.readouterr().out.partition("examples:")[2]
    assert f"\n## dealfl {command}\n" in (ROOT / "docs" / "cli.md").read_text()


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; import dealfl.cli; print(sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    for heavy in ("numpy", "scipy", "sklearn", "numba", "pooch"):
        assert f"'{heavy}'" not in loaded.stdout, f"{heavy} is imported by `dealfl --help`"


def test_learners_need_the_core_dependencies_only() -> None:
    code = (
        "import sys\n"
        "for name in ('sklearn', 'numba', 'pooch', 'tqdm'): sys.modules[name] = None\n"
        "import dealfl.learners, dealfl.data, dealfl.features\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
