"""What the built-in shop sells: its categories, and what it prints about each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from macrid.data import pictures
from macrid.data.ids import Ids

FACTORS = ("size", "colour", "price", "style", "heel", "brightness")


@dataclass(frozen=True)
class Category:
    """One kind of thing: what it is called, how much of the catalogue it fills, and what its items differ in."""

    name: str
    prefix: str
    part: float
    factors: tuple[str, ...]
    related: tuple[str, ...]
    title: str
    words: Mapping[str, tuple[str, ...]]
    """Factor → words for it from −1 to 1, for titles."""
    units: Mapping[str, tuple[float, float]]
    """Factor → what −1 and 1 are on the label: a price, centimetres, lumens."""


CATEGORIES = (
    Category(
        name="bags",
        prefix="bag",
        part=0.19,
        factors=("size", "colour", "price", "style"),
        related=("shoes", "watches"),
        title="{size} {colour} {style} {price} bag",
        words={"size": ("tiny", "small", "", "large", "huge"), "price": ("nylon", "canvas", "suede", "leather")},
        units={"size": (16, 54), "price": (19, 480)},
    ),
    Category(
        name="phone cases",
        prefix="case",
        part=0.17,
        factors=("colour", "price", "style"),
        related=("T-shirts", "watches"),
        title="{style} {price} phone case, {colour}",
        words={"price": ("soft", "matte", "glossy", "metal-framed")},
        units={"price": (6, 60)},
    ),
    Category(
        name="shoes",
        prefix="shoe",
        part=0.16,
        factors=("heel", "colour", "price"),
        related=("bags", "T-shirts"),
        title="{heel} {colour} {price} shoes",
        words={
            "heel": ("flat", "low-heeled", "mid-heeled", "high-heeled"),
            "price": ("canvas", "suede", "leather", "patent leather"),
        },
        units={"heel": (0.5, 11), "price": (24, 320)},
    ),
    Category(
        name="T-shirts",
        prefix="shirt",
        part=0.14,
        factors=("size", "colour", "style"),
        related=("shoes", "phone cases"),
        title="{size} {style} T-shirt, {colour}",
        words={"size": ("skinny", "slim", "", "loose", "oversized")},
        units={"size": (42, 70), "price": (12, 30)},
    ),
    Category(
        name="mugs",
        prefix="mug",
        part=0.13,
        factors=("size", "colour", "style"),
        related=("lamps", "T-shirts"),
        title="{size} {colour} {style} mug",
        words={"size": ("tiny", "small", "", "large", "giant")},
        units={"size": (6, 15), "price": (7, 16)},
    ),
    Category(
        name="lamps",
        prefix="lamp",
        part=0.11,
        factors=("size", "brightness", "colour", "price"),
        related=("mugs",),
        title="{size} {brightness} {price} lamp, {colour} shade",
        words={
            "size": ("tiny", "small", "", "tall", "towering"),
            "brightness": ("dim", "soft", "", "bright", "brilliant"),
            "price": ("tin", "steel", "brass", "gilded"),
        },
        units={"size": (18, 160), "brightness": (120, 1600), "price": (15, 380)},
    ),
    Category(
        name="watches",
        prefix="watch",
        part=0.10,
        factors=("size", "colour", "price"),
        related=("bags", "phone cases"),
        title="{size} {price} watch, {colour} strap",
        words={"size": ("petite", "small", "", "large", "oversized"), "price": ("plastic", "steel", "silver", "gold")},
        units={"size": (2.6, 4.8), "price": (35, 2400)},
    ),
)


def numbered(prefix: str, count: int) -> list[str]:
    width = max(len(str(count)), 4)
    return [f"{prefix}-{number:0{width}d}" for number in range(1, count + 1)]


def items_table(
    category: np.ndarray, factors: dict[str, np.ndarray], random: np.random.Generator
) -> tuple[Ids, pa.Table]:
    """Ids such as "bag-0017", and what a shop would print about each item; null where a category lacks a factor."""
    counts = np.bincount(category)
    ids = [name for entry, count in zip(CATEGORIES, counts, strict=True) for name in numbered(entry.prefix, count)]
    kinds = [CATEGORIES[number] for number in category]
    chance = random.uniform(-1, 1, len(category))  # a price that nobody cares about, where price is no factor
    priced = np.where(np.isnan(factors["price"]), chance, factors["price"])
    low, high = np.array([kind.units["price"] for kind in kinds]).T
    columns = {
        "title": [_title(kind, factors, item) for item, kind in enumerate(kinds)],
        "category": [kind.name for kind in kinds],
        "price": np.round(low * (high / low) ** ((priced + 1) / 2), 2),
        "size": _labelled("size", kinds, factors),
        "colour": [_word(kind, "colour", value) for kind, value in zip(kinds, factors["colour"], strict=True)],
        "coolness": np.round(factors["colour"], 3),
        "style": [_word(kind, "style", value) for kind, value in zip(kinds, factors["style"], strict=True)],
        "boldness": np.round(factors["style"], 3),
        "heel": _labelled("heel", kinds, factors),
        "brightness": _labelled("brightness", kinds, factors, digits=0),
    }
    return Ids(ids), pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def _labelled(name: str, kinds: Sequence[Category], factors: dict[str, np.ndarray], digits: int = 2) -> np.ndarray:
    """(items,) a factor in the unit of the label; NaN where a category lacks it."""
    low, high = np.array([kind.units.get(name, (np.nan, np.nan)) for kind in kinds]).T
    return np.round(low + (high - low) * (factors[name] + 1) / 2, digits)


def _word(kind: Category, factor: str, value: float) -> str | None:
    """The word for a factor, None where the category lacks it."""
    if factor not in kind.factors:
        return None
    if factor == "colour":
        return pictures.colour_name(value)
    return pictures.word(pictures.STYLES if factor == "style" else kind.words[factor], value)


def _title(kind: Category, factors: dict[str, np.ndarray], item: int) -> str:
    """Such as "Large red leather bag" or "Matte phone case, navy"."""
    words = {name: _word(kind, name, factors[name][item]) for name in kind.factors}
    if words.get("style") == "plain":
        words["style"] = ""
    text = " ".join(kind.title.format(**words).split())
    return text[0].upper() + text[1:]
