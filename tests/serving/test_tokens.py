"""Wrong tokens are logged and slowed; right ones never are."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.serving import tokens
from macrid.serving.problems import RefusedError
from macrid.serving.tokens import LONGEST_DELAY, MOST_DELAYED, Tokens, delay_after, network_of

RIGHT, WRONG = "Bearer correct horse", "Bearer wrong pony"
HERE, THERE = ("10.0.0.7", 5000), ("10.0.0.8", 5000)


@pytest.fixture
def slept(monkeypatch):
    """Seconds slept, in no time."""
    seconds = []

    async def sleep(duration):
        seconds.append(duration)

    monkeypatch.setattr(tokens, "sleep", sleep)  # not for the loops of other threads
    return seconds


def status_of(checker, header, client=HERE):
    try:
        asyncio.run(checker.check(header, client))
    except RefusedError as error:
        return error.status
    return 200


def test_guesses_take_longer_each_time_and_only_for_whoever_guesses(slept):
    checker = Tokens("correct horse")
    assert [status_of(checker, WRONG) for _ in range(12)] == [401] * 12
    assert slept[0] < 0.2
    assert slept == sorted(slept)
    assert slept[-1] == LONGEST_DELAY
    slept.clear()
    assert status_of(checker, RIGHT) == 200
    assert slept == []
    assert status_of(checker, WRONG, THERE) == 401
    assert slept[0] < 0.2


def test_the_log_has_the_address_but_neither_the_token_nor_a_line_per_guess(slept, caplog):
    checker = Tokens("correct horse")
    with caplog.at_level(logging.WARNING, "macrid.serving"):
        for _ in range(1000):
            status_of(checker, WRONG)
    assert "10.0.0.7" in caplog.text
    assert "pony" not in caplog.text
    assert "horse" not in caplog.text
    assert len(caplog.records) == 10


def test_a_page_without_a_token_is_neither_logged_nor_slowed(slept, caplog):
    assert status_of(Tokens("correct horse"), "") == 401
    assert (slept, caplog.records) == ([], [])


def test_memory_stays_bounded_whatever_the_number_of_addresses(slept, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_ADDRESSES", 50)
    checker = Tokens("correct horse")
    for number in range(200):
        status_of(checker, WRONG, (f"10.0.{number}.1", 1))
    assert len(checker._failures) == 50


def test_many_guesses_at_once_do_not_pile_up_and_a_right_token_still_passes():
    async def attack():
        checker = Tokens("correct horse")
        guesses = [asyncio.create_task(checker.check(WRONG, HERE)) for _ in range(MOST_DELAYED + 20)]
        await asyncio.sleep(0)
        await checker.check(RIGHT, HERE)
        done, waiting = await asyncio.wait(guesses, timeout=0.05)
        for guess in waiting:
            guess.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return [guess.exception().status for guess in done]

    assert asyncio.run(attack()) == [429] * 20


@given(st.integers(1, 10**6))
def test_delays_are_positive_and_bounded(failures):
    assert 0 < delay_after(failures) <= delay_after(failures + 1) <= LONGEST_DELAY


def test_addresses_of_one_ipv6_network_count_as_one():
    assert network_of(("2001:db8::1", 1)) == network_of(("2001:db8::ffff", 2)) != network_of(("2001:db8:0:1::1", 1))
    assert network_of(("10.0.0.7", 1)) == "10.0.0.7"
    assert "\n" not in network_of(("a\nb", 1))
    assert network_of(None)
