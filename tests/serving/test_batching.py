"""Concurrent questions share batches, and each gets its answer."""

import asyncio
import threading

import pytest

from macrid.serving.batching import Batcher
from macrid.serving.problems import RefusedError


def run(work):
    return asyncio.run(asyncio.wait_for(work, 10))


def test_questions_that_arrive_while_the_model_is_busy_share_a_batch():
    sizes, go = [], threading.Event()

    def answer(asks):
        if len(sizes) == 1:
            go.wait(10)
        return [ask * 2 for ask in asks]

    async def work():
        batcher = Batcher(answer, 64, 1000, sizes.append)
        first = asyncio.create_task(batcher.ask(0))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(batcher.ask(number)) for number in range(1, 101)]
        await asyncio.sleep(0.05)
        go.set()
        answers = await asyncio.gather(first, *rest)
        batcher.close()
        return answers

    assert run(work()) == [2 * number for number in range(101)]
    assert sizes == [1, 64, 36]


def test_questions_beyond_the_queue_get_503():
    go = threading.Event()

    async def work():
        batcher = Batcher(lambda asks: [go.wait(10) for _ in asks], 1, 2)
        first = asyncio.create_task(batcher.ask(0))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(batcher.ask(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            await batcher.ask(3)
        go.set()
        await asyncio.gather(first, *rest)
        batcher.close()
        return refused.value

    error = run(work())
    assert (error.status, error.headers) == (503, {"retry-after": "1"})


def test_cancelled_questions_are_skipped_and_a_failing_batch_fails_alone():
    seen = []

    def answer(asks):
        seen.extend(asks)
        if "bad" in asks:
            raise ZeroDivisionError
        return [KeyError(ask) if ask == "odd" else ask for ask in asks]

    async def work():
        batcher = Batcher(answer, 1, 100)
        tasks = [asyncio.create_task(batcher.ask(ask)) for ask in ("a", "cancelled", "bad", "odd", "b")]
        await asyncio.sleep(0)
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        batcher.close()
        return answers

    first, gone, bad, odd, last = run(work())
    assert (first, last) == ("a", "b")
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(bad, ZeroDivisionError)
    assert isinstance(odd, KeyError)
    assert "cancelled" not in seen
