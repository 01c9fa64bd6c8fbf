"""HTML for notebooks: whatever a title says, it stays text."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid import markup

ALLOWED = {"div", "style", "p", "b", "small", "ol", "li", "span", "em", "i", "progress",
           "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip


class Reader(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = set(), set(), [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


@given(st.text(st.characters(exclude_categories=["Cc"]), min_size=1), st.integers(0, 50))
def test_every_text_is_escaped(text, group):
    html = markup.fragment(
        markup.heading(text, text),
        markup.ends(text, text),
        markup.cards([markup.Card(text, [text], None, group, text), markup.Card(text)]),
        markup.table([text], [[text]], numbers=[text]),
        markup.bar(text, 1, 2, text),
    )
    read = Reader(html)
    assert read.tags <= ALLOWED
    assert read.attributes <= {"class", "style", "title", "value", "max"}
    assert read.open == []
    shown = text[: markup.LONGEST].encode("utf-8", "replace").decode()
    assert "".join(read.texts) == shown * 12
    html.encode()


def test_a_title_cannot_leave_its_attribute():
    html = markup.cards([markup.Card('" onmouseover="alert(1)')])
    assert Reader(html).attributes == {"class", "title"}


@pytest.mark.parametrize(("done", "total", "expected"), [(3, 10, {"value", "max"}), (0, None, set())])
def test_a_bar_without_a_total_has_no_length(done, total, expected):
    assert Reader(markup.bar("training", done, total, "")).attributes - {"class"} == expected
