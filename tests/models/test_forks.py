"""Models in forked processes and in many threads."""

import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

FORKED = """
import os, signal, sys, threading
import torch
import macrid
from macrid.models.forks import new_lock

torch.set_num_threads(2)
model = macrid.load(sys.argv[1])
history = [model.items[place] for place in range(12)]
before = model.recommend(history, n=10)
(torch.randn(400, 400) @ torch.randn(400, 400)).exp().sum()  # starts torch's threads
lock = new_lock()
threading.Thread(target=lock.acquire).start()
while not lock.locked():
    pass
child = os.fork()
if not child:
    signal.alarm(30)
    with lock:
        after = model.recommend(history, n=10)
    same = [item.id for item in after] == [item.id for item in before]
    same &= all(abs(a.score - b.score) < 1e-4 for a, b in zip(after, before))  # sums of one thread and of two
    (torch.randn(400, 400) @ torch.randn(400, 400)).exp().sum()
    os._exit(0 if same and torch.get_num_threads() == 1 else 3)
status = os.waitpid(child, 0)[1]
assert torch.get_num_threads() == 2 and lock.locked()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@pytest.mark.slow
def test_a_forked_process_recommends_what_its_parent_does(trained, tmp_path):
    copy.deepcopy(trained[0]).save(tmp_path / "run")
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "run")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_eight_threads_get_the_lists_that_one_gets(trained):
    model, _ = trained
    histories = [[model.items[place] for place in range(start, start + 8)] for start in range(40)]
    expected = [model.recommend(history, n=10) for history in histories]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(lambda history: model.recommend(history, n=10), histories)) == expected
