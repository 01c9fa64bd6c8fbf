"""The built-in shop: data drawn from a known law, so that every answer can be checked.

The law: p(u, i) = share(u, c) · appeal(i) · exp(match(u, i)) / Z(u, c), where c is the item's category and Z(u, c) sums
appeal · exp(match) over the category.

- share(u, ·): a user likes two to four categories, related ones more often together (bags and shoes, mugs and lamps),
  with Dirichlet weights; a small share leaks into every category.
- appeal(i): Zipf-Mandelbrot by rank in the category, so a few items get most of the interactions.
- match(u, i) = −½ Σ_f s(u, c, f) · (f(i) − m(u, c, f))² over the micro factors f of the category. Each user has a
  preferred point m and a strength s per category: someone who likes large bags may like small mugs. Expanded, match is
  linear in s · m and s: every factor is a direction that a model can learn.

A history is drawn without replacement, one item after another (Plackett-Luce). Given the user, no ranking of the unseen
items can beat ranking by p(u, ·) on average: `Shop.oracle` is its NDCG. How to draw from it is in `law`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from pydantic import Field, PositiveFloat

from macrid.data.ids import Id, Ids
from macrid.data.interactions import Interactions, ReadReport
from macrid.data.shop.assortment import CATEGORIES, FACTORS, items_table, numbered, picture_of
from macrid.data.shop.law import blocks, draw
from macrid.data.split import HeldOut, Split
from macrid.errors import RequestError, SettingsError
from macrid.settings import Settings

POPULARITY_OFFSET = 0.05  # where ranks start, as a share of the category: keeps the first item from taking everything


class Laws(Settings):
    """Settings of the generator; with the defaults, categories and factors can be learned but are not obvious."""

    per_user: float = Field(default=40.0, gt=0)
    """Mean interactions per user, unless a total is given."""
    fewest: int = Field(default=10, ge=1)
    """Interactions of the least active users."""
    activity_spread: float = Field(default=0.55, ge=0)
    """Standard deviation of the log of a user's interactions beyond the fewest."""
    popularity_decay: float = Field(default=2.2, ge=0)
    """Exponent by which appeal falls with rank; 0 makes all items of a category equally popular."""
    relatedness: float = Field(default=3.0, gt=0)
    """How many times likelier a category is to be liked together with a related one than with an unrelated one."""
    likes: tuple[PositiveFloat, PositiveFloat, PositiveFloat] = (0.45, 0.38, 0.17)
    """Relative numbers of users who like two, three and four categories."""
    focus: float = Field(default=3.0, gt=0)
    """Dirichlet parameter of the weights of the liked categories; lower is more uneven."""
    leak: float = Field(default=0.12, gt=0, le=1)
    """Share of the interactions that goes to any category, liked or not."""
    strength: float = Field(default=2.1, ge=0)
    """Mean strength of a user's preference for a micro factor; with 0, factors do not matter."""


@dataclass(frozen=True, eq=False)
class Shop:
    """Interactions and the ground truth behind them, by user and item position in `interactions`."""

    interactions: Interactions
    category: np.ndarray
    """(items,) position in `category_names`."""
    category_names: tuple[str, ...]
    factors: dict[str, np.ndarray]
    """Name → (items,) in [−1, 1]; NaN where the category lacks the factor."""
    popularity: np.ndarray
    """(items,) appeal; the items of a category sum to 1."""
    likes: np.ndarray
    """(users, categories) whether a user likes a category."""
    share: np.ndarray
    """(users, categories) probability that a user's first item is of a category; rows sum to 1."""
    preferred: dict[str, np.ndarray]
    """Factor name → (users, categories) preferred point in [−1, 1]; NaN where the category lacks the factor."""
    strength: dict[str, np.ndarray]
    """Factor name → (users, categories) how much the factor matters."""
    laws: Laws = field(default_factory=Laws)
    seed: int = 0

    def __repr__(self) -> str:
        return f"Shop({self.interactions!r}, {len(self.category_names)} categories, seed={self.seed})"

    def probabilities(self, users: np.ndarray | Sequence[int]) -> np.ndarray:
        """(n, items) true probability that each item is a user's first; rows sum to 1.

        users: (n,) positions in `interactions.users`.
        """
        users = np.asarray(users, dtype=np.int64)
        result = np.empty((len(users), len(self.category)))
        for category, (items, _, _) in enumerate(self._item_terms):
            block = self._weights(users, category)
            block *= (self.share[users, category] / block.sum(axis=1))[:, None]
            result[:, items] = block
        return result

    def split(self, heldout: int | float = 0.1, seed: int = 98765) -> Split:
        """Hold out users for validation and for test, by default a tenth each."""
        return self.interactions.split(heldout, seed)

    def oracle(self, heldout: HeldOut, items: Ids, k: int = 100) -> float:
        """Mean NDCG@k of ranking by true probability: the best that any model can reach on average.

        heldout: users of this shop; those with nothing to predict are skipped.
        items: the columns of `heldout` (`split.items`).
        """
        if k < 1:
            raise RequestError(f"k is {k}; it must be at least 1")
        users = self._known(self.interactions.users, heldout.users, "user")
        columns = self._known(self.interactions.items, items, "item")
        if heldout.target.shape[1] != len(columns):
            raise RequestError(f"heldout has {heldout.target.shape[1]:,} columns, but there are {len(columns):,} items")
        rows = np.flatnonzero(heldout.target.sum(axis=1) > 0)
        if not len(rows):
            raise RequestError("no held-out user has anything to predict; hold out users with longer histories")
        total = 0.0
        for block in blocks(len(rows), len(self.category)):
            chunk = rows[block]
            scores = self.probabilities(users[chunk])[:, columns]
            history = heldout.history[chunk]
            scores[np.repeat(np.arange(len(chunk)), np.diff(history.indptr)), history.indices] = -np.inf
            total += float(ndcg(scores, heldout.target[chunk].toarray() > 0, k).sum())
        return total / len(rows)

    def picture(self, item: Id) -> str:
        """A small SVG drawn from the item's label."""
        self._known(self.interactions.items, [item], "item")
        drawn = picture_of(self.interactions.items, self.interactions.table, item)
        assert drawn is not None
        return drawn

    @staticmethod
    def _known(ids: Ids, wanted: Ids | Sequence[Id], what: str) -> np.ndarray:
        positions = ids.positions(wanted)
        if (positions < 0).any():
            unknown = wanted[int(np.argmin(positions))]
            raise RequestError(
                f"unknown {what} {unknown!r}; this shop's {what}s are {ids[0]!r} … {ids[len(ids) - 1]!r}"
            )
        return positions

    @cached_property
    def _item_terms(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Per category: its items (n,), their log appeal (n,), and the terms (2 · factors, n) that users' multiply."""
        terms = []
        for number in range(len(self.category_names)):
            items = np.flatnonzero(self.category == number)
            values = np.stack([self.factors[name][items] for name in CATEGORIES[number].factors])
            terms.append((items, np.log(self.popularity[items]), np.concatenate([values, -0.5 * values**2])))
        return terms

    def _weights(self, users: np.ndarray, category: int) -> np.ndarray:
        """(n, items of the category) unnormalised probabilities within the category, at most 1."""
        _, log_appeal, basis = self._item_terms[category]
        block = self._user_terms(users, category) @ basis + log_appeal
        block -= block.max(axis=1, keepdims=True)
        return np.exp(block, out=block)

    def _user_terms(self, users: np.ndarray, category: int) -> np.ndarray:
        """(n, 2 · factors): −½ s (f − m)² = (s m) f + s (−½ f²) + a constant."""
        names = CATEGORIES[category].factors
        strength = np.stack([self.strength[name][users, category] for name in names], axis=1)
        preferred = np.stack([self.preferred[name][users, category] for name in names], axis=1)
        return np.concatenate([strength * preferred, strength], axis=1)


def generate(
    users: int = 4000, items: int = 1200, seed: int = 0, *, interactions: int | None = None, laws: Laws | None = None
) -> Shop:
    """Draw a shop. The same arguments give the same shop.

    interactions: approximate total; by default `laws.per_user` per user.
    """
    laws = laws or Laws()
    _check(users, items, seed, interactions, laws)
    item_stream, user_stream, click_stream = np.random.SeedSequence(seed).spawn(3)
    random = np.random.default_rng(item_stream)
    category = np.repeat(np.arange(len(CATEGORIES)), _category_sizes(items))
    factors = _item_factors(category, random)
    popularity = _appeal(category, laws.popularity_decay, random)
    item_ids, table = items_table(category, factors, random)
    random = np.random.default_rng(user_stream)
    likes, share = _tastes(users, laws, random)
    preferred, strength = _preferences(users, laws.strength, random)
    counts = _activity(users, items, interactions or laws.per_user * users, laws, random)
    user_ids = Ids(numbered("user", users))
    nothing = np.empty(0, dtype=np.int32)
    empty = Interactions.from_pairs(nothing, nothing, user_ids, item_ids, table)
    names = tuple(entry.name for entry in CATEGORIES)
    shop = Shop(empty, category, names, factors, popularity, likes, share, preferred, strength, laws, seed)
    rows, columns = draw(shop, counts, click_stream)
    report = ReadReport(source=f"the built-in shop, seed {seed}", rows=len(rows))
    return replace(shop, interactions=Interactions.from_pairs(rows, columns, user_ids, item_ids, table, report))


def ndcg(scores: np.ndarray, relevant: np.ndarray, k: int) -> np.ndarray:
    """(users,) NDCG@k with binary relevance: log2 discount, the ideal cut at min(k, relevant items).

    scores: (users, items), −inf for excluded items; relevant: (users, items), at least one per row.
    """
    k = min(k, scores.shape[1])
    top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable"), axis=1)
    discount = 1 / np.log2(np.arange(2, k + 2))
    gain = np.take_along_axis(relevant, top, axis=1) @ discount
    return gain / np.cumsum(discount)[np.minimum(relevant.sum(axis=1), k) - 1]


def _check(users: int, items: int, seed: int, interactions: int | None, laws: Laws) -> None:
    if users < 1:
        raise SettingsError(f"shop: users is {users}; it must be at least 1")
    fewest = max(2 * laws.fewest, 6 * len(CATEGORIES))
    if items < fewest:
        raise SettingsError(f"shop: items is {items}; it must be at least {fewest}")
    if seed < 0:
        raise SettingsError(f"shop: seed is {seed}; it must not be negative")
    if interactions is not None and not laws.fewest * users <= interactions <= users * (items // 4):
        raise SettingsError(
            f"shop: interactions is {interactions:,}; {users:,} users and {items:,} items allow from"
            f" {laws.fewest * users:,} ({laws.fewest} per user) to {users * (items // 4):,}"
        )


def _category_sizes(items: int) -> np.ndarray:
    """(categories,) that sum to `items`."""
    edges = np.rint(np.cumsum([entry.part for entry in CATEGORIES]) * items).astype(np.int64)
    return np.diff(edges, prepend=0)


def _item_factors(category: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    result = {}
    for name in FACTORS:
        has_factor = np.array([name in entry.factors for entry in CATEGORIES])[category]
        result[name] = np.where(has_factor, random.uniform(-1, 1, len(category)), np.nan)
    return result


def _appeal(category: np.ndarray, decay: float, random: np.random.Generator) -> np.ndarray:
    """(items,) Zipf-Mandelbrot by rank within the category; ranks are random."""
    parts = []
    for count in np.bincount(category):
        appeal = random.permutation(((np.arange(count) + 0.5) / count + POPULARITY_OFFSET) ** -decay)
        parts.append(appeal / appeal.sum())
    return np.concatenate(parts)


def _tastes(users: int, laws: Laws, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which categories each user likes, and how their interactions divide; both (users, categories)."""
    part = np.array([entry.part for entry in CATEGORIES])
    kin = np.array([[laws.relatedness if b.name in a.related else 1.0 for b in CATEGORIES] for a in CATEGORIES])
    like_counts = random.choice([2, 3, 4], size=users, p=np.array(laws.likes) / sum(laws.likes))
    likes = np.zeros((users, len(CATEGORIES)), dtype=bool)
    for turn in range(4):
        weight = part * np.exp(likes @ np.log(kin))  # each category liked so far promotes its kin
        weight[likes] = 0
        race = random.standard_exponential(likes.shape) / np.maximum(weight, 1e-300)
        chosen = np.flatnonzero(like_counts > turn)
        likes[chosen, race[chosen].argmin(axis=1)] = True
    weight = np.where(likes, random.standard_gamma(laws.focus, likes.shape), 0)
    weight /= weight.sum(axis=1, keepdims=True)
    return likes, (1 - laws.leak) * weight + laws.leak * part


def _preferences(
    users: int, strength: float, random: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Preferred point and strength by factor, each (users, categories), drawn independently everywhere."""
    preferred, strengths = {}, {}
    for name in FACTORS:
        has_factor = np.array([name in entry.factors for entry in CATEGORIES])
        shape = (users, len(CATEGORIES))
        preferred[name] = np.where(has_factor, np.cbrt(random.uniform(-1, 1, shape)), np.nan)
        strengths[name] = np.where(has_factor, strength / 3 * random.standard_gamma(3, shape), np.nan)
    return preferred, strengths


def _activity(users: int, items: int, total: float, laws: Laws, random: np.random.Generator) -> np.ndarray:
    """(users,) number of interactions: log-normal above the fewest, at most half the catalogue."""
    above = random.lognormal(0, laws.activity_spread, users)
    above *= (total / users - laws.fewest) / above.mean()
    return np.clip(np.rint(laws.fewest + above), laws.fewest, items // 2).astype(np.int64)
