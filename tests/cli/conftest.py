"""How tests run a command: in this process, as `macrid` does."""

import sys
import warnings

import pytest

from macrid import cli


@pytest.fixture
def invoke(capsys, monkeypatch):
    """Run a command: (exit code, standard output, standard error)."""

    def run(*args, columns=200):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["macrid", *map(str, args)])
        with warnings.catch_warnings(action="default"), pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run
