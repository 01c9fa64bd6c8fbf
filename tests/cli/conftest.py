"""How tests run a command: in this process, as `macrid` does; and a run for commands that look at one."""

import sys
import warnings

import pytest

from macrid import cli, runs


@pytest.fixture
def invoke(capsys, monkeypatch):
    """Run a command: (exit code, standard output, standard error).

    columns: in a terminal of that width; otherwise, as in a pipe.
    """

    def run(*args, columns=None):
        for name, value in {"COLUMNS": columns, "TTY_COMPATIBLE": int(columns is not None)}.items():
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("TERM", "dumb")  # no colours
        monkeypatch.setattr(sys, "argv", ["macrid", *map(str, args)])
        with warnings.catch_warnings(action="default"), pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


@pytest.fixture(scope="session")
def trained_run(trained, tmp_path_factory):
    """The folder of a run with its held-out users: do not change it."""
    model, split = trained
    folder = tmp_path_factory.mktemp("trained") / "run"
    runs.save(model, folder, heldout={"validation": split.validation, "test": split.test})
    return folder
