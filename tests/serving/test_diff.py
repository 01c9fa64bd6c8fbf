"""The differences from an earlier run over HTTP, and in the studio's report."""

import shutil

import pytest

from macrid import runs
from macrid.differences import diff


@pytest.fixture(scope="module")
def pair(shop_run, tmp_path_factory):
    """(folder of the run before, the run after, which knows its differences)"""
    folder = tmp_path_factory.mktemp("pair")
    before, after = (shutil.copytree(shop_run, folder / name) for name in ("before", "after"))
    runs.add(after, "diff.json", diff(before, after, device="cpu"))
    return before, after


def test_a_run_tells_how_it_differs_from_the_one_it_started_from(pair, client_of):
    answer = client_of(pair[1], edits="no").get("/v1/diff")
    assert answer.status_code == 200
    content = answer.json()
    assert (content["before"], content["after"]) == ("before", "after")
    assert content["diff"]["ari"] == pytest.approx(1)
    assert str(pair[0].parent) not in answer.text


def test_a_run_that_started_afresh_has_nothing_to_tell(client):
    assert client.get("/v1/diff").json() == {"before": None, "after": "run", "diff": None}


def test_another_run_beside_it_can_be_compared_by_those_who_may_edit(pair, client_of):
    mine = client_of(pair[0], edits="yes")
    content = mine.get("/v1/diff", params={"run": "after"}).json()
    assert (content["before"], content["after"]) == ("after", "before")
    assert content["diff"]["numbers"]["overlap"] == pytest.approx(1)
    assert mine.get("/v1/diff", params={"run": "nowhere"}).status_code == 404
    assert mine.get("/v1/diff", params={"run": "../after"}).status_code == 422
    assert client_of(pair[0], edits="no").get("/v1/diff", params={"run": "after"}).status_code == 403


def test_the_report_shows_what_changed(pair, browser, visit):
    from tests.serving.browser import Site

    with Site(pair[1], edits="no") as site:
        page = visit(site).page
        page.get_by_role("tab", name="Report").click()
        section = page.locator("section[aria-labelledby=report-diff]")
        section.wait_for(state="visible")
        text = section.inner_text()
        assert "Training started from before" in text
        assert "Safe to swap in" in text
        assert "users keep 10.0 of their first 10 items" in text
