"""What the built-in shop sells: its categories and the label of each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.ids import Id, Ids
from macrid.data.shop import pictures

COLUMNS = ("category", "price", "size", "coolness", "boldness", "heel", "brightness")  # used to draw pictures
FACTORS = ("size", "colour", "price", "style", "heel", "brightness")


@dataclass(frozen=True)
class Category:
    """A category: its name, its share of the catalogue, and the factors in which its items differ."""

    name: str
    prefix: str
    part: float
    factors: tuple[str, ...]
    related: tuple[str, ...]
    title: str
    words: Mapping[str, tuple[str, ...]]
    """Factor → words for −1 to 1, for titles."""
    units: Mapping[str, tuple[float, float]]
    """Factor → the label's values for −1 and 1: a price, centimetres, lumens."""


CATEGORIES = (
    Category("bags", "bag", 0.19, ("size", "colour", "price", "style"), ("shoes", "watches"),
             "{size} {colour} {style} {price} bag",
             {"size": ("tiny", "small", "", "large", "huge"), "price": ("nylon", "canvas", "suede", "leather")},
             {"size": (16, 54), "price": (19, 480)}),
    Category("phone cases", "case", 0.17, ("colour", "price", "style"), ("T-shirts", "watches"),
             "{style} {price} phone case, {colour}",
             {"price": ("soft", "matte", "glossy", "metal-framed")},
             {"price": (6, 60)}),
    Category("shoes", "shoe", 0.16, ("heel", "colour", "price"), ("bags", "T-shirts"),
             "{heel} {colour} {price} shoes",
             {"heel": ("flat", "low-heeled", "mid-heeled", "high-heeled"),
              "price": ("canvas", "suede", "leather", "patent leather")},
             {"heel": (0.5, 11), "price": (24, 320)}),
    Category("T-shirts", "shirt", 0.14, ("size", "colour", "style"), ("shoes", "phone cases"),
             "{size} {style} T-shirt, {colour}",
             {"size": ("skinny", "slim", "", "loose", "oversized")},
             {"size": (42, 70), "price": (12, 30)}),
    Category("mugs", "mug", 0.13, ("size", "colour", "style"), ("lamps", "T-shirts"),
             "{size} {colour} {style} mug",
             {"size": ("tiny", "small", "", "large", "giant")},
             {"size": (6, 15), "price": (7, 16)}),
    Category("lamps", "lamp", 0.11, ("size", "brightness", "colour", "price"), ("mugs",),
             "{size} {brightness} {price} lamp, {colour} shade",
             {"size": ("tiny", "small", "", "tall", "towering"), "price": ("tin", "steel", "brass", "gilded"),
              "brightness": ("dim", "soft", "", "bright", "brilliant")},
             {"size": (18, 160), "brightness": (120, 1600), "price": (15, 380)}),
    Category("watches", "watch", 0.10, ("size", "colour", "price"), ("bags", "phone cases"),
             "{size} {price} watch, {colour} strap",
             {"size": ("petite", "small", "", "large", "oversized"), "price": ("plastic", "steel", "silver", "gold")},
             {"size": (2.6, 4.8), "price": (35, 2400)}),
)  # fmt: skip


def numbered(prefix: str, count: int) -> pa.Array:
    """Ids such as "bag-0017", with the same number of digits for all, at least four."""
    digits = pa.array(np.arange(1, count + 1)).cast(pa.string())
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(digits, max(len(str(count)), 4), "0"), "-")


def items_table(
    category: np.ndarray, factors: dict[str, np.ndarray], random: np.random.Generator
) -> tuple[Ids, pa.Table]:
    """Ids such as "bag-0017", and the label of each item; null where a category lacks a factor.

    category: (items,) ascending positions in CATEGORIES.
    """
    counts = np.bincount(category)
    ids = pa.concat_arrays([numbered(entry.prefix, count) for entry, count in zip(CATEGORIES, counts, strict=True)])
    chance = random.uniform(-1, 1, len(category))  # a price nobody cares about, where price is not a factor
    priced = np.where(np.isnan(factors["price"]), chance, factors["price"])
    low, high = _ends("price", category)
    columns = {
        "title": _titles(category, factors),
        "category": pa.array([entry.name for entry in CATEGORIES]).take(pa.array(category)),
        "price": np.round(low * (high / low) ** ((priced + 1) / 2), 2),
        "size": _labelled("size", category, factors),
        "colour": _worded("colour", factors),
        "coolness": np.round(factors["colour"], 3),
        "style": _worded("style", factors),
        "boldness": np.round(factors["style"], 3),
        "heel": _labelled("heel", category, factors),
        "brightness": _labelled("brightness", category, factors, digits=0),
    }
    return Ids(ids), pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def _ends(name: str, category: np.ndarray) -> np.ndarray:
    """(2, items) the label's values for −1 and 1 of a factor; NaN where a category has no unit for it."""
    return np.array([entry.units.get(name, (np.nan, np.nan)) for entry in CATEGORIES]).T[:, category]


def _labelled(name: str, category: np.ndarray, factors: dict[str, np.ndarray], digits: int = 2) -> np.ndarray:
    """(items,) a factor in the label's unit; NaN where a category lacks it."""
    low, high = _ends(name, category)
    return np.round(low + (high - low) * (factors[name] + 1) / 2, digits)


def _worded(name: str, factors: dict[str, np.ndarray]) -> pa.Array:
    """(items,) the word for a factor whose words all categories share; null where a category lacks it."""
    words, values = _words(CATEGORIES[0], name), factors[name]
    return pa.array(words).take(pa.array(_steps(values, len(words)), mask=np.isnan(values)))


def _words(kind: Category, name: str) -> tuple[str, ...]:
    """The words for a factor from −1 to 1."""
    shared = {"colour": tuple(pictures.COLOURS), "style": pictures.STYLES}
    return shared.get(name) or kind.words[name]


def _steps(values: np.ndarray, count: int) -> np.ndarray:
    """(items,) which of `count` equal parts of [−1, 1] each value lies in, as in `pictures.word`; 0 for NaN."""
    return np.clip(np.nan_to_num((values + 1) / 2 * count).astype(np.int32), 0, count - 1)


def _titles(category: np.ndarray, factors: dict[str, np.ndarray]) -> pa.Array:
    """(items,) titles, written once per category and combination of words, then looked up."""
    parts, start = [], 0
    for kind, count in zip(CATEGORIES, np.bincount(category), strict=True):
        words = {name: _words(kind, name) for name in kind.factors}
        steps = [_steps(factors[name][start : start + count], len(words[name])) for name in kind.factors]
        choice = np.ravel_multi_index(steps, [len(choices) for choices in words.values()])
        titles = [_title(kind, dict(zip(words, chosen, strict=True))) for chosen in product(*words.values())]
        parts.append(pa.array(titles).take(pa.array(choice)))
        start += count
    return pa.concat_arrays(parts)


def _title(kind: Category, words: dict[str, str]) -> str:
    """Such as "Large red leather bag" or "Matte phone case, navy"."""
    if words.get("style") == "plain":
        words = words | {"style": ""}
    text = " ".join(kind.title.format(**words).split())
    return text[0].upper() + text[1:]


def picture_of(items: Ids, table: pa.Table | None, item: Id) -> str | None:
    """The picture of an item of the built-in shop, drawn from its label; None for other items."""
    if table is None or not {"title", *COLUMNS} <= set(table.column_names):
        return None
    (position,) = items.positions([item])
    row = {name: table.column(name)[int(position)].as_py() for name in ("title", *COLUMNS)}
    kind = next((entry for entry in CATEGORIES if entry.name == row["category"]), None)
    if kind is None:
        return None
    columns = {name: {"colour": "coolness", "style": "boldness"}.get(name, name) for name in kind.factors}
    labels = {name: row[column] for name, column in columns.items() if isinstance(row[column], int | float)}
    return pictures.picture(kind.name, {name: _factor(kind, name, labels[name]) for name in labels}, row["title"])


def _factor(kind: Category, name: str, label: float) -> float:
    """A factor, from −1 to 1, read off a label."""
    if name not in kind.units:
        return label
    low, high = kind.units[name]
    if name == "price":
        return float(2 * np.log(max(label, 1e-9) / low) / np.log(high / low) - 1)
    return 2 * (label - low) / (high - low) - 1
