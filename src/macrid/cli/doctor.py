"""macrid doctor: what this machine has and lacks."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from rich.filesize import decimal
from rich.text import Text

from macrid.cli.common import console, print_json, table
from macrid.openmp import described
from macrid.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "pyarrow", "pydantic", "safetensors", "typer", "rich")


def doctor(
    folder: Path | None = typer.Argument(None, metavar="RUN", help="A run or a prepared folder to check."),
    accept: bool = typer.Option(False, "--accept", help="Take edited names of a run as they are."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Check the installation, or every file of a run: is it what macrid wrote, and does it fit the others?

    Example: macrid doctor

    Example: macrid doctor runs/shop
    """
    if accept and folder is None:
        raise typer.BadParameter("--accept needs a run: macrid doctor RUN --accept")
    if accept:
        from macrid.runs import accept as accept_run

        accept_run(folder or "")
    checks = _checks() if folder is None else _check_folder(folder)
    is_well = all(ok for _, ok, _ in checks)
    if json:
        print_json({name: {"ok": ok, "found": found} for name, ok, found in checks})
    else:
        rows = ((Text("ok", "green") if ok else Text("no", "red"), name, found) for name, ok, found in checks)
        console.print(table(("ok", "what", "found"), rows, header=False))
        if folder is not None:
            problems = sum(not ok for _, ok, _ in checks)
            verdict = "nothing is wrong" if is_well else f"{problems} problem{'s' * (problems > 1)}"
            console.print(f"{folder}: {verdict}", soft_wrap=True)
    if not is_well:
        raise typer.Exit(1)


def _check_folder(folder: Path) -> list[tuple[str, bool, str]]:
    """Every file of a run or a prepared folder, and whatever else is wrong."""
    from macrid.data import store
    from macrid.runs import CACHES, EDITABLE, FILES, REMEDY, TRAINING, examine

    if (folder / "about.json").exists():
        wrong, names, remedy = store.examine(folder), store.FILES, store.REMEDY
    else:
        wrong, names, remedy = examine(folder), FILES, REMEDY
    remedies = {
        **dict.fromkeys(EDITABLE, "; accept it with --accept, or write names again with `macrid names RUN --anew`"),
        **dict.fromkeys(CACHES, "; delete it, it is computed again when needed"),
        "index.safetensors": "; build it again with `macrid index RUN`",
    }
    sizes = {name: decimal((folder / name).stat().st_size) for name in names if (folder / name).exists()}
    checks = [(name, True, size) for name, size in sizes.items() if name not in wrong]
    checks += [
        (name, False, problem + remedies.get(name, f"; {remedy}" if name in names else ""))
        for name, problem in wrong.items()
    ]
    if (folder / TRAINING).is_dir():
        checks.append((TRAINING, True, "an interrupted training; continue it with `macrid train … --resume`"))
    return checks


def _checks() -> list[tuple[str, bool, str]]:
    checks: list[tuple[str, bool, str]] = [
        ("macrid", True, __version__),
        ("python", sys.version_info >= (3, 11), f"{platform.python_version()} on {platform.platform()}"),
    ]
    for package in PACKAGES:
        try:
            checks.append((package, True, version(package)))
        except PackageNotFoundError:
            checks.append((package, False, f"missing; pip install {package}"))
    checks += [_compute(), ("OpenMP", True, described())]
    checks += _folders()
    return checks


def _compute() -> tuple[str, bool, str]:
    try:
        import torch

        threads = f"{torch.get_num_threads()} CPU threads"
        if not torch.cuda.is_available():
            return "device", True, f"cpu ({threads}); no GPU found; training works without one"
        properties: Any = torch.cuda.get_device_properties(0)
        kernels = "fused kernels" if find_spec("triton") else "no fused kernels; pip install triton"
        memory = f"{properties.total_memory / 2**30:.0f} GiB"
        return "device", True, f"cuda: {properties.name}, {memory}, {kernels}; {threads}"
    except (ImportError, RuntimeError, OSError) as error:
        return "device", False, f"torch does not work: {error}"


def _folders() -> list[tuple[str, bool, str]]:
    from macrid.data import catalog

    data, cache = os.environ.get("MACRID_DATA"), str(catalog.cache_folder())
    is_usable = data is None or os.path.isdir(data)
    available = [name for name in catalog.names() if catalog.status(catalog.entry(name)) in ("at hand", "built in")]
    return [
        ("MACRID_DATA", is_usable, f"{data or 'not set'}{'' if is_usable else ': no such folder'}"),
        ("cache", _writable(cache), cache),
        ("data at hand", True, ", ".join(available) or "none; macrid data list"),
    ]


def _writable(folder: str) -> bool:
    """Whether a folder is writable, or can be created."""
    folder = os.path.abspath(folder)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK)
