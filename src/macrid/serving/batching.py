"""Batches concurrent questions: those that arrive while the model is busy go into its next batch.

No question waits for a batch to fill: an idle model answers a single one at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from macrid.control.engine import Answer, Question
from macrid.serving.problems import RefusedError


class Batcher:
    """Answers many questions with one call, on its own thread."""

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], Sequence[Answer | Exception]],
        most: int,
        queue: int,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        """most: questions per batch. queue: questions that may wait. on_batch: called with each batch size."""
        self._answer, self._most, self._queue, self._on_batch = answer, most, queue, on_batch
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="macrid-batch")
        self._pump: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer; a `RefusedError` if the queue is full."""
        if len(self._waiting) >= self._queue:
            raise RefusedError(503, f"{self._queue:,} requests are already waiting; try again", {"retry-after": "1"})
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            batch = [pair for pair in batch if not pair[1].done()]  # clients of the others have gone
            if not batch:
                continue
            self._on_batch(len(batch))
            try:
                answers = await loop.run_in_executor(self._thread, self._answer, [question for question, _ in batch])
            except Exception as error:
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def close(self) -> None:
        """Let the thread finish its batch and end."""
        self._thread.shutdown(wait=False)
