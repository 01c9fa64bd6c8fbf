"""Item pictures, drawn or from a folder."""

import os
import socket
from types import SimpleNamespace
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from macrid.data.ids import Ids
from macrid.data.shop.assortment import picture_of
from macrid.errors import MacridError
from macrid.serving.pictures import LARGEST_FILE, Pictures


def model_of(ids, table=None):
    return SimpleNamespace(items=Ids(ids), table=table)


def test_shop_items_have_drawings(trained):
    model, _ = trained
    pictures = Pictures(model)
    content, media_type = pictures.of(7)
    assert pictures.any
    assert pictures.has(7)
    assert media_type == "image/svg+xml"
    assert content.decode() == picture_of(model.items, model.table, model.items[7])


def test_hostile_titles_stay_text_in_drawings(shop):
    table = shop.interactions.table.slice(0, 1)
    hostile = table.set_column(table.column_names.index("title"), "title", [["</svg><script>alert(1)</script>\x00&"]])
    content, _ = Pictures(model_of(["bag"], hostile)).of(0)
    assert b"<script" not in content
    ElementTree.fromstring(content)


def test_other_items_have_no_drawings(shop):
    table = shop.interactions.table.slice(0, 2)
    other = table.set_column(table.column_names.index("category"), "category", [["bags", "boats"]])
    pictures = Pictures(model_of(["a", "b"], other))
    assert [pictures.has(0), pictures.has(1), pictures.of(1)] == [True, False, None]
    assert not Pictures(model_of(["a"], pa.table({"title": ["a"]}))).any
    assert not Pictures(model_of(["a"])).any


def test_files_are_matched_by_id_and_have_a_media_type(tmp_path):
    for name in ("7.png", "8.JPG", "8.png", "9.txt", "unknown.png", "0.webp"):
        (tmp_path / name).write_bytes(name.encode())
    pictures = Pictures(model_of([7, 8, 9, 10]), tmp_path)
    assert pictures.any
    assert pictures.of(0) == (b"7.png", "image/png")
    assert pictures.of(1) == (b"8.png", "image/png")
    assert [pictures.of(2), pictures.of(3)] == [None, None]


def test_file_names_may_be_percent_encoded(tmp_path):
    (tmp_path / "a%2Fb.gif").write_bytes(b"picture")
    (tmp_path / "50%.gif").write_bytes(b"half")
    pictures = Pictures(model_of(["a/b", "50%", "../a/b"]), tmp_path)
    assert [pictures.of(place) and pictures.of(place)[0] for place in range(3)] == [b"picture", b"half", None]


def test_files_outside_the_folder_and_large_files_are_not_served(tmp_path):
    inside, secret = tmp_path / "pictures", tmp_path / "secret.png"
    inside.mkdir()
    secret.write_bytes(b"secret")
    (inside / "out.png").symlink_to(secret)
    (inside / "real.png").write_bytes(b"real")
    (inside / "in.png").symlink_to(inside / "real.png")
    (inside / "folder.png").mkdir()
    os.mkfifo(inside / "pipe.png")
    (inside / "large.png").write_bytes(b"x" * (LARGEST_FILE + 1))
    ids = ["out", "real", "in", "folder", "pipe", "large"]
    pictures = Pictures(model_of(ids), inside)
    assert [item for place, item in enumerate(ids) if pictures.has(place)] == ["real", "in"]
    (inside / "real.png").unlink()
    (inside / "real.png").symlink_to(secret)
    assert pictures.of(1) is None


def test_a_picture_changes_with_its_file_and_goes_with_it(tmp_path):
    file = tmp_path / "a.svg"
    file.write_bytes(b"<svg/>")
    pictures = Pictures(model_of(["a"]), tmp_path)
    assert pictures.of(0) == (b"<svg/>", "image/svg+xml")
    file.write_bytes(b"<svg></svg>")
    assert pictures.of(0) == (b"<svg></svg>", "image/svg+xml")
    file.write_bytes(b"x" * (LARGEST_FILE + 1))
    assert pictures.of(0) is None
    file.unlink()
    assert pictures.of(0) is None


def test_whatever_replaces_a_picture_is_not_opened(tmp_path):
    """Reading a pipe would wait for ever, and a device could give any amount."""
    inside, outside = tmp_path / "pictures" / "deep", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    (outside / "a.png").write_bytes(b"secret")
    picture = inside / "a.png"
    picture.write_bytes(b"picture")
    pictures = Pictures(model_of(["a"]), inside)

    folder = os.open(inside, os.O_RDONLY)  # socket paths are limited to about 100 characters
    with socket.socket(socket.AF_UNIX) as unix:
        for replace in (
            lambda: os.mkfifo(picture),
            lambda: picture.symlink_to("/dev/zero"),
            lambda: picture.symlink_to(outside / "a.png"),
            lambda: unix.bind(f"/proc/self/fd/{folder}/a.png"),
        ):
            picture.unlink()
            replace()
            assert pictures.of(0) is None
    os.close(folder)
    picture.unlink()
    inside.rmdir()
    inside.symlink_to(outside)
    assert pictures.of(0) is None


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(MacridError, match="nowhere"):
        Pictures(model_of(["a"]), tmp_path / "nowhere")
