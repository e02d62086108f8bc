"""What the server publishes about itself, retained: its epoch and the limits of packets."""

from __future__ import annotations

import msgspec

from dealfl.errors import BadBytes
from dealfl.protocol import INLINE_BYTES, MAX_BYTES, PROTOCOL

__all__ = ["ServerState"]


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a server."""

    epoch: str = ""
    online: bool = True
    protocol: int = PROTOCOL
    max_bytes: int = MAX_BYTES
    inline_bytes: int = INLINE_BYTES
    spread_s: float = 0.0  # workers return within this time after a failure of the broker

    def encode(self) -> bytes:
        """Return the state as JSON, which people can read with any MQTT client."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, payload: bytes) -> ServerState:
        """Return a state from the network.

        Parameters
        ----------
        payload : bytes
            Result of `encode`.

        Returns
        -------
        ServerState
            The state.

        Raises
        ------
        BadBytes
            If the bytes are no state, or of another version of the protocol.
        """
        try:
            state = msgspec.json.decode(payload, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadBytes(f"the server's state cannot be decoded: {error}") from None
        if state.protocol != PROTOCOL:
            raise BadBytes(
                f"the server has protocol version {state.protocol}; this dealfl supports {PROTOCOL}"
            )
        return state
