"""Which vendors there are in the make-believe internet, by host name.

A list only; how each one answers is its own module's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.sandbox.boards import ashby, greenhouse, lever
from stoker.sandbox.data_gov import data_gov
from stoker.sandbox.dials import SITES, Dials
from stoker.sandbox.directory import directory
from stoker.sandbox.feeds import feeds
from stoker.sandbox.lusha import lusha
from stoker.sandbox.odoo import odoo
from stoker.sandbox.openai import openai
from stoker.sandbox.serving import Handler
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.tavily import tavily
from stoker.sandbox.world import World
from stoker.sandbox.zerobounce import zerobounce

MAKERS: Mapping[str, Callable[[World, Dials, Tallies], Handler]] = {
    "tavily.test": tavily,
    "lusha.test": lusha,
    "zerobounce.test": zerobounce,
    "openai.test": openai,
    "odoo.test": odoo,
    "greenhouse.test": greenhouse,
    "lever.test": lever,
    "ashby.test": ashby,
    "feeds.test": feeds,
    "data-gov.test": data_gov,
    "directory.test": directory,
    "news.test": directory,
}

DIALLED = (
    SITES,
    "ashby",
    "data_gov",
    "directory",  # and the news, which come from the same house
    "feeds",
    "greenhouse",
    "lever",
    "lusha",
    "odoo",
    "openai",
    "tavily",
    "zerobounce",
)
"""Whose dials can be turned, by the name that stands before the point."""
