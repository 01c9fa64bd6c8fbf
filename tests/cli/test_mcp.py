"""`macrid mcp` up to the moment it speaks; tests/assistant has the rest."""

import sys

from macrid.assistant import tools


def test_the_run_is_served_on_standard_input_and_output(invoke, trained_run, monkeypatch):
    ran = []
    monkeypatch.setattr(tools.Server, "run", lambda self, transport: ran.append((self.title, transport)))
    code, out, _ = invoke("mcp", trained_run)
    assert (code, out) == (0, "")
    assert ran == [("macrid: run", "stdio")]


def test_what_cannot_be_offered_is_one_line(invoke, tmp_path, trained_run, monkeypatch):
    code, out, err = invoke("mcp", tmp_path / "none")
    assert (code, out) == (1, "")
    assert str(tmp_path / "none") in err
    monkeypatch.delitem(sys.modules, "macrid.assistant.tools")
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [name for name in sys.modules if name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    code, out, err = invoke("mcp", trained_run)
    assert (code, out) == (1, "")
    assert "pip install 'macrid[mcp]'" in err
