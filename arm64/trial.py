"""`make arm64`: what an arm64 processor computes, emulated by qemu, beside this machine's.

Debian's Python and the pinned wheels of a small worker are fetched for arm64 into `.arm64`, which
`make clean` removes. Nothing is installed: programs run from there as
`qemu-aarch64-static -L .arm64/root`. The contract of the learners, the digests of random histories,
and the demonstration over TLS with one arm64 worker must give the same bits as here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dealfl.runs import run_demo

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".arm64"
SYSTEM, SITE, LIST = HOME / "root", HOME / "site", HOME / "fetched.txt"
DEBIAN = ("python3.11", "libstdc++6")
WHEELS = ("cffi", "cryptography", "msgspec", "numpy", "paho-mqtt", "pycparser")
GLIBC = ("2014", "_2_27", "_2_28", "_2_34")
EMULATOR = "qemu-aarch64-static"
WORKER = "w2"
TIMEOUT_S = 300.0


def run(*words: object, **environment: str) -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(
        list(map(str, words)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}")
    return done.stdout


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


# -- what is fetched ----------------------------------------------------------------------------


def fetch() -> None:
    """Fetch Python and the packages of a worker for arm64, unless they are here."""
    if LIST.exists():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    say("fetching Python and a worker's packages for arm64")
    names = [*fetch_system(), *fetch_wheels()]
    LIST.write_text("\n".join(names) + "\n")


def fetch_system() -> list[str]:
    """Unpack Debian's Python and what it depends on; return the names of the packages."""
    lists, cache, status = HOME / "lists", HOME / "cache", HOME / "status"
    for folder in (lists / "partial", cache / "archives" / "partial", SYSTEM):
        folder.mkdir(parents=True)
    status.touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State::lists": lists,
        "Dir::State::status": status,
        "Dir::Cache": cache,
        "Debug::NoLocking": "true",
    }
    apt = ("apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items()))
    run(*apt, "update")
    run(*apt, "install", "--yes", "--download-only", "--no-install-recommends", *DEBIAN)
    packages = sorted((cache / "archives").glob("*.deb"))
    for package in packages:
        run("dpkg-deb", "--extract", package, SYSTEM)
    shutil.rmtree(lists)
    return [package.name for package in packages]


def fetch_wheels() -> list[str]:
    """Unpack the pinned wheels of a worker; return their names."""
    blocks = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text())
    pinned = [block for block in blocks if re.split(r"[=\[ ;]", block)[0] in WHEELS]
    wanted = HOME / "wheels.txt"
    wanted.write_text("\n".join(pinned) + "\n")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    platforms = [f"--platform=manylinux{version}_aarch64" for version in GLIBC]
    exactly = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version=3.11")
    run(*pip, f"--target={SITE}", *platforms, *exactly, f"--requirement={wanted}")
    return sorted(path.name.removesuffix(".dist-info") for path in SITE.glob("*.dist-info"))


# -- what is compared ---------------------------------------------------------------------------


def emulated() -> list[str]:
    """Return the interpreter of the other machine."""
    paths = f"PYTHONPATH={SITE}:{ROOT / 'src'}:{ROOT}"
    # files of both machines are compiled to the same bytecode, but by different versions
    cache = f"PYTHONPYCACHEPREFIX={HOME / 'bytecode'}"
    python = str(SYSTEM / "usr" / "bin" / "python3.11")
    return ["env", paths, cache, EMULATOR, "-L", str(SYSTEM), python]


def compare_results() -> int:
    """Run `results.py` on both machines; return the number of digests that are equal."""
    program = ROOT / "arm64" / "results.py"
    here = (sys.executable, program)
    paths = f"{ROOT / 'src'}:{ROOT}"
    own = json.loads(run(*here, PYTHONPATH=paths, DEALFL_NUMBA="never"))
    other = json.loads(run(*emulated(), program))
    if other["machine"] != "aarch64":
        sys.exit(f"the emulator is a {other['machine']}")
    different = [name for name in own["digests"] if own["digests"][name] != other["digests"][name]]
    if different:
        sys.exit(f"DIFFERENT DIGESTS on {own['machine']} and aarch64: {', '.join(different)}")
    return sum(map(len, own["digests"].values()))


def main(words: Sequence[str]) -> None:
    """Fetch what is missing, and compare."""
    if shutil.which(EMULATOR) is None:
        sys.exit(f"{EMULATOR} is missing; `make qemu` installs it")
    began_s = time.monotonic()
    fetch()
    if "--list" in words:
        return say(LIST.read_text())
    say(f"{len(LIST.read_text().split())} packages for arm64, listed in {LIST.relative_to(ROOT)}")
    equal = compare_results()
    say(f"{equal:,} digests of random histories: equal, bit for bit")
    proof = run_demo(say, TIMEOUT_S, workers=3, interpreters={WORKER: emulated()})
    if not proof.holds:
        sys.exit(f"DIFFERENT: federated {proof.federated}, central {proof.central}")
    say(
        f"demonstration with {WORKER} on arm64: exact, {proof.examples} rows, {proof.erased} erased"
    )
    say(f"{time.monotonic() - began_s:.0f} s")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
