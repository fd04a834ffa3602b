import math

from stoker.core.expectations import expected, room
from stoker.core.nights import Depth


def test_only_those_who_can_be_asked_are_expected_to_be():
    needs = expected({"crawl", "tavily"})
    assert [each.connector for each in needs[Depth.SHALLOW]] == ["crawl"]
    assert [each.connector for each in needs[Depth.DEEP]] == ["crawl", "tavily"]


def test_room_is_what_the_scarcest_unit_leaves():
    free = {"calls": 300, "credits": 200}
    assert room("zerobounce", free=free, per_minute=5).calls_left == 2
    assert room("tavily", free={"calls": 7}, per_minute=100).calls_left == 7
    assert room("openai", free={}, per_minute=1).calls_left == math.inf
