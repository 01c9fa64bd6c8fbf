"""The best items of a mixture of concepts without scoring all of them: exactly with a proof, or approximately.

A few cells (`macrid.ops.cells`) are probed for good items; the n-th best of these is the score to beat. A cell or an
item whose bound is lower cannot be among the n best. Every other item is scored exactly, so the list is proved to be
that of `macrid.ops.topk.top`. An approximate search ends after the probe.

Items with a linear part are scored apart, so bounds need not hold for them. log Z_u is estimated from a sample of
items, drawn cell by cell in proportion to what a cell's mean suggests: it moves all scores of a user alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops.cells import ROUNDING, Cells
from macrid.ops.topk import BLOCK, Decoder, Mixture, pairs, top

PROBES = 32  # cells probed first
REACH = 0.35  # of a cell's radius that its best item is likely to have in a user's direction
SPARE = 4  # times n, items of a probe that are scored exactly
TOGETHER = 16  # users whose bounds of cells are computed at once
ROWS = {"cpu": 1 << 17, "cuda": 1 << 24}  # of the table compared at once
MOST_OPEN = 0.4  # share of all items; if bounds of cells leave more, scoring everything is faster
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
    """(batch,) whether the bounds of cells alone proved the list, after the probe"""
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
        block = question.take(slice(first, first + TOGETHER))
        for at, user in enumerate(_users(decoder, cells, block, is_exact=probes is None)):
            excluded = None if hidden is None else hidden[1][hidden[0] == first + at]
            answer = _User(decoder, cells, user, n, excluded, allowed)
            found = answer.find(probes) if only is None else answer.among(only)
            if found is not None:
                answers[first + at] = found
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
    bounds: Tensor  # (cells,), for an exact search
    log_z: Tensor  # without linear parts, ()
    linear: tuple[Tensor, Tensor] | None  # positions and values


def _users(decoder: Decoder, cells: Cells, question: Question, *, is_exact: bool) -> Iterator[_Prepared]:
    z = question.components / decoder.temperature
    log_w = z.new_zeros(z.shape[:2]) if question.log_weights is None else question.log_weights
    queries, off = cells.queries(z, log_w)
    likely = bounds = cells.bounds(z, log_w, REACH).logsumexp(dim=1)
    if is_exact:
        bounds = cells.bounds(z, log_w).logsumexp(dim=1)
    sums = log_z(decoder, cells, z, log_w, DRAWS)
    for user in range(len(z)):
        linear = None
        if question.linear is not None:
            (_, positions), values = pairs(question.linear[[user]], z.device), question.linear[[user]].data
            linear = positions, torch.from_numpy(values).to(z)
        yield _Prepared(
            z[user], log_w[user], queries[:, user], off[user], likely[user], bounds[user], sums[user], linear
        )


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

    def find(self, probes: int | None) -> _Answer | None:
        """None if scoring everything is faster."""
        best, visited = self._probe(PROBES if probes is None else probes)
        if probes is not None:
            return self._answer(*best, at_once=False)
        to_beat = best[1][-1] if len(best[1]) == self.n else best[1].new_tensor(-torch.inf)
        to_beat = to_beat - ROUNDING * (1 + to_beat.abs().nan_to_num(posinf=0))
        is_open = self.user.bounds >= to_beat
        rows = self._rows(is_open.nonzero()[:, 0])
        if len(rows) > MOST_OPEN * len(self.cells.order):
            return None
        found = torch.cat([rows[:0], *(self._above(part, to_beat) for part in self._parts(rows))])
        if len(found) > max(SPARE * self.n, MOST_SCORED * len(self.cells.order)):
            return None
        best = self._best(self.start, found)
        return self._answer(*best, at_once=not bool((is_open & ~visited).any()))

    def among(self, positions: Tensor) -> _Answer:
        """Score these items, in order, and no others."""
        free = positions[~torch.isin(positions, self.apart)]
        return self._answer(*self._best(self.start, free), at_once=True)

    def _probe(self, count: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The best items of the likeliest cells, and which cells these are; more if they have fewer than n items."""
        while True:
            count = min(count, len(self.cells))
            chosen = self.user.likely.topk(count).indices
            positions = self._rough_best(self._rows(chosen.sort().values))
            best = self._best(self.start, positions)
            if len(best[1]) == self.n or count == len(self.cells):
                return best, torch.zeros_like(self.user.likely, dtype=torch.bool).index_fill_(0, chosen, True)
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

    def _above(self, rows: tuple[Tensor, slice], to_beat: Tensor) -> Tensor:
        """Positions of the items whose bound is not below the score to beat. rows: with the concepts they are in."""
        places, concepts = rows
        self.compared += len(places)
        products = self.user.queries[concepts] @ self.cells.table.index_select(0, places).t()  # (concepts, rows)
        limit = to_beat - self.user.off
        hits = (products.amax(dim=0) >= (limit - math.log(len(products))).to(products.dtype)).nonzero()[:, 0]
        sums = products[:, hits].float().logsumexp(dim=0)
        hits = hits[sums + 2.0**-8 * sums.abs().clamp(min=1) >= limit]
        positions = self.cells.order[places[hits]]
        return positions[self._may(positions)]

    def _rows(self, cells: Tensor) -> Tensor:
        """Rows of the table in these cells."""
        starts = self.cells.starts.to(cells.device)
        first, sizes = starts[cells], starts[cells + 1] - starts[cells]
        ends = sizes.cumsum(0)
        shift = torch.repeat_interleave(first - ends + sizes, sizes)
        return torch.arange(len(shift), device=cells.device) + shift

    def _parts(self, rows: Tensor) -> Iterator[tuple[Tensor, slice]]:
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
