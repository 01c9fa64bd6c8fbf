import json

import pytest

from macrid.errors import MacridError
from macrid.paper.parts import Parts


class Counted:
    def __init__(self, value):
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return self.value


def test_a_part_is_computed_once_and_again_when_its_key_changes(tmp_path):
    work = Counted({"a": [1, 2.5]})
    for key in ({"seed": 0}, {"seed": 0}, {"seed": 1}, {"seed": 1}):
        assert Parts(tmp_path).get("block/one", key, work) == {"a": [1, 2.5]}
    assert work.calls == 2


def test_a_damaged_part_is_computed_again(tmp_path):
    work = Counted(7)
    Parts(tmp_path).get("one", {}, work)
    for damage in ("{", '{"key": {}}', "[]", ""):
        (tmp_path / "one.json").write_text(damage)
        assert Parts(tmp_path).get("one", {}, work) == 7
    assert work.calls == 5


def test_an_error_leaves_finished_parts_and_nothing_else(tmp_path):
    parts = Parts(tmp_path)
    parts.get("one", {}, Counted(1))

    def fails():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.get("two", {}, fails)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json"]


def test_time_and_machine_are_those_of_the_computation(tmp_path):
    Parts(tmp_path).get("one", {}, Counted(1))
    stored = json.loads((tmp_path / "one.json").read_text())
    stored["seconds"], stored["where"]["machine"] = 100.0, "another one"
    (tmp_path / "one.json").write_text(json.dumps(stored))
    parts = Parts(tmp_path)
    parts.get("one", {}, Counted(1))
    assert parts.about()["seconds"] == 100.0
    assert [where["machine"] for where in parts.about()["machines"]] == ["another one"]


def test_progress_is_reported_before_and_after(tmp_path):
    progress = []
    parts = Parts(tmp_path, on_part=lambda name, ready: progress.append((name, ready)))
    for _ in range(2):
        parts.get("one", {}, Counted(1))
    assert progress == [("one", False), ("one", True), ("one", True)]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MacridError, match=r"one\.json"):
        Parts(tmp_path / "file").get("one", {}, Counted(1))
