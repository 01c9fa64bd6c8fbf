"""Ctrl-C at the worst moment."""

import signal
import weakref

import pytest

import macrid
from macrid.data.shop import generate
from macrid.training.interrupts import no_lost_interrupts

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Thing:
    pass


@pytest.fixture(autouse=True)
def usual_handler():
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, previous)


def press_where_python_ignores_it(*_):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    assert reference() is None


def test_an_interrupt_that_python_swallows_is_raised_at_the_next_check():
    with no_lost_interrupts() as check:
        check()
        press_where_python_ignores_it()
        with pytest.raises(KeyboardInterrupt):
            check()


def test_a_training_stops_at_the_next_step_and_keeps_its_best_epoch():
    model = macrid.MacridVAE(concepts=2, dim=4)
    steps = []

    def on_step(done, total):
        steps.append(done)
        if len(model.log) == 2:
            press_where_python_ignores_it()

    with pytest.raises(KeyboardInterrupt):
        model.fit(generate(users=60, items=60, seed=0).interactions, epochs=50, device="cpu", on_step=on_step)
    assert len(model.log) == 2
    assert steps[-1] == 1
    assert len(model.recommend([model.items[0]], 3)) == 3
