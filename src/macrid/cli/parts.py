"""macrid recommend into a folder of parts, by this process or by Ray."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macrid.cli.common import error_console, step_progress

if TYPE_CHECKING:
    from macrid.cluster.recommending import Progress
    from macrid.models.base import Recommender


def recommend_to_folder(
    model: Recommender,
    run: Path,
    source: Path,
    output: Path,
    n: int,
    columns: dict[str, Any],
    rules: dict[str, Any],
    places: dict[str, Any],
) -> dict[str, Any]:
    """places: ray, device, parts and overwrite of `recommend_in_parts`."""
    from macrid.cluster.recommending import Lists, recommend_in_parts

    latest: Progress | None = None
    with step_progress() as bars:
        bar = bars.add_task("reading", total=None, status="")

        def show(progress: Progress) -> None:
            nonlocal latest
            latest = progress
            if progress.parts:
                status = f"{progress.done:,} of {progress.parts:,} parts"
                bars.update(
                    bar, description="recommending", completed=progress.done, total=progress.parts, status=status
                )
            else:
                bars.update(bar, description="dividing", status=f"{progress.rows:,} events")

        def report(text: str) -> None:
            error_console.print(text, soft_wrap=True)

        try:
            return recommend_in_parts(
                model, run, source, output, Lists(n, rules), columns=columns, **places, progress=show, on_report=report
            )
        except KeyboardInterrupt:
            bars.stop()
            if latest is not None and latest.parts:
                error_console.print(f"{latest.done:,} of {latest.parts:,} parts are done and kept")
            error_console.print(f"continue with: {shlex.join(['macrid', *sys.argv[1:]])}", soft_wrap=True)
            raise
