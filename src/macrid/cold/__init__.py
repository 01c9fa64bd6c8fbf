"""Items that came after training: vectors from their attributes and from the few events there are."""

from macrid.cold.placing import Placed, Placer, Strength
from macrid.cold.widening import Added, added_of, narrowed, widen

__all__ = ["Added", "Placed", "Placer", "Strength", "added_of", "narrowed", "widen"]
