"""`make containers`: build the images, run eight rounds, kill a phone, erase a person, compare.

The digest of the server is compared with training in one process on all rows but those of the
erased person. Everything that was started is removed at the end; the images stay.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any

from dealfl.jobs import Document, plan_without_data

HERE = Path(__file__).parent
ROOT = HERE.parent
CONTEXT = ROOT / "build" / "containers"
PHONES = ("honor", "lenovo", "zte", "mi", "nexus")
VOLUMES = [f"dealfl-{name}" for name in ("broker", "server", *PHONES)]
BASE = "dealfl-base:bookworm"
PACKAGES = "ca-certificates,mosquitto,python3,python3-venv"
HOMES, ERASED = ("ann", "bob", "carol", "dave"), "ann"
ROUNDS, ROWS = 8, 20
NANO_CPUS = "{{.HostConfig.NanoCpus}}"
STEP_S = 180.0
BIN = Path(sys.executable).parent


def run(*words: object, given: str | None = None, check: bool = True) -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(
        list(map(str, words)), input=given, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout if not done.returncode else ""


# -- images -------------------------------------------------------------------------------------


def collect_wheels() -> None:
    """Put dealfl and the pinned packages that it needs on the network into the build context."""
    shutil.rmtree(CONTEXT, ignore_errors=True)
    wheels = CONTEXT / "wheels"
    wheels.mkdir(parents=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)
    blocks = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text())
    (own,) = distributions(path=[str(path) for path in wheels.iterdir()])
    needed = set(_needed(own, "network"))
    pinned = [block for block in blocks if re.split(r"[=\s]", block)[0] in needed]
    (CONTEXT / "pinned.txt").write_text("\n".join(pinned))
    run(*pip, "download", "--no-deps", "--require-hashes", "--only-binary=:all:",
        "--dest", wheels, "--requirement", CONTEXT / "pinned.txt")  # fmt: skip


def _needed(package: Distribution, extra: str = "") -> Iterator[str]:
    """Yield the names of all packages that a package needs, with one of its extras."""
    for line in package.requires or ():
        name, _, condition = line.partition(";")
        if "extra" not in condition or f"'{extra}'" in condition.replace('"', "'"):
            found = re.split(r"[^A-Za-z0-9_.-]", name.strip())[0].lower()
            yield found
            yield from _needed(distribution(found))


def build_images() -> None:
    """Build the image of the system, from a registry or by debootstrap, and that of dealfl."""
    if not run("podman", "images", "--quiet", BASE):
        found = run("podman", "build", "--quiet", "--tag", BASE,
                    "--file", HERE / "Containerfile.base", CONTEXT, check=False)  # fmt: skip
        if not found:
            say("no image registry can be reached: making the system with debootstrap")
            _bootstrap()
    run("podman", "build", "--quiet", "--tag", "dealfl", "--file", HERE / "Containerfile", CONTEXT)


def _bootstrap() -> None:
    folder = CONTEXT / "system"
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder)
    tar = subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE)
    subprocess.run(["podman", "import", "--quiet", "-", BASE], stdin=tar.stdout, check=True)
    shutil.rmtree(folder)


# -- the federation -----------------------------------------------------------------------------


class Trial:
    """Containers of a broker, a server and five phones, and the rows that the phones got."""

    def __init__(self) -> None:
        self._draw, self._rows = random.Random(0), list[tuple[str, float, int, float]]()

    def start(self) -> None:
        """Start all containers of the compose file."""
        run(HERE / "setup.sh")
        compose("up", "--detach")
        limits = {run("podman", "inspect", "--format", NANO_CPUS, container(one)) for one in PHONES}
        assert limits == {"250000000\n"}, f"limits of the phones, in 1e-9 CPU: {limits}"
        self._wait(lambda now: now["workers"]["awake"] == len(PHONES), "five phones")

    def learn(self, rounds: int) -> dict[str, Any]:
        """Give rows to the phones until the server has closed some more rounds."""
        target = self.status()["rounds_closed"] + rounds
        while self.status()["rounds_closed"] < target:
            for phone in PHONES:
                self.add_rows(phone)
            self._wait(lambda now: now["examples_learned"] == len(self._rows), "all rows")
        return self.status()

    def add_rows(self, phone: str) -> None:
        """Append rows to the file of a phone."""
        new = [
            (
                self._draw.choice(HOMES),
                self._draw.randint(-20, 30) / 2,
                self._draw.randint(1, 9),
                0.0,
            )
            for _ in range(ROWS)
        ]
        new = [(home, cold, rooms, rooms * (30 - cold) / 4) for home, cold, rooms, _ in new]
        text = "".join(f"{home},{cold},{rooms},{kwh}\n" for home, cold, rooms, kwh in new)
        head = "home,outside_c,rooms,kwh"
        run("podman", "exec", "--interactive", container(phone), "sh", "-c",
            f"test -s /phone/data.csv || echo {head} > /phone/data.csv; cat >> /phone/data.csv",
            given=text)  # fmt: skip
        self._rows += new

    def kill(self, phone: str) -> None:
        """Kill a container that has new rows, and start it again."""
        self.add_rows(phone)
        run("podman", "kill", "--signal", "KILL", container(phone))
        run("podman", "start", container(phone), check=False)  # unless it was restarted already
        self._wait(lambda now: now["examples_learned"] == len(self._rows), "the rows of the killed")

    def erase(self) -> None:
        """Erase a person on all phones."""
        program = (
            "from pathlib import Path\n"
            "from dealfl.erasure import owner_hash\n"
            "from dealfl.network import ask, read_credentials\n"
            "own = read_credentials(Path('/broker/devices/operator.toml'))\n"
            f"owner = owner_hash(bytes.fromhex(own.owners_key), {ERASED!r}).hex()\n"
            "ask(own, 'erase', {'request': 'r1', 'owners': [owner]}, 60.0)\n"
        )
        run("podman", "exec", container("broker"), "python", "-c", program)
        self._wait(lambda now: now["erasures"] == 1 and not now["erasures_pending"], "the erasure")

    def status(self) -> dict[str, Any]:
        """Ask the server for its status, as the operator, until it answers."""
        words = ("dealfl", "status", "/broker/devices/operator.toml", "--json")
        end_s = time.monotonic() + STEP_S
        while time.monotonic() < end_s:
            if text := run("podman", "exec", container("broker"), *words, check=False):
                return dict(json.loads(text))
            time.sleep(0.5)
        sys.exit(f"no answer of the server\n{run('podman', 'ps', '--all')}")

    def _wait(self, reached: Callable[[dict[str, Any]], bool], what: str) -> None:
        end_s = time.monotonic() + STEP_S
        while not reached(now := self.status()):
            if time.monotonic() > end_s:
                sys.exit(f"timeout: {what}\n{run('podman', 'ps', '--all')}{now}")
            time.sleep(0.5)

    def central_digest(self) -> str:
        """Train in one process on all rows but those of the erased person."""
        model: Any = plan_without_data(Document.read(ROOT / "examples/network/heating.toml")).make()
        kept = [row for row in self._rows if row[0] != ERASED]
        model.learn([[cold, rooms] for _, cold, rooms, _ in kept], [row[3] for row in kept])
        return str(model.digest())


def container(name: str) -> str:
    """Return the name that compose gives to the container of a service."""
    return f"dealfl_{name}_1"


def compose(*words: str) -> None:
    """Run podman-compose."""
    run(BIN / "podman-compose", "--file", HERE / "compose.yaml", *words)


def remove() -> None:
    """Remove the containers and their data."""
    run(
        BIN / "podman-compose",
        "--file",
        HERE / "compose.yaml",
        "down",
        "--timeout",
        "5",
        check=False,
    )
    run("podman", "volume", "rm", "--force", *VOLUMES, check=False)


def say(line: str) -> None:
    """Print a line at once, with the time since the start."""
    print(f"{time.monotonic() - START_S:5.0f} s  {line}", flush=True)


def main(_: Sequence[str] = ()) -> int:
    """Run everything; return 0 if the digests are equal."""
    if not shutil.which("podman"):
        say("NO PODMAN, AND IT CANNOT BE INSTALLED HERE: the containers are not tried")
        return int(os.environ.get("CI") == "true")
    collect_wheels()
    build_images()
    say("images built")
    remove()
    try:
        trial = Trial()
        trial.start()
        say("a broker, a server and five phones with 0.25 CPU each run")
        now = trial.learn(ROUNDS)
        say(f"{now['rounds_closed']} rounds, {now['examples_learned']} rows learned")
        trial.kill("zte")
        say("zte killed (kill −9) with new rows, and started again: every row counts once")
        trial.erase()
        say(f"{ERASED} erased: all phones answered")
        federated, central = trial.status()["statistics_digest"], trial.central_digest()
    finally:
        remove()
    say(f"server    {federated}")
    say(f"central   {central}")
    say("equal" if federated == central else "DIFFERENT: this is a defect")
    return int(federated != central)


START_S = time.monotonic()
if __name__ == "__main__":
    sys.exit(main())
