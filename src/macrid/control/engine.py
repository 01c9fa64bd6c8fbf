"""One engine for all recommendations: questions (history, n, candidates, moves, one concept or all) and their answers
(items, scores, what changed and why), many at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

import numpy as np
import torch

from macrid.concepts.space import space_of
from macrid.control.moves import Move
from macrid.control.state import Effect, Ranking, State
from macrid.errors import MacridError, RequestError
from macrid.models.base import Recommender
from macrid.models.forks import new_lock

SHORT = 128  # items; shorter lists are ranked apart from longer ones, and less deep
LISTS_KEPT = 256  # unmoved lists, kept for comparison
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

    @property
    def is_stateful(self) -> bool:
        """Whether the answer needs the user's components."""
        return bool(self.moves) or self.concept is not None or self.by_concept or self.shares


@dataclass(frozen=True)
class Change(Generic[T]):
    """An item whose rank changed; ranks start at 1, and None is not in the list."""

    item: T
    before: int | None
    after: int | None


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
        groups: dict[tuple[int, bool], list[int]] = {}  # ranked together
        stateful = [at for at, question in enumerate(questions) if question.is_stateful]
        for at, question in enumerate(questions):
            if not question.is_stateful:
                groups.setdefault((id(question.allowed), question.n > SHORT), []).append(at)
        for group in groups.values():
            answers |= zip(group, self._ranked([questions[at] for at in group]), strict=True)
        if stateful:
            answers |= zip(stateful, self._steered([questions[at] for at in stateful]), strict=True)
        return [answers[at] for at in range(len(questions))]

    def _ranked(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        """For questions without moves and with the same `allowed`."""
        model, allowed = self.model, questions[0].allowed
        hidden = model.matrix([question.hidden for question in questions])
        left = model.items_left(hidden, allowed).tolist()
        depth = max(1, *(min(question.n, most) for question, most in zip(questions, left, strict=True)))
        histories = model.matrix([question.history for question in questions])
        positions, scores = (part.cpu().numpy() for part in model.rank(histories, depth, hidden, allowed))
        answers: list[Answer | Exception] = []
        for at, question in enumerate(questions):
            try:
                model.check_enough(question.n, left[at])
                answers.append(Answer(Ranking(positions[at][: question.n], scores[at][: question.n])))
            except RequestError as error:
                answers.append(error)
        return answers

    def _steered(self, questions: Sequence[Question]) -> Iterator[Answer | Exception]:
        try:
            space = space_of(self.model)
        except MacridError as error:
            yield from [error] * len(questions)
            return
        states = State.all_of(space, self.model.matrix([question.history for question in questions]))
        for question, start in zip(questions, states, strict=True):
            try:
                yield self._steer(question, start)
            except Exception as error:  # any error belongs to this question alone
                yield error

    def _steer(self, question: Question, start: State) -> Answer:
        q, moved = question, start.after(question.moves, question.bounded)
        if q.concept is None:
            hidden = self.model.matrix([q.hidden])
            self.model.check_enough(q.n, int(self.model.items_left(hidden, q.allowed)[0]))
        else:
            start.space.check(q.concept)
        shares = moved.state.shares().numpy()
        order = np.argsort(-shares, kind="stable").tolist() if q.by_concept else []
        return Answer(
            moved.state.best(q.n, q.hidden, q.allowed, q.concept),
            self._before(q, start, q.concept) if q.moves else None,
            moved.moves,
            moved.effects,
            shares,
            {k: moved.state.best(q.n, q.hidden, q.allowed, k) for k in order},
            {k: self._before(q, start, k) for k in order} if q.moves else {},
            moved.warnings,
        )

    def _before(self, question: Question, start: State, concept: int | None) -> Ranking:
        """The unmoved list, cached: it is the same for every move a user tries."""
        q = question
        chosen = None if q.allowed is None else blake2b(q.allowed.tobytes()).digest()
        key = start.space.version, q.history.tobytes(), q.n, q.hidden.tobytes(), chosen, concept
        with self._lock:
            ranking = self._unmoved.pop(key, None)
        ranking = ranking or start.best(q.n, q.hidden, q.allowed, concept)
        with self._lock:
            self._unmoved[key] = ranking  # the most recent last
            while len(self._unmoved) > LISTS_KEPT:
                del self._unmoved[next(iter(self._unmoved))]
        return ranking
