"""Metrics as Prometheus would ask for them: a real GET, read by its own parser."""

import json
import shutil
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dealfl.cli import main
from dealfl.errors import DealError
from dealfl.runs import RunFolder, read_status, remove_worker, serve_metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def asked(address: str) -> Samples:
    with urllib.request.urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_what_is_served_is_the_status(digits_run: Path, tmp_path: Path) -> None:
    shutil.copy(digits_run / "ledger.db", tmp_path / "ledger.db")
    shutil.copy(digits_run / "job.toml", tmp_path / "job.toml")
    run = RunFolder.at(tmp_path)
    status = read_status(run)
    served = serve_metrics(partial(read_status, run))
    try:
        found = asked(served.address)
        assert value(found, "dealfl_updates_total") == status.updates_counted
        assert value(found, "dealfl_examples_learned_total") == status.examples_learned
        for reason, count in status.rounds_by_reason.items():
            assert value(found, "dealfl_rounds_total", reason=reason) == count
        energy_j = value(found, "dealfl_energy_joules_total", source="modelled")
        assert energy_j == pytest.approx(status.energy_j)
        assert value(found, "dealfl_round_seconds_count") == status.rounds_closed
        assert value(found, "dealfl_round_seconds_sum") == pytest.approx(status.round_s)
        at_most = sum(one <= 30.0 for one in status.round_durations_s)
        assert value(found, "dealfl_round_seconds_bucket", le="30.0") == at_most
        assert value(found, "dealfl_workers", state="awake") == status.workers["awake"]
        assert value(found, "dealfl_selection_reward") == pytest.approx(status.mean_reward)
        about = {"digest": status.published_digest, "round": "8"}
        assert value(found, "dealfl_model_info", **about) == 1.0
        assert not any("w01" in str(labels) for _, labels in found), "workers are never named"
        remove_worker(run, "w01")  # who is asked again says what is true by then
        assert value(asked(served.address), "dealfl_workers", state="removed") == 1.0
    finally:
        served.close()
    assert served.address.startswith("http://127.0.0.1:")


def test_the_command_serves_until_it_is_interrupted(digits_run: Path) -> None:
    words = [sys.executable, "-m", "dealfl", "metrics", str(digits_run), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        address = json.loads(one.stdout.readline())["address"]
        assert value(asked(address), "dealfl_model_version") == 8
        one.send_signal(2)
        _, problems = one.communicate(timeout=60)
    assert (one.returncode, problems) == (0, "")


def test_a_port_that_is_taken_is_reported(digits_run: Path) -> None:
    served = serve_metrics(partial(read_status, RunFolder.at(digits_run)))
    port = int(served.address.rsplit(":", 1)[1].partition("/")[0])
    try:
        with pytest.raises(DealError, match=f"cannot listen on 127.0.0.1:{port}"):
            serve_metrics(partial(read_status, RunFolder.at(digits_run)), port)
    finally:
        served.close()


def test_a_missing_package_is_named(
    digits_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics", str(digits_run)]) == 1
    assert "pip install 'dealfl[metrics]'" in capsys.readouterr().err


def test_what_is_no_ledger_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("a note")
    assert main(["metrics", str(tmp_path)]) == 2
