import math

from stoker.base.types import Depth
from stoker.enrichment.forecast import compute_capacity, list_vendor_needs


def test_only_those_who_can_be_asked_are_expected_to_be():
    needs = list_vendor_needs({"crawl", "tavily"})
    assert [each.connector for each in needs[Depth.SHALLOW]] == ["crawl"]
    assert [each.connector for each in needs[Depth.DEEP]] == ["crawl", "tavily"]


def test_room_is_what_the_scarcest_unit_leaves():
    free = {"calls": 300, "credits": 200}
    assert compute_capacity("zerobounce", free=free, per_minute=5).calls_left == 2
    assert compute_capacity("tavily", free={"calls": 7}, per_minute=100).calls_left == 7
    assert compute_capacity("openai", free={}, per_minute=1).calls_left == math.inf


def test_as_long_as_less_is_free_than_a_call_is_promised_nobody_is_asked():
    def left(tokens):
        return compute_capacity("openai", free={"tokens": tokens}, per_minute=1).calls_left

    assert [left(tokens) for tokens in (0, 5_999, 6_000, 7_999, 8_000)] == [0, 0, 1, 1, 2]


def test_calls_are_whole_but_a_batch_may_be_smaller():
    assert (
        compute_capacity("tavily", free={"money:USD": 3, "calls": 0}, per_minute=1).calls_left == 0
    )
    assert compute_capacity("zerobounce", free={"calls": 30}, per_minute=1).calls_left == 0.3
