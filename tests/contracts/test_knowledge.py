"""What every store promises about pages of sites and about answers that were paid for."""

import asyncio

import pytest

from contracts.backends import ACME, UMBRELLA, refused
from contracts.knowledge import HOUR, NOW, answer, page

SITE = "acme.test"


async def test_pages_come_back_as_they_were_by_address(store):
    seen = [page("https://acme.test/b"), page(), page("https://acme.test/ü", status=404)]
    await store.pages.save_pages(SITE, seen)
    assert await store.pages.list_pages(SITE) == [seen[1], seen[0], seen[2]]
    assert await store.pages.list_pages("other.test") == []


async def test_a_page_remembered_again_takes_the_place_of_what_was_known_of_it(store):
    await store.pages.save_pages(SITE, [page(), page("https://acme.test/team")])
    newer = page(etag="", fingerprint="new", changed_at=NOW)
    await store.pages.save_pages(SITE, [page(status=500), newer])
    assert await store.pages.list_pages(SITE) == [newer, page("https://acme.test/team")]
    await store.pages.save_pages(SITE, [])
    assert len(await store.pages.list_pages(SITE)) == 2


async def test_one_address_may_be_known_of_two_sites(store):
    await store.pages.save_pages(SITE, [page(status=200)])
    await store.pages.save_pages("other.test", [page(status=301)])
    assert [seen.status for seen in await store.pages.list_pages(SITE)] == [200]


async def test_of_pages_one_of_which_cannot_be_kept_none_is(store):
    await refused(store.pages.save_pages(SITE, [page(), page("https://a.test/" + "x" * 2_000)]))
    for site in ("", "x" * 301, "half \ud800"):
        for verb in (
            store.pages.save_pages(site, [page()]),
            store.pages.list_pages(site),
        ):
            await refused(verb)
    assert await store.pages.list_pages(SITE) == []


async def test_the_longest_site_and_address_still_fit_into_one_key(store):
    site, seen = "é" * 150, page("🙂" * 500)
    await store.pages.save_pages(site, [seen])
    assert await store.pages.list_pages(site) == [seen]


async def test_answers_come_back_as_they_were_good_or_not(store):
    kept = [answer("b"), answer("a", expires_at=NOW - HOUR), answer("c")]
    await store.answers.save_answers(kept)
    found = await store.answers.find_answers(["c", "a", "a", "nobody's"])
    assert list(found.items()) == [("a", kept[1]), ("c", kept[2])]
    assert await store.answers.find_answers([]) == {}


@pytest.mark.parametrize(
    "said", [None, True, 0, -1.5, "", "text", '{"not": "parsed"}', [], {}, [[1, "a"], {"b": None}]]
)
async def test_an_answer_may_be_any_json(store, said):
    await store.answers.save_answers([answer(answer=said)])
    [kept] = (await store.answers.find_answers(["k"])).values()
    assert (kept.answer, type(kept.answer)) == (said, type(said))


async def test_an_answer_kept_again_takes_the_place_of_the_older(store):
    await store.answers.save_answers([answer(), answer("other")])
    newer = answer(answer=[2], cost={}, connector="lusha", expires_at=NOW + 2 * HOUR)
    await store.answers.save_answers([answer(answer=[1]), newer])
    assert await store.answers.find_answers(["k", "other"]) == {
        "k": newer,
        "other": answer("other"),
    }


async def test_many_answers_are_found_at_once(store):
    kept = [answer(f"{n:04}") for n in range(1_203)]
    await store.answers.save_answers(kept)
    found = await store.answers.find_answers([one.key for one in kept])
    assert list(found.values()) == kept


async def test_answers_that_were_good_until_before_then_are_forgotten_oldest_first(store):
    old = [answer(f"{n}", expires_at=NOW - n * HOUR) for n in range(5)]
    await store.answers.save_answers([*old, answer("good")])
    assert await store.answers.delete_answers(before=NOW, limit=3) == 3
    left = await store.answers.find_answers(["0", "1", "2", "3", "4", "good"])
    assert list(left) == ["0", "1", "good"]
    assert await store.answers.delete_answers(before=NOW) == 1
    assert await store.answers.delete_answers(before=NOW) == 0
    assert list(await store.answers.find_answers(["0", "1", "good"])) == ["0", "good"]


async def test_those_who_write_the_same_things_at_once_all_get_through(store):
    keys = [f"{n}" for n in range(20)]
    await asyncio.gather(
        *(
            store.answers.save_answers([answer(key) for key in keys[:: 1 if n % 2 else -1]])
            for n in range(8)
        ),
        *(
            store.pages.save_pages(SITE, [page(key) for key in keys[:: 1 if n % 2 else -1]])
            for n in range(8)
        ),
    )
    assert (
        len(await store.answers.find_answers(keys)) == len(await store.pages.list_pages(SITE)) == 20
    )


async def test_one_tenant_sees_no_pages_or_answers_of_another(backend):
    ours, theirs = backend.tenant(ACME), backend.tenant(UMBRELLA)
    await ours.pages.save_pages(SITE, [page()])
    await ours.answers.save_answers([answer()])
    assert await theirs.pages.list_pages(SITE) == []
    assert await theirs.answers.find_answers(["k"]) == {}
    assert await theirs.answers.delete_answers(before=NOW + 2 * HOUR) == 0
    await theirs.answers.save_answers([answer(answer="theirs")])
    await theirs.pages.save_pages(SITE, [page(status=500)])
    assert await ours.answers.find_answers(["k"]) == {"k": answer()}
    assert await ours.pages.list_pages(SITE) == [page()]
