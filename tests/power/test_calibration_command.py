"""`dealfl devices measure` and `dealfl devices calibrate`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import dealfl.power
import dealfl.storage
from dealfl.cli import parser
from dealfl.errors import BadInput
from dealfl.power import TrainingTime
from dealfl.power.calibration import Calibration, Fit, Point

PYTHON = sys.executable


def run(*words: str) -> int:
    arguments = parser().parse_args(["devices", *words])
    return int(arguments.run(arguments))


def command(code: str) -> Sequence[str]:
    return ("--", PYTHON, "-c", code)


def package(root: Path, energy_uj: object) -> Path:
    zone = root / "class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "energy_uj").write_text(f"{energy_uj}\n")
    (zone / "max_energy_range_uj").write_text("10000000\n")
    return zone / "energy_uj"


# -- measure ------------------------------------------------------------------------------------


def test_without_meters_the_reasons_and_the_cpu_time_are_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("measure", "--root", str(tmp_path), *command("print('worked')")) == 0
    shown = capfd.readouterr()
    assert shown.out == "worked\n"
    assert "CPU time" in shown.err
    assert "energy     not measured: no meter works on this machine" in shown.err
    assert "does not exist: no RAPL driver" in shown.err
    assert "has no battery; found: nothing" in shown.err
    assert " J" not in shown.err


def test_the_reading_of_a_meter_is_reported_as_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counter = package(tmp_path, 9_000_000)
    spend = f"open({str(counter)!r}, 'w').write('1500000')"  # wraps around at 10 J
    assert run("measure", "--root", str(tmp_path), *command(spend)) == 0
    assert "energy     2.500 J, measured by RAPL (package-0)" in capfd.readouterr().err


def test_a_reading_of_zero_is_reported_as_too_little(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    package(tmp_path, 1)
    assert run("measure", "--root", str(tmp_path), *command("pass")) == 0
    assert "below the resolution of this meter" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_the_exit_code_of_the_command_is_passed_on(
    tmp_path: Path, code: str, expected: int
) -> None:
    assert run("measure", "--root", str(tmp_path), *command(code)) == expected


@pytest.mark.parametrize("before", [True, False])
def test_json_is_the_only_thing_on_the_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], before: bool
) -> None:
    counter = package(tmp_path, 0)
    code = f"print('worked'); open({str(counter)!r}, 'w').write('4000000')"
    words = ["measure", "--root", str(tmp_path)]
    words = ["--json", *words] if before else [*words, "--json"]
    assert run(*words, *command(code)) == 0
    shown = capfd.readouterr()
    measured = json.loads(shown.out)["measured"]
    assert measured["reading"] == {
        "energy_j": 4.0, "charge_uah": None, "source": "measured", "by": "RAPL (package-0)",
    }  # fmt: skip
    assert measured["exit_code"] == 0
    assert measured["elapsed_s"] > 0
    assert "worked" in shown.err


def test_a_meter_that_fails_meanwhile_does_not_hide_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counter = package(tmp_path, 0)
    spoil = f"open({str(counter)!r}, 'w').write('garbage'); raise SystemExit(3)"
    assert run("measure", "--root", str(tmp_path), *command(spoil)) == 3
    shown = capfd.readouterr().err
    assert "not measured" in shown
    assert "contains 'garbage'" in shown


def test_a_long_command_is_read_meanwhile_so_that_no_wrap_is_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = package(tmp_path, 8_000_000)
    counted_uj = iter([2_000_000, 8_000_000, 2_000_000])  # twice around: 4 J, 6 J and 4 J

    class Process:
        def __init__(self, words: list[str], stdout: object) -> None:
            assert words == ["train"]

        def wait(self, timeout: float) -> int:
            energy_uj = next(counted_uj, None)
            if energy_uj is None:
                return 0
            counter.write_text(str(energy_uj))
            raise subprocess.TimeoutExpired("train", timeout)

    monkeypatch.setattr(subprocess, "Popen", Process)
    assert run("measure", "--root", str(tmp_path), "--", "train") == 0
    assert "14.000 J" in capfd.readouterr().err


def test_options_of_the_command_are_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print(sys.argv[1:])"
    assert run("measure", "--root", str(tmp_path), PYTHON, "-c", code, "--json", "--", "-x") == 0
    assert capfd.readouterr().out == "['--json', '--', '-x']\n"


@pytest.mark.parametrize("words", [[], ["--"]])
def test_no_command_is_bad_input(words: list[str]) -> None:
    with pytest.raises(BadInput, match="no command to measure"):
        run("measure", *words)


def test_a_command_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'no-such-command' cannot be run: No such file"):
        run("measure", "--root", str(tmp_path), "--", "no-such-command")


# -- calibrate ----------------------------------------------------------------------------------


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let calibration find one learner with these errors, without timing anything."""
    found = [0.01, -0.04, 0.02]

    def calibrate(learners: object, effort: object, **given: object) -> Calibration:
        given["progress"]("1/1 tikhonov")  # type: ignore[operator]
        points = tuple(
            Point(10**n, 10**n, 0.1, error, held_out=n == 1) for n, error in enumerate(found)
        )
        fit = Fit("tikhonov", TrainingTime(2e-9, 0.003), points)
        return Calibration((fit,), 2.5e9, memory_kept=bool(given["memory_kept"]))

    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")  # what the command sets is undone
    monkeypatch.setattr(dealfl.power, "calibrate", calibrate)
    monkeypatch.setattr(dealfl.storage, "keep_freed_memory", lambda: True)
    return found


@pytest.mark.usefixtures("errors")
def test_calibrate_shows_the_law_and_its_residuals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("calibrate") == 0
    shown = capsys.readouterr()
    assert shown.err == "1/1 tikhonov\n"
    assert "one core at 2.50 GHz" in shown.out
    row = next(line for line in shown.out.splitlines() if line.startswith("tikhonov"))
    assert row.split() == ["tikhonov", "1.0e+00–1.0e+02", "2", "3.00", "ms", "4.0%", "4.0%"]
    assert "+1% -4%* +2%" in shown.out
    assert "allocator keeps freed memory" in shown.out


@pytest.mark.usefixtures("errors")
def test_calibrate_writes_a_profile_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "here.json"
    assert run("calibrate", "--quick", "--as-is", "--json", "--out", str(path)) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(path.read_text())
    assert shown["memory_kept"] is False
    time = shown["learners"]["tikhonov"]["time"]
    assert TrainingTime(**time) == TrainingTime(2e-9, 0.003)


def test_one_core_is_calibrated_whatever_the_environment_says() -> None:
    code = (
        "import os\n"
        "from dealfl.cli import parser\n"
        "arguments = parser().parse_args(['devices', 'calibrate'])\n"
        "import sys; assert 'numpy' not in sys.modules\n"
        "import dealfl.power\n"
        "def stop(*given, **named): raise SystemExit(int(os.environ['OPENBLAS_NUM_THREADS']))\n"
        "dealfl.power.calibrate = stop\n"
        "arguments.run(arguments)\n"
    )
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "8"}
    assert subprocess.run([PYTHON, "-c", code], env=environment, check=False).returncode == 1


def test_a_law_that_misses_its_target_ends_with_exit_code_1(
    errors: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    errors[1] = -0.2
    assert run("calibrate") == 1
    assert "the law misses" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["measure", "calibrate"])
def test_each_action_has_help_with_an_example(
    action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(action, "--help")
    assert stopped.value.code == 0
    assert f"dealfl devices {action}" in capsys.readouterr().out.partition("examples:")[2]
