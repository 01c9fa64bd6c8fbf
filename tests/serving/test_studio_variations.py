"""Variations in a browser: what they keep, in words that agree with the API, and what a person may let go."""

import pytest

from tests.serving.browser import ids, wait_until

READ = "(stops) => stops.map((stop) => stop.dataset.id)"
STRIP = ".walk-strip:not(.is-skeleton)"
OVERFLOW = """(frames) => frames.filter((frame) => frame.scrollWidth > frame.clientWidth + 1
  || frame.scrollHeight > frame.clientHeight + 1).map((frame) => frame.textContent)"""
RESEARCH = ("concept", "dimension", "coordinate", "walk", "knob")


@pytest.fixture
def strip(visit, shop_site):
    """(studio, what the API answers): a bag along its size, from one for which not everything can be kept."""
    bags, size = shop_site.dimension("bags", "size")
    for item in shop_site.get("/items", q="bag", limit=40)["items"]:
        answer = shop_site.post("/traverse", item=item["id"], dimension=size, steps=8, keep_start=True)
        if item["concept"] == bags and any(stop["differs"] for stop in answer["items"]):
            break
    studio = visit(shop_site, f"?view=walk&from={item['id']}&along={size}")
    studio.one(STRIP).wait_for()
    return studio, answer


def shown(studio):
    return studio.one(STRIP).locator("li").evaluate_all(READ)


def test_every_stop_says_what_else_differs_and_a_line_what_is_kept(strip, shop_site):
    studio, answer = strip
    frames = studio.one(f"{STRIP} li")
    for at, stop in enumerate(answer["items"]):
        text = frames.nth(at).inner_text()
        assert ("also differs" in text) == bool(stop["differs"])
        item = shop_site.item(stop["id"])["attributes"]
        for name in stop["differs"]:
            assert f"{name} " in text
            if isinstance(item[name], str):
                assert item[name] in text
        assert "size" in text
    line = studio.one(".walk-kept").inner_text()
    for name in answer["held"]:
        kept = sum(name not in stop["differs"] for stop in answer["items"])
        where = "every stop" if kept == 8 else f"{kept} of 8 stops" if kept > 1 else "Not kept"
        sentence = next(part for part in line.split(".") if name in part.split(": ")[1].split(", "))
        assert where in sentence


def test_the_researchers_words_are_under_details(strip):
    studio, answer = strip
    assert studio.one("#walk-title").inner_text() == "Variations"
    text = studio.one("#view-walk").inner_text().lower()
    assert [word for word in RESEARCH if word in text] == []
    studio.one(".walk-details summary").click()
    details = studio.one(".walk-details").inner_text()
    assert f"dimension {answer['dimension']} of concept {answer['concept']}" in details
    assert f"{abs(answer['items'][0]['value']):.2f}" in details


def test_what_need_not_be_kept_can_be_let_go_and_taken_back(strip, shop_site):
    studio, answer = strip
    let_go = answer["held"][0]
    button = studio.button(let_go, ".walk-keeps")
    assert button.get_attribute("aria-pressed") == "true"
    button.press("Enter")
    start = next(stop["id"] for stop in answer["items"] if stop["start"])
    request = {"item": start, "dimension": answer["dimension"], "steps": 8, "keep_start": True}
    without = shop_site.post("/traverse", hold=answer["held"][1:], **request)
    wait_until(lambda: studio.one(".walk-keeps [aria-pressed=false]").count() == 1)
    wait_until(lambda: shown(studio) == ids(without["items"]))
    wait_until(lambda: let_go not in studio.one(".walk-kept").inner_text())
    focused = studio.page.evaluate("() => document.activeElement.textContent")
    assert focused == let_go  # redrawn without losing the place of the keyboard
    studio.button(let_go, ".walk-keeps").press("Enter")
    wait_until(lambda: shown(studio) == ids(answer["items"]))
    wait_until(lambda: let_go in studio.one(".walk-kept").inner_text())


def test_with_everything_let_go_the_strip_is_the_papers_walk(strip, shop_site):
    studio, answer = strip
    for count, name in enumerate(answer["held"], 1):
        studio.button(name, ".walk-keeps").click()
        wait_until(lambda count=count: studio.one(".walk-keeps [aria-pressed=false]").count() == count)
    start = next(stop["id"] for stop in answer["items"] if stop["start"])
    plain = shop_site.post("/traverse", item=start, dimension=answer["dimension"], steps=8, keep_start=True, hold=False)
    wait_until(lambda: shown(studio) == ids(plain["items"]))
    assert studio.one(".walk-kept").inner_text() == ""
    assert studio.one(".walk-differs").count() == 0


def test_another_start_keeps_everything_again(strip):
    studio, answer = strip
    studio.button(answer["held"][0], ".walk-keeps").click()
    wait_until(lambda: studio.one(".walk-keeps [aria-pressed=false]").count() == 1)
    other = next(stop for stop in answer["items"] if not stop["start"])
    studio.one(f'{STRIP} li[data-id="{other["id"]}"] .walk-here').click(force=True)
    wait_until(lambda: f"from={other['id']}" in studio.url)
    wait_until(lambda: studio.one(".walk-keeps [aria-pressed=false]").count() == 0)
    assert studio.one(".walk-item strong").inner_text() == other["title"]


@pytest.mark.parametrize("width", [320, 390, 2560])
def test_nothing_sticks_out_of_a_frame(strip, width):
    studio, _ = strip
    studio.page.set_viewport_size({"width": width, "height": 900})
    assert studio.one(".walk-frame").evaluate_all(OVERFLOW) == []
    assert studio.one("#view-walk").evaluate("(view) => view.scrollWidth <= Math.min(view.clientWidth, innerWidth)")
