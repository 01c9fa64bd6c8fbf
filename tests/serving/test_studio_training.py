"""Training from the page: a file is dropped, checked, trained on and opened, in a real browser."""

import re

import pytest

from macrid.serving import training
from tests.serving.browser import Site, wait_until
from tests.serving.test_examining import GOOD
from tests.serving.test_studio_views import AXE
from tests.serving.test_training import shop_files  # noqa: F401

LONG = 60_000  # ms for a training of seconds on a busy machine


@pytest.fixture(autouse=True)
def usual_priority(monkeypatch):
    """Next to other tests, low priority takes ten times as long."""
    monkeypatch.setattr(training, "NICE", 0)


@pytest.fixture
def site(own_run):
    with Site(own_run) as opened:
        yield opened


@pytest.fixture
def beside(own_run):
    """A function that lists what is beside the run."""
    return lambda: sorted(path.name for path in own_run.parent.iterdir())


def choose(studio, name, content, place=".drop"):
    studio.page.set_input_files(f"{place} input", {"name": name, "mimeType": "text/csv", "buffer": content})


def open_dialog(studio):
    studio.page.get_by_role("button", name="Open your own data").click()
    studio.page.wait_for_selector(".training-body section")


def start(studio, content):
    """Upload a file and start training on it."""
    open_dialog(studio)
    choose(studio, "my shop.csv", content)
    studio.page.wait_for_selector(".training-check", timeout=LONG)
    studio.button("Start training").click()


@pytest.mark.slow
def test_a_file_is_understood_trained_on_opened_and_left_again(visit, site, shop_files, beside):  # noqa: F811
    studio = visit(site)
    events, items = shop_files
    open_dialog(studio)
    assert "one customer chose one item" in studio.one(".training-choose").inner_text()
    choose(studio, "my shop.csv", events)
    studio.page.wait_for_selector(".training-check", timeout=LONG)
    assert studio.one(".training-counts dd").all_inner_texts() == ["300", "100", f"{events.count(b'user-'):,}"]
    assert studio.one("#role-user option:checked").inner_text().startswith("user (user-0001")
    assert studio.one(".training-preview tbody tr").count() == 5
    choose(studio, "items.parquet", items, ".training-items")
    studio.page.get_by_text("titles, 9 attributes").wait_for(timeout=LONG)
    studio.button("Quick").click()
    studio.page.get_by_label("Groups of items").fill("7")
    studio.button("Start training").click()
    studio.page.wait_for_selector(".curve-line", timeout=LONG)
    label = studio.one(".curve svg[role=img]").get_attribute("aria-label")
    assert re.match(r"Accuracy on customers it has not seen: 0\.\d+ after pass \d+; best", label)
    studio.page.keyboard.press("Escape")
    chip = studio.one(".training-chip")
    assert chip.is_visible()
    studio.page.get_by_text("my-shop is ready").wait_for(timeout=LONG)
    chip.click()
    assert "7 groups" in studio.one(".training-result").inner_text()
    studio.button("Open it").click()
    studio.page.wait_for_selector(".training-back", timeout=LONG)
    studio.ready()
    assert studio.one("#run").inner_text() == "my-shop"
    assert beside() == ["my-shop", "run"]
    studio.button("Back to run").click()
    wait_until(lambda: studio.page.title().startswith("run "))
    studio.ready()
    open_dialog(studio)
    studio.one(".training-run").filter(has_text="my-shop").wait_for()
    assert studio.one(".training-back").count() == 0


@pytest.mark.slow
def test_a_training_is_stopped_with_its_best_pass(visit, site, shop_files, beside):  # noqa: F811
    studio = visit(site)
    start(studio, shop_files[0])
    studio.page.wait_for_selector(".curve-line", timeout=LONG)
    studio.button("Stop and keep the best so far").click()
    studio.page.wait_for_selector(".training-result", timeout=LONG)
    assert "stopped early" in studio.one(".training-result").inner_text()
    assert beside() == ["my-shop", "run"]
    studio.button("Train on another file").click()
    studio.page.wait_for_selector(".drop")


@pytest.mark.slow
def test_a_training_survives_a_reload_of_the_page_and_can_be_discarded(visit, site, shop_files, beside):  # noqa: F811
    studio = visit(site)
    start(studio, shop_files[0])
    studio.page.wait_for_selector(".training-progress")
    studio.open()
    studio.one(".training-chip").click()
    studio.page.wait_for_selector(".training-progress")
    studio.button("Discard").click()
    studio.page.wait_for_selector(".drop")
    assert beside() == ["run"]


@pytest.mark.slow
def test_bad_files_say_what_is_wrong_and_columns_can_be_corrected(visit, site, beside):
    studio = visit(site)
    open_dialog(studio)
    choose(studio, "empty.csv", b"")
    assert "empty.csv is empty" in studio.one(".training-problem:visible").inner_text()
    choose(studio, "photo.png", b"\x89PNG\r\n" + bytes(99))
    alert = studio.page.get_by_role("alert").filter(has_text="photo.png: is a PNG picture")
    alert.wait_for(timeout=LONG)
    assert beside() == ["run"]
    choose(studio, "<b>events</b>.csv", GOOD.replace(b"user,item", b"who,what").replace(b"u3,i3,1", b",i3,1", 1))
    studio.page.wait_for_selector(".training-check", timeout=LONG)
    assert "No column looks like the customer or the item" in studio.one(".training-problem").inner_text()
    assert studio.button("Start training").is_disabled()
    studio.one("dialog").get_by_label("Customer", exact=True).select_option("0")
    studio.page.get_by_text("looks like the item").wait_for(timeout=LONG)
    studio.page.get_by_label("Item", exact=True).focus()
    studio.page.get_by_label("Item", exact=True).select_option("1")
    studio.page.get_by_text("row 25 (line 26) has no id").wait_for(timeout=LONG)
    assert studio.one(":focus").get_attribute("id") == "role-item"
    studio.button("Choose another file").click()
    studio.page.wait_for_selector(".drop")
    wait_until(lambda: beside() == ["run"])
    choose(studio, "events.csv", GOOD)
    studio.page.wait_for_selector(".training-check", timeout=LONG)
    studio.page.get_by_label("Count ratings of").select_option("3")
    studio.page.get_by_text("rows rated below 3").wait_for(timeout=LONG)
    assert not studio.button("Start training").is_disabled()


def test_a_file_can_be_dropped_and_an_upload_cancelled(visit, site, beside):
    studio = visit(site)
    open_dialog(studio)
    drop = """(zone) => {
      const data = new DataTransfer();
      data.items.add(new File(["user,item\\n" + "a,b\\n".repeat(2_000_000)], "large.csv"));
      const how = { dataTransfer: data, bubbles: true, cancelable: true };
      for (const type of ["dragover", "drop"]) zone.dispatchEvent(new DragEvent(type, how));
    }"""
    studio.page.route("**/v1/training/events**", lambda route: None)  # never answered
    studio.one(".drop").evaluate(drop)
    studio.page.get_by_text("large.csv").wait_for()
    assert "8.0 MB" in studio.one(".training-wait").inner_text()
    studio.button("Cancel").click()
    studio.page.wait_for_selector(".drop")
    assert beside() == ["run"]


@pytest.mark.slow
def test_the_dialog_takes_and_returns_the_focus_and_axe_finds_nothing(visit, site):
    from axe_playwright_python.sync_playwright import Axe

    studio = visit(site, viewport={"width": 390, "height": 800}, color_scheme="dark")
    studio.page.evaluate(Axe().axe_script)
    button = studio.page.get_by_role("button", name="Open your own data")
    button.focus()
    studio.page.keyboard.press("Enter")
    studio.page.wait_for_selector(".drop")
    assert studio.page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    assert studio.page.evaluate(AXE, {}) == []
    choose(studio, "events.csv", GOOD)
    studio.page.wait_for_selector(".training-check", timeout=LONG)
    assert studio.page.evaluate(AXE, {}) == []
    dialog = "document.querySelector('dialog.training')"
    assert studio.page.evaluate(f"{dialog}.scrollWidth <= {dialog}.clientWidth")
    studio.page.keyboard.press("Escape")
    assert studio.page.evaluate("document.activeElement.classList.contains('training-open')")


def test_without_training_there_is_no_button(visit, shop_site, own_run):
    studio = visit(shop_site)
    with Site(own_run, training="no") as site:
        other = visit(site)
        for page in (studio.page, other.page):
            assert page.get_by_role("button", name="Open your own data").count() == 0
