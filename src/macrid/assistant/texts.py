"""Short texts for an assistant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LONGEST_VALUE = 100  # characters of an attribute


def lines_of(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line)


def one_line(text: str) -> str:
    return " ".join(text.split())


def plain(value: Any) -> Any:
    """A value of the items table as JSON has it, shortened."""
    if isinstance(value, bool | int | float):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value[:20]]
    text = one_line(str(value))
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def attribute_text(values: Sequence[str]) -> str:
    """A range of numbers, or values."""
    return " to ".join(values) if len(values) == 2 and all(_is_number(value) for value in values) else ", ".join(values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
