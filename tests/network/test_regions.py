"""What `dealfl serve --parent` refuses, and the broker of a region."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.network import (
    BrokerSettings,
    Credentials,
    ParentEnd,
    ServerState,
    create_broker,
    open_broker,
    read_credentials,
    serve,
    write_credentials,
)
from dealfl.server import Ledger, Region
from tests.federation.parts import bayes
from tests.network.growing import SOURCE
from tests.network.tree_storms import JOB

TEXT = JOB.format(workers=2, regions="", ttl_s=1.0, retry_s=1.0) + SOURCE


def broker(folder: Path, *, job: str = "tree", port: int = 1883, key: str = "") -> Credentials:
    """Write a broker that never runs; return the credentials of its server."""
    settings = BrokerSettings(job=job, host="127.0.0.1", port=port, tls=False, owners_key=key)
    return create_broker(folder, settings).admit_server()


def start(folder: Path, own: Credentials, *parent: Credentials) -> None:
    """Start a region that is refused before it connects."""
    document = Document.parse(TEXT, "job.toml")
    asyncio.run(serve(document, folder, [own], asyncio.Event(), parent=parent))


@pytest.fixture
def above(tmp_path: Path) -> Credentials:
    broker(tmp_path / "above", port=1884)
    return open_broker(tmp_path / "above").enrol(["north"])[0]


def test_credentials_of_another_job_are_refused(tmp_path: Path) -> None:
    own = broker(tmp_path / "own")
    broker(tmp_path / "other", job="other", port=1884, key=own.owners_key)
    (other,) = open_broker(tmp_path / "other").enrol(["north"])
    with pytest.raises(BadInput, match="are for the job 'other', and this job is 'tree'"):
        start(tmp_path, own, other)


def test_a_parent_at_the_regions_own_broker_is_refused(tmp_path: Path) -> None:
    own = broker(tmp_path / "own")
    (self_,) = open_broker(tmp_path / "own").enrol(["north"])
    with pytest.raises(BadInput, match="needs a broker of its own: dealfl broker init"):
        start(tmp_path, own, self_)


def test_another_key_for_owners_is_refused(tmp_path: Path, above: Credentials) -> None:
    own = broker(tmp_path / "own")
    with pytest.raises(BadInput, match="erasures would find nobody"):
        start(tmp_path, own, above)


def test_credentials_of_a_gateway_are_refused(tmp_path: Path, above: Credentials) -> None:
    own = broker(tmp_path / "own", key=above.owners_key)
    (gateway,) = open_broker(tmp_path / "above").enrol(["hub"], workers=("w1", "w2"))
    with pytest.raises(BadInput, match="a region is one device there"):
        start(tmp_path, own, gateway)


def test_the_ledger_of_a_region_is_not_served_without_its_parent(
    tmp_path: Path, above: Credentials
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    Region("tree", "north", bayes, ledger)
    ledger.close()
    own = broker(tmp_path / "own", key=above.owners_key)
    with pytest.raises(BadInput, match="is the ledger of a region"):
        start(tmp_path, own)


def test_the_broker_of_a_region_has_the_key_of_the_tree(tmp_path: Path, above: Credentials) -> None:
    write_credentials(tmp_path / "north.toml", above)
    words = ["broker", "init", str(tmp_path / "north"), "--parent", str(tmp_path / "north.toml")]
    assert main([*words, "--passwords", "--port", "1885"]) == 0
    own = read_credentials(tmp_path / "north" / "server.toml")
    assert (own.job, own.owners_key) == ("tree", above.owners_key)


def test_a_parent_with_a_new_connection_hears_of_its_region_again(above: Credentials) -> None:
    """A node of a cluster that is killed says nothing: no will tells that the parent was away."""
    state = ServerState(epoch="ab" * 16, connection="1", path=("root",), schema="s")
    met: list[tuple[Sequence[str], str]] = []

    async def follow() -> None:
        end = ParentEnd("tree", [above], lambda *_: None, lambda *parent: met.append(parent))
        for connection in ("1", "1", "2"):
            end._link.meet(replace(state, connection=connection))

    asyncio.run(follow())
    assert met == [(("root",), "s")] * 2
