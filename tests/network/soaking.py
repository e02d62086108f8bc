"""Many storms, four at a time, as a part of `make soak`; they continue where they were stopped."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.network.forks import ROOT, Forks

Blow = Callable[[Forks, Path], object]  # returns what describes the storm


def soak(kind: str, storms: Mapping[str, Blow], wanted: list[str]) -> int:
    """Print a line for each storm; return the number of those that failed.

    `kind` names the file of those that ended well; `wanted` selects storms by their names.
    """
    folder, forks = Path(tempfile.mkdtemp(prefix=f"{kind}-")), Forks()
    finished = ROOT / ".soak" / f"{kind}.txt"
    finished.parent.mkdir(exist_ok=True)
    done = set(finished.read_text().split()) if finished.exists() else set()
    chosen = [name for name in storms if not wanted or name in wanted]
    print(f"{len(chosen)} {kind}; {len(done)} done before", flush=True)

    def run(name: str) -> bool:
        start_s = time.monotonic()
        try:
            storm = storms[name](forks, folder / name)
        except BaseException as error:
            print(f"FAILED {name}: {error!r}", flush=True)
            return False
        shutil.rmtree(folder / name)
        with finished.open("a") as file:
            file.write(f"{name}\n")
        print(f"{storm}: exact after {time.monotonic() - start_s:.0f} s", flush=True)
        return True

    with ThreadPoolExecutor(4) as many:
        results = many.map(run, [name for name in chosen if name not in done])
        try:
            failed = list(results).count(False)
        except KeyboardInterrupt:
            print("stopping after the storms that blow now; `make soak` continues", flush=True)
            many.shutdown(wait=True, cancel_futures=True)
            forks.close()
            return 1
    forks.close()
    if not failed and not wanted:
        finished.unlink(missing_ok=True)
        folder.rmdir()
    where = f"; see {folder}" * bool(failed)
    print(f"{len(chosen) - failed} {kind} exact, {failed} failed{where}")
    return failed
