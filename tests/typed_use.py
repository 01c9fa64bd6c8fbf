"""What a type checker accepts and refuses, checked by `make lint`: mypy also reports an ignored error that is none."""

from typing import assert_type

import macrid
from macrid import EASE, MacridVAE, MultDAE, MultVAE, Popularity, Split


def accepted(split: Split) -> None:
    assert_type(MacridVAE(concepts="auto", dim=8, start="svd").fit(split.train, learning_rate=0.1), MacridVAE)
    assert_type(EASE(regularisation=3.0).fit(split.train, validation=split.validation, device="cpu"), EASE)
    MultVAE(dim=3, beta=0.1)
    Popularity().fit(split.train, epochs=1)
    assert_type(macrid.evaluate(EASE(), split.test), macrid.Evaluation)
    assert_type(macrid.steer(MacridVAE(), [1], concept=0, dimension=0, to=0.1), macrid.Steered)


def refused(split: Split) -> None:
    MacridVAE(konzepte=3)  # type: ignore[call-arg]
    MacridVAE(concepts="many")  # type: ignore[arg-type]
    MultVAE(concepts=3)  # type: ignore[call-arg]
    MultDAE(beta=0.1)  # type: ignore[call-arg]
    EASE(dim=3)  # type: ignore[call-arg]
    Popularity(dim=3)  # type: ignore[call-arg]
    MacridVAE().fit(split.train, labels={}, on_epoch=print, learning_rte=0.1)  # type: ignore[call-arg]
    MultVAE().fit(split.train, precision="fp64")  # type: ignore[arg-type]
    EASE().fit(split.train, labels={})  # type: ignore[call-arg]
    macrid.Nonsense  # type: ignore[attr-defined]  # noqa: B018
