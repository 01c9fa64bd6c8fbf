"""Every file operation of every writer fails once: with an error, and with the end of the process.

Afterwards the old version is there or the new one, whole; and the same command works.
"""

import copy
import shutil

import pytest

from macrid.errors import MacridError
from tests.failing import operations, with_failure
from tests.writers import writers

SOME = 10  # of the operations of each writer, evenly spread; `benchmarks/attack.py` tries them all


@pytest.fixture(scope="module")
def named_run(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named") / "run"
    copy.deepcopy(trained[0]).save(folder)
    return folder


@pytest.mark.parametrize("kind", ["error", "kill"])
@pytest.mark.parametrize("name", ["save", "keep", "prepare", "checkpoint"])
@pytest.mark.slow
def test_a_writer_that_fails_at_any_file_operation_leaves_the_old_or_the_new(trained, named_run, name, kind, tmp_path):
    writer = writers(*trained, named_run)[name]
    template = tmp_path / "template"
    writer.prepare(template)
    counted = shutil.copytree(template, tmp_path / "counted")
    count = operations(lambda: writer.write(counted))
    assert writer.read(counted) == "new"
    for number in range(0, count, max(1, count // SOME)):
        folder = shutil.copytree(template, tmp_path / f"{number}")
        succeeded = with_failure(lambda folder=folder: writer.write(folder), number, kind, (MacridError, OSError))
        assert writer.read(folder) == "new" if succeeded else writer.read(folder) in ("old", "new"), number
        writer.write(folder)
        assert writer.read(folder) == "new", number
        shutil.rmtree(folder)
