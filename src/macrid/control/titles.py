"""Items by what people call them: "The Matrix" for "Matrix, The (1999)", with typos; a choice where it is unclear."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from macrid.concepts.names import short_title
from macrid.control.search import Search, titles_of
from macrid.control.spelling import distances, typos_allowed, words_of
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.models.base import Recommender

ARTICLES = ("the", "a", "an")
CHOICES = 5  # shown where several items may be meant
MOST_COMPARED = 200  # best matches of a search, among which the nearest title is chosen


@dataclass(frozen=True)
class Match:
    """What a person may have meant."""

    text: str
    position: int | None
    """Of the item; None if none, or more than one, may be meant."""
    choices: tuple[int, ...] = ()
    """Positions of items that may be meant, best first, if it is unclear."""
    is_exact: bool = False
    """Whether the text is the id or title of the item, or of every choice, with or without year and article."""


class Titles:
    """The items of a model by title or id. Thread-safe."""

    def __init__(self, model: Recommender, search: Search | None = None) -> None:
        self.model, self._titles = model, titles_of(model)
        self.search = search or Search(model.items, self._titles, model.popularity, model.table)

    def find(self, text: str) -> Match:
        """The item that a text names: its id, its title, or the only title that has all of its words."""
        match = self.exact(text)
        if match is not None or not (key := _key(text)):
            return match or Match(_tidy(text), None)
        found = self.search.titled(_tidy(text), MOST_COMPARED)
        if len(found) > 1:
            found = self._nearest(key, found) or self._beginning(key, found) or found
        return _match(_tidy(text), found)

    def exact(self, text: str) -> Match | None:
        """The item whose id or title this is, without a search; None if there is none."""
        text = _tidy(text)
        (position,) = self.model.items.positions([self.model.items.parse(text)])
        if position >= 0:
            return Match(text, int(position), is_exact=True)
        key = _key(text)
        same = (self._by_key.get(key) or self._by_key.get(_without_article(key))) if key else None
        if not same:
            return None
        verbatim = [at for at in same if self.caption(at).casefold() == text.casefold()]
        same = self._most_popular_first(verbatim or same)
        has_one_title = len({self.caption(at) for at in same}) == 1  # nobody could tell them apart
        return _match(text, same[:1] if has_one_title else same, is_exact=True)

    def positions(self, texts: Sequence[str]) -> list[Match]:
        """One match per text; a `RequestError` names the first that is unknown or unclear, with the choices."""
        matches = [self.find(text) for text in texts]
        for match in matches:
            if match.position is None:
                raise RequestError(self.question(match))
        return matches

    def question(self, match: Match) -> str:
        """What to ask a person about an unclear text."""
        if not match.choices:
            return f"no item is called '{match.text[:80]}'; search for it, or give an id"
        shown = "; ".join(f"{self.caption(at)} [{self.id_of(at)}]" for at in match.choices[:CHOICES])
        more = " and more" if len(match.choices) > CHOICES else ""
        return f"which '{match.text[:80]}' is meant: {shown}{more}? Give the full title or the id"

    def caption(self, position: int) -> str:
        """The title, else the id."""
        title = None if self._titles is None else self._titles[position]
        return title or str(self.id_of(position))

    def id_of(self, position: int) -> Id:
        return self.model.items[position]

    @cached_property
    def _by_key(self) -> dict[str, list[int]]:
        """Positions by full title, by title without year, and, where no title is just that, without article."""
        by_key, by_rest = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for position, title in enumerate(self._titles or []):
            if title is not None:
                short = _key(short_title(title))
                for key in {_key(title), short} - {""}:
                    by_key[key].append(position)
                by_rest[_without_article(short)].append(position)
        return {**by_rest, **by_key}

    def _most_popular_first(self, positions: Sequence[int]) -> list[int]:
        return sorted(positions, key=lambda at: (-self.model.popularity[at], at))

    def _beginning(self, key: str, found: Sequence[int]) -> list[int]:
        """Those whose titles begin with these words, if any."""
        start = f"{_without_article(key)} "
        return [at for at in found if _without_article(_key(self.caption(at))).startswith(start)]

    def _nearest(self, key: str, found: Sequence[int]) -> list[int]:
        """Those whose titles are a typo or two away, if any."""
        keys = [_without_article(_key(short_title(self.caption(at)))) for at in found]
        key = _without_article(key)
        most = typos_allowed(key)
        edits, _ = distances(key, keys, most)
        near = edits.min(initial=most + 1)
        return [] if near > most else [at for at, far in zip(found, edits, strict=True) if far == near]


def _match(text: str, positions: Sequence[int], is_exact: bool = False) -> Match:
    if len(positions) == 1:
        return Match(text, positions[0], is_exact=is_exact)
    return Match(text, None, tuple(positions), is_exact)


def _tidy(text: str) -> str:
    return " ".join(text.split()).strip(" ,;")


def _key(title: str) -> str:
    return " ".join(words_of(title))


def _without_article(key: str) -> str:
    first, _, rest = key.partition(" ")
    return rest if rest and first in ARTICLES else key
