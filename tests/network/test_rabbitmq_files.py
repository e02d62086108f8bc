"""What `dealfl broker --kind rabbitmq` writes: topics by user, and commands for the operator."""

import json
import re
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.network import open_broker, read_credentials
from tests.network.test_attacks_on_topics import FORBIDDEN_WRITES, OWN, READS


def init(folder: Path) -> int:
    nodes = ("--host", "n1", "--node", "n2", "--node", "n3")
    return main(["broker", "init", str(folder), "--job", "test", "--kind", "rabbitmq", *nodes])


def may(folder: Path, user: str, verb: str, topic: str) -> bool:
    """Return whether RabbitMQ would let a user write or subscribe to a topic or a pattern."""
    definitions = json.loads((folder / "rabbitmq" / "definitions.json").read_text())
    (rule,) = (one for one in definitions["topic_permissions"] if one["user"] == user)
    key = topic.replace("epoch", "0f").replace("/", ".").replace("+", "*")
    return re.search(rule[verb], key) is not None


def test_users_get_their_own_topics_and_no_pattern_with_those_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    assert init(folder) == 0
    for words in (["w1"], ["hub", "--workers", "w4,w5"], ["ann", "--operator"]):
        assert main(["broker", "enrol", str(folder), *words]) == 0
    for user, topics in FORBIDDEN_WRITES.items():
        assert may(folder, user, "write", OWN[user])
        assert [topic for topic in topics if may(folder, user, "write", topic)] == []
    assert [topic for topic in READS if may(folder, "w1", "read", topic)] == []
    for topic in ("epoch/down/w1/w1", "0/down/w1/w1", "epoch/all", "epoch/model/#", "state"):
        assert may(folder, "w1", "read", f"dealfl/v1/test/{topic}"), topic
    assert may(folder, "server", "read", "dealfl/v1/test/+/up/+/+")
    assert not may(folder, "server", "read", "dealfl/v1/testing/+/up/+/+")
    assert not (folder / "rabbitmq" / "authority.key").exists()


def test_a_device_knows_all_nodes_and_a_revoked_name_is_not_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    init(folder)
    main(["broker", "enrol", str(folder), "w1"])
    own = read_credentials(folder / "devices" / "w1.toml")
    assert [(node.host, node.port) for node in own.nodes()] == [
        ("n1", 8883), ("n2", 8883), ("n3", 8883),
    ]  # fmt: skip
    assert "rabbitmqctl import_definitions" in capsys.readouterr().out
    assert main(["broker", "revoke", str(folder), "w1"]) == 0
    said = capsys.readouterr().out
    assert "rabbitmqctl delete_user w1\n" in said
    assert "close_all_user_connections w1" in said
    assert "SIGHUP" not in said
    with pytest.raises(BadInput, match="'w1' was revoked, and RabbitMQ would accept"):
        open_broker(folder).enrol(["w1"])
    with pytest.raises(BadInput, match="nodes of RabbitMQ are services: copy the files"):
        open_broker(folder).start()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "rabbitmq", "--passwords"], "RabbitMQ binds no client to a password"),
        (["--node", "n2"], "--node is for --kind rabbitmq"),
        (["--kind", "rabbit"], "no kind of broker called 'rabbit'"),
    ],
)
def test_wrong_words_are_refused(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", "init", str(tmp_path / "b"), "--job", "test", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("node", ["n2", "8883", ":8883", "n2:", "n2:http"])
def test_a_node_without_a_host_or_a_port_is_refused(tmp_path: Path, node: str) -> None:
    init(tmp_path / "cluster")
    file = tmp_path / "cluster" / "server.toml"
    file.write_text(file.read_text().replace("n2:8883", node))
    with pytest.raises(BadInput, match=f"others has '{node}'; a node of a cluster is HOST:PORT"):
        read_credentials(file).nodes()
