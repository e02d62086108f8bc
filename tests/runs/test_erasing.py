"""Erasing persons from a finished run: exact, gone from every file, certified, said clearly."""

import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

import dealfl
from dealfl.cli import main
from dealfl.erasure import ErasureRequest, Evidence, verify_certificate
from dealfl.errors import BadInput
from dealfl.runs import (
    RunFolder,
    back_up,
    erase_owners,
    find_holdings,
    list_erasures,
    readmit_owners,
    restore,
    retrain,
)
from dealfl.runs.erasing import erased_before
from dealfl.runs.erasures import put_request
from tests.runs.erased_people import (
    LEARNERS,
    held_by_others,
    make_fleet,
    stored_bodies,
    write_people,
)
from tests.traces.needles import find_needles, needles_of_values

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(people_run: RunFolder) -> RunFolder:
    return people_run


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_model_is_that_of_training_without_the_person(learner: str, tmp_path: Path) -> None:
    fleet = make_fleet(tmp_path, learner)
    dealfl.run(fleet, rounds=3, out=tmp_path / "run", verbose=False)
    run, make = RunFolder.at(tmp_path / "run"), fleet.simulated.plan.make
    holder = next(n for n in range(12) if any(h.learned for h in find_holdings(run, f"person {n}")))
    without = held_by_others(run, f"person {holder}", make)
    erased = erase_owners(run, [f"person {holder}"], requested_by="test").erasure
    assert erased.after is not None
    assert erased.after.digest == without == retrain(run)
    assert erased.before is not None
    assert erased.before.digest != without
    assert (erased.final, erased.outstanding) == (True, 0)
    assert find_holdings(run, f"person {holder}") == []


def test_no_byte_of_the_person_remains(run: RunFolder) -> None:
    rows = write_people(run.path.parent / "again.csv", is_regression=False)["person 5"]
    needles = {what: n for row in rows for what, n in needles_of_values(*row).items()}
    assert find_needles(run.path, needles) == [], "journals hold integers, not floats"
    needles |= stored_bodies(run, "person 5")
    assert find_needles(run.path / "workers", needles), "the needles are found before"
    erase_owners(run, ["person 5"], requested_by="test")
    assert find_needles(run.path, needles | {"name": b"person 5"}) == []


def test_files_are_private(run: RunFolder) -> None:
    erase_owners(run, ["person 5"], requested_by="test")
    for path in run.path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o77 == 0, path


def test_the_same_person_again_and_a_stranger_are_answered(run: RunFolder) -> None:
    first = erase_owners(run, ["person 1"], requested_by="test")
    again = erase_owners(run, ["person 1", "nobody"], requested_by="test")
    assert first.erasure.examples > 0
    assert (again.erasure.examples, again.known_before) == (0, 1)
    assert again.erasure.after is not None
    assert first.erasure.after is not None
    assert again.erasure.after.digest == first.erasure.after.digest
    assert [(one.persons, one.answered, one.published) for one in list_erasures(run)] == [
        (1, 4, True), (2, 4, True),
    ]  # fmt: skip


def test_the_whole_story_by_commands(run: RunFolder, capsys: Captured) -> None:
    where = [str(run.path)]
    assert main(["show", *where, "person 2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["erase", *where, "person 2", "--by", "dpo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    log = str(run.path / "certificates")
    salt = told["salts"]["person 2"]
    words = ["verify", str(run.path), told["certificate"], "--log", log, "--retrain"]
    assert main([*words, "--person", "person 2", salt]) == 0
    assert "is valid, entry 1 of the log" in capsys.readouterr().out
    assert main([*words, "--person", "person 3", salt]) == 2
    assert main([*words, "--person", "person 2", "salt"]) == 2
    assert main(["show", *where, "person 2"]) == 0
    assert "No worker holds examples of person 2." in capsys.readouterr().out
    assert main(["erasures", "list", *where]) == 0
    assert "yes" in capsys.readouterr().out
    assert main(["erase", *where, "person 5"]) == 0
    assert "stored nowhere" in capsys.readouterr().out
    assert main(words) == 2
    assert "verify the last certificate" in capsys.readouterr().err


def test_a_page_explains_the_certificate(run: RunFolder, tmp_path: Path) -> None:
    erased = erase_owners(run, ["person 1"], requested_by="<script>")
    page = tmp_path / "page.html"
    assert main(["verify", str(erased.certificate), "--page", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "The erasure is complete." in text
    assert erased.erasure.after is not None
    assert erased.erasure.after.digest in text
    assert "<script" not in text
    assert "person 1" not in text


def test_a_proof_of_the_log_is_written_and_checked(run: RunFolder, tmp_path: Path) -> None:
    certificates = run.path / "certificates"
    first = str(erase_owners(run, ["person 1"], requested_by="test").certificate)
    old, proof = tmp_path / "head.old", str(tmp_path / "proof")
    shutil.copy(certificates / "head", old)
    erase_owners(run, ["person 2"], requested_by="test")
    log = ["--log", str(certificates)]
    assert main(["verify", first, *log, "--prove", proof, "--since", str(old)]) == 0
    shutil.rmtree(tmp_path / "run" / "workers")
    assert main(["verify", first, "--proof", proof, "--since", str(old)]) == 0
    old.write_text("something else")
    assert main(["verify", first, "--proof", proof, "--since", str(old)]) == 2
    assert main(["verify", first, "--prove", proof]) == 2


def test_several_certificates_are_verified_at_once(run: RunFolder, capsys: Captured) -> None:
    one, two = (
        erase_owners(run, [f"person {number}"], requested_by="test").certificate
        for number in (1, 2)
    )
    words, log = ["verify", str(one), str(two)], str(run.path / "certificates")
    assert main([*words, "--log", log]) == 0
    assert capsys.readouterr().out.count("valid: persons 1,") == 2
    assert main([*words, "--page", "page.html"]) == 2
    assert "--page is about one certificate; give one file" in capsys.readouterr().err
    one.write_bytes(one.read_bytes()[:-40])
    assert main([*words, "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert [each["valid"] for each in told] == [False, True], "the second one is verified, too"


def test_an_erasure_names_the_exports_that_it_deletes(run: RunFolder, capsys: Captured) -> None:
    exports = run.path / "model.deal", run.path / "model.npz"
    assert main(["model", "export", str(run.path), "--out", str(exports[0])]) == 0
    assert main(["model", "export", str(run.path), "--arrays", str(exports[1])]) == 0
    assert main(["erase", str(run.path), "person 1"]) == 0
    said = capsys.readouterr().err
    for path in exports:
        assert f"deleted {path}, an exported model that contains them" in said
        assert not path.exists()


def test_a_result_erases_from_python(tmp_path: Path) -> None:
    fleet = make_fleet(tmp_path, "naive_bayes")
    result = dealfl.run(fleet, rounds=3, out=tmp_path / "run", verbose=False)
    before = result.model.digest()
    erased = result.erase("person 1", "person 2")
    assert erased.erasure.after is not None
    assert result.model.digest() == erased.erasure.after.digest != before
    shown = repr(erased)
    assert f"model before      {before} (version" in shown
    assert shown.endswith("it is stored nowhere.")
    with pytest.raises(BadInput, match=r"did you mean 'person 3' .* unknown_too=True certifies"):
        result.erase("Person 3")
    assert "NOTHING WAS HELD" in repr(result.erase("nobody", unknown_too=True))
    with pytest.raises(BadInput, match="without a folder"):
        dealfl.run(fleet, rounds=1, verbose=False).erase("person 1")


def test_all_persons_are_listed_also_without_the_data(run: RunFolder, capsys: Captured) -> None:
    assert main(["show", str(run.path), "--owners", "--json"]) == 0
    named = json.loads(capsys.readouterr().out)
    assert {one["owner"] for one in named} <= {f"person {number}" for number in range(12)}
    document = (run.path / "job.toml").read_text()
    (run.path / "job.toml").write_text(document.replace("data.csv", "gone.csv"))
    assert main(["show", str(run.path), "--owners", "--json"]) == 0
    hashed = json.loads(capsys.readouterr().out)
    assert sorted(one["examples"] for one in hashed) == sorted(one["examples"] for one in named)
    assert all(one["owner"].startswith("#") for one in hashed)
    assert main(["show", str(run.path), hashed[0]["owner"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["erase", str(run.path), hashed[0]["owner"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["claimed"] == hashed[0]["examples"]
    assert main(["show"]) == 2


def test_a_restored_backup_erases_like_the_run_itself(run: RunFolder, tmp_path: Path) -> None:
    back_up(run.path, tmp_path / "backup")
    copies = restore(tmp_path / "backup", tmp_path / "again")
    assert {"ledger.db", "workers/w1.db"} <= {one.file for one in copies}
    other = RunFolder.at(tmp_path / "again")
    one, two = (
        erase_owners(place, ["person 5"], requested_by="").erasure for place in (run, other)
    )
    assert one.final
    assert two.final
    assert (one.after or two.after) is not None
    assert retrain(run) == retrain(other) == (two.after and two.after.digest)
    (tmp_path / "backup" / "workers" / "w1.db").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"workers/w1\.db has changed since the backup"):
        restore(tmp_path / "backup", tmp_path / "third")


def test_a_certificate_can_be_written_again(run: RunFolder, capsys: Captured) -> None:
    erased = erase_owners(run, ["person 1"], requested_by="test")
    first, salt = erased.erasure, erased.salts["person 1"]
    where = [str(run.path), "--json"]
    assert main(["erasures", "certify", *where, first.request, "--by", "later"]) == 0
    again = json.loads(capsys.readouterr().out)["certificate"]
    assert verify_certificate(Path(again), Evidence())[0].commitments == first.commitments
    assert main(["verify", again, "--person", "person 2", salt]) == 2
    assert main(["verify", again, "--person", "person 1", salt]) == 0
    capsys.readouterr()
    assert main(["verify", again, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["request"], told["requested_by"], told["final"]) == (first.request, "later", True)
    assert told["requested_at"] == first.requested_at
    assert main(["erasures", "certify", *where, "nothing"]) == 2
    assert "no erasure is called 'nothing'" in capsys.readouterr().err


def test_without_a_key_nobody_is_erased(run: RunFolder) -> None:
    (run.path / "certificates").mkdir()
    (run.path / "certificates" / "signing.key").write_text("damaged")
    with pytest.raises(BadInput, match=r"signing\.key is not a signing key"):
        erase_owners(run, ["person 5"], requested_by="test")
    assert find_holdings(run, "person 5")
    assert list_erasures(run) == []


def test_a_lost_key_is_named_and_replaced_when_asked(run: RunFolder, capsys: Captured) -> None:
    """A new one would be trusted by nobody who knows the old."""
    erase_owners(run, ["person 5"], requested_by="test")
    key = run.path / "certificates" / "signing.key"
    key.unlink()
    assert main(["erase", str(run.path), "person 6"]) == 2
    assert f"{key} is missing; restore a backup of it" in capsys.readouterr().err
    assert find_holdings(run, "person 6")
    assert main(["erasures", "rotate-key", str(run.path)]) == 0
    assert main(["erase", str(run.path), "person 6"]) == 0
    assert main(["verify", str(run.path)]) == 0
    assert not find_holdings(run, "person 6")


def test_many_names_come_from_a_file(run: RunFolder, tmp_path: Path, capsys: Captured) -> None:
    names = tmp_path / "names.txt"
    names.write_text("person 1\n\n  person 2  \nperson 1\n")
    assert main(["erase", str(run.path), "--file", str(names), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["persons"] == 2
    names.write_bytes(b"\xff\xfe")
    assert main(["erase", str(run.path), "--file", str(names)]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert main(["erase", str(run.path), "--file", str(tmp_path / "none")]) == 2


def test_a_run_that_kept_no_data_says_so(tmp_path: Path, capsys: Captured) -> None:
    fleet = make_fleet(tmp_path, "naive_bayes")
    dealfl.run(fleet, rounds=1, out=tmp_path / "run", verbose=False, keep_data=False)
    run = RunFolder.at(tmp_path / "run")
    assert not (run.path / "workers").exists()
    with pytest.raises(BadInput, match="has no journals of workers"):
        erase_owners(run, ["person 1"], requested_by="test")
    assert main(["erase", str(run.path)]) == 2
    assert "no person is named" in capsys.readouterr().err


def test_a_changed_certificate_is_refused_by_the_command(run: RunFolder, capsys: Captured) -> None:
    path = erase_owners(run, ["person 1"], requested_by="test").certificate
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"payload"', b'"Payload"'))
    assert main(["verify", str(path)]) == 2
    assert "the envelope is not that of a certificate" in capsys.readouterr().err


def test_a_certificate_names_the_model_that_the_run_started_from(
    run: RunFolder, tmp_path: Path
) -> None:
    fleet, again = make_fleet(tmp_path, "naive_bayes"), tmp_path / "again"
    dealfl.run(fleet, rounds=2, out=again, start_from=run.path, verbose=False)
    base = "the model that the run started from"
    for folder, is_named in ((RunFolder.at(again), True), (run, False)):
        erased = erase_owners(folder, ["person 5"], requested_by="test").erasure
        assert (base in erased.not_covered) == is_named


@pytest.mark.parametrize("is_erased_last", [True, False])
def test_what_waits_in_the_queue_comes_before_what_is_asked_now(
    people_run: RunFolder, is_erased_last: bool
) -> None:
    key, person = people_run.owners_key(), ["person 1"]
    erase_owners(people_run, person, requested_by="test")
    if is_erased_last:
        put_request(people_run, ErasureRequest.readmitting(person, key, "test"))
        erase_owners(people_run, person, requested_by="test")
    else:
        put_request(people_run, ErasureRequest.erasing(person, [], key, "test"))
        readmit_owners(people_run, person, requested_by="test")
    assert bool(erased_before(people_run)) is is_erased_last


def test_requests_of_the_same_second_have_names_in_their_order(people_run: RunFolder) -> None:
    key = people_run.owners_key()
    names = []
    for _ in range(5):
        names.append(ErasureRequest.erasing(["ann"], [], key, "test").name)
        time.sleep(0.001)
    assert sorted(names) == names


def test_a_file_or_an_account_whose_name_is_no_text_stops_no_certificate(
    people_run: RunFolder,
) -> None:
    Path(os.fsdecode(os.fsencode(people_run.path) + b"/r\xe9sum\xe9.bak")).touch()
    erased = erase_owners(people_run, ["person 1"], requested_by="jos\udce9").erasure
    assert erased.requested_by == "jos?"
    assert "the file r?sum?.bak in the run folder" in erased.not_covered
