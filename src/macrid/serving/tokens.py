"""The token check. Guessing is slow: each wrong token from an address doubles the wait for its 401, up to a limit.

An address with many guesses waiting gets 429, whatever it sends; others are never delayed by them.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from asyncio import sleep
from collections import Counter, OrderedDict
from contextlib import suppress

from macrid.serving.problems import RefusedError

log = logging.getLogger("macrid.serving")
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds
MOST_ADDRESSES = 10_000  # remembered
MOST_WAITING = 10  # guesses from one address; more get 429 unchecked
MOST_WAITING_IN_ALL = 100
DETAIL = "missing or invalid token; send 'Authorization: Bearer TOKEN'"


class Tokens:
    """Checks tokens and counts wrong ones by address."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._waiting: Counter[str] = Counter()  # guesses, by address

    async def check(self, authorization: str, client: tuple[str, int] | None) -> None:
        """Refuse a request without the right token; authorization: its header."""
        address = network_of(client)
        if self._has_guessed_enough(address):
            raise RefusedError(429, "too many invalid tokens; try again later", {"retry-after": "5"})
        scheme, _, credentials = authorization.partition(" ")
        token = credentials.strip(" \t") if scheme.lower() == "bearer" else ""
        if hmac.compare_digest(token.encode("latin-1"), self._token):
            return
        if token:  # the page sends none until somebody has typed it
            await self._slow_down(address)
        raise RefusedError(401, DETAIL, {"www-authenticate": "Bearer"})

    def _has_guessed_enough(self, address: str) -> bool:
        is_full = self._waiting.total() >= MOST_WAITING_IN_ALL
        return self._waiting[address] >= MOST_WAITING or (is_full and address in self._failures)

    async def _slow_down(self, address: str) -> None:
        count = self._failures[address] = self._failures.pop(address, 0) + 1
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        if count.bit_count() == 1:  # 1, 2, 4, 8, …: a log must not grow with every guess
            log.warning("invalid token from %s%s", address, f" ({count:,} times)" if count > 1 else "")
        if self._waiting.total() >= MOST_WAITING_IN_ALL:
            return
        self._waiting[address] += 1
        try:
            await sleep(delay_after(count))
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]


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
