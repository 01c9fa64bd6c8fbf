"""Saved lists, lists to take away, and two lists side by side, in a browser."""

import csv
import io
import json
import re
import shutil
import urllib.request
from urllib.parse import parse_qs

import pytest

import macrid
from macrid import runs
from tests.serving.browser import Site, ids, press, wait_until
from tests.serving.test_studio_views import AXE, HOSTILE, check_texts, check_width

USER = "test-5"
FILE = re.compile(r"[\w-]+\.macrid\.json")
TOLD = ".notes, .toast"


@pytest.fixture(scope="module")
def towards(shop_site):
    """(an attribute that moves lists, moves, and the query of a page with them)"""
    name = shop_site.get("/model")["towards_effects"][0]["name"]
    moves = [{"towards": name, "amount": 1.5}]
    return name, moves, f"?user={USER}&towards={name.replace(': ', '%253A%20')}:1.5"


@pytest.fixture
def moved(visit, shop_site, towards):
    """A page with a slider moved and a rule, and the ids it shows."""
    query = f"{towards[2]}&rules=%7B%22diversity%22%3A0.3%7D"
    expected = shop_site.recommended(user=USER, moves=towards[1], rules={"diversity": 0.3})
    studio = visit(shop_site, query, accept_downloads=True)
    studio.shows(expected)
    return studio, expected


def open_saved(studio):
    studio.button("Saved", "#tools").click()
    studio.one("dialog.saved").wait_for()


def save_as(studio, name):
    studio.one("#saved-name").fill(name)
    studio.button("Save", "dialog").click()
    wait_until(lambda: name in (names(studio) or [""])[0], lambda: names(studio))


def names(studio):
    return studio.one(".saved-item .saved-name").all_inner_texts()


def saved_button(studio, does, name):
    return studio.page.get_by_role("button", name=re.compile(rf"^{does}.*“{re.escape(name)}”"))


def downloaded(studio, click):
    """(name, bytes) of what a click downloads."""
    with studio.page.expect_download() as waiting:
        click()
    file = waiting.value
    return file.suggested_filename, file.path().read_bytes()


def choose_file(studio, content, name="list.macrid.json"):
    content = content if isinstance(content, bytes) else content.encode()
    studio.one("#saved-file").set_input_files([{"name": name, "mimeType": "application/json", "buffer": content}])


def notes(studio):
    return " ".join(studio.one(TOLD).all_inner_texts())


# Saved lists


def test_a_saved_list_is_there_after_a_reload_and_opens_as_it_was(moved, shop_site):
    studio, expected = moved
    open_saved(studio)
    assert studio.one("#saved-name").input_value().startswith(f"Customer {USER}, ")
    save_as(studio, "Bold <b>& new</b>")
    studio.page.keyboard.press("Escape")
    studio.open("?user=test-1")
    studio.shows(shop_site.recommended(user="test-1"))
    open_saved(studio)
    assert names(studio) == ["Bold <b>& new</b>"]
    studio.one(".saved-name").click()
    studio.shows(expected)
    assert "Opened “Bold <b>& new</b>”" in notes(studio)
    studio.one(".toast button").click()
    studio.shows(shop_site.recommended(user="test-1"))


def test_names_are_kept_apart_changed_and_deleted_and_that_can_be_undone(moved):
    studio, _ = moved
    open_saved(studio)
    for name in ("one", "two", "two"):
        save_as(studio, name)
    assert names(studio) == ["two (2)", "two", "one"]
    saved_button(studio, "Rename", "one").click()
    studio.page.keyboard.type("first")
    studio.page.keyboard.press("Enter")
    wait_until(lambda: names(studio) == ["two (2)", "two", "first"])
    saved_button(studio, "Rename", "two").click()
    studio.page.keyboard.type("lost")
    studio.page.keyboard.press("Escape")
    assert names(studio) == ["two (2)", "two", "first"]
    assert studio.one("dialog.saved").is_visible()
    saved_button(studio, "Delete", "two").click()
    wait_until(lambda: names(studio) == ["two (2)", "first"])
    studio.one(".toast button").click()
    wait_until(lambda: names(studio) == ["two (2)", "two", "first"])


def test_another_tab_sees_what_is_saved(moved):
    studio, _ = moved
    other = studio.context.new_page()
    other.goto(studio.url)
    other.get_by_role("button", name="Saved", exact=True).click()
    other.locator("dialog.saved .state").wait_for()
    open_saved(studio)
    save_as(studio, "from the first tab")
    other.locator(".saved-name", has_text="from the first tab").wait_for()


@pytest.mark.slow
def test_what_somebody_broke_in_the_browser_does_no_harm(visit, shop_site):
    for text in ("{", "3", '[1, {"name": "x"}]'):
        script = f"if (location.host) localStorage.setItem('macrid-states', {json.dumps(text)})"
        studio = visit(shop_site, f"?user={USER}", script=script)
        open_saved(studio)
        studio.page.get_by_text("Nothing saved yet").wait_for()
        save_as(studio, "good")


def test_a_browser_that_keeps_nothing_says_so_and_the_list_can_be_taken_as_a_file(visit, shop_site):
    full = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };"
    studio = visit(shop_site, f"?user={USER}", script=full, accept_downloads=True)
    open_saved(studio)
    save_as(studio, "mine")
    assert "Download the list" in notes(studio)
    _, content = downloaded(studio, saved_button(studio, "Download", "mine").click)
    assert json.loads(content)["state"]["user"] == USER


def test_two_people_see_the_same_list_by_a_copied_link_or_a_saved_one(moved, visit, shop_site):
    studio, expected = moved
    studio.page.evaluate("navigator.clipboard.writeText = async (text) => void (window.copied = text)")

    def copied(click):
        studio.page.evaluate("window.copied = ''")
        click()
        wait_until(lambda: studio.page.evaluate("window.copied"))
        return studio.page.evaluate("window.copied")

    links = [copied(studio.button("Copy link", "#tools").click)]
    open_saved(studio)
    save_as(studio, "mine")
    links.append(copied(saved_button(studio, "Copy the link", "mine").click))
    for link in links:
        other = visit(shop_site, ready=False).open(link.removeprefix(f"{shop_site.address}/"))
        other.shows(expected)
        assert other.page.evaluate("localStorage.getItem('macrid-states')") is None


# Files


def test_a_file_opens_the_same_list_elsewhere_and_is_kept_there(moved, visit, shop_site):
    studio, expected = moved
    open_saved(studio)
    save_as(studio, "For Ada: older, funnier")
    name, content = downloaded(studio, saved_button(studio, "Download", "For Ada: older, funnier").click)
    assert name == "For-Ada-older-funnier.macrid.json"
    other = visit(shop_site, "?user=test-1")
    open_saved(other)
    choose_file(other, content)
    other.shows(expected)
    assert "Opened “For Ada: older, funnier”" in notes(other)
    open_saved(other)
    assert names(other) == ["For Ada: older, funnier"]
    choose_file(other, content)
    other.one("dialog.saved").wait_for(state="detached")
    open_saved(other)
    assert names(other) == ["For Ada: older, funnier (2)", "For Ada: older, funnier"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a,b\r\n1,2", "not a saved list"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "not a saved list"),
        (b'{"type": "FeatureCollection"}', "something else"),
        (b" " * 1_500_000, "too large"),
        (b'{"format": "macrid-list", "version": 9}', "newer version of macrid"),
        (b'{"format": "macrid-list", "version": 1, "run": {"id": "x"}, "state": {"moves": [7]}}', "slider 1"),
    ],
)
def test_a_file_that_is_something_else_is_refused_in_words_and_nothing_changes(visit, shop_site, content, told):
    studio = visit(shop_site, f"?user={USER}")
    before = studio.shown()
    open_saved(studio)
    choose_file(studio, content)
    wrong = studio.page.get_by_role("alert")
    wrong.wait_for()
    assert told in wrong.inner_text()
    assert names(studio) == []
    assert studio.shown() == before
    save_as(studio, "still works")


@pytest.fixture(scope="module")
def foreign(shop_site):
    """A list of another model, as a file: two sliders and two rules, of which one each exist here."""
    bags = shop_site.concept("bags")
    moves = [
        {"concept": (bags["concept"] + 1) % 7, "share": 0.8, "concept_name": "bags"},
        {"concept": 1, "dimension": 2, "to": 0.3, "axis": "beef", "name": "Horror", "concept_name": "Thrillers"},
    ]
    state = {"user": USER, "moves": moves, "rules": {"where": "price > 0 and mood = 'sad'"}, "list": "concept"}
    history = ids(shop_site.get(f"/users/{USER}")["history"])
    about = {"name": "theirs", "saved": "2026-01-31T12:00:00Z", "run": {"id": "0" * 12, "name": "movies"}}
    content = {"format": "macrid-list", "version": 1, **about, "state": {**state, "concept": 3}, "items": history}
    return content | {"concept_name": "Thrillers"}, bags["concept"], history


def test_a_list_of_another_model_is_carried_over_by_names_and_the_page_says_what_was_not(visit, shop_site, foreign):
    content, bags, _ = foreign
    studio = visit(shop_site)
    open_saved(studio)
    choose_file(studio, json.dumps(content))
    rules = {"where": "price > 0"}
    expected = shop_site.recommended(user=USER, moves=[{"concept": bags, "share": 0.8}], rules=rules)
    studio.shows(expected)
    told = notes(studio)
    assert "This was made with another model: 1 of 2 sliders was carried over by name." in told
    assert "1 slider and 1 rule do not exist here: Horror (Thrillers), mood = 'sad'." in told
    assert "no group “Thrillers” here" in told
    wait_until(lambda: json.loads(parse_qs(studio.page.evaluate("location.search.slice(1)"))["rules"][0]) == rules)
    assert studio.value(studio.share("bags")) == pytest.approx(0.8)
    open_saved(studio)
    assert "made with movies" in studio.one(".saved-item").inner_text()


@pytest.mark.parametrize(("user", "told"), [("test-7", "somebody else"), ("nobody-1", "not known")])
@pytest.mark.slow
def test_a_customer_who_is_somebody_else_here_becomes_the_saved_history(visit, shop_site, foreign, user, told):
    content, _, history = foreign
    plain = {**content, "state": {"user": user}}
    studio = visit(shop_site, allow=[r"404 \(Not Found\)"])
    open_saved(studio)
    choose_file(studio, json.dumps(plain))
    studio.shows(shop_site.recommended(history=history))
    assert f"Customer {user} is {told} here" in notes(studio)


# Lists to take away


def open_export(studio, kind):
    if not studio.one("dialog.code").is_visible():
        studio.button("Take this list away").click()
        studio.one("dialog.code").wait_for()
    studio.button(kind, "dialog").click()
    wait_until(lambda: studio.one("dialog pre").inner_text() != "…")


def test_the_table_has_the_list_as_it_is_shown_with_attributes_and_changes(moved, shop_site, towards):
    studio, expected = moved
    open_export(studio, "CSV")
    name, content = downloaded(studio, studio.button("Download .csv", "dialog").click)
    assert re.fullmatch(rf"customer-{USER}-\d{{4}}-\d\d-\d\d\.csv", name)
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [row["id"] for row in rows] == expected
    assert [int(row["rank"]) for row in rows] == list(range(1, 25))
    answer = shop_site.post("/recommend", user=USER, n=24, moves=towards[1], rules={"diversity": 0.3})
    labels = {concept["concept"]: concept["label"] for concept in shop_site.get("/model")["concepts"]}
    changes = {change["id"]: "new" for change in answer["moved"]["in"]}
    changes |= {change["id"]: f"up {change['before'] - change['after']}" for change in answer["moved"]["up"]}
    changes |= {change["id"]: f"down {change['after'] - change['before']}" for change in answer["moved"]["down"]}
    for row, item in zip(rows, answer["items"], strict=True):
        assert (row["title"], float(row["score"]), row["group"]) == (
            item["title"], item["score"], labels[item["concept"]],
        )  # fmt: skip
        assert row["change"] == changes.get(item["id"], "")
        attributes = shop_site.item(item["id"])["attributes"]
        assert {name: row[name] for name in attributes} == {name: written(value) for name, value in attributes.items()}


def written(value):
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def test_shelves_are_a_table_with_the_name_of_each(visit, shop_site):
    studio = visit(shop_site, f"?user={USER}&list=shelves", accept_downloads=True)
    answer = shop_site.post("/recommend", user=USER, n=24, rules={"shelves": True})
    wait_until(lambda: studio.one(".row-head").count() == len(answer["shelves"]))
    open_export(studio, "CSV")
    _, content = downloaded(studio, studio.button("Download .csv", "dialog").click)
    rows = [(row["group"], row["id"]) for row in csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))]
    assert rows == [(shelf["name"], item["id"]) for shelf in answer["shelves"] for item in shelf["items"]]


@pytest.mark.slow
def test_json_and_the_file_of_the_link_reproduce_the_list(moved, visit, shop_site):
    studio, expected = moved
    open_export(studio, "JSON")
    content = json.loads(studio.one("dialog pre").inner_text())
    assert ids(content["items"]) == expected
    again = shop_site.recommended(user=content["customer"], moves=content["moves"], rules=content["rules"])
    assert again == expected
    open_export(studio, "Link")
    assert "this computer only" in studio.one("dialog.code").inner_text()
    visit(shop_site, ready=False).open(
        studio.one("dialog pre").inner_text().removeprefix(f"{shop_site.address}/")
    ).shows(expected)
    name, file = downloaded(studio, studio.button("Download .macrid.json", "dialog").click)
    assert FILE.fullmatch(name)
    other = visit(shop_site)
    open_saved(other)
    choose_file(other, file)
    other.shows(expected)


@pytest.mark.slow
def test_rules_become_those_of_every_list_as_the_dialog_says(visit, own_run):
    with Site(own_run) as site:
        rules = {"where": "price < 40", "at_most": {"category": 3}}
        studio = visit(site, f"?user={USER}&rules={json.dumps(rules)}")
        expected = site.recommended(user=USER, rules=rules)
        studio.shows(expected)
        open_export(studio, "Rules")
        text = studio.one("dialog pre").inner_text()
        assert json.loads(text) == rules
        assert f"curl -X PUT {site.address}/v1/rules" in studio.one("dialog.code").inner_text()
        headers = {"content-type": "application/json"}
        put = urllib.request.Request(f"{site.address}/v1/rules", text.encode(), headers, method="PUT")
        with urllib.request.urlopen(put) as answer:
            assert json.load(answer)["rules"] == rules
        assert site.recommended(user=USER) == expected


# Comparing


def column(studio, place):
    return studio.page.get_by_role("region", name=f"{place} list")


def compared(studio):
    """The ids of both columns."""
    read = "(rows) => rows.map((row) => row.dataset.id)"
    return [column(studio, place).locator(".compare-row").evaluate_all(read) for place in ("Left", "Right")]


def shows_both(studio, left, right):
    wait_until(lambda: compared(studio) == [left, right], lambda: (compared(studio), left, right))


def choose(studio, place, text):
    studio.page.get_by_label(place, exact=True).select_option(label=text)


def test_the_list_before_and_after_are_side_by_side_with_what_differs(moved, shop_site, towards):
    studio, after = moved
    before = shop_site.recommended(user=USER)
    studio.tab("compare")
    shows_both(studio, before, after)
    both = [item for item in before if item in after]
    summary = studio.one(".compare-overlap")
    assert summary.inner_text() == f"{len(both)} of 24 items are in both lists"
    assert studio.one(".compare-joins path").count() == len(both)
    marks = dict(column(studio, "Right").locator(".compare-row").evaluate_all(
        "(rows) => rows.map((row) => [row.dataset.id, row.querySelector('.compare-mark')?.textContent ?? ''])"
    ))  # fmt: skip

    def mark(item):
        by = before.index(item) - after.index(item) if item in before else None
        return "only here" if by is None else "" if by == 0 else f"{'↑' if by > 0 else '↓'} {abs(by)}"

    assert marks == {item: mark(item) for item in after}
    clearest = shop_site.post("/contrast", left=before, right=after)["attributes"][0]
    studio.one(".compare-words").get_by_text(clearest["value"] or clearest["name"]).wait_for()
    different = studio.one(".side-setting.is-different").all_inner_texts()
    assert len(different) == 2
    assert "diversity 30 %" in different
    column(studio, "Left").locator(f'.compare-row[data-id="{both[0]}"]').hover()
    lit = studio.one(".is-lit").evaluate_all("(all) => all.map((one) => [one.tagName, one.dataset.id])")
    assert lit == [["LI", both[0]], ["path", both[0]], ["LI", both[0]]]


def test_sides_are_chosen_swapped_and_part_of_the_link(moved, visit, shop_site, towards):
    studio, shown = moved
    settings = {"moves": towards[1], "rules": {"diversity": 0.3}}
    open_saved(studio)
    save_as(studio, "kept")
    saved_button(studio, "Compare", "kept").click()
    studio.page.wait_for_selector("#view-compare:not([hidden])")
    shows_both(studio, shown, shown)
    assert studio.one(".compare-overlap").inner_text() == "Both lists are the same"
    choose(studio, "Right", "Another customer, the same sliders…")
    studio.page.keyboard.type("test-1")
    studio.page.get_by_role("option", name=re.compile(r"^(Customer )?test-1\b")).click()
    others = shop_site.recommended(user="test-1", **settings)
    shows_both(studio, shown, others)
    studio.button("Swap sides").click()
    shows_both(studio, others, shown)
    stranger = visit(shop_site, ready=False)
    stranger.page.goto(studio.url)
    shows_both(stranger, others, shown)
    assert "kept" in column(stranger, "Right").inner_text()
    studio.page.go_back()
    shows_both(studio, shown, others)
    studio.one(".compare-side").nth(1).get_by_text("Open this list").click()
    studio.shows(others)
    assert studio.one("#tab-picks").get_attribute("aria-selected") == "true"


def test_what_is_undone_is_undone_in_the_comparison(moved, shop_site):
    studio, after = moved
    studio.one(".fine > summary").click()
    studio.one(f"#pill-{shop_site.concept('bags')['concept']}").click()
    share = studio.share("bags")
    press(share, "End")
    wait_until(lambda: studio.shown() != after)
    now = studio.shown()
    studio.tab("compare")
    before = shop_site.recommended(user=USER)
    shows_both(studio, before, now)
    studio.page.keyboard.press("Control+z")
    shows_both(studio, before, after)


def test_other_models_are_offered_only_to_those_who_may_edit(visit, shop_site):
    studio = visit(shop_site, f"?user={USER}&view=compare")
    studio.one(".compare-row").first.wait_for()
    assert studio.one("#compare-left optgroup[label='Other models']").count() == 0


@pytest.mark.slow
def test_two_models_are_compared_and_one_that_cannot_be_says_why(visit, shop_run, popularity_run, tmp_path):
    shutil.copytree(shop_run, tmp_path / "now")
    shutil.copytree(popularity_run, tmp_path / "other")
    model = runs.load(shop_run, "cpu")
    split = macrid.data.shop.generate(users=1200, items=500, seed=2).split(heldout=60)
    model = macrid.MacridVAE(concepts=5, dim=8).fit(split.train, epochs=2, batch_size=100, seed=5, device="cpu")
    runs.save(model, tmp_path / "next")
    with Site(tmp_path / "now", edits="yes") as site:
        studio = visit(site, f"?user={USER}&view=compare", allow=["409"])
        choose(studio, "Left", "next")
        now = site.recommended(user=USER)
        history = ids(site.get(f"/users/{USER}")["history"])
        shows_both(studio, model.recommend(history, 24).ids, now)
        assert "the model “next”" in studio.one(".side-setting.is-different").all_inner_texts()
        choose(studio, "Left", "other")
        column(studio, "Left").get_by_text("shares no item with now").wait_for()
        shows_both(studio, [], now)
        assert studio.one(".compare-mark").count() == 0
        choose(studio, "Left", "What is shown now")
        shows_both(studio, now, now)


def test_a_customer_who_does_not_exist_fails_on_one_side_only(visit, shop_site):
    studio = visit(shop_site, f"?user={USER}&view=compare&left=customer:nobody", allow=["404"])
    column(studio, "Left").get_by_role("alert").wait_for()
    shows_both(studio, [], shop_site.recommended(user=USER))


def test_nobody_has_nothing_to_compare(visit, popularity_run):
    with Site(popularity_run) as site:
        studio = visit(site, "?view=compare", ready=False)
        studio.page.goto("/?view=compare")
        column(studio, "Left").get_by_text("Nobody is chosen yet").wait_for()
        check_texts(studio)


# For everybody


@pytest.mark.slow
def test_dialogs_and_the_comparison_fit_and_axe_finds_nothing_serious(moved):
    from axe_playwright_python.sync_playwright import Axe

    studio, _ = moved
    studio.page.evaluate(Axe().axe_script)
    violations = []

    def check(where):
        for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            studio.page.emulate_media(color_scheme=theme)
            violations.extend((where, theme, found) for found in studio.page.evaluate(AXE, rules))
        check_texts(studio)

    open_saved(studio)
    save_as(studio, "x" * 80)
    check("saved")
    studio.page.keyboard.press("Escape")
    open_export(studio, "Rules")
    check("export")
    studio.page.keyboard.press("Escape")
    studio.tab("compare")
    studio.one(".compare-row").first.wait_for()
    studio.one(".compare-numbers summary").click()
    check("compare")
    assert violations == []


@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_nothing_is_wider_than_its_place(moved, width):
    studio, _ = moved
    studio.page.set_viewport_size({"width": width, "height": 844})
    fits = "(node) => node.scrollWidth <= node.clientWidth + 1"
    open_saved(studio)
    save_as(studio, "w" * 80)
    assert studio.one("dialog.saved").evaluate(fits)
    studio.page.keyboard.press("Escape")
    open_export(studio, "Link")
    assert studio.one("dialog.code").evaluate(fits)
    studio.page.keyboard.press("Escape")
    studio.tab("compare")
    studio.one(".compare-row").first.wait_for()
    assert studio.one("#view-compare").evaluate(fits)
    if width == 390:
        wait_until(lambda: [column(studio, place).is_visible() for place in ("Left", "Right")] == [True, False])
        studio.button("What is shown now", ".compare-tabs").click()
        wait_until(lambda: [column(studio, place).is_visible() for place in ("Left", "Right")] == [False, True])


def test_everything_works_with_the_keyboard(moved, shop_site):
    studio, shown = moved
    keyboard = studio.page.keyboard
    studio.button("Saved", "#tools").focus()
    keyboard.press("Enter")
    studio.one("dialog.saved").wait_for()
    keyboard.type("typed")
    keyboard.press("Enter")
    wait_until(lambda: names(studio) == ["typed"])
    assert studio.page.evaluate("document.activeElement.textContent") == "typed"
    keyboard.press("Escape")
    studio.one("dialog.saved").wait_for(state="detached")
    studio.one("#tab-picks").focus()
    while studio.one("#tab-compare").get_attribute("aria-selected") != "true":
        keyboard.press("ArrowRight")
    studio.one("#compare-left").focus()
    keyboard.press("Home")  # what is shown now
    shows_both(studio, shown, shown)
    row = column(studio, "Right").locator(".compare-item").first
    row.focus()
    assert studio.one(".is-lit").count() == 3
    keyboard.press("Enter")
    studio.one(".sheet .facts").wait_for()


def test_hostile_titles_are_text_in_tables_and_comparisons(visit, tmp_path):
    import numpy as np
    import pyarrow as pa
    import scipy.sparse as sp

    from macrid.data.ids import Ids

    own = {**HOSTILE, "=cmd|' /C calc'!A0": '=HYPERLINK("http://x")', "plain": "plain"}
    matrix = sp.csr_array(np.random.default_rng(0).random((60, len(own))) < 0.6).astype(float)
    data = macrid.Interactions(matrix, Ids.range(60), Ids(list(own)), pa.table({"title": list(own.values())}))
    runs.save(macrid.Popularity().fit(data), tmp_path / "run")
    with Site(tmp_path / "run") as site:
        studio = visit(site, "?item=plain", accept_downloads=True)
        open_export(studio, "CSV")
        _, content = downloaded(studio, studio.button("Download .csv", "dialog").click)
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))

        def safe(text):
            return f"'{text}" if text.startswith("=") else text

        expected = {safe(id): safe(title) for id, title in own.items() if id != "plain"}
        assert {row["id"]: row["title"] for row in rows} == expected
        studio.page.keyboard.press("Escape")
        open_saved(studio)
        save_as(studio, next(iter(HOSTILE)))
        studio.page.keyboard.press("Escape")
        studio.tab("compare")
        studio.one(".compare-row").first.wait_for()
        assert studio.page.evaluate("window.__hacked") is None
        assert studio.one("#view-compare img, #view-compare script").count() == 0
        check_width(studio, "compare", 1280)
