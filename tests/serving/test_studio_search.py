"""The search box in a browser: what an item was found by, and choosing it."""

import pytest

from tests.serving.browser import ids, wait_until

READ = "options => options.map(({ dataset }) => dataset.id)"


@pytest.mark.parametrize("query", ["teal mug", "phonecase", "bag-0007"])
def test_options_are_those_of_the_api_and_say_what_they_were_found_by(visit, shop_site, query):
    studio = visit(shop_site, "?item=bag-0001")
    expected = shop_site.get("/items", q=query, limit=12)["items"]
    studio.page.keyboard.press("/")
    studio.page.keyboard.type(query)
    options = studio.page.get_by_role("option")
    wait_until(lambda: options.evaluate_all(READ) == ids(expected))
    for place, item in enumerate(expected):
        shown = options.nth(place).locator(".option-matched").all_inner_texts()
        assert shown == ([" · ".join(item["matched"])] if item["matched"] else [])


def test_an_item_is_chosen_by_attribute_and_by_id(visit, shop_site):
    studio = visit(shop_site, "?item=bag-0001")
    for query in ("watches", "mug-0003"):
        (first, *_) = shop_site.get("/items", q=query, limit=12)["items"]
        studio.one("#search").fill(query)
        option = studio.page.get_by_role("option").first
        wait_until(lambda first=first, option=option: option.get_attribute("data-id") == first["id"])
        studio.page.keyboard.press("Enter")
        wait_until(lambda first=first: first["id"] in studio.history())
    assert "mug-0003" in studio.history()
