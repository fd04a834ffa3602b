import math

from stoker.base.types import Depth
from stoker.enrichment.vendor_needs import expected, room


def test_only_those_who_can_be_asked_are_expected_to_be():
    needs = expected({"crawl", "tavily"})
    assert [each.connector for each in needs[Depth.SHALLOW]] == ["crawl"]
    assert [each.connector for each in needs[Depth.DEEP]] == ["crawl", "tavily"]


def test_room_is_what_the_scarcest_unit_leaves():
    free = {"calls": 300, "credits": 200}
    assert room("zerobounce", free=free, per_minute=5).calls_left == 2
    assert room("tavily", free={"calls": 7}, per_minute=100).calls_left == 7
    assert room("openai", free={}, per_minute=1).calls_left == math.inf


def test_as_long_as_less_is_free_than_a_call_is_promised_nobody_is_asked():
    def left(tokens):
        return room("openai", free={"tokens": tokens}, per_minute=1).calls_left

    assert [left(tokens) for tokens in (0, 5_999, 6_000, 7_999, 8_000)] == [0, 0, 1, 1, 2]


def test_calls_are_whole_but_a_batch_may_be_smaller():
    assert room("tavily", free={"money:USD": 3, "calls": 0}, per_minute=1).calls_left == 0
    assert room("zerobounce", free={"calls": 30}, per_minute=1).calls_left == 0.3
