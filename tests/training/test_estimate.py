"""The time a training takes, estimated from its first steps."""

import pytest

from macrid.training.estimate import Estimate, duration


class Clock:
    """Time that passes when told to."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def estimate(clock, said):
    return Estimate(lambda seconds, epochs: said.append((seconds, epochs)), clock)


def test_it_is_said_once_from_steps_after_the_first(estimate, clock, said):
    clock.now = 30  # loading, before and in the first step
    for number in range(1, 9):
        clock.now += 0 if number == 1 else 0.4
        estimate.after_step(20, 50)
        assert len(said) == (number >= 4)
    assert said == [(pytest.approx(0.4 * 20 * 50), 50)]


def test_quick_epochs_are_measured_whole(estimate, clock, said):
    for _ in range(5):
        clock.now += 0.01
        estimate.after_step(5, 100)
    assert not said
    estimate.after_epoch(0.2, 99)
    estimate.after_epoch(0.2, 98)
    assert said == [(pytest.approx(19.8), 99)]


def test_what_takes_seconds_needs_no_estimate(estimate, said):
    estimate.after_epoch(0.01, 99)
    estimate.after_epoch(5.0, 98)
    assert not said


def test_queued_steps_say_nothing_about_time_and_the_first_epoch_also_compiles(estimate, clock, said):
    for _ in range(5):
        clock.now += 3
        estimate.after_step(5, 100, queued=True)
    estimate.after_epoch(15.0, 99, queued=True)
    assert not said
    estimate.after_epoch(1.0, 98, queued=True)
    assert said == [(98.0, 98)]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.23, "0.2 s"), (9, "9 s"), (42, "40 s"), (100, "2 min"), (3000, "50 min"), (9000, "2.5 h")]
)
def test_a_duration_is_rounded(seconds, text):
    assert duration(seconds) == text
