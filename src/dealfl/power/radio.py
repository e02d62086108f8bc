"""The radio of a phone: all its traffic, in bursts that share a tail."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.hardware import Phone

__all__ = ["Radio", "Traffic"]

TRAINING = "training"
_KEEP_ALIVE_BYTES = 128  # a ping and its answer, with the headers of TCP and TLS
_NEVER_S = -math.inf


@dataclass(slots=True)
class Traffic:
    """The traffic of a phone so far.

    Parameters
    ----------
    active_s, tail_s : float
        Time of transfers, and time for which the radio stayed on after them, in seconds.
    up_bytes, down_bytes : int
        Bytes sent and received.
    bursts : dict of str to int
        Number of bursts by cause. A burst in which a worker trains has the cause "training".
    quiet_at_s : float
        End of the last tail, in seconds.
    last_s : float
        End of the last transfer over an open connection, in seconds; −∞ without a connection.
    cause : str
        Cause of the last burst.
    """

    active_s: float = 0.0
    tail_s: float = 0.0
    up_bytes: int = 0
    down_bytes: int = 0
    bursts: dict[str, int] = field(default_factory=dict)
    quiet_at_s: float = _NEVER_S
    last_s: float = _NEVER_S
    cause: str = ""

    @property
    def own_bursts(self) -> int:
        """Number of bursts without a training."""
        return sum(self.bursts.values()) - self.bursts.get(TRAINING, 0)


class Radio:
    """Counts what a phone sends and receives, and models its energy.

    After a transfer the radio stays on for the phone's `tail_s`. A transfer within this tail
    continues the burst and cuts the tail short; any other transfer begins a burst.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    keep_alive_s : float, default 0
        An idle connection is kept alive after this time, in seconds; 0 if another application's
        connection is shared.
    handshake_bytes : int, default 0
        Bytes that opening a connection takes.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> radio = Radio(phone("honor"))
    >>> radio.transfer(0.0, "announcement", sent=500)
    >>> radio.transfer(0.1, "training", received=500)
    >>> radio.transfer(900.0, "receipt", received=500)
    >>> radio.traffic.bursts
    {'training': 1, 'receipt': 1}
    """

    def __init__(
        self, phone: Phone, *, keep_alive_s: float = 0.0, handshake_bytes: int = 0
    ) -> None:
        self._model, self._wifi = EnergyModel(phone), phone.wifi
        self._keep_alive_s, self._handshake_bytes = keep_alive_s, handshake_bytes
        self.traffic = Traffic()

    @property
    def energy(self) -> Energy:
        """Energy of all traffic so far."""
        tail_c = self._wifi.active_a * self.traffic.tail_s
        voltage_v = self._model.phone.battery.voltage_v
        tail = Energy(wifi_tail_j=tail_c * voltage_v, charge_uah=tail_c / 3.6e-3)
        return self._model.transfer(self.traffic.active_s, next_s=0.0) + tail

    def connect(self, now_s: float) -> None:
        """Open a connection, unless one is open.

        Parameters
        ----------
        now_s : float
            Current time in seconds.
        """
        if self.traffic.last_s == _NEVER_S:
            self.traffic.last_s = now_s
            if self._handshake_bytes:
                half = self._handshake_bytes // 2
                self.transfer(now_s, "handshake", sent=half, received=half)

    def disconnect(self, now_s: float) -> None:
        """Close the connection.

        Parameters
        ----------
        now_s : float
            Current time in seconds.
        """
        self.keep_alive(now_s)
        self.traffic.last_s = _NEVER_S

    def keep_alive(self, now_s: float) -> None:
        """Add the messages that kept an idle connection alive until now.

        Parameters
        ----------
        now_s : float
            Current time in seconds.
        """
        traffic = self.traffic
        if not self._keep_alive_s or traffic.last_s == _NEVER_S:
            return
        count = int((now_s - traffic.last_s) // self._keep_alive_s)
        if count > 0:
            traffic.active_s += count * _KEEP_ALIVE_BYTES / self._wifi.bytes_per_s
            traffic.tail_s += count * self._wifi.tail_s
            traffic.bursts["keep-alive"] = traffic.bursts.get("keep-alive", 0) + count
            traffic.last_s += count * self._keep_alive_s

    def transfer(self, now_s: float, cause: str, *, sent: int = 0, received: int = 0) -> None:
        """Add a transfer.

        Parameters
        ----------
        now_s : float
            Current time in seconds.
        cause : str
            What it is for; it is the cause of the burst if it begins one, or if it is "training".
        sent, received : int, default 0
            Bytes, with those of the protocol.
        """
        self.keep_alive(now_s)
        traffic, wifi = self.traffic, self._wifi
        active_s = (sent + received) / wifi.bytes_per_s
        bursts, continues = traffic.bursts, now_s <= traffic.quiet_at_s
        if continues and cause == TRAINING != traffic.cause:
            bursts[traffic.cause] -= 1
            if not bursts[traffic.cause]:
                del bursts[traffic.cause]
        if not continues or cause == TRAINING != traffic.cause:
            bursts[cause] = bursts.get(cause, 0) + 1
            traffic.cause = cause
        begin_s = max(now_s, traffic.quiet_at_s - wifi.tail_s)  # transfers do not overlap
        traffic.active_s += active_s
        traffic.tail_s += wifi.tail_s - max(traffic.quiet_at_s - begin_s, 0.0)
        traffic.quiet_at_s = begin_s + active_s + wifi.tail_s
        traffic.up_bytes += sent
        traffic.down_bytes += received
        if traffic.last_s != _NEVER_S:
            traffic.last_s = max(now_s, traffic.last_s)
