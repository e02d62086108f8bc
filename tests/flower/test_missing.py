"""Without Flower, or with another version of it, an error says what to install."""

import sys

import pytest

from dealfl import flower
from dealfl.errors import DealError


@pytest.mark.parametrize("app", [flower.server_app, flower.client_app])
def test_without_flower_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, app: object
) -> None:
    for module in ("flwr", "flwr.serverapp", "flwr.clientapp"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DealError, match=r"pip install 'dealfl\[flower\]'"):
        app()  # type: ignore[operator]
