import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.ids import Ids
from macrid.errors import DataError

ids = st.one_of(
    st.lists(st.text(min_size=1), unique=True, min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1),
)


@settings(deadline=None)
@given(ids)
def test_ids_are_returned_unchanged(values):
    assert list(Ids(values)) == values
    assert Ids(values).positions(values).tolist() == list(range(len(values)))
    assert all(value in Ids(values) for value in values)


@settings(deadline=None)
@given(ids)
def test_ids_sort_as_in_python(values):
    assert [values[position] for position in Ids(values).order()] == sorted(values)


def test_an_unknown_id_has_position_minus_one():
    assert Ids(["a", "b"]).positions(["b", "x", "a"]).tolist() == [1, -1, 0]
    assert Ids([1, 2]).positions(["1", 2]).tolist() == [-1, 1]


def test_ids_are_a_sequence():
    some = Ids(["a", "b", "c"])
    assert len(some) == 3
    assert some[0] == "a"
    assert some[-1] == "c"
    assert some[1:] == ["b", "c"]
    with pytest.raises(IndexError):
        some[3]


def test_ids_with_the_same_values_and_type_are_equal():
    assert Ids([1, 2]) == Ids(pa.array([1, 2], pa.int8()))
    assert Ids(["a"]) == Ids(pa.array(["a"], pa.large_string())) == Ids(pa.array(["a"], pa.string_view()))
    assert Ids(["1", "2"]) != Ids([1, 2])
    assert Ids([1, 2]) != [1, 2]


def test_take_returns_ids_in_the_given_order():
    assert list(Ids(["a", "b", "c"]).take(pa.array([2, 0]).to_numpy())) == ["c", "a"]


def test_range_counts_from_zero():
    assert list(Ids.range(3)) == [0, 1, 2]
    assert len(Ids.range(0)) == 0


def test_text_is_parsed_as_the_type_of_the_ids():
    assert Ids([7, 8]).parse("7") == 7
    assert Ids([7, 8]).parse("seven") == "seven"
    assert Ids(["007"]).parse("007") == "007"


def test_repr_shows_count_and_type():
    assert repr(Ids.range(1_000)) == "Ids(1,000 integers)"
    assert repr(Ids([])) == "Ids(0 strings)"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1, "a"], "all strings or all integers"),
        ([1.5], "double"),
        ([True], "bool"),
        ([2**64], "all strings or all integers"),
        (["a", None], "1 of 2"),
        (pa.array([2**63], pa.uint64()), "64 bits"),
    ],
)
def test_ids_must_be_strings_or_64_bit_integers(values, problem):
    with pytest.raises(DataError, match=problem):
        Ids(values)


@pytest.mark.parametrize("text", ["007", "+7", " 7", "٣", "²", "-0", "7.0", "9" * 5_000, str(2**63), "", "7\n"])
def test_text_that_is_not_written_like_an_integer_is_none(text):
    assert Ids([7, 3, 0]).parse(text) == text


def test_every_integer_of_64_bits_is_parsed():
    for value in (0, -1, 2**63 - 1, -(2**63)):
        assert Ids([value]).parse(str(value)) == value
