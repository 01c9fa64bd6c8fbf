"""Counts and times for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
USERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where processes that serve together keep their counts


class Metrics:
    """Of one app; of all processes that serve together where there are several."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter(
            "macrid_requests", "Requests answered.", ["method", "route", "status"], registry=own
        )  # fmt: skip
        self._seconds = Histogram(
            "macrid_request_duration_seconds", "Time until an answer.", ["route"], buckets=SECONDS, registry=own
        )
        self._batch = Histogram(
            "macrid_batch_requests", "Requests that the model answered together.", buckets=USERS, registry=own
        )
        self._reloads = Counter("macrid_reloads", "Runs swapped in, or refused.", ["outcome"], registry=own)
        self._in_flight = Gauge(
            "macrid_in_flight_requests", "Requests being answered.", multiprocess_mode="livesum", registry=own
        )
        self._items = Gauge("macrid_items", "Items in the catalogue.", multiprocess_mode="max", registry=own)

    def began(self) -> None:
        self._in_flight.inc()

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        self._in_flight.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, size: int) -> None:
        self._batch.observe(size)

    def serves(self, items: int) -> None:
        self._items.set(items)

    def reloaded(self, outcome: str) -> None:
        self._reloads.labels(outcome).inc()

    def text(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its media type."""
        registry = self._registry
        if SHARED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST
