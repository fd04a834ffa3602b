"""directory.test and news.test: pages that are no company's own, where a search may lead.

A directory lists what the register says; news is about nothing in particular.
"""

from __future__ import annotations

from html import escape

from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import Dials
from stoker.sandbox.search_pages import DIRECTORY, page_text
from stoker.sandbox.serving import Asked, Handler, Told, page_told, text_told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import World


def directory(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of both hosts."""

    def answer(asked: Asked) -> Told:
        if asked.path == "/robots.txt":
            return text_told("User-agent: *\nDisallow: /search\n")
        if asked.host != DIRECTORY:
            return page_told("<!doctype html><title>News</title><p>Nothing in particular.</p>")
        text = page_text(world, f"http://{asked.host}{asked.path}")
        if text is None:
            return page_told("<!doctype html><title>Not found</title>", status=404)
        lines = "".join(f"<p>{escape(line.lstrip('# '))}</p>" for line in text.split("\n\n"))
        return page_told(f"<!doctype html><title>Company profile</title><body>{lines}</body>")

    return dialled("directory", answer, seed=world.seed, dials=dials, tallies=tallies)
