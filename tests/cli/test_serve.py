"""`macrid serve` up to the moment it serves; tests/serving has the rest."""

import socket
import subprocess
import sys

import pytest

from macrid.cli import serve
from macrid.settings import ServingSettings


@pytest.fixture
def started(monkeypatch):
    """What would be served."""
    calls = []

    def serve_it(run, settings, *, listening, on_ready):
        calls.append((run, settings, listening.getsockname()[1], on_ready))

    monkeypatch.setattr("macrid.serving.server.serve", serve_it)
    return calls


def test_options_become_settings(invoke, trained_run, started, monkeypatch):
    monkeypatch.setenv("MACRID_TOKEN", "from the environment")
    options = ["--port", "0", "--workers", "3", "--origin", "https://a.example", "--name", "a", "--name", "b"]
    code, _, err = invoke("serve", trained_run, *options)
    assert code == 0, err
    ((run, settings, *_),) = started
    assert run == trained_run
    assert settings == ServingSettings.make(
        port=0, workers=3, origins=("https://a.example",), hosts=("a", "b"), token="from the environment"
    )


def test_the_token_is_printed_on_a_terminal_only(invoke, trained_run, started, capsys, monkeypatch):
    invoke("serve", trained_run, "--port", "0", "--token", "correct-horse")
    started[0][3]("http://127.0.0.1:8000/")
    assert "correct-horse" not in capsys.readouterr().out  # which may be a log
    monkeypatch.setattr(type(serve.console), "is_terminal", True)
    started[0][3]("http://127.0.0.1:8000/")
    assert "http://127.0.0.1:8000/#token=correct-horse" in capsys.readouterr().out
    code, _, err = invoke("serve", trained_run, "--token", "short")
    assert code == 1
    assert "8" in err
    assert "short'" not in err


def test_what_cannot_be_served_is_an_error(invoke, tmp_path, trained_run):
    code, out, err = invoke("serve", tmp_path / "none")
    assert (code, out) == (1, "")
    assert str(tmp_path / "none") in err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = invoke("serve", trained_run, "--port", taken.getsockname()[1])
    assert code == 1
    assert "--port" in err
    code, _, err = invoke("serve", trained_run, "--port", "0", "--pictures", tmp_path / "none")
    assert code == 1
    assert "none" in err
    code, _, err = invoke("serve", trained_run, "--port", "70000")
    assert code == 1
    assert "70000" in err


def test_an_address_beyond_this_machine_needs_a_token_or_open(invoke, trained_run, started, monkeypatch):
    monkeypatch.delenv("MACRID_TOKEN", raising=False)
    code, _, err = invoke("serve", trained_run, "--host", "0.0.0.0", "--port", "0")
    assert (code, started) == (1, [])
    assert "--open" in err
    assert "MACRID_TOKEN" in err
    assert invoke("serve", trained_run, "--host", "0.0.0.0", "--port", "0", "--open")[0] == 0
    assert invoke("serve", trained_run, "--host", "0.0.0.0", "--port", "0", "--token", "correct-horse")[0] == 0
    assert [call[1].open for call in started] == [True, False]


def test_the_browser_opens_when_asked(invoke, trained_run, started, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for options in ((), ("--browser",)):
        invoke("serve", trained_run, "--port", "0", *options)
        started[-1][3]("http://127.0.0.1:8000/")
    assert opened == ["http://127.0.0.1:8000/"]


def test_the_demo_takes_the_next_free_port(trained_run, started):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        serve.start(trained_run, ServingSettings.make(port=port), or_next_port=True)
    assert port < started[0][2] <= port + 20


@pytest.mark.slow
def test_missing_packages_are_named_with_the_extra_to_install(trained_run):
    code = "import sys; sys.modules['uvicorn'] = None; from macrid.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "serve", str(trained_run)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "pip install 'macrid[serve]'" in " ".join(result.stderr.split())
