"""One engine for all recommendations: questions (history, n, candidates, rules, moves, one concept or all) and their
answers (items, scores, what changed and why), many at a time.

Scores in answers are always the model's own: rules change which items are listed, and where.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from macrid.concepts.space import space_of
from macrid.control.choosing import pool_size
from macrid.control.listing import Listed, both, listed, shortage
from macrid.control.moves import Move
from macrid.control.rulebook import NO_RULES, Applied, rulebook_of
from macrid.control.rules import Rules
from macrid.control.sources import Many, OneAlone, OneOfMany, Ranker, popular_scores
from macrid.control.state import Effect, Ranking, State
from macrid.errors import MacridError, RequestError
from macrid.models.base import Recommender
from macrid.models.forks import new_lock
from macrid.models.results import DiversityCost

SHORT = 128  # items; shorter lists are ranked apart from longer ones, and less deep
LISTS_KEPT = 256  # unmoved lists, kept for comparison
POPULAR = "no known item in the history: these are the most popular items"
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Question:
    """Items are positions in the model's catalogue."""

    history: np.ndarray
    n: int
    hidden: np.ndarray
    """Must not be chosen."""
    allowed: np.ndarray | None = None
    """(items,) whether an item may be chosen; None allows all."""
    moves: tuple[Move, ...] = ()
    bounded: bool = True
    """Limit moves to the range of real users."""
    concept: int | None = None
    """Only items of this concept; fewer than n if it has fewer."""
    by_concept: bool = False
    """Also the best items of every concept."""
    shares: bool = False
    """Also the shares of concepts, even without moves."""
    rules: tuple[Rules, ...] = ()
    """All filters apply; otherwise the last that say something."""
    standing: tuple[Rules, ...] = ()
    """Rules of the service, before those of the question; no warnings about them."""

    @property
    def is_stateful(self) -> bool:
        """Whether the answer needs the user's components, shelves apart."""
        return bool(self.moves) or self.concept is not None or self.by_concept or self.shares


@dataclass(frozen=True)
class Change(Generic[T]):
    """An item whose rank changed; ranks start at 1, and None is not in the list."""

    item: T
    before: int | None
    after: int | None


@dataclass(frozen=True, eq=False)
class ShelfRanking:
    """The best items of a concept by p · c_ik, score times membership."""

    concept: int
    share: float
    """Of the concept, in the recommendations."""
    ranking: Ranking


@dataclass(frozen=True, eq=False)
class Answer:
    ranking: Ranking
    before: Ranking | None = None
    """Without the moves, if any."""
    moves: tuple[Move, ...] = ()
    """As they were applied."""
    effects: tuple[Effect, ...] = ()
    shares: np.ndarray | None = None
    """(concepts,) of the recommendations; None for a plain list."""
    of_concepts: dict[int, Ranking] = field(default_factory=dict)
    """With `by_concept`, largest share first."""
    of_concepts_before: dict[int, Ranking] = field(default_factory=dict)
    """Without the moves, if any."""
    warnings: tuple[str, ...] = ()
    """About moves beyond the range of real users."""
    notes: tuple[str, ...] = ()
    """What else may surprise: fewer items than requested, what rules ignored, a fallback."""
    is_fallback: bool = False
    """Whether the list has what is popular, as the history has no known item."""
    shelves: tuple[ShelfRanking, ...] = ()
    """Largest share first."""
    cost: DiversityCost | None = None
    """Of diversity, if there is any."""


def changes(before: Sequence[T], after: Sequence[T]) -> dict[str, list[Change[T]]]:
    """What came in, went out, moved up or moved down between two lists."""
    old = {item: rank for rank, item in enumerate(before, start=1)}
    new = {item: rank for rank, item in enumerate(after, start=1)}
    kinds: dict[str, list[Change[T]]] = {"in": [], "out": [], "up": [], "down": []}
    for item, rank in new.items():
        if old.get(item) != rank:
            kind = "in" if item not in old else "up" if rank < old[item] else "down"
            kinds[kind].append(Change(item, old.get(item), rank))
    kinds["out"] = [Change(item, rank, None) for item, rank in old.items() if item not in new]
    return kinds


class Engine:
    """Answers questions about one model, with or without concepts. Thread-safe."""

    def __init__(self, model: Recommender) -> None:
        self.model = model
        self._unmoved: dict[Hashable, Ranking] = {}
        self._lock = new_lock()

    def ask(self, question: Question) -> Answer:
        """Answer one question, or raise its error."""
        (answer,) = self.answer([question])
        if isinstance(answer, Exception):
            raise answer
        return answer

    @torch.no_grad()
    def answer(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        """In order; an error is the answer to its own question only."""
        answers: dict[int, Answer | Exception] = {}
        groups: dict[Hashable, list[int]] = {}  # ranked together
        stateful, applied = list[int](), dict[int, Applied]()
        for at, question in enumerate(questions):
            try:
                applied[at] = rules = self.applied(question)
            except MacridError as error:
                answers[at] = error
                continue
            if question.is_stateful or rules.shelves:
                stateful.append(at)
            else:
                is_fallback = self._has_no_history(question)
                key = id(question.allowed), id(rules), question.n > SHORT, is_fallback
                groups.setdefault(key, []).append(at)
        for group in groups.values():
            answers |= zip(group, self._ranked([questions[at] for at in group], applied[group[0]]), strict=True)
        if stateful:
            asked = [(questions[at], applied[at]) for at in stateful]
            answers |= zip(stateful, self._steered(asked), strict=True)
        return [answers[at] for at in range(len(questions))]

    def applied(self, question: Question) -> Applied:
        """A question's rules, as they apply to the model's items."""
        self.model.check_enough(question.n, question.n)
        if not question.rules and not question.standing:
            return NO_RULES
        return self.check_rules(question.rules, question.standing)

    def check_rules(self, rules: Sequence[Rules], standing: Sequence[Rules] = ()) -> Applied:
        """Rules as they apply; an error if the model cannot follow them."""
        applied = rulebook_of(self.model).apply(rules, standing)
        if applied.demands.diversity and applied.demands.rows is None:
            self.model.item_vectors()  # an error for a model that has none
        if applied.shelves:
            space_of(self.model)
        return applied

    def _has_no_history(self, question: Question) -> bool:
        return not len(question.history) and len(self.model.popularity) == len(self.model.items)

    def _ranked(self, questions: Sequence[Question], rules: Applied) -> list[Answer | Exception]:
        """For questions without moves and with the same `allowed` and rules, all with a history or all without."""
        model, allowed = self.model, both(questions[0].allowed, rules.allowed)
        hidden = model.matrix([question.hidden for question in questions])
        left = model.items_left(hidden, allowed).tolist()
        wanted = ((pool_size(q.n) if rules.reorders else q.n, most) for q, most in zip(questions, left, strict=True))
        depth = max(1, *(min(pair) for pair in wanted))
        histories = model.matrix([question.history for question in questions])
        is_fallback = self._has_no_history(questions[0])
        ranker = Ranker(model, allowed, rules.boost, is_fallback and not model.falls_back)
        ranked = ranker.rank(histories, depth, hidden)
        pinned = ranker.rank_only(histories, [pin.position for pin in rules.pins]) if rules.pins else None
        many = Many(ranker, histories, hidden, ranked, pinned)
        answers: list[Answer | Exception] = []
        for at, question in enumerate(questions):
            n, positions, scores = question.n, ranked.positions[at], ranked.scores[at]
            have = min(n, left[at])
            found = Listed(Ranking(positions[:have], scores[:have]))
            try:
                if rules.reorders:
                    found = listed(model, OneOfMany(many, at), n, left[at], rules, allowed, question.hidden)
                notes = rules.warnings + found.notes
                notes += shortage(model, n, len(found.ranking.positions), left[at], rules)
                notes += (POPULAR,) if is_fallback else ()
                answers.append(Answer(found.ranking, notes=notes, is_fallback=is_fallback, cost=found.cost))
            except RequestError as error:
                answers.append(error)
        return answers

    def _steered(self, asked: Sequence[tuple[Question, Applied]]) -> Iterator[Answer | Exception]:
        try:
            space = space_of(self.model)
        except MacridError as error:
            yield from [error] * len(asked)
            return
        states = State.all_of(space, self.model.matrix([question.history for question, _ in asked]))
        for (question, rules), start in zip(asked, states, strict=True):
            try:
                yield self._steer(question, rules, start)
            except Exception as error:  # any error belongs to this question alone
                yield error

    def _steer(self, question: Question, rules: Applied, start: State) -> Answer:
        q, moved = question, start.after(question.moves, question.bounded)
        if q.concept is not None:
            start.space.check(q.concept)
        is_fallback = not q.is_stateful and self._has_no_history(q)  # with shelves
        scores = popular_scores(self.model).to(moved.state.scores.device) if is_fallback else None
        found = self._list(q, rules, moved.state, q.concept, scores)
        notes = rules.warnings + found.notes + ((POPULAR,) if is_fallback else ())
        if q.concept is None:
            left = int(self.model.items_left(self.model.matrix([q.hidden]), both(q.allowed, rules.allowed))[0])
            notes += shortage(self.model, q.n, len(found.ranking.positions), left, rules)
        of_concepts = moved.state.shares() if scores is None else (start.space.log_terms.exp() @ scores.exp()).cpu()
        shares = of_concepts.numpy()
        order = np.argsort(-shares, kind="stable").tolist()
        shown = order if q.by_concept else []
        return Answer(
            found.ranking,
            self._before(q, rules, start, q.concept) if q.moves else None,
            moved.moves,
            moved.effects,
            shares,
            {k: self._list(q, rules, moved.state, k).ranking for k in shown},
            {k: self._before(q, rules, start, k) for k in shown} if q.moves else {},
            moved.warnings,
            notes,
            is_fallback,
            tuple(self._shelves(q, rules, moved.state, order[: rules.shelves], shares, scores)),
            found.cost,
        )

    def _list(
        self, question: Question, rules: Applied, state: State, concept: int | None, scores: Tensor | None = None
    ) -> Listed:
        """The best items of all concepts or one, by the rules. scores: if not those of the state: (items,)."""
        q, allowed = question, both(question.allowed, rules.allowed)
        if rules.boost is None and not rules.reorders and scores is None:
            return Listed(state.best(q.n, q.hidden, allowed, concept))
        if concept is not None:
            allowed = both(allowed, state.space.concept_of == concept)
        scores = state.scores if scores is None else scores
        source = OneAlone(scores, scores, rules.boost, allowed, q.hidden)
        return listed(self.model, source, q.n, source.left, rules, allowed, q.hidden)

    def _shelves(
        self,
        question: Question,
        rules: Applied,
        state: State,
        order: Sequence[int],
        shares: np.ndarray,
        scores: Tensor | None,
    ) -> Iterator[ShelfRanking]:
        """Without pins; none is empty. shares: of concepts: (concepts,). scores: as for `_list`."""
        space, hidden = state.space, question.hidden
        scores = state.scores if scores is None else scores
        rules, free = replace(rules, pins=()), both(question.allowed, rules.allowed)
        for k in order:
            allowed = both(free, space.concept_of == k)
            source = OneAlone(scores + space.log_terms[k], scores, rules.boost, allowed, hidden)
            ranking = listed(self.model, source, question.n, source.left, rules, allowed, hidden).ranking
            if len(ranking.positions):
                yield ShelfRanking(k, float(shares[k]), ranking)

    def _before(self, question: Question, rules: Applied, start: State, concept: int | None) -> Ranking:
        """The unmoved list, cached: it is the same for every move a user tries."""
        q = question
        chosen = None if q.allowed is None else blake2b(q.allowed.tobytes()).digest()
        by_rules = tuple(each.key for each in (*q.standing, *q.rules))
        key = start.space.version, q.history.tobytes(), q.n, q.hidden.tobytes(), chosen, concept, by_rules
        with self._lock:
            ranking = self._unmoved.pop(key, None)
        ranking = ranking or self._list(q, rules, start, concept).ranking
        with self._lock:
            self._unmoved[key] = ranking  # the most recent last
            while len(self._unmoved) > LISTS_KEPT:
                del self._unmoved[next(iter(self._unmoved))]
        return ranking
