"""Metrics for Prometheus, read from the ledger of a run at every request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dealfl.errors import DealError
from dealfl.runs.folder import RunFolder
from dealfl.runs.status import RunStatus, read_status

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["Collector", "Served", "serve_metrics"]

_BUCKETS_S = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)

_COUNTERS: tuple[tuple[str, str, Callable[[RunStatus], float]], ...] = (
    ("updates", "Updates counted", lambda s: s.updates_counted),
    ("examples_learned", "Examples learned by workers", lambda s: s.examples_learned),
    ("examples_evicted", "Examples evicted by workers", lambda s: s.examples_evicted),
    ("erasures", "Erasures requested", lambda s: s.erasures),
)
_GAUGES: tuple[tuple[str, str, Callable[[RunStatus], float]], ...] = (
    ("updates_waiting", "Updates recorded and not counted yet", lambda s: s.updates_waiting),
    ("erasures_pending", "Erasures not published in a version yet", lambda s: s.erasures_pending),
    ("workers_flagged", "Workers with a flag", lambda s: s.flagged),
    ("round_open", "Whether a round is open", lambda s: float(s.open_round is not None)),
    ("converged", "Whether the model has converged", lambda s: float(s.converged)),
    ("model_version", "Last published version", lambda s: s.version),
    ("selection_reward", "Mean reward of a selected worker", lambda s: s.mean_reward or 0.0),
)


class Collector:
    """The metrics of a run; workers are counted, never named."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        status = read_status(self._run)
        for name, text, value in _COUNTERS:
            yield CounterMetricFamily(f"dealfl_{name}", text, value=value(status))
        for name, text, value in _GAUGES:
            yield GaugeMetricFamily(f"dealfl_{name}", text, value=value(status))
        rounds = CounterMetricFamily("dealfl_rounds", "Rounds closed, by reason", labels=["reason"])
        for reason, count in status.rounds_by_reason.items():
            rounds.add_metric([reason], count)
        yield rounds
        workers = GaugeMetricFamily("dealfl_workers", "Workers, by state", labels=["state"])
        for state, count in status.workers.items():
            workers.add_metric([state], count)
        yield workers
        energy = CounterMetricFamily(
            "dealfl_energy_joules", "Energy reported by workers", labels=["source"]
        )
        energy.add_metric([status.energy_source], status.energy_j)
        yield energy
        durations = HistogramMetricFamily("dealfl_round_seconds", "Duration of rounds")
        durations.add_metric([], _buckets(status.round_durations_s), status.round_s)
        yield durations
        about = {"digest": status.published_digest, "round": str(status.version_round)}
        yield InfoMetricFamily("dealfl_model", "Last published model", value=about)


def _buckets(durations_s: tuple[float, ...]) -> list[tuple[str, float]]:
    """Return the cumulative number of durations for each bucket."""
    found = [(str(limit), sum(one <= limit for one in durations_s)) for limit in _BUCKETS_S]
    return [*found, ("+Inf", len(durations_s))]


class Served:
    """A running metrics server."""

    def __init__(self, server: Any, thread: Any) -> None:  # noqa: ANN401
        self._server, self._thread = server, thread

    @property
    def address(self) -> str:
        """The URL of the metrics."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}/metrics"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(run: RunFolder, port: int = 0, host: str = "127.0.0.1") -> Served:
    """Serve the metrics of a run over HTTP, in the background.

    Parameters
    ----------
    run : RunFolder
        The run.
    port : int, default 0
        Port; 0 selects a free port.
    host : str, default "127.0.0.1"
        Address to listen on.

    Returns
    -------
    Served
        The running server, with its `address` and `close`.

    Raises
    ------
    DealError
        If prometheus-client is not installed, the ledger cannot be read, or the port is not
        available.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise DealError(
            "prometheus-client is not installed; install it with: pip install 'dealfl[metrics]'"
        ) from None
    read_status(run)  # report an unreadable ledger now, not at the first request
    registry = CollectorRegistry()
    registry.register(Collector(run))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        raise DealError(f"cannot listen on {host}:{port}: {error}; use another --port") from None
    return Served(server, thread)
