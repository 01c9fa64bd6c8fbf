"""Rules in the studio: they filter the list, say what they cost and where they are wrong, and are part of links."""

import json
from urllib.parse import parse_qs, urlsplit

from tests.serving.browser import Site, ids, press, wait_until


def open_rules(studio):
    """Everything in the panel, with the condition as text."""
    studio.one(".rules > summary").click()
    studio.one("#rule-by option").nth(1).wait_for(state="attached")
    studio.one(".rules .evidence > summary").click()


def rules_in(studio):
    return json.loads(parse_qs(urlsplit(studio.url).query).get("rules", ["{}"])[0])


def test_rules_shape_the_list_and_are_part_of_its_link(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    open_rules(studio)
    where = studio.one("#rule-where")
    where.fill("price < 40")
    where.press("Enter")
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "price < 40"}))
    studio.one("#rule-most").fill("3")
    studio.one(".rule-most select").select_option("colour")
    rules = {"where": "price < 40", "at_most": {"colour": 3}}
    studio.shows(shop_site.recommended(user="test-0", rules=rules))
    studio.one("#rule-diversity").fill("0.4")
    rules["diversity"] = 0.4
    studio.shows(shop_site.recommended(user="test-0", rules=rules))
    wait_until(lambda: "of the items; similarity" in studio.one(".rules").inner_text())
    wait_until(lambda: rules_in(studio) == rules)
    again = visit(shop_site, f"?{urlsplit(studio.url).query}")
    again.shows(studio.shown())
    assert again.one(".rules-told").inner_text() == "price < 40 · variety 0.4 · at most 3 per colour"
    studio.button("Clear rules").click()
    studio.shows(shop_site.recommended(user="test-0"))
    studio.button("Undo").click()
    studio.shows(again.shown())


def test_a_wrong_condition_is_explained_in_place_and_the_list_stays(visit, shop_site):
    studio = visit(shop_site, "?user=test-0", allow=["422"])
    before = studio.shown()
    open_rules(studio)
    studio.one("#rule-where").fill("prise < 40")
    studio.one("#rule-where").press("Enter")
    error = studio.one(".rule-error")
    error.wait_for()
    assert "did you mean 'price'?" in error.inner_text()
    assert studio.one("#rule-where").get_attribute("aria-invalid") == "true"
    assert studio.shown() == before
    studio.one("#rule-where").fill("price < 40")
    studio.one("#rule-where").press("Enter")
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "price < 40"}))
    assert error.is_hidden()


def test_a_pinned_item_comes_first_and_an_excluded_one_not_at_all(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    _, second, _, last, *_ = studio.shown()
    card = studio.list().locator(f'[data-id="{last}"]')
    card.hover()
    card.locator(".card-pin").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"pins": [last]}))
    assert studio.shown()[0] == last
    assert studio.list().locator(".card-pin.is-in").count() == 1
    other = studio.list().locator(f'[data-id="{second}"]')
    other.hover()
    other.locator(".card-ban").click()
    rules = {"pins": [last], "exclude": [second]}
    studio.shows(shop_site.recommended(user="test-0", rules=rules))
    assert second not in studio.shown()
    wait_until(lambda: rules_in(studio) == rules)
    again = visit(shop_site, f"?{urlsplit(studio.url).query}")
    again.shows(studio.shown())
    again.one(".rules > summary").click()
    assert again.one(".rules-told").inner_text() == "1 pinned · 1 excluded"
    again.page.get_by_role("button", name=f"Allow {shop_site.item(second)['title']}", exact=True).click()
    again.shows(shop_site.recommended(user="test-0", rules={"pins": [last]}))
    again.page.get_by_role("group", name="Pinned").get_by_role("button").click()
    again.shows(shop_site.recommended(user="test-0"))
    studio.button("Undo", "#toasts").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"pins": [last]}))


def test_the_sheet_of_an_item_pins_and_excludes_it(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    third = studio.shown()[2]
    studio.list().locator(f'[data-id="{third}"] .card-open').click()
    studio.button("Pin", ".sheet").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"pins": [third]}))
    studio.button("Not this", ".sheet").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"exclude": [third]}))
    assert studio.button("Pin", ".sheet").is_visible()
    studio.button("Allow again", ".sheet").click()
    studio.shows(shop_site.recommended(user="test-0"))


def test_shelves_are_rows_by_share_under_the_names_of_concepts(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    studio.button("Shelves").click()
    expected = shop_site.post("/recommend", user="test-0", n=24, rules={"shelves": True})["shelves"]
    heads = studio.list().locator(".row-head")
    wait_until(lambda: heads.locator(".row-name").all_inner_texts() == [shelf["name"] for shelf in expected])
    studio.shows([item["id"] for shelf in expected for item in shelf["items"]])
    assert "%" in heads.first.inner_text()
    wait_until(lambda: "list=shelves" in studio.url)
    open_rules(studio)
    where = studio.one("#rule-where")
    where.fill("category = 'bags'")
    where.press("Enter")
    rules = {"where": "category = 'bags'", "shelves": True}
    expected = shop_site.post("/recommend", user="test-0", n=24, rules=rules)["shelves"]
    studio.shows([item["id"] for shelf in expected for item in shelf["items"]])
    wait_until(lambda: rules_in(studio) == {"where": "category = 'bags'"})
    studio.button("Overall").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "category = 'bags'"}))


def test_a_new_item_says_that_it_is_new_and_how_it_was_placed(visit, own_run):
    with Site(own_run, edits="yes") as site:
        site.post(
            "/items", items=[{"id": "new/1", "title": "Small red leather bag", "category": "bags", "price": 60.0}]
        )
        studio = visit(site, f"?user=test-0&rules={json.dumps({'pins': ['new/1']})}")
        assert studio.shown()[0] == "new/1"
        assert studio.list().locator(".card-new").count() == 1
        studio.list().locator(".card-open").first.click()
        studio.one(".sheet .why").wait_for()
        assert "New since training, placed by its attributes" in studio.one(".sheet").inner_text()


def test_the_limit_of_rules_stays_legible_on_any_screen(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    open_rules(studio)
    for width in (390, 900, 1280):
        studio.page.set_viewport_size({"width": width, "height": 800})
        widths = studio.one(".rule .field").evaluate_all("(fields) => fields.map((field) => field.offsetWidth)")
        assert min(widths) > 50, (width, widths)
        assert studio.one(".rule-most select").bounding_box()["width"] > 80, width


def test_filters_are_ticked_and_ranged_and_say_so_in_words(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    open_rules(studio)
    add = studio.page.get_by_label("Add a filter")
    add.select_option("category")
    ticks = studio.page.get_by_role("group", name="category")
    ticks.get_by_role("button", name="bags").click()
    ticks.get_by_role("button", name="mugs").click()
    add.select_option("price")
    studio.page.get_by_label("price, at most").fill("40")
    studio.page.get_by_label("price, at most").press("Enter")
    rules = {"where": "category in ('bags', 'mugs') and price <= 40"}
    studio.shows(shop_site.recommended(user="test-0", rules=rules))
    wait_until(lambda: rules_in(studio) == rules)
    assert studio.one(".rules-told").inner_text() == "category: bags or mugs · price up to 40"
    ticks.get_by_role("button", name="bags").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "category = 'mugs' and price <= 40"}))
    studio.button("Remove category").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "price <= 40"}))
    for _ in range(4):
        studio.button("Undo").click()
    studio.shows(shop_site.recommended(user="test-0", rules={"where": "category = 'bags'"}))


def test_what_is_pushed_comes_first_and_how_strongly_is_a_slider(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    open_rules(studio)
    studio.page.get_by_label("Add a boost").select_option("category")
    first = shop_site.get("/attributes")["attributes"]
    value = next(entry for entry in first if entry["name"] == "category")["values"][0]["value"]
    boost = {"where": f"category = '{value}'", "amount": 0.7}
    studio.shows(shop_site.recommended(user="test-0", rules={"boosts": [boost]}))
    strength = studio.page.get_by_role("slider", name=f"How strongly: {boost['where']}")
    press(strength, "End")
    boost["amount"] = 3
    studio.shows(shop_site.recommended(user="test-0", rules={"boosts": [boost]}))
    assert studio.one(".rules-told").inner_text() == "1 pushed"
    studio.page.get_by_role("group", name="category").get_by_role("button", name="mugs").click()
    boost["where"] = f"category in ('{value}', 'mugs')"
    studio.shows(shop_site.recommended(user="test-0", rules={"boosts": [boost]}))


def test_new_items_can_be_pushed(visit, own_run):
    with Site(own_run, edits="yes") as site:
        site.post("/items", items=[{"id": "new/1", "title": "Small red bag", "category": "bags", "price": 60.0}])
        studio = visit(site, "?user=test-0")
        open_rules(studio)
        studio.page.get_by_label("Add a boost").select_option("new")
        rules = {"boosts": [{"where": "new = true", "amount": 0.7}]}
        studio.shows(site.recommended(user="test-0", rules=rules))
        wait_until(lambda: rules_in(studio) == rules)


def test_the_list_is_as_long_as_somebody_wants(visit, shop_site):
    studio = visit(shop_site, "?user=test-0")
    open_rules(studio)
    studio.page.get_by_label("How many").select_option("6")
    longer = ids(shop_site.post("/recommend", n=48, user="test-0")["items"])
    studio.shows(longer[:6])
    studio.page.get_by_label("How many").select_option("48")
    studio.shows(longer)
    again = visit(shop_site, f"?{urlsplit(studio.url).query}")
    again.shows(longer)
    studio.button("Undo").click()
    studio.shows(longer[:6])
