"""A MacridVAE as a notebook shows it: its concepts, each with a name, typical items and what can be moved in it."""

from __future__ import annotations

import numpy as np

from macrid import markup
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import dimensions_text, label
from macrid.concepts.space import space_of
from macrid.models.macridvae import MacridVAE

MOST_ITEMS = 8  # per concept


def model_html(model: MacridVAE) -> str:
    """Concepts by number of items; by their numbers only, until they are named."""
    if not len(model.items):
        return markup.fragment(markup.heading(repr(model), "not trained yet"))
    space, names = space_of(model), meaning_of(model).names
    counts, typical = np.bincount(space.concept_of, minlength=space.concepts), space.typical_items(MOST_ITEMS)
    parts = [markup.heading(type(model).__name__, f"{len(model.items):,} items, {space.concepts} concepts")]
    for concept in np.argsort(-counts, kind="stable").tolist():
        name = f"concept {concept}" if names is None else f"{concept}: {label(names.concept(concept))}"
        moves = "" if names is None else dimensions_text(names, concept)
        about = f"{counts[concept] / len(model.items):.0%} of the items{'; ' * bool(moves)}{moves}"
        cards = [
            markup.Card(item.title or str(item.id), (), model.pictures.of(item.id), item.concept)
            for item in typical[concept]
        ]
        parts += [markup.heading(name, about), markup.cards(cards, in_a_row=True)]
    return markup.fragment(*parts)
