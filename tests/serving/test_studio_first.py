"""The first screen: it says what it is, is found by keyboard, survives a service that goes away, and is remembered."""

import json
import re

import pytest

from tests.serving.browser import Site, ids, press, wait_until

MOST_TABS = 20  # before the first slider
MOVED = re.compile(r"(towards|move)=[^&]+")


def test_the_first_screen_says_what_it_is_in_words_for_people(visit, shop_site):
    studio = visit(shop_site)
    text = studio.page.inner_text("body")
    assert "Move the sliders. The recommendations follow." in text
    assert studio.one("#view-picks h2").all_inner_texts() == ["More of, less of", "Customer", "Recommendations"]
    assert studio.one("[role=tab][id^=tab-]").all_inner_texts()[:2] == ["Recommendations", "Variations"]
    for word in ("concept", "dimension", "Knob", "knob", "Picks", " You", "NDCG", "history of your own"):
        assert word not in text, word


def test_the_tour_has_three_steps_blocks_nothing_and_comes_once(visit, shop_site):
    studio = visit(shop_site, first=True)
    tour = studio.page.get_by_role("dialog")
    tour.wait_for()
    assert tour.inner_text().startswith("1. Move a slider")
    studio.button("Next").click()
    assert "2. Watch the list" in tour.inner_text()
    wait_until(studio.one("#knobs .slider").first.is_enabled)
    press(studio.one("#knobs .slider").first, "End")  # what it is about can be tried meanwhile
    wait_until(lambda: "towards=" in studio.page.evaluate("location.href"))
    studio.button("Next").click()
    assert "3. Whose list is it?" in tour.inner_text()
    studio.button("Start").click()
    assert tour.count() == 0
    studio.page.reload()
    studio.ready()
    studio.page.wait_for_timeout(300)
    assert tour.count() == 0
    studio.button("Show me around").click()
    tour.wait_for()
    studio.page.keyboard.press("Escape")
    wait_until(lambda: tour.count() == 0)


def test_a_tour_that_was_skipped_does_not_come_again(visit, shop_site):
    studio = visit(shop_site, first=True)
    studio.button("Skip").click()
    studio.page.reload()
    studio.ready()
    studio.page.wait_for_timeout(300)
    assert studio.page.get_by_role("dialog").count() == 0


def test_a_question_mark_shows_all_keys(visit, shop_site):
    studio = visit(shop_site)
    studio.page.keyboard.press("?")
    dialog = studio.page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    assert {"Undo", "Redo", "Search for an item"} <= set(dialog.locator("dd").all_inner_texts())
    studio.page.keyboard.press("Escape")
    wait_until(lambda: dialog.count() == 0)


def test_sliders_are_a_few_tabs_away_and_one_with_the_skip_link(visit, shop_site):
    studio = visit(shop_site)
    wait_until(studio.one("#knobs .slider").first.is_enabled)
    on_slider = "() => document.activeElement.matches('#knobs .slider')"
    for _ in range(MOST_TABS):
        studio.page.keyboard.press("Tab")
        if studio.page.evaluate(on_slider):
            break
    assert studio.page.evaluate(on_slider)
    studio.page.reload()
    studio.ready()
    wait_until(studio.one("#knobs .slider").first.is_enabled)
    studio.page.keyboard.press("Tab")
    assert studio.page.evaluate("() => document.activeElement.textContent") == "Skip to the sliders"
    studio.page.keyboard.press("Enter")
    for _ in range(4):
        studio.page.keyboard.press("Tab")
        if studio.page.evaluate(on_slider):
            break
    assert studio.page.evaluate(on_slider)


def test_the_whole_story_without_a_mouse(visit, shop_site):
    """A wish, a slider, an item taken away, why another is there, undone, redone."""
    studio = visit(shop_site, "?user=test-0")
    keyboard = studio.page.keyboard
    keyboard.press("w")
    keyboard.type("larger")
    keyboard.press("Enter")
    wish = [{"towards": "size", "amount": 0.6}]
    studio.shows(shop_site.recommended(user="test-0", moves=wish))
    moved = MOVED.search(studio.url)[0]
    studio.list().locator(".card-open").first.focus()
    first = studio.shown()[0]
    keyboard.press("Tab")
    keyboard.press("Enter")
    studio.shows(shop_site.recommended(user="test-0", moves=wish, rules={"exclude": [first]}))
    studio.list().locator(".card-open").first.focus()
    keyboard.press("Enter")
    studio.one(".sheet .why").wait_for()
    keyboard.press("Escape")
    studio.one(".sheet").wait_for(state="hidden")
    keyboard.press("Control+z")
    wait_until(lambda: studio.shown()[0] == first)
    keyboard.press("Control+z")
    studio.shows(shop_site.recommended(user="test-0"))
    keyboard.press("Control+y")
    wait_until(lambda: studio.shown()[0] == first)
    assert MOVED.search(studio.url)[0] == moved


def test_an_empty_history_stays_empty_after_a_reload(visit, shop_site):
    studio = visit(shop_site)
    studio.button("Start empty").click()
    wait_until(lambda: studio.one("#you h2").inner_text() == "New customer")
    studio.page.reload()
    studio.ready()
    wait_until(lambda: "Popular with other customers" in studio.one("#picks").inner_text())
    assert studio.history() == []
    assert studio.one("#you h2").inner_text() == "New customer"


def test_every_interest_of_the_bar_is_in_the_list(visit, shop_site):
    studio = visit(shop_site, "?user=test-3")
    wait_until(lambda: studio.one(".interest").count() > 1)
    shares = {place["concept"]: place["share"] for place in shop_site.post("/encode", user="test-3")["concepts"]}
    shown = [concept for concept, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share >= 0.005]
    labels = {concept["concept"]: concept["label"] for concept in shop_site.get("/model")["concepts"]}
    assert studio.one(".interest").count() == len(shown)
    assert studio.one(".group-name").all_inner_texts() == [labels[concept] for concept in shown]


def test_the_last_list_stays_while_the_service_is_away_and_goes_on_when_it_is_back(visit, shop_site):
    studio = visit(shop_site, "?user=test-0", allow=["ERR_INTERNET_DISCONNECTED", "ERR_FAILED"])
    before = studio.shown()
    wait_until(studio.one("#knobs .slider").first.is_enabled)
    studio.context.set_offline(True)
    press(studio.one("#knobs .slider").first, "End")
    away = studio.one(".away")
    away.wait_for()
    assert "No connection. This is the last list" in away.inner_text()
    assert studio.shown() == before
    assert studio.one(".picks-body").evaluate("(body) => getComputedStyle(body).opacity") == "0.45"
    studio.context.set_offline(False)
    wait_until(away.is_hidden)
    wait_until(lambda: studio.shown() != before)
    assert studio.one(".picks-body").evaluate("(body) => getComputedStyle(body).opacity") == "1"


@pytest.mark.slow
def test_a_new_name_reaches_the_other_tabs(visit, own_run):
    with Site(own_run) as site:
        studio = visit(site)
        other = studio.context.new_page()
        other.goto("/")
        other.wait_for_selector("#picks:not([aria-busy])", state="attached")
        k = json.loads((own_run / "names.json").read_bytes())["concepts"][0]["concept"]
        studio.one(".fine > summary").click()
        studio.one(f"#pill-{k}").click()
        studio.one(".concept-head button").click()
        studio.page.get_by_label("Name", exact=True).fill("Finest things")
        studio.page.keyboard.press("Enter")
        wait_until(lambda: other.locator(f"#pill-{k}").text_content() == "Finest things")


def test_more_like_this_and_not_this_are_on_every_card(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    first, second = studio.shown()[:2]
    title = shop_site.item(second)["title"]
    card = studio.list().locator(f'[data-id="{second}"]')
    card.hover()
    card.get_by_role("button", name=f"More like {title}").click()
    history = [*ids(shop_site.get("/users/test-0")["history"]), second]
    studio.shows(shop_site.recommended(history=history))
    assert studio.one(".toast").inner_text().startswith(f"More like {title}")
    card = studio.list().locator(f'[data-id="{first}"]')
    card.hover()
    card.get_by_role("button", name=f"Not this: {shop_site.item(first)['title']}").click()
    studio.shows(shop_site.recommended(history=history, rules={"exclude": [first]}))
