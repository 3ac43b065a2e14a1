"""Reads the answers of the site for its tests."""

from __future__ import annotations

import json
from contextlib import contextmanager
from html.parser import HTMLParser

from neuron_ops.web import create_app


@contextmanager
def opened(path):
    """Yield the site over a database file, and let go of the file."""
    app = create_app(str(path))
    yield app
    app.extensions["neuron_ops_engine"].dispose()


class Page(HTMLParser):
    """The elements of a page as (tag, attributes), and its text with runs of white space made one space."""

    def __init__(self, markup):
        super().__init__()
        self.elements, self.pieces = [], []
        self.feed(markup)
        self.text = " ".join("".join(self.pieces).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.pieces.append(data)

    def of(self, tag, **wanted):
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in wanted.items())]

    def links(self):
        return [a["href"] for t, a in self.elements if t == "a" and "href" in a]


def get(app, address, status=200):
    with app.test_client().get(address) as response:
        assert response.status_code == status, response.get_data(as_text=True)[:2000]
        return response.get_data(as_text=True)


def page(app, address, status=200):
    return Page(get(app, address, status))


def strict(text):
    """Parse JSON as browsers do: Infinity and NaN are no JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
