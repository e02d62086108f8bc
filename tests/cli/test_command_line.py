"""The command line hangs together: groups, examples, one way to name a run, suggestions."""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.cli import main, parser
from dealfl.cli.parsing import actions_of
from dealfl.jobs import Document
from dealfl.runs import default_job

Captured = pytest.CaptureFixture[str]
NO_RESULT = ("dealfl serve", "dealfl broker run", "dealfl keyholder run", "dealfl completion")
HEAVY = ("numpy", "scipy", "sklearn", "numba", "pooch", "plotly", "rich", "paho")


def all_parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield top
    below = actions_of(top)
    for one in below.choices.values() if below else ():
        yield from all_parsers(one)


PARSERS = {one.prog: one for one in all_parsers(parser())}
LEAVES = {prog: one for prog, one in PARSERS.items() if one.get_default("run") is not None}


def examples(one: argparse.ArgumentParser) -> list[str]:
    text = re.sub(r"\\\n\s*", "", one.epilog or "")
    lines = [line.strip() for line in text.splitlines()]
    return [re.split(r"\s{2,}| > ", line)[0] for line in lines if line.startswith("dealfl ")]


def refused(words: list[str], capsys: Captured) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["desk", "--port", "99999"], "argument --port: 99999 is no port; give 0 to 65535"),
        (["metrics", "--port", "x"], "argument --port: invalid port value: 'x'"),
        (["erase", "run", "ann", "--wait", "-1"], "argument --wait: invalid seconds value: '-1'"),
    ],
)
def test_numbers_that_no_option_takes_are_refused(
    words: list[str], told: str, capsys: Captured
) -> None:
    assert told in refused(words, capsys)


def test_dealfl_alone_prints_its_commands_in_groups(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    groups = re.findall(r"^([a-z ]+):$", printed, re.MULTILINE)
    assert groups == ["try", "own data", "persons", "operate", "research", "options", "examples"]
    persons = printed.partition("persons:")[2].partition("operate:")[0]
    assert re.findall(r"^  (\w+) ", persons, re.MULTILINE)[:5] == [
        "erase", "show", "readmit", "verify", "erasures",
    ]  # fmt: skip


@pytest.mark.parametrize("prog", PARSERS)
def test_examples_of_a_help_are_commands_of_its_own(prog: str) -> None:
    for line in examples(PARSERS[prog]):
        assert f"{line} ".startswith(f"{prog} "), f"{prog} --help shows: {line}"
        _, *words = shlex.split(line)
        assert parser(words[0]).parse_args(words).run is not None


def test_every_command_shows_an_example() -> None:
    assert [prog for prog, one in PARSERS.items() if not examples(one)] == []


def test_a_run_is_always_a_positional_argument() -> None:
    named = {
        prog: action
        for prog, one in PARSERS.items()
        for action in one._actions
        if "RUN" in str(action.metavar) or "run" in action.dest
    }
    assert [prog for prog, action in named.items() if action.option_strings] == []
    for prog, action in named.items():
        first = next(one for one in PARSERS[prog]._actions if not one.option_strings)
        assert action is first, f"{prog}: the run comes first"


def test_everything_that_prints_a_result_prints_json() -> None:
    without = [
        prog
        for prog, one in LEAVES.items()
        if not any("--json" in action.option_strings for action in one._actions)
    ]
    assert sorted(without) == sorted(NO_RESULT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stauts", "dealfl: no command 'stauts'; did you mean 'status'? See `dealfl --help`"),
        ("job int", "dealfl job: no action 'int'; did you mean 'init'?"),
        ("run --resum", "dealfl run: no option '--resum'; did you mean '--resume'?"),
        ("erasures list --jsn", "dealfl erasures list: no option '--jsn'; did you mean '--json'?"),
        ("version", "dealfl: no command 'version'; did you mean '--version'? See"),
        ("job help", "dealfl job: no action 'help'; did you mean '--help'?"),
        ("run --roundz 3", "no option '--roundz'; did you mean '--set job.rounds=3'?"),
        ("run --rounds", "no option '--rounds'; did you mean '--set job.rounds=VALUE'?"),
        ("run job.toml --seed 3", "no option '--seed'; did you mean '--set job.seed=3'?"),
        ("run job.toml --max-h=3", "no option '--max-h'; did you mean '--set job.max_h=3'?"),
        ("run --zebra", "dealfl run: no option '--zebra'; see `dealfl run --help`"),
        ("status --zebra", "dealfl status: no option '--zebra'; see `dealfl status --help`"),
        ("status a b", "dealfl status: too many arguments: b"),
        ("'my houses.csv'", "write a job file for data: dealfl job init 'my houses.csv'"),
        ("'my job.toml'", "a job is run by: dealfl run 'my job.toml'"),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(words: str, message: str, capsys: Captured) -> None:
    assert message in refused(shlex.split(words), capsys)


@pytest.mark.parametrize(("words", "title"), [("help", "dealfl"), ("help job init", "dealfl job")])
def test_help_is_also_a_word(words: str, title: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(words))
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {title}")


@pytest.mark.parametrize("command", ["run", "simulate"])
@pytest.mark.parametrize(
    ("text", "value"), [("job = 3\n", "3"), ("[[job]]\nrounds = 3\n", "[{'rounds': 3}]")]
)
def test_a_job_that_is_no_section_is_named(
    command: str, text: str, value: str, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    for more in ([], ["--set", "job.rounds=3"]):
        assert main([command, str(file), *more]) == 2
        expected = f"job.toml, line 1: job is {value}; it takes a section of keys and values"
        assert expected in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_a_folder_in_the_place_of_a_job_is_named(
    command: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder; give a job file" in capsys.readouterr().err
    (tmp_path / "job.toml").write_text("")
    assert main([command, str(tmp_path)]) == 2
    assert f"{tmp_path} is a run folder; give a job file" in capsys.readouterr().err


def test_the_folder_of_a_stopped_run_leads_to_resume(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "state-deal").write_text("")
    (tmp_path / "job.toml").write_text("[job]\nrounds = 3\n")
    assert main(["run", str(tmp_path)]) == 2
    expected = f"continue it, with its job file: dealfl run JOB.toml --out {tmp_path} --resume"
    assert expected in capsys.readouterr().err
    (tmp_path / "job.toml").write_text(default_job(), "utf-8")
    assert main(["run", str(tmp_path)]) == 2
    assert f"continue it: dealfl run --out {tmp_path} --resume" in capsys.readouterr().err


def test_what_is_no_certificate_is_named_first(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("size,price\n1,2\n")
    assert main(["verify", str(file)]) == 2
    assert f"dealfl: {file} is no certificate of erasure; give" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_data_in_the_place_of_a_job_lead_to_job_init(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my houses.csv").write_text("size,price\n1,2\n")
    assert main([command, "my houses.csv"]) == 2
    expected = (
        "my houses.csv is no job file; write a job file for data: dealfl job init 'my houses.csv'"
    )
    assert expected in capsys.readouterr().err


def test_job_init_quotes_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my houses.csv").write_text(
        "size,price\n" + "".join(f"{n * n % 17},{2 * n}\n" for n in range(30))
    )
    assert main(["job", "init", "my houses.csv", "--yes"]) == 0
    assert "dealfl run 'my houses.toml'" in capsys.readouterr().out


def test_a_name_in_the_place_of_a_run_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("erase", "show"):
        assert main([command, "ann lee"]) == 2
        expected = f"ann lee is not a run; the run comes first: dealfl {command} RUN 'ann lee'"
        assert expected in capsys.readouterr().err
        assert main([command, "runs/typo"]) == 2
        assert "runs/typo does not exist; give a run folder" in capsys.readouterr().err


def test_a_run_in_the_place_of_a_name_is_put_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/shops").mkdir(parents=True)
    Path("runs/shops/ledger.db").write_bytes(b"")
    for command in ("erase", "show"):
        assert main([command, "ann lee", "runs/shops"]) == 2
        expected = f"the run comes first: dealfl {command} runs/shops 'ann lee'"
        assert expected in capsys.readouterr().err


def test_files_and_runs_of_nearly_the_name_are_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/shops").mkdir(parents=True)
    for name in ("shops.csv", "shops.toml", "shops.json", "shops.deal"):
        Path(name).touch()
    for words, meant in (
        (["run", "shosp.toml"], "shops.toml"),
        (["simulate", "shosp.toml"], "shops.toml"),
        (["job", "init", "shosp.csv", "--yes"], "shops.csv"),
        (["status", "runs/shosp"], "runs/shops"),
        (["backup", "runs/shosp", "--to", "copy"], "runs/shops"),
        (["restore", "runs/shosp", "--to", "copy"], "runs/shops"),
        (["verify", "shosp.json"], "shops.json"),
        (["model", "info", "shosp.deal"], "shops.deal"),
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.rstrip().endswith(f"; did you mean '{meant}'?")


@pytest.mark.parametrize("command", ["status", "run", "report", "verify", "broker run"])
def test_a_name_that_no_file_can_have_is_refused(command: str, capsys: Captured) -> None:
    name = "a" * 300
    assert main([*command.split(), name]) == 2
    told = capsys.readouterr().err
    assert name in told
    assert "cannot be used: File name too long" in told


def test_an_action_without_its_command_is_completed(capsys: Captured) -> None:
    for word, meant in (("init", "dealfl job init"), ("certify", "dealfl erasures certify")):
        with pytest.raises(SystemExit, match="2"):
            main([word, "houses.csv"])
        assert f"no command {word!r}; did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize("start", ["\ufeff", ""])
def test_a_job_may_start_with_a_mark_of_its_encoding(start: str, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(start + '[job]\nname = "Größe"\n', "utf-8")
    assert Document.read(path).tables == {"job": {"name": "Größe"}}


def test_a_job_in_another_encoding_is_refused_with_a_remedy(
    tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "job.toml"
    path.write_text('[job]\nname = "Größe"\n', "cp1252")
    assert main(["run", str(path)]) == 2
    assert f"{path} is not UTF-8 text; save it as UTF-8" in capsys.readouterr().err


def test_names_may_stand_between_options() -> None:
    words = ["erase", "runs/x", "--by", "dpo", "ann", "--json", "bob", "--", "-odd"]
    arguments = parser("erase").parse_args(words)
    assert (arguments.run_folder, arguments.owners) == ("runs/x", ["ann", "bob", "-odd"])


def test_keys_are_found_by_a_part_of_name_or_meaning(capsys: Captured) -> None:
    assert main(["job", "keys", "BATTERY"]) == 0
    printed = capsys.readouterr().out
    assert "job.battery_budget\n" in printed
    assert "job.rounds" not in printed
    assert main(["job", "keys", "battery_budget", "--json"]) == 0
    (key,) = json.loads(capsys.readouterr().out)["keys"]
    assert (key["key"], key["default"]) == ("job.battery_budget", "0.02")
    assert main(["job", "keys", "theta"]) == 0
    assert "job.forget_fraction" in capsys.readouterr().out, "θ in the paper"
    assert main(["job", "keys", "zebra"]) == 2
    assert "no key has 'zebra'" in capsys.readouterr().err


def completed(script: Path, *words: str) -> list[str]:
    """Return what bash offers after some words, of which the last is not complete."""
    code = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(words)}); "
        f'COMP_CWORD={len(words) - 1}; _dealfl; echo "${{COMPREPLY[@]}}"'
    )
    answer = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
    return answer.stdout.split()


def test_bash_completes_commands_actions_and_options(tmp_path: Path, capsys: Captured) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "dealfl"
    script.write_text(capsys.readouterr().out)
    assert completed(script, "dealfl", "er") == ["erase", "erasures"]
    assert completed(script, "dealfl", "erasures", "c") == ["certify"]
    assert completed(script, "dealfl", "erase", "runs/x", "--ex") == ["--example"]
    assert completed(script, "dealfl", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_too(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert "dealfl" in printed.splitlines()[0]
    assert "rotate-key" in printed


def test_help_of_every_command_starts_quickly_and_loads_nothing_heavy() -> None:
    code = (
        "import contextlib, io, sys, time\n"
        "from dealfl.cli import main\n"
        "started_s = time.process_time()\n"
        "for words in sys.argv[1:]:\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        main([*words.split()[1:], '--help'])\n"
        "print(started_s, (time.process_time() - started_s) / len(sys.argv), *sorted(sys.modules))"
    )
    words = [sys.executable, "-c", code, *PARSERS]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    start_s, help_s = map(float, told[:2])
    assert start_s + help_s <= 0.3  # of the processor
    assert not {*HEAVY} & {*told[2:]}
