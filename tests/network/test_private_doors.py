"""Small locks: who may certify, who may read credentials, which acknowledgements are sent."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.network import Control, Credentials, read_credentials, write_credentials
from dealfl.network.connection import Connection, Delivery
from dealfl.network.control import Answer, Question
from dealfl.network.serving import CHANGES
from dealfl.protocol.transport import pack, unpack

OWN = Credentials(host="127.0.0.1", port=1, job="job", user="w1", owners_key="00")


@pytest.mark.parametrize("verb", ["erase", "remove", "certify"])
def test_only_trusted_operators_erase_remove_and_certify(verb: str) -> None:
    control = Control({verb: lambda **_: "done"}, CHANGES, trusted=["ann"])

    def ask(operator: str) -> Answer:
        packet = pack(msgspec.json.encode(Question(operator, verb)))
        return msgspec.json.decode(unpack(control.answer(operator, packet)), type=Answer)

    assert ask("ann").result == "done"
    assert f"bob may not {verb}" in ask("bob").error


def test_credentials_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    write_credentials(tmp_path / "own.toml", OWN)
    assert stat.S_IMODE((tmp_path / "own.toml").stat().st_mode) == 0o600
    for mode in (0o640, 0o604):
        (tmp_path / "own.toml").chmod(mode)
        with pytest.raises(BadInput, match="can be read by others"):
            read_credentials(tmp_path / "own.toml")


@pytest.mark.parametrize("file", ["authority.pem", "authority.key", "revoked.pem", "issued/w1.pem"])
def test_a_damaged_file_of_the_authority_is_named(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = str(tmp_path / "broker")
    assert main(["broker", "init", broker, "--job", "houses"]) == 0
    assert main(["broker", "enrol", broker, "w1"]) == 0
    path = tmp_path / "broker" / file
    content = path.read_bytes()
    other = Ed25519PrivateKey.generate().private_bytes(  # of a kind that signs nothing here
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for damaged in (b"", b"\xff", content[:100], content.replace(b"\nM", b"\nX"), other):
        path.write_bytes(damaged)
        capsys.readouterr()
        assert main(["broker", "enrol", broker, "w1"]) == 2
        assert f"{path} is missing or damaged; restore a copy" in capsys.readouterr().err


def test_what_arrived_before_a_reconnect_is_not_acknowledged_after_it() -> None:
    """The numbers of deliveries begin again with every connection."""

    class Client:
        def __init__(self) -> None:
            self.acknowledged: list[int] = []

        def ack(self, number: int, qos: int) -> None:
            self.acknowledged.append(number)

    async def run() -> None:
        connection = Connection([OWN], lambda: None, lambda _: None)
        client: Any = Client()
        connection._client = client
        connection._generation = 2
        connection.acknowledge(Delivery("t", b"", 7, 1, 1, False))
        assert client.acknowledged == []
        connection.acknowledge(Delivery("t", b"", 8, 2, 1, False))
        assert client.acknowledged == [8]

    asyncio.run(run())


def test_show_says_why_an_operator_sees_no_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = str(tmp_path / "broker")
    assert main(["broker", "init", broker, "--job", "houses", "--passwords"]) == 0
    assert main(["broker", "enrol", broker, "ann", "--operator", "--json"]) == 0
    file = f"{broker}/devices/ann.toml"
    for words in (["--owners"], ["bob"]):
        assert main(["show", file, *words]) == 2
        assert f"{file} leads to a running server, which knows no names" in capsys.readouterr().err
    assert main(["audit", file]) == 2
    assert "leads to a running server, but dealfl audit reads files" in capsys.readouterr().err
