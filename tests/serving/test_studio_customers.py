"""Customers in the studio: found and sorted by taste, ticked, opened; sliders and rules tried on many of them."""

import csv
import json
import threading
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from macrid import runs
from tests.serving.browser import Site, press, still_box, wait_until
from tests.serving.test_studio_views import AXE, check_texts, check_width

PAGE = 15
ROWS = "(rows) => rows.map((row) => row.dataset.id)"
RESULT = ".trial-result:not([aria-busy])"


def opened(visit, site, query="", **options):
    """The view with everything drawn."""
    studio = visit(site, f"?view=customers&user=test-0{query}", **options)
    studio.one(f"{RESULT} .trial-headline").wait_for()
    studio.one(".customers-table tbody tr").first.wait_for()
    return studio


def listed(studio):
    return studio.one(".customers-table tbody tr").evaluate_all(ROWS)


def users(site, **query):
    return [user["id"] for user in site.get("/users", limit=PAGE, **query)["users"]]


def headline(found):
    """The sentence for a result of the API."""
    who = "this customer" if found["users"] == 1 else f"{found['users']:,} customers"
    new = round(found["new"] * found["n"], 1)
    changed = f"{new:g} of {found['n']} recommendations change" if new else "no recommendation changes"
    before, after = (found["accuracy"]["metrics"]["ndcg@100"][side]["mean"] for side in ("before", "after"))
    by = 100 * (after / before - 1)
    amount = f"{by:+.{1 if abs(by) < 0.95 else 0}f}".replace("-", "−")
    moved = f"Accuracy {before:.3f} → {after:.3f} ({amount} %)."
    return f"For {who}, {changed}. {moved if f'{before:.3f}' != f'{after:.3f}' else f'Accuracy stays at {before:.3f}.'}"


def says(studio, text):
    wait_until(lambda: studio.one(".trial-headline").inner_text() == text,
               lambda: (studio.one(".trial-headline").inner_text(), text))  # fmt: skip


def moves_in(studio):
    """Those of sliders for more or less of something, from the address."""
    found = parse_qs(urlsplit(studio.url).query).get("towards", [])
    return [{"towards": name, "amount": float(amount)} for name, amount in (text.rsplit(":", 1) for text in found)]


# The table


def test_customers_are_listed_with_what_they_like(visit, shop_site):
    studio = opened(visit, shop_site)
    assert listed(studio) == users(shop_site)
    first = shop_site.get("/users", limit=1)["users"][0]
    labels = {concept["concept"]: concept["label"] for concept in shop_site.get("/model")["concepts"]}
    strongest = sorted(range(len(first["shares"])), key=lambda k: -first["shares"][k])
    row = studio.one(".customers-table tbody tr").first
    for k in strongest[:2]:
        assert f"{labels[k]} {100 * first['shares'][k]:.0f} %" in row.inner_text()
    bar = row.locator(".taste-bar")
    assert bar.get_attribute("aria-label").startswith(f"Tastes: {labels[strongest[0]]}")
    assert bar.locator(".taste").count() == sum(share >= 0.02 for share in first["shares"])
    assert row.get_attribute("class") == "is-current"
    studio.button("Next page").click()
    wait_until(lambda: listed(studio) == users(shop_site, offset=PAGE))
    assert "16–30 of 120" in studio.one(".pager").inner_text()


def test_customers_are_found_by_taste_and_by_id_and_sorted(visit, shop_site):
    studio = opened(visit, shop_site)
    search, order = studio.one("#customers-search"), studio.one(".customers-find select")
    search.fill("bags")
    wait_until(lambda: listed(studio) == users(shop_site, q="bags"))
    total = shop_site.get("/users", q="bags")["total"]
    wait_until(lambda: f"{total} customers who like bags, most first." in studio.one(".customers-found").inner_text())
    search.fill("validation-5")
    wait_until(lambda: listed(studio) == users(shop_site, q="validation-5"))
    search.fill("no such thing")
    wait_until(lambda: "No customer has the id or taste “no such thing”" in studio.one(".customers-found").inner_text())
    search.fill("")
    order.select_option("items")
    wait_until(lambda: listed(studio) == users(shop_site, sort="items"))
    mugs = shop_site.concept("mugs")["concept"]
    order.select_option(label="Most mugs")
    wait_until(lambda: listed(studio) == users(shop_site, sort=f"taste:{mugs}"))


def test_the_picker_of_the_first_tab_finds_customers_by_taste(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    box = studio.page.get_by_role("combobox", name="Customer", exact=True)
    assert box.get_attribute("placeholder") == "test-0"
    box.click()
    box.fill("mugs")
    wanted = users(shop_site, q="mugs")
    options = studio.one("#you .options .option")
    wait_until(lambda: options.evaluate_all(ROWS)[:PAGE] == wanted)
    assert options.first.inner_text().startswith(f"Customer {wanted[0]}")
    assert "mugs" in options.first.inner_text()
    assert options.first.locator(".taste").count() >= 1
    options.first.click()
    studio.shows(shop_site.recommended(user=wanted[0]))


def test_a_customer_opens_in_recommendations_with_the_sliders_that_are_on(visit, shop_site):
    studio = opened(visit, shop_site, "&towards=price:-1")
    moves = [{"towards": "price", "amount": -1}]
    worst = shop_site.post("/cohort", moves=moves, most=500)["losses"][0]["id"]
    studio.button(f"Customer {worst}", ".trial").first.click()
    studio.shows(shop_site.recommended(user=worst, moves=moves))
    assert f"user={worst}" in studio.url
    studio.tab("customers")
    studio.button("Customer test-3", ".customers-table").click()
    studio.shows(shop_site.recommended(user="test-3", moves=moves))


# Many customers


def test_nothing_on_says_what_to_do_and_how_things_are(visit, shop_site):
    studio = opened(visit, shop_site)
    text = studio.one(".trial").inner_text()
    assert "Move a slider" in text
    found = shop_site.post("/cohort", most=500)
    assert f"{found['coverage']['before']} of 500 items are recommended to somebody." in text
    check_texts(studio)


def test_a_slider_moves_all_customers_and_the_numbers_are_those_of_the_api(visit, shop_site):
    studio = opened(visit, shop_site)
    slider = studio.one(".trial-sliders .slider").first
    press(slider, "End")
    wait_until(lambda: moves_in(studio))
    found = shop_site.post("/cohort", moves=moves_in(studio), most=500)
    says(studio, headline(found))
    text = studio.one(".trial-result").inner_text()
    name = moves_in(studio)[0]["towards"]
    moved = next(each for each in found["attributes"] if each["name"] == name)
    assert moved["label"] in text
    accuracy = found["accuracy"]
    assert all(f"{accuracy[kind]} {words}" in text for kind, words in (("gained", "gain"), ("lost", "lose")))
    assert [row for row in found["losses"][:5] if f"Customer {row['id']}" not in text] == []
    assert "NDCG" not in text
    studio.one(".trial-details summary").click()
    assert "NDCG@100" in studio.one(".trial-details").inner_text()
    check_texts(studio)
    assert studio.one(".setting").count() == 1
    studio.one(".setting").click()
    studio.one(".trial-empty").wait_for()
    assert moves_in(studio) == []
    studio.button("Undo").click()
    says(studio, headline(found))


def test_rules_are_tried_too_and_lists_that_cannot_be_filled_are_said(visit, shop_site):
    rules = {"where": "price < 8", "diversity": 0.3}
    studio = opened(visit, shop_site, f"&rules={quote(json.dumps(rules))}")
    found = shop_site.post("/cohort", rules=rules, most=500)
    says(studio, headline(found))
    settings = studio.one(".settings").inner_text().lower()
    assert "price" in settings
    assert "0.3" in settings
    if found["short_users"]:
        assert f"For {found['short_users']} customer" in studio.one(".trial-warnings").inner_text()
    studio.button("Clear rules", ".settings").click()
    studio.one(".trial-empty").wait_for()


def test_only_some_customers_can_be_meant(visit, shop_site):
    studio = opened(visit, shop_site, "&towards=price:-1")
    moves = [{"towards": "price", "amount": -1}]
    for user in ("test-2", "test-5"):
        studio.page.get_by_role("checkbox", name=f"Select Customer {user}", exact=True).check()
    says(studio, headline(shop_site.post("/cohort", moves=moves, users=["test-2", "test-5"])))
    studio.button("All 120").click()
    says(studio, headline(shop_site.post("/cohort", moves=moves, most=500)))
    studio.button("Selected 2").click()
    studio.button("Clear selection").click()
    says(studio, headline(shop_site.post("/cohort", moves=moves, most=500)))
    studio.one("#customers-search").fill("bags")
    wait_until(lambda: listed(studio) == users(shop_site, q="bags"))
    page = shop_site.get("/users", q="bags", limit=100)
    studio.button(f"Select all {page['total']}").click()
    says(studio, headline(shop_site.post("/cohort", moves=moves, users=[user["id"] for user in page["users"]])))
    studio.page.get_by_role("checkbox", name="Select all on this page").uncheck()
    rest = [user["id"] for user in page["users"][PAGE:]]
    says(studio, headline(shop_site.post("/cohort", moves=moves, users=rest)))


def test_a_segment_from_the_map_is_a_cohort(visit, shop_site):
    items = [item["id"] for item in shop_site.get("/users/test-0")["history"]][:8]
    segment = {"name": "Odds and ends", "items": items, "at_least": 2}
    studio = visit(shop_site, "?user=test-0&towards=price:-1")
    studio.page.evaluate("(text) => sessionStorage.setItem('macrid-cohort', text)", json.dumps(segment))
    studio.tab("customers")
    moves = [{"towards": "price", "amount": -1}]
    says(studio, headline(shop_site.post("/cohort", moves=moves, items=items, at_least=2)))
    assert studio.button("Odds and ends").get_attribute("aria-pressed") == "true"
    assert "at least 2 of the 8 items" in studio.one(".trial").inner_text()
    studio.button("All 120").click()
    says(studio, headline(shop_site.post("/cohort", moves=moves, most=500)))


def test_while_a_slider_is_dragged_one_request_follows_another_and_the_last_one_counts(visit, shop_site):
    studio = opened(visit, shop_site)
    under_way, most, lock = [], [], threading.Lock()

    def count(route):
        with lock:
            under_way.append(1)
            most.append(len(under_way))
        route.continue_()

    def done(request):
        if request.url.endswith("/cohort"):
            with lock:
                under_way.pop()

    studio.page.route("**/v1/cohort", count)
    studio.page.on("requestfinished", done)
    slider = studio.one(".trial-sliders .slider").first
    box = still_box(slider)
    y = box["y"] + box["height"] / 2
    studio.page.mouse.move(box["x"] + box["width"] / 2, y)
    studio.page.mouse.down()
    for step in range(1, 30):
        studio.page.mouse.move(box["x"] + box["width"] * (0.5 + step / 70), y)
    studio.page.mouse.up()
    wait_until(lambda: moves_in(studio) and abs(moves_in(studio)[0]["amount"] - float(slider.input_value())) < 1e-4)
    says(studio, headline(shop_site.post("/cohort", moves=moves_in(studio), most=500)))
    assert max(most) == 1
    assert len(most) >= 2


def test_the_result_for_each_customer_is_a_file(visit, shop_site):
    studio = opened(visit, shop_site, "&towards=price:-1")
    with studio.page.expect_download() as download:
        studio.button("Download as CSV").click()
    with open(download.value.path(), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = shop_site.post("/cohort", moves=[{"towards": "price", "amount": -1}], per_user=True, most=500)["per_user"]
    assert [row["customer"] for row in rows] == [each["id"] for each in found]
    assert [int(row["new recommendations"]) for row in rows] == [each["new"] for each in found]
    known = [(row, each) for row, each in zip(rows, found, strict=True) if each["before"] is not None]
    assert known
    for row, each in known:
        assert float(row["change of accuracy"]) == pytest.approx(each["after"] - each["before"], abs=1e-5)


def test_what_is_wrong_with_rules_is_said_and_goes_away(visit, shop_site):
    studio = visit(
        shop_site, f"?view=customers&user=test-0&rules={quote(json.dumps({'where': 'prise < 3'}))}", allow=["422"]
    )
    failure = studio.one(".trial-result .failure")
    failure.wait_for()
    assert "did you mean 'price'?" in failure.inner_text()
    studio.button("Clear rules", ".settings").click()
    studio.one(".trial-empty").wait_for()


# Other models and services


def test_a_run_without_customers_says_so(visit, popularity_run):
    with Site(popularity_run) as site:
        studio = visit(site, "?view=customers", ready=False)
        studio.page.goto("/?view=customers")
        studio.page.get_by_text("No customers are known here").wait_for()
        assert studio.one(".customers-table").count() == 0
        check_texts(studio)


def test_a_model_without_groups_has_rules_and_no_tastes(visit, popularity_run, tmp_path):
    model = runs.load(popularity_run, "cpu")
    best = int(model.popularity.argmax())
    events = tmp_path / "events.csv"
    events.write_text(
        "user,item\n" + "".join(f"u{at},{model.items[(best + at) % 50]}\n" for at in range(1, 30)), "utf-8"
    )
    rules = {"exclude": [str(model.items[best])]}
    with Site(popularity_run, users=str(events)) as site:
        studio = visit(site, f"?view=customers&user=u1&rules={quote(json.dumps(rules))}")
        found = site.post("/cohort", rules=rules)
        assert found["accuracy"] is None
        says(studio, f"For {found['users']} customers, {round(found['new'] * 10, 1):g} of 10 recommendations change.")
        assert studio.one(".trial-sliders").count() == studio.one(".taste-bar").count() == 0
        assert "Whose list changes most" in studio.one(".trial").inner_text()
        studio.one(".trial-details summary").click()
        assert "Accuracy is unknown" in studio.one(".trial-details").inner_text()
        check_texts(studio)


@pytest.mark.parametrize("width", [1280, 390, 2560])
@pytest.mark.slow
def test_axe_finds_nothing_serious_and_everything_fits(visit, shop_site, width):
    from axe_playwright_python.sync_playwright import Axe

    studio = opened(visit, shop_site, "&towards=price:-1", viewport={"width": width, "height": 844})
    studio.one(".trial-details summary").click()
    check_width(studio, width)
    studio.page.evaluate(Axe().axe_script)
    for theme in ("light", "dark"):
        studio.page.emulate_media(color_scheme=theme)
        assert studio.page.evaluate(AXE, {}) == []
