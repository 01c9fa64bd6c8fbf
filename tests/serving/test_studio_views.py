"""The other tabs in a browser; keyboard use, screen sizes, hostile data and failures."""

import json
import re
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from benchmarks.studio import SLIDER

import macrid
from macrid import runs
from tests.serving.browser import Site, ids, press, ready, wait_until

TABS = ("picks", "walk", "map", "report")
WIDTHS = (320, 390, 768, 1280, 1920)
HACK = "<img src=x onerror='window.__hacked=1'><script>window.__hacked=1</script>"
HOSTILE = {
    "constructor": HACK,
    "__proto__": "\u202egnirts desrever\u202c \u200f",
    "a/b?c=d#e%2F..": "l" * 5_000,
    "'\"`${1}": "👩‍👩‍👧‍👦 " * 40,
    "javascript:alert(1)": "one\ntwo\r\n\tthree",
    HACK: "\"quotes\" 'and' `more` & &amp; </style>",
    " ": "",
}
TEXTS = """() => {
  const names = ["aria-label", "title", "aria-valuetext"];
  const nodes = [...document.querySelectorAll(names.map((name) => `[${name}]`).join())];
  const labels = nodes.flatMap((node) => names.map((name) => node.getAttribute(name) ?? ""));
  return [document.body.innerText, ...labels].join("\\n");
}"""
AXE = """async (rules) => (await axe.run({ resultTypes: ["violations"], ...rules })).violations
  .filter(({ impact }) => ["serious", "critical"].includes(impact))
  .map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))])"""
FOCUSED = """() => {
  const node = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  const isSeen = node.matches(".slider, #knobs") || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  const kinds = {
    card: ".card-open", slider: ".towards-row .slider", knob: ".knob .slider", share: ".part", tab: "[role=tab]",
  };
  const kind = Object.keys(kinds).find((name) => node.matches(kinds[name])) ?? node.ariaLabel ?? node.tagName;
  return { kind, isSeen };
}"""
WHERE = """async (canvas, { places, item }) => {
  const { Camera, Points } = await import("/static/map/plane.js");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const points = new Points(places.x, places.y);
  const camera = Object.assign(new Camera(), { width, height });
  Object.assign(camera, camera.fit(points.box));
  const [x, y] = camera.screen(places.x[item], places.y[item]);
  return { x: x + left, y: y + top, nearest: points.nearest(places.x[item], places.y[item], 12 / camera.scale) };
}"""


def check_texts(studio):
    text = studio.page.evaluate(TEXTS)
    assert len(text) > 200
    assert re.findall(r".*\b(?:NaN|undefined|null|Infinity|\[object)\b.*", text) == []


DRAWN = {
    "picks": ".lists .card",
    "walk": ".walk-body > :not(.is-skeleton)",
    "map": ".map-stage:not(.is-loading)",
    "report": "[aria-labelledby=report-scores] .report-body > :not(.skeleton)",
}


def open_tab(studio, name):
    studio.tab(name)
    studio.one(f"#view-{name} {DRAWN[name]}").first.wait_for()


def check_width(studio, *where):
    wide = studio.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], (where, wide)


def test_every_tab_fits_any_screen_contacts_no_other_site_and_shows_no_raw_values(visit, shop_site):
    studio = visit(shop_site)
    press(studio.one(SLIDER).first, "End")
    studio.one(".badge:visible").first.wait_for()
    for name in TABS:
        open_tab(studio, name)
        check_texts(studio)
        for width in WIDTHS:
            studio.page.set_viewport_size({"width": width, "height": 800})
            check_width(studio, name, width)
    assert studio.trouble == []


@pytest.mark.parametrize("name", ["walk", "customers", "compare", "map", "report"])
def test_a_view_is_not_shown_before_its_styles_are_there(visit, shop_site, name):
    studio = visit(shop_site, "?item=bag-0001")
    held = []
    studio.page.route(f"**/static/{name}/{name}.css", lambda route: held.append(route))
    with studio.page.expect_response(f"**/static/{name}/{name}.js"):
        studio.tab(name)
    wait_until(lambda: studio.page.wait_for_timeout(300) or held)
    assert studio.one(f"#view-{name} > *").count() == studio.one(f"#view-{name} > .skeleton").count() == 1
    held[0].continue_()
    studio.one(f"#view-{name} > :not(.skeleton)").first.wait_for()


def test_the_page_works_without_a_mouse(visit, shop_site):
    studio = visit(shop_site, "?item=bag-0001&concept=0")
    studio.one(SLIDER).first.wait_for()
    stops = []
    while not stops or stops[-1]["kind"] != "card":
        studio.page.keyboard.press("Tab")
        stops.append(studio.page.evaluate(FOCUSED))
        assert len(stops) < 100
    assert {"tab", "slider", "knob", "share", "Search items"} <= {stop["kind"] for stop in stops}
    assert [stop for stop in stops if not stop["isSeen"]] == []
    knob = studio.one("#knobs .knob .slider:enabled").first
    still = knob.screenshot()
    knob.focus()
    assert knob.screenshot() != still  # focus ring around the thumb
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        studio.page.keyboard.press(key)
    move = studio.turned(knob)
    studio.shows(shop_site.recommended(history=["bag-0001"], moves=[move]))
    assert knob.get_attribute("aria-valuetext")
    studio.page.keyboard.press("/")
    assert studio.page.evaluate(FOCUSED)["kind"] == "Search items"
    studio.page.keyboard.press("Escape")
    studio.one("#tab-picks").focus()
    for name in ("walk", "customers", "compare", "map", "report", "picks"):
        studio.page.keyboard.press("ArrowRight")
        assert studio.one(f"#tab-{name}").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.slow
def test_axe_finds_nothing_serious_in_light_or_dark(visit, shop_site, width):
    from axe_playwright_python.sync_playwright import Axe

    violations = []
    studio = visit(shop_site, viewport={"width": width, "height": 844})
    studio.page.evaluate(Axe().axe_script)

    themes = {"light": {}} | ({"dark": {"runOnly": ["color-contrast"]}} if width > 1000 else {})  # the same at any size

    def check(*where):
        for theme, rules in themes.items():
            studio.page.emulate_media(color_scheme=theme)
            violations.extend((*where, theme, violation) for violation in studio.page.evaluate(AXE, rules))

    if width < 1000:
        studio.one(".drawer-toggle").click()
    press(studio.one(SLIDER).first, "End")
    studio.one(".badge:visible").first.wait_for()
    for name in TABS:
        open_tab(studio, name)
        check(name)
    studio.tab("picks")
    studio.list().locator(".card-open").first.press("Enter")
    studio.one(".sheet .similar .card").first.wait_for()
    check("sheet")
    assert violations == []


# Walk, Map, Report


def test_a_walk_shows_the_stops_of_the_api(visit, shop_site):
    bags, size = shop_site.dimension("bags", "size")
    item = next(item["id"] for item in shop_site.get("/items", q="bag")["items"] if item["concept"] == bags)
    studio = visit(shop_site, f"?view=walk&from={item}&along={size}")
    walked = shop_site.post("/traverse", item=item, dimension=size, steps=8, keep_start=True)
    strip = studio.one(".walk-strip:not(.is-skeleton)")
    strip.wait_for()
    read = "(stops) => stops.map((stop) => stop.dataset.id)"
    assert strip.locator("li").evaluate_all(read) == ids(walked["items"])
    assert len(walked["items"]) > 4
    assert strip.locator("li.is-start").get_attribute("data-id") == item
    check_texts(studio)
    strip.locator("li:not(.is-start) .walk-here").first.click()
    first = next(stop["id"] for stop in walked["items"] if not stop["start"])
    again = shop_site.post("/traverse", item=first, dimension=size, steps=8, keep_start=True)
    wait_until(lambda: strip.locator("li").evaluate_all(read) == ids(again["items"]))
    assert f"from={first}" in studio.url


@pytest.mark.slow
def test_the_map_names_the_item_under_the_pointer_and_adds_it_to_the_history(visit, shop_site):
    places = ready(shop_site, "/map")
    studio = visit(shop_site, "?user=test-5&view=map&by=price")
    studio.page.wait_for_selector(".map-stage:not(.is-loading):has(.map-note[hidden])")
    history = ids(shop_site.get("/users/test-5")["history"])
    middle = sorted(range(len(places["id"])), key=lambda i: places["x"][i])
    item = next(i for i in middle[len(middle) // 2 :] if places["id"][i] not in history)
    surface = studio.one(".map-points")
    surface.scroll_into_view_if_needed()
    at = surface.evaluate(WHERE, {"places": places, "item": item})
    target = places["id"][at["nearest"]]  # another item may lie at the same place
    studio.page.mouse.move(at["x"] + 30, at["y"])
    studio.page.mouse.move(at["x"], at["y"])
    title = shop_site.item(target)["title"]
    wait_until(lambda: title in studio.one(".map-tip").inner_text())
    studio.page.mouse.click(at["x"], at["y"])
    card = studio.page.get_by_role("dialog", name="Item")
    card.wait_for()
    assert title in card.inner_text()
    check_texts(studio)
    is_in = target in history
    card.get_by_role("button", name="history").click()
    expected = [id for id in history if id != target] if is_in else [*history, target]
    studio.tab("picks")
    studio.shows(shop_site.recommended(history=expected))


@pytest.mark.slow
def test_the_report_has_scores_with_their_errors_and_all_concepts(visit, shop_site):
    ready(shop_site, "/report")
    studio = visit(shop_site, "?view=report")
    report = studio.one(".report")
    report.locator(".report-fact").first.wait_for()
    assert "NDCG" not in report.inner_text()  # before details are open
    for summary in report.locator(".report-more > summary").all():
        summary.click()
    metrics = shop_site.get("/model")["metrics"]["test"]["metrics"]
    assert metrics
    for text, score in zip(report.locator(".report-score").all_inner_texts(), metrics.values(), strict=True):
        assert re.search(rf"{score['mean']:.3f} *± *{score['se']:.3f}", text), text
    concepts = shop_site.get("/model")["concepts"]
    assert sorted(report.locator(".concept-name strong").all_inner_texts()) == sorted(
        entry["label"] for entry in concepts
    )
    closed = report.locator("details:not([open]) > summary")
    while closed.count():
        closed.first.click()
    studio.page.wait_for_load_state("networkidle")
    check_texts(studio)


def test_the_api_is_described_for_people(visit, shop_run):
    with Site(shop_run, token="open sesame", edits="no") as site:
        studio = visit(site, ready=False, allow=["status of 401"])
        studio.page.goto("/docs")
        studio.page.locator("#token").fill("open sesame")
        studio.page.keyboard.press("Enter")
        operations = studio.one(".docs-operation")
        operations.first.wait_for()
        paths = site.get("/openapi.json")["paths"]
        assert operations.count() == sum(map(len, paths.values()))
        assert {*studio.one(".docs-operation summary code").all_inner_texts()} == {*paths}
        operations.filter(has_text="/v1/segments/profile").locator("summary").click()
        example = studio.one(".docs-operation[open] pre").inner_text()
        assert example.startswith(f"curl -s {site.address}/v1/segments/profile")
        studio.one(".docs-operation[open] .docs-fields").first.wait_for()
        check_texts(studio)
        check_width(studio, "docs")


# Other data


def test_a_model_without_concepts_has_a_list_but_no_knobs(visit, popularity_run, monkeypatch, capsys):
    with Site(popularity_run) as site:
        studio = visit(site)
        assert studio.one(SLIDER).count() == 0
        assert "This model cannot be steered" in studio.one("#knobs").inner_text()
        popular = studio.page.get_by_role("group", name="Popular with other customers").locator(".card").first
        first = popular.get_attribute("data-id")
        popular.click()
        studio.shows(site.recommended(history=[first]))
        studio.button("Take this list away").click()
        studio.page.get_by_role("button", name="Python", exact=True).click()
        monkeypatch.chdir(popularity_run.parent)
        exec(studio.one("dialog pre").inner_text(), {})
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == studio.shown()
        studio.page.keyboard.press("Escape")
        studio.list().locator(".card-open").first.click()
        studio.one(".sheet .facts").wait_for()
        check_texts(studio)
        studio.page.keyboard.press("Escape")
        for name in TABS:
            open_tab(studio, name)
            check_texts(studio)


@pytest.mark.parametrize("heldout", [50, 0])
def test_the_report_says_which_model_the_scores_belong_to_and_why_there_are_none(visit, shop, tmp_path, heldout):
    own = {"epochs": 2, "device": "cpu", "dim": 4, "model": "multdae", "baselines": False}
    macrid.train(shop.split(heldout), tmp_path / "run", final=True, **own)
    with Site(tmp_path / "run") as site:
        studio = visit(site, "?view=report")
        text = studio.one("[aria-labelledby=report-scores]")
        text.get_by_text("trained on everybody" if heldout else "Nobody was held out").wait_for()
        training = studio.one(".report").get_by_text(re.compile("^2 rounds"))
        training.wait_for()
        assert ("first training" in training.inner_text()) == bool(heldout)
        assert ("most accurate" in training.inner_text()) == bool(heldout)
        check_texts(studio)


def test_knobs_work_without_titles_names_and_pictures(visit, trained, tmp_path):
    import macrid

    model = macrid.MacridVAE(concepts=3, dim=8).fit(trained[1].train.matrix, epochs=2, device="cpu")
    runs.save(model, tmp_path / "run")
    with Site(tmp_path / "run") as site:
        studio = visit(site, "?item=3&item=5")
        knob = studio.one("#knobs .knob .slider:enabled").first
        press(knob, "Home")  # this user is at the end already
        move = studio.turned(knob)
        studio.shows(site.recommended(history=["3", "5"], moves=[move]))
        for name in TABS:
            open_tab(studio, name)
            check_texts(studio)
            check_width(studio, name)


@pytest.fixture(scope="module")
def hostile_run(shop, tmp_path_factory):
    """A run with hostile ids, titles, attribute names and values."""
    import macrid
    from macrid.data.ids import Ids
    from macrid.data.interactions import Interactions

    original = shop.interactions
    items = [*HOSTILE, *(f"x{place}" for place in range(len(original.items) - len(HOSTILE)))]
    titles = [*HOSTILE.values(), *([HACK] * (len(items) - len(HOSTILE)))]
    kinds = [f"{HACK}{value}" for value in original.table.column("category").to_pylist()]
    table = pa.table({"title": titles, "__proto__": kinds, HACK: original.table.column("price"), "toString": kinds})
    data = Interactions(original.matrix, original.users, Ids(items), table)
    split = data.split(heldout=20)
    model = macrid.MacridVAE(concepts=7, dim=16).fit(split.train, epochs=8, batch_size=50, seed=1, device="cpu")
    macrid.understand(model)
    folder = tmp_path_factory.mktemp("hostile") / "run"
    runs.save(model, folder, heldout={"test": split.test})
    return folder


def test_hostile_data_is_shown_as_text_and_breaks_no_layout(visit, hostile_run):
    with Site(hostile_run) as site:
        studio = visit(site, f"?{urlencode({'item': list(HOSTILE)}, doseq=True)}")
        studio.shows(site.recommended(history=list(HOSTILE)))
        wait_until(lambda: set(studio.history()) == set(HOSTILE), studio.history)
        assert HACK in studio.one(".card-title").all_inner_texts()
        for name in TABS:
            open_tab(studio, name)
            for width in (1280, 390):
                studio.page.set_viewport_size({"width": width, "height": 800})
                check_width(studio, name)
        studio.tab("map")
        studio.one(".legend-entry").first.click()
        studio.one(".legend-select").click()
        studio.one(".segment-titles").wait_for()
        studio.one("#segment-name").fill(HACK)
        studio.page.keyboard.press("Enter")
        wait_until(lambda: studio.one("#segment-title").inner_text() == HACK[:80])
        check_width(studio, "segment")
        studio.tab("picks")
        studio.list().locator(".card-open").first.press("Enter")
        studio.one(".sheet .facts").wait_for()
        check_width(studio, "sheet")
        assert studio.page.evaluate("() => window.__hacked") is None
        assert studio.one("body img[src=x], body script").count() == 0


# Failures


@pytest.mark.slow
def test_failures_are_shown_and_can_be_retried(visit, shop_site):
    studio = visit(shop_site, "?user=test-5", allow=["status of 500", "ERR_FAILED"])
    problem = {"title": "Internal", "status": 500, "detail": "the disk is full"}
    answers = [
        lambda route: route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(problem)),
        lambda route: route.abort(),
    ]
    for answer in answers:
        studio.page.route("**/v1/recommend", answer)
        studio.page.get_by_role("button", name="Next customer").click()
        failure = studio.one("#picks .failure")
        failure.wait_for()
        studio.page.unroute("**/v1/recommend")
        failure.get_by_role("button", name="Try again").click()
        user = re.search(r"user=([\w-]+)", studio.url)[1]
        studio.shows(shop_site.recommended(user=user))
        failure.wait_for(state="hidden")
    for path, tab in (("traverse", "walk"), ("map", "map"), ("report", "report")):
        studio.page.route(f"**/v1/{path}", answers[0])
        studio.tab(tab)
        failure = studio.one(f"#view-{tab} .failure")
        failure.wait_for()
        assert "the disk is full" in failure.inner_text()
        studio.page.unroute(f"**/v1/{path}")
        failure.get_by_role("button", name="Try again").click()
        failure.wait_for(state="hidden")
    studio.page.route("**/v1/model", answers[0])
    studio.page.reload()
    studio.one("#main .failure").wait_for()
    studio.page.unroute("**/v1/model")
    studio.one("#main .failure button").click()
    studio.ready()


def test_the_page_asks_for_the_token(visit, shop_run):
    with Site(shop_run, token="open sesame", edits="no") as site:
        studio = visit(site, ready=False, allow=["status of 401"])
        studio.page.goto("/")
        for token in ("open barley", "open sesame"):
            studio.page.locator("#token").fill(token)
            studio.page.keyboard.press("Enter")
        studio.ready()
        studio.shows(site.recommended(user="test-0"))
        picture = studio.list().locator(".card img").first
        wait_until(lambda: picture.evaluate("(img) => img.complete && img.naturalWidth > 0"))
        assert picture.get_attribute("src").startswith("data:image/svg+xml")
        other = visit(site, "#token=open%20sesame")
        other.shows(studio.shown())
        assert "sesame" not in other.url
