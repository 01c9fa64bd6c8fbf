"""Wishes in words, and how they were read."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from macrid.control.words import LONGEST
from macrid.serving.schemas.wire import ItemRef, Move, Wire


class WordsRequest(Wire, json_schema_extra={"examples": [{"text": "larger bags, cheaper, no blue"}]}):
    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
    """Wishes, separated by commas: "newer", "less horror", "no westerns", "like Alien"."""


class Understood(Wire):
    text: str
    """As written."""
    meaning: str


class NotUnderstood(Wire):
    text: str
    why: str
    """What to write instead, or which items may be meant."""
    choices: list[str]
    """Ids of items that may be meant."""


class Wishes(Wire):
    """What to send with the next request for recommendations."""

    history: list[ItemRef]
    """Items named as examples."""
    moves: list[Move]
    where: str | None
    """A condition on items."""
    understood: list[Understood]
    not_understood: list[NotUnderstood]
