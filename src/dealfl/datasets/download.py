"""Downloads that are either whole or not there."""

import tempfile
from pathlib import Path

from dealfl.datasets.content import Content
from dealfl.errors import DatasetMissing

__all__ = ["downloaded", "store"]

_TIMEOUT_S = 60


def downloaded(url: str, cache: Path) -> Content:
    """Return what `url` serves; an OSError if it does not come whole."""
    try:
        import tqdm  # noqa: F401 - pooch asks for it by a ValueError that names no remedy
        from pooch import HTTPDownloader  # type: ignore[import-untyped]
    except ImportError as error:
        raise DatasetMissing(
            f'downloading {url} needs {error.name}; run `pip install "dealfl[datasets]"`'
        ) from error

    cache.mkdir(parents=True, exist_ok=True)
    # a server that packs or unpacks on the way would change what the checksums are of
    as_is = {"Accept-Encoding": "identity"}
    download = HTTPDownloader(True, chunk_size=1 << 16, timeout=_TIMEOUT_S, headers=as_is)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=cache) as directory:
        path = Path(directory) / "download"
        download(url, str(path), None)
        return Content(url, path.read_bytes())


def store(data: bytes, path: Path) -> Path:
    """Write a file in one step: nobody ever sees a part of it, whatever kills the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as directory:
        part = Path(directory) / path.name
        part.write_bytes(data)
        return part.replace(path)
