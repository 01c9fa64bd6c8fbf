"""The encoding of a text file is decided by all of it, and stray quotes swallow nothing."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.data.interactions import Interactions
from macrid.data.tables import open_table, read_items
from macrid.data.texts import check_text
from macrid.errors import DataError

TITLES = "id,title\n1,Amélie\n2,Zoë\n3,Ásbyrgi\n"


def written(folder, content, name="items.csv"):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("encoding", "decided"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("latin-1", "latin-1"),
    ],
)
def test_a_file_in_one_encoding_is_read_in_it(tmp_path, encoding, decided):
    path = written(tmp_path, TITLES.encode(encoding))
    assert check_text(path).encoding == decided
    ids, columns, notes = read_items(path)
    assert list(ids) == [1, 2, 3]
    assert columns.to_pydict() == {"title": ["Amélie", "Zoë", "Ásbyrgi"]}
    assert (notes == ()) == (decided in ("utf-8", "utf-8-sig"))
    assert all(f"encoding {decided}" in note for note in notes)


def test_quotation_marks_of_windows_make_a_file_windows_1252(tmp_path):
    path = written(tmp_path, "id,title\n1,“Amélie”\n".encode("cp1252"))
    assert check_text(path).encoding == "windows-1252"
    assert read_items(path).columns.to_pydict() == {"title": ["“Amélie”"]}


@pytest.mark.parametrize("size", [3, 40_000])
def test_one_latin_1_byte_in_a_utf_8_file_is_refused_with_its_line(tmp_path, size):
    lines = [f"{place},Amélie {place}" for place in range(size)]
    content = "\n".join(["id,title", *lines, ""]).encode()
    path = written(tmp_path, content.replace(f"Amélie {size - 1}".encode(), b"Am\xe9lie"))
    with pytest.raises(DataError, match=rf"items\.csv, line {size + 1:,}: byte 0xE9 .*line 2 is.*--encoding"):
        read_items(path)
    titles = read_items(path, encoding="latin-1").columns.column("title").to_pylist()
    assert (titles[0], titles[-1]) == ("AmÃ©lie 0", "Amélie")


@pytest.mark.parametrize("byte", [b"\xff", b"\x81", b"\x9d"])
def test_bytes_that_no_encoding_writes_are_refused_with_their_line(tmp_path, byte):
    with pytest.raises(DataError, match=r"e\.csv, line 3: byte 0x"):
        open_table(written(tmp_path, b"user,item\n1,2\n1," + byte + b"3\n", "e.csv"))


def test_a_zero_byte_is_refused_with_its_line_wherever_it_is(tmp_path):
    with pytest.raises(DataError, match=r"e\.csv, line 30,002: contains a zero byte"):
        open_table(written(tmp_path, b"user,item\n" + b"1,2\n" * 30_000 + b"1,\0\n", "e.csv"))


@pytest.mark.parametrize("name", ["utf-9", "", "rot13", "base64", "a\0b", "\udcff", "x" * 999])
def test_an_encoding_that_is_none_is_an_error_that_names_it(tmp_path, name):
    with pytest.raises(DataError, match="unknown encoding"):
        open_table(written(tmp_path, b"user,item\n"), encoding=name)


def test_a_given_encoding_must_fit_the_file(tmp_path):
    with pytest.raises(DataError, match=r"items\.csv, line 2: not ascii"):
        open_table(written(tmp_path, TITLES.encode()), encoding="ascii")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_report_says_which_encoding_the_events_have(tmp_path, pack):
    text = "user,item\n" + "".join(f"é{user},ü{item}\n" for user in range(3) for item in range(5))
    path = written(tmp_path, pack(text.encode("latin-1")), "e.csv.gz" if pack is gzip.compress else "e.csv")
    data = Interactions.read(path)
    assert data.report.encoding == "latin-1"
    assert "encoding latin-1, as line 2 is not UTF-8" in str(data.report)
    assert "é0" in data.users
    again = Interactions.read(path, encoding="cp1252")
    assert again.report.encoding == "cp1252"
    assert list(again.users) == list(data.users)


@pytest.mark.parametrize(
    "content",
    ['user,item\n1,"a\n2,b\n3,c\n', 'user,item\n1,"a\n2,b\n3,"c\n4,d\n', 'user,item,note\n1,a,"x\n2,b,"y"\n'],
)
def test_a_quote_that_is_not_closed_is_refused_rather_than_swallowing_rows(tmp_path, content):
    with pytest.raises(DataError, match=r"e\.csv, line \d: a quoted cell"):
        open_table(written(tmp_path, content.encode(), "e.csv"))


@given(
    st.lists(st.lists(st.text(st.sampled_from('ab", \n'), max_size=5), min_size=2, max_size=2), min_size=1, max_size=6)
)
def test_cells_that_are_quoted_well_are_always_accepted(tmp_path_factory, cells):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [["a", "b"], *cells]]
    path = written(tmp_path_factory.mktemp("quoted"), ("\n".join(quoted) + "\n").encode())
    table = open_table(path)
    read = table.read(["a", "b"], text=["a", "b"])
    assert [list(row.values()) for row in read.to_pylist()] == cells


def test_quotes_inside_plain_cells_are_left_alone(tmp_path):
    path = written(tmp_path, b'id,title\n1,24" screen\n2,"a, b"\n3,5\' 4"\n')
    assert read_items(path).columns.to_pydict() == {"title": ['24" screen', "a, b", "5' 4\""]}


def test_a_message_names_the_line_even_after_cells_of_several_lines(tmp_path):
    path = written(tmp_path, b'user,item,rating,note\n1,2,3,"a\n\nb"\n\n1,3,inf,c\n', "e.csv")
    with pytest.raises(DataError, match=r"row 2 \(line 6\) is inf"):
        Interactions.read(path, min_rating=1)
