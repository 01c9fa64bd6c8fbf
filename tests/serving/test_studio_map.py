"""Segments, legends and names on the studio's map, in a browser."""

import csv
import io
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import macrid
from macrid import runs
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.serving import background
from tests.serving.browser import Site, ready, wait_until

NAME = "<b>Scary</b> ערב טוב"
SETTLED_MAP = ".map-stage:not(.is-loading):has(.map-note[hidden])"
SCREEN = """async (canvas, places) => {
  const { Camera, Points } = await import("/static/map/plane.js");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const camera = Object.assign(new Camera(), { width, height });
  Object.assign(camera, camera.fit(new Points(places.x, places.y).box));
  return places.x.map((x, i) => {
    const [across, down] = camera.screen(x, places.y[i]);
    return [across + left, down + top];
  });
}"""
PIXELS = """(canvas, at) => {
  const { left, top, width } = canvas.getBoundingClientRect();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const place = (value, start) => Math.round(((value - start) * canvas.width) / width);
  const from = ([x, y]) => 4 * (place(y, top) * canvas.width + place(x, left));
  return at.map((one) => [...data.slice(from(one), from(one) + 3)]);
}"""
COLOUR = """(node) => getComputedStyle(node).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"""
ISLANDS = """async (places) => {
  const { islands } = await import("/static/map/density.js");
  const { Points } = await import("/static/map/plane.js");
  const groups = [...new Set(places.concept)].sort((a, b) => a - b);
  const members = groups.map((k) => places.concept.flatMap((concept, i) => (concept === k ? [i] : [])));
  const found = islands(new Points(places.x, places.y), members);
  return found.map(({ group, ...rest }) => ({ concept: groups[group], ...rest }));
}"""
NEAR = 6  # pixels
TRAITS = """(rows) => rows.map((row) =>
  [row.querySelector(".trait-name").firstChild, row.querySelector(".trait-text")].map((node) => node.textContent))"""
IS_CLIPPED = "() => [document.querySelector('.segment')].some((box) => box.scrollWidth > box.clientWidth + 1)"
AXE = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
  .filter(({ impact }) => ["serious", "critical"].includes(impact))
  .map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))])"""


@pytest.fixture(scope="module")
def places(shop_site):
    return ready(shop_site, "/map")


@pytest.fixture
def map_of(visit):
    """A function that opens the map of a site."""

    def make(site, query="?user=test-5&view=map", **options):
        studio = visit(site, query, **options)
        studio.page.wait_for_selector(SETTLED_MAP)
        studio.one(".map-points").scroll_into_view_if_needed()
        return studio

    return make


def on_screen(studio, places):
    """(items, 2) where items are on the page."""
    found = studio.one(".map-points").evaluate(SCREEN, {name: places[name] for name in ("x", "y")})
    return np.array(found)


def draw_around(studio, left, top, right, bottom):
    """A rectangle, in pixels of the page."""
    mouse, keyboard = studio.page.mouse, studio.page.keyboard
    keyboard.down("Shift")
    mouse.move(left, top)
    mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom)):
        mouse.move(*corner, steps=3)
    mouse.up()
    keyboard.up("Shift")


def clear_of(points, edge):
    """The place near an edge that is farthest from all points: a mouse moves by whole pixels."""
    places = edge + np.linspace(-NEAR, NEAR, 81)
    return places[np.abs(places[:, None] - points).min(axis=1).argmax()]


def select(studio, places, concept):
    """Draw around the middle of a concept; the ids of everything inside."""
    at = on_screen(studio, places)
    of = at[np.array(places["concept"]) == concept]
    (left, top), (right, bottom) = np.quantile(of, 0.1, axis=0), np.quantile(of, 0.9, axis=0)
    beside = at[(at[:, 1] > top - NEAR) & (at[:, 1] < bottom + NEAR), 0]
    left, right = clear_of(beside, left), clear_of(beside, right)
    above = at[(at[:, 0] > left - NEAR) & (at[:, 0] < right + NEAR), 1]
    top, bottom = clear_of(above, top), clear_of(above, bottom)
    draw_around(studio, left, top, right, bottom)
    inside = (at[:, 0] > left) & (at[:, 0] < right) & (at[:, 1] > top) & (at[:, 1] < bottom)
    chosen = [places["id"][i] for i in np.flatnonzero(inside)]
    studio.one(".segment h4").first.wait_for()
    return chosen


def text_of(download):
    return Path(download.path()).read_bytes().decode()


def per_cent(share):
    return "< 1 %" if 0 < share < 0.005 else f"{np.floor(100 * share + 0.5):.0f} %"


def rules_in(url):
    return json.loads(parse_qs(urlsplit(url).query).get("rules", ["{}"])[0])


def test_what_a_segment_has_more_often_is_what_the_api_says(map_of, shop_site, places):
    studio = map_of(shop_site)
    bags = shop_site.concept("bags")["concept"]
    with studio.page.expect_request("**/v1/segments/profile") as asked:
        chosen = select(studio, places, bags)
    assert len(chosen) > 20
    assert set(asked.value.post_data_json["ids"]) == set(chosen)
    profile = shop_site.post("/segments/profile", ids=chosen)
    assert studio.one("#segment-title").inner_text() == f"{len(chosen)} items selected"
    said = studio.one(".traits[aria-label='More often'] .trait").evaluate_all(TRAITS)
    assert said == [
        [value["label"], f"{per_cent(value['inside'])} here, {per_cent(value['outside'])} elsewhere"]
        for value in profile["more"]
    ]
    assert any(value["label"] == "bags" and value["inside"] > 0.9 for value in profile["more"])
    said = studio.one("h4:text-is('Higher or lower') + .traits .trait").evaluate_all(TRAITS)
    assert said == [
        [
            number["attribute"].replace("popularity", "customers per item"),
            f"{number['inside_text']} here, {number['outside_text']} elsewhere",
        ]
        for number in profile["numbers"]
    ]
    customers, who = profile["customers"], studio.one(".segment-least strong")
    assert who.inner_text() == f"{customers['at_least'][1]} of {customers['total']} customers"
    studio.one("#segment-least").fill("4")
    wait_until(lambda: who.inner_text() == f"{customers['at_least'][3]} of {customers['total']} customers")
    popular = [item["id"] for item in profile["examples"]][:6]
    assert studio.one(".segment-few [data-id]").evaluate_all("(all) => all.map((one) => one.dataset.id)") == popular
    studio.page.keyboard.press("Escape")
    studio.one(".segment").wait_for(state="hidden")


def test_a_segment_limits_recommendations_or_is_kept_out_and_undone(map_of, shop_site, places):
    studio = map_of(shop_site)
    chosen = select(studio, places, shop_site.concept("bags")["concept"])
    studio.button("Only recommend from this", ".segment").click()
    studio.shows(shop_site.recommended(user="test-5", rules={"include": chosen}))
    assert set(studio.shown()) <= set(chosen)
    assert set(rules_in(studio.url)["include"]) == set(chosen)
    studio.page.get_by_role("button", name="Undo", exact=True).last.click()
    studio.shows(shop_site.recommended(user="test-5"))
    studio.tab("map")
    studio.button("Keep out", ".segment").click()
    studio.shows(shop_site.recommended(user="test-5", rules={"exclude": chosen}))
    assert not set(studio.shown()) & set(chosen)


def test_a_named_segment_is_kept_renamed_deleted_and_brought_back(map_of, shop_site, places):
    studio = map_of(shop_site)
    chosen = select(studio, places, shop_site.concept("mugs")["concept"])
    studio.one("#segment-name").fill(NAME)
    studio.page.keyboard.press("Enter")
    row = studio.one(".segments-kept .legend-entry")
    row.wait_for()
    assert row.inner_text().split("\n")[0].strip() == NAME
    assert studio.one("#segment-title").inner_text() == NAME
    named = "async (ids) => (await import('/static/map/segments.js')).segmentNamed(ids)"
    assert studio.page.evaluate(named, chosen[::-1]) == NAME
    assert studio.page.evaluate(named, chosen[1:]) is None
    studio.page.reload()
    studio.page.wait_for_selector(SETTLED_MAP)
    row.click()
    wait_until(lambda: studio.one(".segment > p").first.inner_text() == f"{len(chosen)} items")
    studio.one("#segment-name").fill("Mugs")
    studio.button("Rename", ".segment").click()
    wait_until(lambda: studio.one("#segment-title").inner_text() == "Mugs")
    studio.button("Delete", ".segment").click()
    row.wait_for(state="hidden")
    studio.one(".segment").wait_for(state="hidden")
    studio.page.get_by_role("button", name="Undo", exact=True).last.click()
    assert row.inner_text().split() == ["Mugs", str(len(chosen))]
    assert studio.page.evaluate("() => document.querySelectorAll('main b').length") == 0


def test_a_segment_is_exported_with_titles_and_attributes(map_of, shop_site, places):
    studio = map_of(shop_site)
    chosen = select(studio, places, shop_site.concept("lamps")["concept"])
    with studio.page.expect_download() as saved:
        studio.button("Export CSV", ".segment").click()
    assert saved.value.suggested_filename == "segment.csv"
    rows = list(csv.DictReader(io.StringIO(text_of(saved.value).removeprefix("\ufeff"))))
    assert [row["id"] for row in rows] == chosen
    with studio.page.expect_download() as saved:
        studio.button("Export JSON", ".segment").click()
    entries = json.loads(text_of(saved.value))
    for row, entry in zip(rows, entries, strict=True):
        item = shop_site.item(row["id"])
        assert entry == {"id": item["id"], "title": item["title"], **item["attributes"]}
        assert row["title"] == item["title"]
        assert float(row["price"]) == item["attributes"]["price"]
        assert row["colour"] == (item["attributes"]["colour"] or "")


def test_a_segment_is_taken_to_its_customers_or_into_the_history(map_of, shop_site, places):
    studio = map_of(shop_site)
    chosen = select(studio, places, shop_site.concept("shoes")["concept"])
    studio.one("#segment-least").fill("3")
    studio.one("#segment-meet").click()
    wait_until(lambda: "view=customers" in studio.url)
    cohort = studio.page.evaluate("() => JSON.parse(sessionStorage.getItem('macrid-cohort'))")
    assert (set(cohort["items"]), cohort["at_least"]) == (set(chosen), 3)
    assert isinstance(cohort["name"], str)
    studio.tab("map")
    studio.button("Add to history", ".segment").click()
    history = [item["id"] for item in shop_site.get("/users/test-5")["history"]]
    studio.tab("picks")
    wait_until(lambda: set(studio.history()) <= {*history, *chosen} and f"item={chosen[0]}" in studio.url)
    studio.shows(shop_site.recommended(history=list(dict.fromkeys([*history, *chosen]))))


def test_items_of_another_run_are_left_out_of_a_kept_segment_and_counted(map_of, shop_site, places):
    mine = [{"name": "Old", "items": [*places["id"][:3], "gone-1", "gone-2"]}, {"name": "Elsewhere", "items": ["x"]}]
    script = f"if (origin !== 'null') localStorage.setItem('macrid-segments', {json.dumps(json.dumps(mine))})"
    studio = map_of(shop_site, script=script)
    assert studio.one(".segments-kept .legend-entry").all_inner_texts() == ["Old\n3"]
    studio.one(".segments-kept .legend-entry").click()
    assert "2 other items of it are not on this map" in studio.one(".segment-missing").inner_text()


def test_a_segment_that_no_rule_can_hold_says_so(map_of, shop_run, places):
    with Site(shop_run, edits="no", max_history=20) as site:
        studio = map_of(site)
        chosen = select(studio, places, site.concept("bags")["concept"])
        assert len(chosen) > 20
        assert studio.button("Only recommend from this", ".segment").is_disabled()
        assert "20 items at most" in studio.one(".segment-actions").inner_text()
        with studio.page.expect_download() as saved:  # in portions
            studio.button("Export JSON", ".segment").click()
        assert len(json.loads(text_of(saved.value))) == len(chosen)


def test_a_profile_that_fails_can_be_asked_for_again(map_of, shop_site, places):
    studio = map_of(shop_site, allow=["status of 500"])
    problem = {"title": "Internal", "status": 500, "detail": "the disk is full"}
    refuse = {"status": 500, "content_type": "application/problem+json", "body": json.dumps(problem)}
    studio.page.route("**/v1/segments/profile", lambda route: route.fulfill(**refuse))
    at = on_screen(studio, places)
    draw_around(studio, *(at[0] - 8), *(at[0] + 8))
    failure = studio.one(".segment .failure")
    assert "the disk is full" in failure.inner_text()
    studio.page.unroute("**/v1/segments/profile")
    failure.get_by_role("button", name="Try again").click()
    studio.one(".segment-few").wait_for()


def luminance(colour):
    parts = np.array(colour) / 255
    return np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_selected_items_stand_out_from_the_rest_in_both_themes(map_of, shop_site, places, theme):
    studio = map_of(shop_site, "?item=bag-0001&view=map", color_scheme=theme)
    chosen = set(select(studio, places, shop_site.concept("watches")["concept"]))
    studio.page.wait_for_timeout(100)
    at = on_screen(studio, places)
    surface = studio.one(".map-stage").evaluate(COLOUR)
    x, y = min(at[places["id"].index(id)].tolist() for id in chosen)
    edge = [[x - step, y] for step in np.arange(2, 9, 0.5)]  # to the left of the leftmost
    pixels = studio.one(".map-points").evaluate(PIXELS, [*at.tolist(), *edge])
    contrasts = {id: contrast(pixel, surface) for id, pixel in zip(places["id"], pixels, strict=False)}
    assert min(contrasts[id] for id in chosen) > 2.5
    assert np.median([contrasts[id] for id in chosen]) > 3
    assert np.median([value for id, value in contrasts.items() if id not in chosen]) < 1.8
    assert max(contrast(pixel, surface) for pixel in pixels[len(at) :]) > 10


def test_names_lie_among_the_items_they_name(map_of, shop_site, places):
    studio = map_of(shop_site)
    found = studio.page.evaluate(ISLANDS, places)
    assert {island["concept"] for island in found} == set(places["concept"])
    at = np.column_stack([places["x"], places["y"]])
    for island in found:
        nearest = np.argsort(np.hypot(*(at - [island["x"], island["y"]]).T))[:10]
        assert sum(places["concept"][i] == island["concept"] for i in nearest) >= 8


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Films with several genres."""
    genres = ["Drama|Western", "Drama", "Comedy|Drama", "Comedy", "Comedy|Western"] * 12
    table = pa.table({"title": [f"Film {item}" for item in range(60)], "genres": genres})
    matrix = sp.csr_array((np.random.default_rng(0).random((40, 60)) < 0.3).astype(np.float32))
    data = Interactions(matrix, Ids(list(range(40))), Ids([f"f{item}" for item in range(60)]), table)
    folder = tmp_path_factory.mktemp("films") / "run"
    runs.save(macrid.Popularity().fit(data), folder)
    background.main(folder, folder, "map", runs.weights_digest(folder))  # sooner than in another process
    return folder, genres


def test_a_legend_counts_and_shows_every_item_that_has_a_value(map_of, films):
    folder, genres = films
    with Site(folder) as site:
        places = ready(site, "/map")
        studio = map_of(site, "?view=map&by=genres")
        entries = studio.one(".legend-entry")
        entries.first.wait_for()
        wait_until(lambda: "Western" in studio.one(".map-key").inner_text())
        expected = {genre: sum(genre in texts for texts in genres) for genre in ("Drama", "Comedy", "Western")}
        shown = {text.split("\n")[0]: int(text.split("\n")[1]) for text in entries.all_inner_texts()}
        assert shown == expected
        assert "add up to more than all items" in studio.one(".legend-note").inner_text()
        western = entries.filter(has_text="Western")
        western.press("Enter")
        wait_until(lambda: western.get_attribute("aria-pressed") == "true")
        studio.page.wait_for_timeout(100)
        colour = np.array(western.locator(".legend-swatch").evaluate(COLOUR))
        surface = np.array(studio.one(".map-stage").evaluate(COLOUR))
        pixels = np.array(studio.one(".map-points").evaluate(PIXELS, on_screen(studio, places).tolist()))
        is_western = np.array(["Western" in genres[int(id[1:])] for id in places["id"]])
        to_colour, to_surface = (np.abs(pixels - part).sum(axis=1) for part in (colour, surface))
        assert ((to_colour < to_surface) == is_western).mean() > 0.95  # dots may overlap
        studio.page.get_by_role("button", name=f"Select {expected['Western']} items").press("Enter")
        studio.one("#segment-title").wait_for()
        assert studio.one("#segment-title").inner_text() == f"{expected['Western']} items selected"
        wait_until(lambda: re.search(r"Western\s+genres", studio.one(".segment").inner_text()))


@pytest.mark.parametrize("width", [1280, 390])
def test_the_panel_of_a_segment_fits_any_screen_and_axe_finds_nothing_serious(map_of, shop_site, places, width):
    from axe_playwright_python.sync_playwright import Axe

    studio = map_of(shop_site, viewport={"width": width, "height": 844})
    at = on_screen(studio, places)
    draw_around(studio, *(at[7] - 20), *(at[7] + 20))
    studio.one(".segment-few").wait_for()
    if width < 1000:
        studio.button("What are they?").click()
    studio.page.evaluate(Axe().axe_script)
    for theme in ("light", "dark"):
        studio.page.emulate_media(color_scheme=theme)
        assert studio.page.evaluate(AXE) == []
    panel = studio.one(".segment").bounding_box()
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert not studio.page.evaluate(IS_CLIPPED)
