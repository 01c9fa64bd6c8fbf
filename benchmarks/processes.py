"""Processes that a process started, and those that they started."""

from pathlib import Path


def below(root, name=""):
    """The ids of all descendants whose command contains a name."""
    children = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(after[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        of_one = children.get(waiting.pop(), [])
        waiting += of_one
        found += of_one
    return sorted(pid for pid in found if name in _command(pid))


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "\0"
