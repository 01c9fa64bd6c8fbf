"""Words as search compares them: without case, accents and punctuation, and how many slips lie between two of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

LONGEST_WORD = 64  # characters; the rest is ignored
APOSTROPHES = "'’‘ʼ`′＇׳״"
UNDECOMPOSED = {"æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i", "ŋ": "n", "ـ": "", "ى": "ي", "ی": "ي", "ک": "ك",
                "ة": "ه"}  # fmt: skip
THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")  # 20,000
WITH_STROKE = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")


class _Folding(dict[int, str]):
    """A table for `str.translate`, filled on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(letter: str) -> str:
    """Drops accents, apostrophes and what is invisible, separates at punctuation, makes Han, kana and symbols words."""
    kind, name = unicodedata.category(letter), unicodedata.name(letter, "")
    if letter in UNDECOMPOSED:
        return UNDECOMPOSED[letter]
    if letter in APOSTROPHES or unicodedata.combining(letter) >= 10 or kind in ("Cf", "Me"):
        return ""
    if "\ufe00" <= letter <= "\ufe0f":
        return ""
    if kind == "So" or (kind == "Lo" and name.startswith(("CJK", "HIRAGANA", "KATAKANA"))):
        return f" {letter}"
    if stroke := WITH_STROKE.match(name):
        return stroke[1].lower()
    return letter if kind[0] in "LNM" else " "


_FOLDING = _Folding()


def words_of(text: str) -> list[str]:
    """The words of a text; one that has none, such as punctuation, counts as a word."""
    return real_words(text) or [word[:LONGEST_WORD] for word in text.casefold().split()]


def real_words(text: str) -> list[str]:
    """The words of a text, if it has any."""
    if "," in text:
        text = THOUSANDS.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    plain = text.casefold().translate(_FOLDING)
    if not plain.isascii():
        plain = unicodedata.normalize("NFC", plain)
    return [word[:LONGEST_WORD] for word in plain.split()]


def singular(word: str) -> str:
    """Of an English word: "comedies" is "comedy"."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "ness")):
        return word[:-1]
    return word


def typos_allowed(word: str) -> int:
    """One from 2 letters, two from 6, none in numbers."""
    return 0 if word.isdecimal() else (len(word) >= 2) + (len(word) >= 6)


def codes_of(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Code points of all words, one after the other, and the length of each word."""
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return codes, np.array([len(word) for word in words], dtype=np.int64)


def distances(word: str, others: Sequence[str], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Optimal string alignment distances from a word to each of the others, and to the nearest prefix of each.

    Exact up to `most`; larger ones are at least `most` + 1.
    """
    codes, lengths = codes_of(others)
    return aligned(word, codes, np.cumsum(lengths) - lengths, lengths, most)


def aligned(
    word: str, codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `distances`, for words that start somewhere in an array of code points."""
    place = np.arange(-most, len(word) + most)[:, None]  # (letters, others)
    inside = (place >= 0) & (place < lengths)
    letters = np.zeros(inside.shape, dtype=np.uint32)
    letters[inside] = codes[(starts + place)[inside]]
    steps = np.arange(2 * most + 1, dtype=np.int16)[:, None]
    before = np.broadcast_to(np.where(steps < most, 100, steps - most), (len(steps), len(starts))).astype(np.int16)
    earlier = swapped = before
    for i, letter in enumerate(map(ord, word)):  # edits from i + 1 letters to i + 1 - most … i + 1 + most of the others
        same = letters[i : i + len(steps)] == letter
        row = before + ~same
        row[:-1] = np.minimum(row[:-1], before[1:] + 1)
        if i:
            row = np.where(swapped & (letters[i - 1 : i - 1 + len(steps)] == letter), np.minimum(row, earlier + 1), row)
        row = np.minimum.accumulate(row - steps, axis=0) + steps
        swapped = letters[i + 1 : i + 1 + len(steps)] == letter
        earlier, before = before, row
    at = lengths - len(word) + most
    whole = np.where(
        (at >= 0) & (at < len(steps)), before[np.clip(at, 0, len(steps) - 1), np.arange(len(at))], most + 1
    )
    return whole.astype(np.int64), before.min(axis=0).astype(np.int64)
