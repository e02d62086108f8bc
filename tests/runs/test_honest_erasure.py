"""An erasure says what it did: unknown names, nothing held, persons who would come back."""

import json
from pathlib import Path

import pytest

import dealfl
from dealfl.cli import main
from dealfl.runs import RunFolder, find_holdings, list_owners, read_status

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(people_run: RunFolder) -> RunFolder:
    return people_run


def write_visitors(path: Path, names: list[str]) -> None:
    lines = ["who,size,price"]
    lines += [f"{names[n % len(names)]},{n * 7 % 31},{n * 5 % 23}" for n in range(60)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture
def visitors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job whose data name Jürgen Groß and others, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_visitors(Path("visits.csv"), ["Jürgen Groß", "ann", "bob", "Cleo"])
    words = ["visits.csv", "--target", "price", "--owner", "who", "--workers", "3", "--rounds", "3"]
    assert main(["job", "init", *words, "--yes"]) == 0
    return tmp_path / "visits.toml"


def test_an_unknown_name_is_refused_unless_that_is_meant(run: RunFolder, capsys: Captured) -> None:
    assert main(["erase", str(run.path), "nobody"]) == 2
    told = capsys.readouterr().err
    assert "the run holds nothing of 'nobody'; nobody was erased; `dealfl show RUN" in told
    assert main(["erase", str(run.path), "nobody", "none"]) == 2
    assert "nothing of 'nobody' and 1 other name;" in capsys.readouterr().err
    assert read_status(run).erasures == 0
    assert not (run.path / "certificates").exists()
    assert main(["erase", str(run.path), "nobody", "--unknown-too"]) == 0
    assert "NOTHING WAS HELD" in capsys.readouterr().out
    assert main(["erase", str(run.path), "person 1"]) == 0
    assert main(["erase", str(run.path), "person 1"]) == 0, "who was erased is not unknown"


@pytest.mark.parametrize("name", ["jurgen gross", "JÜRGEN GROSS", "Juergen Groß", "Jürgen Gros"])
def test_near_names_are_suggested(name: str, visitors: Path, capsys: Captured) -> None:
    folder = Path("run")
    dealfl.run(dealfl.Fleet.from_job(visitors), out=folder, verbose=False)
    assert main(["erase", str(folder), name]) == 2
    assert "did you mean 'Jürgen Groß'? Nobody was erased" in capsys.readouterr().err
    assert main(["show", str(folder), name]) == 0
    expected = f"No worker holds examples of {name}. Did you mean 'Jürgen Groß'?"
    assert expected in capsys.readouterr().out


def test_other_runs_that_hold_the_person_are_named(visitors: Path, capsys: Captured) -> None:
    for name in ("one", "two", "three"):
        dealfl.run(dealfl.Fleet.from_job(visitors), out=Path("runs") / name, verbose=False)
    assert main(["erase", "runs/one", "ann"]) == 0
    expected = "ALSO HELD by other runs of the same file: runs/three, runs/two. Erase them there"
    assert expected in capsys.readouterr().out
    assert main(["erase", "runs/two", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["also_held"] == ["runs/three"]
    assert main(["erase", "runs/three", "ann"]) == 0
    assert "ALSO HELD" not in capsys.readouterr().out


def test_a_file_of_names_may_start_with_a_mark_of_its_encoding(
    visitors: Path, capsys: Captured
) -> None:
    dealfl.run(dealfl.Fleet.from_job(visitors), out=Path("run"), verbose=False)
    Path("names.txt").write_text("\ufeffJürgen Groß\n\n", "utf-8")
    assert main(["erase", "run", "--file", "names.txt"]) == 0
    assert "salt of Jürgen Groß" in capsys.readouterr().out


def test_a_certificate_over_nothing_is_headed_so(run: RunFolder, capsys: Captured) -> None:
    page = run.path.parent / "page.html"
    assert main(["erase", str(run.path), "nobody", "--unknown-too", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nothing_held"]
    assert main(["verify", str(run.path), "--page", str(page)]) == 0
    assert "nothing was held" in capsys.readouterr().out.splitlines()[0]
    assert "<h1>Certificate of erasure: nothing was held</h1>" in page.read_text("utf-8")
    assert main(["erase", str(run.path), "person 1"]) == 0
    certificate = str(run.path / "certificates" / "0002.json")
    assert main(["verify", str(run.path), certificate, "--page", str(page)]) == 0
    assert "<h1>Certificate of erasure</h1>" in page.read_text("utf-8")


def test_a_wrong_key_file_says_nothing_about_certificates(run: RunFolder, capsys: Captured) -> None:
    for person in ("person 1", "person 2"):
        assert main(["erase", str(run.path), person]) == 0
    capsys.readouterr()
    key = run.path / "job.toml"
    assert main(["verify", str(run.path), "--key", str(key)]) == 2
    told = capsys.readouterr()
    assert told.err == f"dealfl: {key} is not a public key in PEM format\n"
    assert told.out == ""


def test_the_page_shows_log_and_training_again(run: RunFolder, capsys: Captured) -> None:
    page = run.path.parent / "page.html"
    assert main(["erase", str(run.path), "person 1", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["after"]["digest"]
    words = ["verify", str(run.path), "--page", str(page)]
    assert main([*words, "--retrain"]) == 0
    text = page.read_text("utf-8")
    assert "Entry in the log</th><td>entry 1, verified" in text
    assert f"Training again</th><td>training on what is held gives the same model: {after}" in text
    assert main(["verify", str(run.path / "certificates" / "0001.json"), "--page", str(page)]) == 0
    assert page.read_text("utf-8").count("not verified for this page") == 2


def test_a_run_publishes_its_last_version(visitors: Path, capsys: Captured) -> None:
    late = {"job.workers_per_round": 5, "devices.1.count": 5, "data.partition": "uniform"}
    fleet = dealfl.Fleet.from_job(visitors, late)  # two replies come after the majority
    result = dealfl.run(fleet, out="run", verbose=False)
    status = read_status(RunFolder(Path("run")))
    assert status.published_digest == status.statistics_digest == result.digest
    assert main(["erase", "run", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["before"]["digest"] == result.digest


def test_readmission_is_no_erasure(run: RunFolder, capsys: Captured) -> None:
    assert main(["erase", str(run.path), "person 1"]) == 0
    assert main(["readmit", str(run.path), "person 1"]) == 0
    status = read_status(run)
    assert (status.erasures, status.erasures_pending) == (1, 0)


def held(folder: str) -> set[str]:
    return {owner.owner for owner in list_owners(RunFolder(Path(folder)))}


def test_a_new_run_leaves_out_who_was_erased(visitors: Path, capsys: Captured) -> None:
    words = ["run", str(visitors), "--no-compare"]
    everybody = {"Jürgen Groß", "ann", "bob", "Cleo"}
    assert main(words) == 0
    assert held("runs/visits") == everybody
    assert main(["erase", "runs/visits", "ann"]) == 0
    capsys.readouterr()
    assert main(words) == 0
    told = capsys.readouterr()
    expected = "15 examples of 1 person who was erased from an earlier run are left out"
    assert expected in told.err
    assert expected in told.out, "the summary says it, too"
    assert held("runs/visits-2") == everybody - {"ann"}
    assert main([*words, "--with-erased"]) == 0
    assert held("runs/visits-3") == everybody
    assert main(["readmit", "runs/visits", "ann"]) == 0
    assert main(words) == 0
    assert held("runs/visits-4") == everybody


def test_who_was_erased_stays_left_out_after_a_restart(visitors: Path, capsys: Captured) -> None:
    words = ["run", str(visitors), "--no-compare", "--out", "run"]
    assert main(words) == 0
    assert main(["erase", "run", "ann"]) == 0
    for _ in range(2):
        assert main([*words, "--restart"]) == 0
        assert find_holdings(RunFolder(Path("run")), "ann") == []
    assert b"ann" not in Path("run/erased.json").read_bytes()
    assert main(["readmit", "run", "ann"]) == 0
    assert "New examples of ann are admitted.\n" in capsys.readouterr().out
    assert main(["readmit", "run", "bob"]) == 0
    assert "bob was not erased from this run; nothing changes." in capsys.readouterr().out
    assert main(["readmit", "run", "bob", "Cleo"]) == 0
    assert "bob, Cleo were not erased from this run" in capsys.readouterr().out
    assert main([*words, "--restart"]) == 0
    assert find_holdings(RunFolder(Path("run")), "ann") != []


def test_who_was_erased_is_left_out_of_a_run_in_another_place(visitors: Path) -> None:
    assert main(["run", str(visitors), "--no-compare"]) == 0
    assert main(["erase", "runs/visits", "ann"]) == 0
    assert main(["run", str(visitors), "--no-compare", "--out", "elsewhere/run"]) == 0
    assert find_holdings(RunFolder(Path("elsewhere/run")), "ann") == []


def test_runs_of_other_data_do_not_matter(visitors: Path) -> None:
    assert main(["run", str(visitors), "--no-compare"]) == 0
    assert main(["erase", "runs/visits", "ann"]) == 0
    write_visitors(Path("others.csv"), ["ann", "bob", "dan"])
    words = ["others.csv", "--target", "price", "--owner", "who", "--workers", "3", "--rounds", "2"]
    assert main(["job", "init", *words, "--yes"]) == 0
    assert main(["run", "others.toml", "--no-compare"]) == 0
    assert held("runs/others") == {"ann", "bob", "dan"}


def test_messages_in_python_name_python(visitors: Path) -> None:
    result = dealfl.run(dealfl.Fleet.from_job(visitors), out="run", verbose=False)
    assert sorted(result.owners()["owner"]) == ["Cleo", "Jürgen Groß", "ann", "bob"]
    expected = r"nothing of 'zoe'; nobody was erased; result\.owners\(\) lists all persons"
    with pytest.raises(dealfl.BadInput, match=expected) as refusal:
        result.erase("zoe")
    assert "`dealfl" not in str(refusal.value)
    nothing = repr(result.erase("zoe", unknown_too=True))
    assert nothing.endswith("refused until they are readmitted.")
