"""The best items of a mixture of concepts without scoring all of them: exactly with a proof, or approximately.

A few cells (`macrid.ops.cells`) are probed for good items; the n-th best of these is the score to beat. A part of a
cell or an item whose bound is lower cannot be among the n best. Every other item is scored exactly, so the list is
proved to be that of `macrid.ops.topk.top`. An approximate search ends after the probe.

Items with a linear part are scored apart, so bounds need not hold for them. log Z_u is estimated from a sample of
items, drawn cell by cell in proportion to what a cell's mean suggests: it moves all scores of a user alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops.cells import ROUNDING, Cells
from macrid.ops.topk import BLOCK, Decoder, Mixture, pairs, top

PROBES = 32  # cells probed first
SPARE = 4  # times n, items of a probe that are scored exactly
TOGETHER = 16  # users whose bounds of parts are computed at once
BOUNDS = {"cpu": 1 << 20, "cuda": 1 << 26}  # of parts computed at once, for all users and concepts
ROWS = {"cpu": 1 << 17, "cuda": 1 << 24}  # of the table compared at once
MOST_OPEN = 0.4  # share of all items; if bounds of parts leave more, scoring everything is faster
MOST_SCORED = 0.02  # share of all items scored exactly, likewise
DRAWS = 2048  # items from which log Z is estimated
GOLDEN = 0.6180339887498949  # its multiples are spread evenly over 0 … 1
FEW = 16  # where fewer than one item in FEW is allowed, those are scored and no others


class Question(NamedTuple):
    """A batch of users, as in `Mixture`, with a sparse linear part."""

    components: Tensor
    """z: (batch, concepts, dim)"""
    log_weights: Tensor | None = None
    """(batch, concepts)"""
    linear: sp.csr_array | None = None
    """(batch, items); 0 where it has no entry"""

    def take(self, users: slice | Tensor) -> Question:
        linear = None
        if self.linear is not None:
            linear = sp.csr_array(self.linear[users if isinstance(users, slice) else users.cpu().numpy()])
        log_weights = None if self.log_weights is None else self.log_weights[users]
        return Question(self.components[users], log_weights, linear)

    def mixture(self) -> Mixture:
        """With a dense linear part."""
        z = self.components
        linear = None if self.linear is None else torch.from_numpy(self.linear.toarray()).to(z)
        return Mixture(z, self.log_weights, linear)


class Found(NamedTuple):
    positions: Tensor
    """(batch, n), best first"""
    log_p: Tensor
    """(batch, n) log-probabilities; −inf where there are fewer than n items"""
    at_once: Tensor
    """(batch,) whether the bounds of parts alone proved the list, after the probe"""
    candidates: Tensor
    """(batch,) items scored exactly"""
    compared: Tensor
    """(batch,) items compared by their own bounds"""


@torch.no_grad()
def search(
    decoder: Decoder,
    cells: Cells,
    question: Question,
    n: int,
    *,
    hidden: tuple[Tensor, Tensor] | None = None,
    allowed: Tensor | None = None,
    probes: int | None = None,
) -> Found:
    """The n best items, best first, as `macrid.ops.topk.top` finds them; the order of equal scores is unspecified.

    hidden, allowed: as there. probes: search approximately, in this many cells.
    """
    device, answers = question.components.device, dict[int, _Answer]()
    only = None
    if allowed is not None and FEW * int(allowed.sum()) < len(allowed):
        only = allowed.nonzero()[:, 0]
    for first in range(0, len(question.components), TOGETHER):
        block = _prepare(decoder, cells, question.take(slice(first, first + TOGETHER)))
        users = [
            _User(decoder, cells, each, n, None if hidden is None else hidden[1][hidden[0] == first + at], allowed)
            for at, each in enumerate(block)
        ]
        found: Iterable[_Answer | None]
        if only is not None:
            found = (user.among(only) for user in users)
        elif probes is not None:
            found = (user.near(probes) for user in users)
        else:
            limits = torch.stack([user.probe() for user in users])
            found = (user.find(parts) for user, parts in zip(users, _open_parts(cells, block, limits), strict=True))
        answers |= {first + at: answer for at, answer in enumerate(found) if answer is not None}
    missing = [user for user in range(len(question.components)) if user not in answers]
    if missing:
        answers |= zip(missing, _everything(decoder, question, missing, n, hidden, allowed), strict=True)
    parts = [answers[user] for user in range(len(question.components))]
    if not parts:
        none = torch.zeros(0, dtype=torch.long, device=device)
        return Found(none.view(0, n), question.components.new_empty(0, n), none.bool(), none, none)
    positions, log_p = torch.stack([part.positions for part in parts]), torch.stack([part.log_p for part in parts])
    counts = torch.tensor([part[2:] for part in parts], device=device)
    return Found(positions, log_p, counts[:, 0].bool(), counts[:, 1], counts[:, 2])


@torch.no_grad()
def log_sums(decoder: Decoder, cells: Cells, components: Tensor, draws: int = DRAWS) -> Tensor:
    """`Decoder.log_sums`, estimated: log sum_i c_ik exp(z_k · h_i / tau): (batch, concepts)."""
    batch, concepts, _ = components.shape
    only = torch.full((concepts, concepts), -torch.inf, device=components.device).fill_diagonal_(0)
    z = (components / decoder.temperature).repeat_interleave(concepts, dim=0)
    return log_z(decoder, cells, z, only.repeat(batch, 1), draws).view(batch, concepts)


class _Answer(NamedTuple):
    """As `Found`, of one user."""

    positions: Tensor
    log_p: Tensor
    at_once: bool
    candidates: int
    compared: int


class _Prepared(NamedTuple):
    """One user, and what is computed for many at once."""

    z: Tensor  # over the temperature, (concepts, dim)
    log_w: Tensor  # (concepts,)
    queries: Tensor  # (concepts, width)
    off: Tensor  # ()
    likely: Tensor  # (cells,)
    log_z: Tensor  # without linear parts, ()
    linear: tuple[Tensor, Tensor] | None  # positions and values


def _prepare(decoder: Decoder, cells: Cells, question: Question) -> list[_Prepared]:
    z = question.components / decoder.temperature
    log_w = z.new_zeros(z.shape[:2]) if question.log_weights is None else question.log_weights
    linear: list[tuple[Tensor, Tensor] | None] = [None] * len(z)
    if question.linear is not None:
        for user in range(len(z)):
            row = question.linear[[user]]
            linear[user] = pairs(row, z.device)[1], torch.from_numpy(row.data).to(z)
    parts = z, log_w, *cells.queries(z, log_w), cells.likely(z, log_w), log_z(decoder, cells, z, log_w, DRAWS), linear
    return [_Prepared(*user) for user in zip(*parts, strict=True)]


def _open_parts(cells: Cells, users: Sequence[_Prepared], limits: Tensor) -> Iterator[Tensor]:
    """For each user, the parts that may have an item with a score of at least its limit.

    limits: (users,), less what products may be off.
    """
    queries = torch.stack([user.queries for user in users])
    batch, concepts, width = queries.shape
    at_once = max(1, BOUNDS.get(queries.device.type, BOUNDS["cpu"]) // (batch * concepts))
    open_to, kept = [], []
    for first in range(0, len(cells.part_table), at_once):
        products = queries.view(-1, width) @ cells.part_table[first : first + at_once].t()
        products = products.view(batch, concepts, -1)
        user, part = (products.amax(dim=1) >= _at_least_one(limits, products)[:, None]).nonzero(as_tuple=True)
        reached = _reach(products[user, :, part].t(), limits[user])
        open_to.append(user[reached])
        kept.append(part[reached] + first)
    user, part = torch.cat(open_to), torch.cat(kept)
    by_user = torch.argsort(user, stable=True)
    yield from part[by_user].split(torch.bincount(user, minlength=batch).tolist())


def _at_least_one(limits: Tensor, products: Tensor) -> Tensor:
    """What one of the concepts' terms must reach for their sum to reach a limit. products: (…, concepts, any)."""
    return (limits - math.log(products.shape[-2])).to(products.dtype)


def _reach(products: Tensor, limits: Tensor) -> Tensor:
    """Whether the sum of (concepts, any) terms, which are rounded, may reach the limits (any)."""
    sums = products.float().logsumexp(dim=0)
    return sums + 2.0**-8 * (sums.abs() + math.log(len(products))) >= limits


class _User:
    """A search for one user."""

    def __init__(
        self, decoder: Decoder, cells: Cells, user: _Prepared, n: int, hidden: Tensor | None, allowed: Tensor | None
    ) -> None:
        self.decoder, self.cells, self.user, self.n = decoder, cells, user, n
        none = torch.empty(0, dtype=torch.long, device=user.z.device)
        self.hidden, self.allowed = none if hidden is None else hidden.unique(), allowed
        self.touched, self.linear = (none, user.z.new_empty(0)) if user.linear is None else user.linear
        self.apart = torch.cat([self.hidden, self.touched]).unique()  # not found by bounds
        self.base = self._exact(self.touched)
        self.candidates, self.compared = len(self.touched), 0
        may = ~torch.isin(self.touched, self.hidden) & self._allowed(self.touched)
        self.start = self.touched[may], (self.base + self.linear)[may]

    def near(self, probes: int) -> _Answer:
        """The best items of this many cells."""
        return self._answer(*self._probe(probes), at_once=False)

    def probe(self) -> Tensor:
        """What products must reach for an item to be listed: ()."""
        _, scores = self._probe(PROBES)
        to_beat = scores[-1] if len(scores) == self.n else scores.new_tensor(-torch.inf)
        self.limit = to_beat - ROUNDING * (1 + to_beat.abs().nan_to_num(posinf=0)) - self.user.off
        return self.limit

    def find(self, parts: Tensor) -> _Answer | None:
        """The best items of these parts, which are all that may have some. None if scoring everything is faster."""
        cells, starts = self.cells, self.cells.part_starts
        if int((starts[parts + 1] - starts[parts]).sum()) > MOST_OPEN * len(cells.order):
            return None
        rows = _rows(starts, parts)
        found = torch.cat([rows[:0], *(self._above(block) for block in self._blocks(rows))])
        if len(found) > max(SPARE * self.n, MOST_SCORED * len(cells.order)):
            return None
        return self._answer(*self._best(self.start, found), at_once=bool(self.visited[cells.cell_of[parts]].all()))

    def among(self, positions: Tensor) -> _Answer:
        """Score these items, in order, and no others."""
        free = positions[~torch.isin(positions, self.apart)]
        return self._answer(*self._best(self.start, free), at_once=True)

    def _probe(self, count: int) -> tuple[Tensor, Tensor]:
        """The best items of the likeliest cells, and their scores; of more cells if they have fewer than n items."""
        starts = self.cells.starts.to(self.user.z.device)
        while True:
            count = min(count, len(self.cells))
            chosen = self.user.likely.topk(count).indices
            best = self._best(self.start, self._rough_best(_rows(starts, chosen.sort().values)))
            if len(best[1]) == self.n or count == len(self.cells):
                self.visited = torch.zeros_like(self.user.likely, dtype=torch.bool).index_fill_(0, chosen, True)
                return best
            count *= 4

    def _rough_best(self, rows: Tensor) -> Tensor:
        """Positions of the items of some rows with the best scores by the table, more than n."""
        rows = rows[self._may(self.cells.order[rows])]
        self.compared += len(rows)
        spare = SPARE * (self.n + 2)
        if len(rows) > spare:
            rough = (self.user.queries @ self.cells.table.index_select(0, rows).t()).float().logsumexp(dim=0)
            rows = rows[rough.topk(spare).indices]
        return self.cells.order[rows]

    def _above(self, block: tuple[Tensor, slice]) -> Tensor:
        """Positions of the items that may be listed. block: rows, and the concepts they are in."""
        rows, concepts = block
        self.compared += len(rows)
        products = self.user.queries[concepts] @ self.cells.table.index_select(0, rows).t()  # (concepts, rows)
        hits = (products.amax(dim=0) >= _at_least_one(self.limit, products)).nonzero()[:, 0]
        hits = hits[_reach(products[:, hits], self.limit)]
        positions = self.cells.order[rows[hits]]
        return positions[self._may(positions)]

    def _blocks(self, rows: Tensor) -> Iterator[tuple[Tensor, slice]]:
        """Rows, not too many at once, and the concepts they are in: one if the assignment is hard."""
        size = ROWS.get(rows.device.type, ROWS["cpu"])
        if not self.decoder.is_hard:
            yield from ((part, slice(None)) for part in rows.split(size) if len(part))
            return
        edges = torch.searchsorted(rows, torch.tensor(self.decoder.bounds, device=rows.device)).tolist()
        for concept, (first, last) in enumerate(pairwise(edges)):
            yield from ((part, slice(concept, concept + 1)) for part in rows[first:last].split(size) if len(part))

    def _may(self, positions: Tensor) -> Tensor:
        """Whether items may be listed and are not scored apart."""
        may = self._allowed(positions)
        if len(self.apart):
            at = torch.searchsorted(self.apart, positions).clamp_(max=len(self.apart) - 1)
            may = may & (self.apart[at] != positions)
        return may

    def _allowed(self, positions: Tensor) -> Tensor:
        return torch.ones_like(positions, dtype=torch.bool) if self.allowed is None else self.allowed[positions]

    def _exact(self, positions: Tensor) -> Tensor:
        return exact(self.decoder, self.user.z, self.user.log_w, positions)

    def _best(self, start: tuple[Tensor, Tensor], found: Tensor) -> tuple[Tensor, Tensor]:
        """The n best, or fewer, of items with their scores and of others."""
        self.candidates += len(found)
        positions, scores = torch.cat([start[0], found]), torch.cat([start[1], self._exact(found)])
        values, kept = scores.topk(min(self.n, len(scores)))
        return positions[kept], values

    def _answer(self, positions: Tensor, scores: Tensor, *, at_once: bool) -> _Answer:
        total, short = self.user.log_z, (0, self.n - len(scores))
        if len(self.touched):  # Z, an estimate, less what they are without a linear part, plus what they are with it
            others = total + torch.log1p(-torch.exp(self.base.logsumexp(dim=0) - total).clamp(max=0.999))
            total = torch.logaddexp(others, (self.base + self.linear).logsumexp(dim=0))
        log_p = torch.nn.functional.pad(scores - total, short, value=-torch.inf)
        return _Answer(torch.nn.functional.pad(positions, short), log_p, at_once, self.candidates, self.compared)


def _rows(starts: Tensor, groups: Tensor) -> Tensor:
    """Rows of some groups of consecutive rows."""
    first, sizes = starts[groups], starts[groups + 1] - starts[groups]
    shift = torch.repeat_interleave(first - sizes.cumsum(0) + sizes, sizes)
    return torch.arange(len(shift), device=starts.device) + shift


def _everything(
    decoder: Decoder,
    question: Question,
    users: list[int],
    n: int,
    hidden: tuple[Tensor, Tensor] | None,
    allowed: Tensor | None,
) -> Iterator[_Answer]:
    """Score everything for these users."""
    items, device = len(decoder.items), question.components.device
    at_once = max(1, BLOCK.get(device.type, BLOCK["cpu"]) // items)  # a linear part has a number for every item
    for first in range(0, len(users), at_once):
        at = torch.tensor(users[first : first + at_once], device=device)
        of_users = None
        if hidden is not None:
            place = torch.full((len(question.components),), -1, device=device)
            place[at] = torch.arange(len(at), device=device)
            inside = place[hidden[0]] >= 0
            of_users = place[hidden[0]][inside], hidden[1][inside]
        best = top(decoder, question.take(at).mixture(), n, hidden=of_users, allowed=allowed)
        for positions, log_p in zip(*best, strict=True):
            yield _Answer(positions, log_p, False, items, items)


def exact(decoder: Decoder, z: Tensor, log_w: Tensor, positions: Tensor) -> Tensor:
    """Scores of some items, without linear parts: (positions,).

    z: over the temperature, (concepts, dim). log_w: (concepts,).
    """
    terms = torch.addmm(log_w[:, None], z, decoder.items.index_select(0, positions).t())  # (concepts, positions)
    terms += decoder.log_assignment.index_select(0, positions).t()
    if decoder.is_hard:
        return terms.gather(0, decoder.concept_of[positions][None])[0]
    return terms.logsumexp(dim=0)


def log_z(decoder: Decoder, cells: Cells, z: Tensor, log_w: Tensor, draws: int) -> Tensor:
    """log sum_i sum_k w_k c_ik exp(z_k · h_i), from the same number of items for each user: (batch,).

    z: (batch, concepts, dim) over the temperature. log_w: (batch, concepts).
    """
    mass = (z @ cells.means.t()).add_(cells.log_mass.t()).add_(log_w[..., None]).logsumexp(dim=1)  # (batch, cells)
    shares = mass.softmax(dim=1)
    even = ((torch.arange(draws, device=z.device) + 0.5) / draws).expand(len(z), -1).contiguous()
    chosen = torch.searchsorted(shares.cumsum(dim=1), even).clamp_(max=len(cells) - 1)
    starts = cells.starts.to(z.device)
    sizes = starts.diff()[chosen]
    within = (torch.arange(draws, device=z.device, dtype=torch.float64) * GOLDEN).frac()
    rows = starts[chosen] + (within * sizes).long().clamp_(max=sizes - 1)
    log_q = shares.gather(1, chosen).log() - sizes.log()
    scores = [exact(decoder, *user) for user in zip(z, log_w, cells.order[rows], strict=True)]
    return (torch.stack(scores) - log_q).logsumexp(dim=1) - math.log(draws)
