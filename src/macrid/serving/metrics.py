"""Prometheus metrics."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
USERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # folder where several processes keep their counts


class Metrics:
    """Metrics of one app, or of all processes that serve together."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "macrid_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "macrid_request_duration_seconds", "Response time.", ["route"], buckets=SECONDS, registry=registry
        )
        self.batch = Histogram("macrid_batch_requests", "Requests per model batch.", buckets=USERS, registry=registry)
        self.reloads = Counter("macrid_reloads", "Reloads of the run, by outcome.", ["outcome"], registry=registry)
        self.in_flight = Gauge(
            "macrid_in_flight_requests", "Requests being answered.", multiprocess_mode="livesum", registry=registry
        )
        self.events = Counter("macrid_events", "Events of users, by outcome.", ["outcome"], registry=registry)
        self.event_store = Gauge(
            "macrid_event_store_up", "Whether the event store is available.", multiprocess_mode="livemin",
            registry=registry,
        )  # fmt: skip
        self.users = Gauge(
            "macrid_users", "Known users, without those that only have events.", multiprocess_mode="livemin",
            registry=registry,
        )  # fmt: skip
        self.users_reads = Counter(
            "macrid_users_reads", "Times the users' file was read again, by outcome.", ["outcome"], registry=registry
        )
        self.items = Gauge("macrid_items", "Items in the catalogue.", multiprocess_mode="max", registry=registry)

    def text(self) -> tuple[bytes, str]:
        """The metrics and their media type."""
        registry = self._registry
        if SHARED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST
