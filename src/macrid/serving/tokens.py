"""The token check. Guessing is slow: each wrong token from an address doubles the wait for its 401, up to a limit.

A right token is never delayed, so nobody can lock others out, not even those behind the same proxy.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from asyncio import sleep
from collections import OrderedDict
from contextlib import suppress

from macrid.serving.problems import RefusedError

log = logging.getLogger("macrid.serving")
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds
MOST_ADDRESSES = 10_000  # remembered
MOST_DELAYED = 100  # responses; others get 429 at once
DETAIL = "missing or invalid token; send 'Authorization: Bearer TOKEN'"


class Tokens:
    """Checks tokens and counts wrong ones by address."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._delayed = 0

    async def check(self, authorization: str, client: tuple[str, int] | None) -> None:
        """Refuse a request without the right token; authorization: its header."""
        scheme, _, credentials = authorization.partition(" ")
        token = credentials.strip() if scheme.lower() == "bearer" else ""
        if hmac.compare_digest(token.encode("latin-1"), self._token):
            return
        if token:  # the page sends none until somebody has typed it
            await self._slow_down(network_of(client))
        raise RefusedError(401, DETAIL, {"www-authenticate": "Bearer"})

    async def _slow_down(self, address: str) -> None:
        count = self._failures[address] = self._failures.pop(address, 0) + 1
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        if count.bit_count() == 1:  # 1, 2, 4, 8, …: a log must not grow with every guess
            log.warning("invalid token from %s%s", address, f" ({count:,} times)" if count > 1 else "")
        if self._delayed >= MOST_DELAYED:
            raise RefusedError(429, "too many invalid tokens; try again later", {"retry-after": "5"})
        self._delayed += 1
        try:
            await sleep(delay_after(count))
        finally:
            self._delayed -= 1


def delay_after(failures: int) -> float:
    """Seconds before the response to a wrong token, the last of so many."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 30))


def network_of(client: tuple[str, int] | None) -> str:
    """The address of a client; of IPv6 its /64, because everybody has that many addresses."""
    host = "an unknown address" if client is None else str(client[0])
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host
    return repr(host[:45])
