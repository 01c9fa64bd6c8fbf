"""Wrong tokens are logged and slowed; right ones are not, unless their own address is guessing."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.serving import tokens
from macrid.serving.problems import RefusedError
from macrid.serving.tokens import LONGEST_DELAY, MOST_WAITING, MOST_WAITING_IN_ALL, Tokens, delay_after, network_of

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


def statuses(attempts):
    """Of checks that are all made at once, as far as they are answered at once; None for the others."""

    async def attack():
        checker = Tokens("correct horse")
        checks = [asyncio.create_task(checker.check(header, client)) for header, client in attempts]
        await asyncio.wait(checks, timeout=0.05)
        answers = [
            None if not check.done() else 200 if check.exception() is None else check.exception().status
            for check in checks
        ]
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        return answers

    return asyncio.run(attack())


def test_guesses_at_once_are_refused_unchecked_and_do_not_concern_others():
    answers = statuses([(WRONG, HERE)] * 30 + [(RIGHT, HERE), (RIGHT, THERE)])
    assert answers == [None] * MOST_WAITING + [429] * (30 - MOST_WAITING) + [429, 200]


def test_many_addresses_cannot_guess_without_end_nor_lock_others_out():
    addresses = [(f"10.1.{number}.1", 1) for number in range(2 * MOST_WAITING_IN_ALL)]
    answers = statuses([*((WRONG, address) for address in addresses * 2), (RIGHT, HERE)])
    assert answers.count(None) == MOST_WAITING_IN_ALL
    assert answers.count(401) == MOST_WAITING_IN_ALL  # the first of each further address
    assert answers.count(429) == 2 * MOST_WAITING_IN_ALL
    assert answers[-1] == 200


def test_a_token_may_end_in_any_letter():
    token = "voilà, là"
    assert status_of(Tokens(token), "Bearer " + token.encode().decode("latin-1")) == 200


@given(st.integers(1, 10**6))
def test_delays_are_positive_and_bounded(failures):
    assert 0 < delay_after(failures) <= delay_after(failures + 1) <= LONGEST_DELAY


def test_addresses_of_one_ipv6_network_count_as_one():
    assert network_of(("2001:db8::1", 1)) == network_of(("2001:db8::ffff", 2)) != network_of(("2001:db8:0:1::1", 1))
    assert network_of(("10.0.0.7", 1)) == "10.0.0.7"
    assert "\n" not in network_of(("a\nb", 1))
    assert network_of(None)
