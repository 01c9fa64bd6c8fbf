"""The endpoints, under /v1; the most frequent come first, because they match soonest."""

from macrid.serving.routes import about, concepts, items, people, running, steering
from macrid.serving.routes.running import health

__all__ = ["health", "routers"]

routers = [part.router for part in (steering, people, about, items, concepts, running)]
