"""The benchmark of preparing writes what it says, and sees memory."""

import os

import pyarrow.parquet as pq
import pytest
from benchmarks import preparing


@pytest.mark.parametrize("text", [False, True])
def test_events_have_as_many_rows_as_asked_for_and_a_long_tail(tmp_path, text):
    preparing.write_events(tmp_path / "events", 100_003, 3, text, (2_000, 300))
    tables = [pq.read_table(path) for path in sorted((tmp_path / "events").iterdir())]
    assert sum(table.num_rows for table in tables) == 100_003
    assert str(tables[0].schema.types[0]) == ("string" if text else "int64")
    counts = sorted((each["counts"] for each in tables[0].column("item_id").value_counts().to_pylist()), reverse=True)
    assert len(counts) <= 300
    assert sum(counts[:30]) > 0.3 * sum(counts)


def test_memory_of_a_process_is_seen():
    resident, anonymous = preparing.memory_of(os.getpid())
    assert 10 * 2**20 < anonymous <= resident
