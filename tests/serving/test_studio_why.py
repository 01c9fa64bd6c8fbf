"""Why is this here: the item's sheet in a browser. What it shows adds up, and is what the service says."""

import json
import re
from urllib.parse import quote

import pytest

from tests.serving.browser import Site, wait_until

WHO = {"user": "test-0"}
RULES = {"where": "price < 80", "boosts": [{"where": "price < 30", "amount": 0.7}], "diversity": 0.3}


def number(text):
    return int(text.replace("−", "-").replace(",", ""))


def opened(studio, id):
    studio.page.evaluate("() => document.activeElement?.blur()")
    card = studio.list().locator(f'.card[data-id="{id}"] .card-open')
    card.click()
    studio.one(".why .why-place").wait_for()
    return studio.one(".sheet .why")


def shown_sum(why):
    """(places of the rows, together, first place, last place) as a person reads them."""
    rows = [number(text) for text in why.locator("tr.up .why-places, tr.down .why-places").all_inner_texts()]
    together = number(why.locator(".why-total .why-places").inner_text())
    stops = [number(text) for text in why.locator(".why-stop .why-places").all_inner_texts()]
    return rows, together, stops


def check_sum(why, account):
    rows, together, stops = shown_sum(why)
    assert sum(rows) == together == account["stages"][0]["rank"] - account["rank"]
    assert stops[0] == account["stages"][0]["rank"]
    assert stops[-1] == account["rank"] == stops[0] - together
    why.locator("summary").click()
    amounts = [float(text.replace("−", "-")) for text in why.locator(".why-scores tbody td").all_inner_texts()]
    score = float(why.locator(".why-scores tfoot td").inner_text().replace("−", "-"))
    assert sum(round(1000 * amount) for amount in amounts) == round(1000 * score) == round(1000 * account["score"])
    why.locator("summary").click()


def test_the_places_shown_add_up_to_the_place_shown(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    for place in (1, 6):
        first = studio.shown()[place]
        (item,) = shop_site.post("/explain", **WHO, n=24, items=[first])["items"]
        why = opened(studio, first)
        assert why.locator(".why-place").inner_text() == f"Place {place + 1} of {item['account']['of']}"
        check_sum(why, item["account"])
        up = item["account"]["stages"][0]["rank"] - item["account"]["rank"]
        said = why.locator(".why-said").inner_text()
        if up:
            assert said.startswith(f"{'Up' if up > 0 else 'Down'} {abs(up)} place")
            assert sum(map(number, re.findall(r"[+−][\d,]+(?=[,.])", said))) == up
        studio.page.keyboard.press("Escape")


def test_sliders_and_rules_are_parts_of_the_sum(visit, shop_site):
    concepts = shop_site.get("/model")["concepts"]
    mugs = shop_site.concept("mugs")["concept"]
    moves = [{"concept": mugs, "share": 0.6}, {"towards": "price", "amount": -1.5}]
    query = f"?user=test-0&share={mugs}:0.6&towards=price:-1.5&rules={quote(json.dumps(RULES))}"
    studio = visit(shop_site, query)
    listed = shop_site.recommended(**WHO, moves=moves, rules=RULES)
    studio.shows(listed)
    accounts = {
        item["id"]: item["account"]
        for item in shop_site.post("/explain", **WHO, n=24, moves=moves, rules=RULES, items=listed)["items"]
    }
    moved = next(
        id
        for id, account in accounts.items()
        if len({part["kind"] for part in account["parts"] if part["places"]}) == 3
    )
    account = accounts[moved]
    why = opened(studio, moved)
    check_sum(why, account)
    labels = why.locator(".why-label").all_inner_texts()
    by_sliders = [part for part in account["parts"] if part["kind"] == "move" and part["places"]]
    for part in by_sliders:
        label = f"{concepts[mugs]['label']} at 60 %" if part["move"].get("share") else "Price ↓"
        assert label in labels
    assert {"Filter: price < 80", "Boost +0.7: price < 30", "Diversity 0.3"} & set(labels)
    before = [stage for stage in account["stages"] if stage["kind"] != "move"][-1]["rank"]
    assert shown_sum(why)[2] == [account["stages"][0]["rank"], before, account["rank"]]
    said = why.locator(".why-said").inner_text()
    by = before - account["rank"]
    assert said.startswith(f"{'Up' if by > 0 else 'Down'} {abs(by)} place" if by else "The sliders cancel out")
    badge = studio.badges().get(moved)
    assert badge in (None, "new", f"{'↑' if by > 0 else '↓'} {abs(by)}")


def test_the_reason_follows_pins_exclusions_and_the_history(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    fifth = studio.shown()[4]
    why = opened(studio, fifth)
    studio.button("Pin", ".sheet").click()
    wait_until(lambda: why.locator(".why-place").inner_text().startswith("Place 1 of"))
    assert "Pinned" in why.locator(".why-label").all_inner_texts()
    check_sum(
        why, shop_site.post("/explain", **WHO, n=24, items=[fifth], rules={"pins": [fifth]})["items"][0]["account"]
    )
    studio.button("Not this", ".sheet").click()
    wait_until(lambda: why.locator(".why-place").inner_text() == "Not in the list")
    assert why.locator(".why-said").inner_text().startswith("Left out (1 item excluded); otherwise at place 5.")
    studio.button("Allow again", ".sheet").click()
    wait_until(lambda: why.locator(".why-place").inner_text().startswith("Place 5 of"))
    studio.button("Add to history", ".sheet").click()
    why.wait_for(state="hidden")
    assert studio.button("Remove from history", ".sheet").is_visible()
    assert not studio.button("Pin", ".sheet").is_visible()
    studio.button("Remove from history", ".sheet").click()
    why.wait_for()


def test_items_of_the_history_open_from_their_row(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    why = opened(studio, studio.shown()[5])
    row = why.locator(".thumb-button").first
    id = row.get_attribute("data-id")
    row.click()
    title = shop_site.item(id)["title"]
    wait_until(lambda: studio.one("#sheet-title").inner_text() == title)
    studio.button("Remove from history", ".sheet").wait_for()


def test_an_item_that_has_not_moved_says_what_speaks_for_it(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    listed = studio.shown()
    found = shop_site.post("/explain", **WHO, n=24, items=listed)["items"]
    still = next(item for item in found if not any(part["places"] for part in item["account"]["parts"]))
    raised = {}
    for part in still["account"]["parts"]:
        if "item" in part:
            raised[part["label"]] = raised.get(part["label"], 0) + part["amount"]
    first, second = sorted(raised, key=raised.get, reverse=True)[:2]
    said = opened(studio, still["id"]).locator(".why-said").inner_text()
    assert said.startswith("The same place as for customers in general.")
    assert said.endswith(f"In the history, {first} and {second} speak for it most.")


def test_groups_are_complete_and_add_up(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    first = studio.shown()[0]
    opened(studio, first)
    shares = shop_site.item(first)["concepts"]
    percents = [number(text.split()[0]) for text in studio.one(".sheet .bars .bar-value").all_inner_texts()]
    assert sum(percents) == 100
    names = studio.one(".sheet .bars .bar-name").all_inner_texts()
    labels = [concept["label"] for concept in shop_site.get("/model")["concepts"]]
    assert {labels[k] for k, share in enumerate(shares) if share >= 0.015} <= set(names)
    assert [heading for heading in studio.one(".sheet h3").all_inner_texts() if "oncept" in heading] == []


def test_a_list_of_one_group_is_explained_within_it(visit, shop_site):
    mugs = shop_site.concept("mugs")["concept"]
    studio = visit(shop_site, f"?user=test-0&concept={mugs}&list=concept")
    listed = shop_site.recommended(mugs, **WHO)
    studio.shows(listed)
    why = opened(studio, listed[1])
    (item,) = shop_site.post("/explain", **WHO, n=24, concept=mugs, items=[listed[1]])["items"]
    assert why.locator(".why-place").inner_text() == f"Place 2 of {item['account']['of']} in mugs"


def test_models_without_groups_say_that_places_are_those_for_everybody(visit, popularity_run):
    with Site(popularity_run) as site:
        studio = visit(site, "?item=3&item=4")
        why = opened(studio, studio.shown()[2])
        assert why.locator(".why-said").inner_text() == "The same place as for customers in general."
        assert why.locator("table.why-sum").count() == 0


def test_a_history_that_is_too_long_is_said_and_the_sheet_stands(visit, shop_site, monkeypatch):
    from macrid.serving import explaining

    monkeypatch.setattr(explaining, "LONGEST_EXPLAINED_HISTORY", 1)
    studio = visit(shop_site, "?user=test-0", allow=("422",))
    studio.list().locator(".card-open").first.click()
    studio.one(".sheet .similar .card").first.wait_for()
    wait_until(lambda: "the limit with explain is 1" in studio.one(".sheet .why").inner_text())


@pytest.mark.parametrize(("width", "height"), [(390, 844), (2560, 1300)])
def test_nothing_of_the_sum_is_cut_off(visit, shop_site, width, height):
    studio = visit(shop_site, "?user=test-0", viewport={"width": width, "height": height})
    why = opened(studio, studio.shown()[1])
    why.locator("summary").click()
    wide = "() => [...document.querySelectorAll('.sheet, .sheet-body, .why')].map((e) => e.scrollWidth - e.clientWidth)"
    assert max(studio.page.evaluate(wide)) <= 0
