"""Small linear algebra runs on one BLAS thread, and everything else on as many as before."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import cache

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from macrid.blas import one_blas_thread


@one_blas_thread
def threads_within() -> set[int]:
    return threads()


def threads() -> set[int]:
    """Of every BLAS that numpy and scipy use; other packages load their own."""
    loaded = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in loaded if library["filepath"] in files()}


@cache
def files() -> set[str]:
    code = (
        "import json, numpy, scipy.linalg, threadpoolctl as t;"
        "print(json.dumps([b['filepath'] for b in t.ThreadpoolController().select(user_api='blas').info()]))"
    )
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_one_thread_within_and_as_many_as_before_afterwards():
    assert one_blas_thread(lambda: (threads_within(), threads()))() == ({1}, {1})
    assert threads() == {2}


def test_an_error_restores_the_threads():
    @one_blas_thread
    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert threads() == {2}


def test_threads_are_restored_when_others_were_in_between():
    has_begun, may_end = threading.Event(), threading.Event()

    @one_blas_thread
    def waits() -> None:
        has_begun.set()
        may_end.wait(10)

    @one_blas_thread
    def begins_within() -> None:
        thread.start()
        assert has_begun.wait(10)

    thread = threading.Thread(target=waits)
    begins_within()
    may_end.set()
    thread.join()
    assert threads() == {2}
