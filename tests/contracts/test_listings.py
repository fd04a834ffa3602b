"""What every store promises about sources of postings and what they listed."""

import asyncio
from dataclasses import replace
from datetime import timezone

from contracts.backends import ACME, UMBRELLA, refused
from contracts.knowledge import HOUR, NOW
from stoker.base.types import EnrichedJob, Job, JobId
from stoker.discovery.enrichment import enrich_job
from stoker.discovery.model import Listing, Validators
from stoker.discovery.sources import SourceRecord, SourceState

LEVER = "lever:acme"


def listing(nth=1, *, title="Senior Python Engineer", **more):
    job = Job.create(source="lever", url=f"https://a.test/{nth}", title=title, **more)
    return Listing(job=job, enriched=enrich_job(job))


def source(name=LEVER, **more):
    return SourceRecord(**{"name": name, "state": SourceState.READ, "tried_at": NOW, **more})


def in_id_order(*listings):
    return sorted(listings, key=lambda each: each.job.id)


async def test_sources_come_back_as_they_were_by_name(store):
    known = Validators(etag='W/"é"', last_modified="Sun, 01 Nov 2026 18:00:00 GMT")
    read = source(read_at=NOW, version=3, validators=known, listed=7)
    failed = source("ashby:x", state=SourceState.FAILED, reason="it is away – ünï 🙂")
    await store.listings.save_source(read)
    await store.listings.save_source(failed)
    assert await store.listings.list_sources() == [failed, read]
    again = source(state=SourceState.UNCHANGED, tried_at=NOW + HOUR)
    await store.listings.save_source(again)
    assert await store.listings.list_sources() == [failed, again]


async def test_listings_come_back_as_they_were_in_id_order(store):
    listings = [
        listing(1, company="Acme", location="SG", posted_at=NOW.astimezone(timezone(HOUR))),
        replace(listing(2, title="ünï 🙂"), is_duplicate=True),
        listing(3),
    ]
    assert await store.listings.save_listings(LEVER, listings, at=NOW) == 3
    found = await store.listings.list_listings(LEVER, since=NOW)
    assert [each.listing for each in found] == in_id_order(*listings)
    assert {(each.first_seen_at, each.last_seen_at) for each in found} == {(NOW, NOW)}
    assert found[0].listing.job.posted_at in (None, NOW)
    assert await store.listings.list_listings("lever:other", since=NOW) == []


async def test_when_a_posting_was_first_seen_stays_and_when_last_never_goes_back(store):
    put = store.listings.save_listings
    assert await put(LEVER, [listing(1)], at=NOW) == 1
    assert await put(LEVER, [listing(1, title="Head of it"), listing(2)], at=NOW + HOUR) == 1
    assert await put(LEVER, [listing(2, title="Cook")], at=NOW - HOUR) == 0
    found = await store.listings.list_listings(LEVER, since=NOW + HOUR)
    assert {each.listing.job.title: each.first_seen_at for each in found} == {
        "Head of it": NOW,
        "Cook": NOW + HOUR,
    }
    assert {each.last_seen_at for each in found} == {NOW + HOUR}


async def test_a_posting_may_be_listed_by_two_sources(store):
    assert await store.listings.save_listings(LEVER, [listing()], at=NOW) == 1
    assert await store.listings.save_listings("file:a.csv", [listing()], at=NOW) == 1
    assert len(await store.listings.list_listings(LEVER, since=NOW)) == 1


async def test_of_two_with_one_id_the_last_counts(store):
    twice = [listing(1), listing(1, title="Cook")]
    assert await store.listings.save_listings(LEVER, twice, at=NOW) == 1
    (found,) = await store.listings.list_listings(LEVER, since=NOW)
    assert found.listing.job.title == "Cook"
    assert await store.listings.save_listings(LEVER, [], at=NOW) == 0


async def test_pages_go_on_where_the_last_one_ended(store):
    await store.listings.save_listings(LEVER, [listing(n) for n in range(7)], at=NOW)
    seen, after = [], ""
    while page := await store.listings.list_listings(LEVER, since=NOW, after=after, limit=3):
        seen += [each.listing.job.id for each in page]
        after = seen[-1]
    assert seen == sorted(listing(n).job.id for n in range(7))


async def test_who_is_gone_is_counted_and_forgotten_the_longest_gone_first(store):
    for nth in range(4):
        await store.listings.save_listings(LEVER, [listing(nth)], at=NOW + nth * HOUR)
    await store.listings.save_listings("file:a.csv", [listing(9)], at=NOW)
    count = store.listings.count_listings
    assert await count(LEVER, since=NOW, before=NOW + 2 * HOUR) == 2
    assert await count(LEVER, since=NOW + HOUR, before=NOW + HOUR) == 0
    assert await count("file:b.csv", since=NOW, before=NOW + HOUR) == 0
    assert await store.listings.delete_listings(before=NOW + 2 * HOUR, limit=2) == 2
    assert await store.listings.list_listings("file:a.csv", since=NOW) == []
    assert await store.listings.delete_listings(before=NOW + 2 * HOUR) == 1
    left = await store.listings.list_listings(LEVER, since=NOW)
    assert {each.last_seen_at for each in left} == {NOW + 2 * HOUR, NOW + 3 * HOUR}
    assert await store.listings.delete_listings(before=NOW + 2 * HOUR) == 0


async def test_of_listings_one_of_which_cannot_be_kept_none_is(store):
    good, put = listing(), store.listings.save_listings
    for bad in (
        replace(good, enriched=EnrichedJob(job=JobId("another"), title="")),
        replace(listing(2), enriched=replace(listing(2).enriched, stack=("half \ud800",))),
    ):
        await refused(put(LEVER, [good, bad], at=NOW))
    for name in ("", "x" * 2_101, "half \ud800"):
        await refused(put(name, [good], at=NOW))
        await refused(store.listings.list_listings(name, since=NOW))
        await refused(store.listings.save_source(source(name)))
    await refused(store.listings.save_source(source(validators=Validators(etag="\ud800"))))
    assert await store.listings.list_sources() == []
    assert await store.listings.list_listings(LEVER, since=NOW) == []


async def test_the_longest_name_still_fits_into_one_key(store):
    name = "feed:" + "🙂" * 500
    await store.listings.save_source(source(name))
    assert await store.listings.save_listings(name, [listing()], at=NOW) == 1
    assert len(await store.listings.list_listings(name, since=NOW)) == 1


async def test_one_tenant_cannot_see_or_forget_what_anothers_sources_listed(backend):
    acme, umbrella = backend.tenant(ACME).listings, backend.tenant(UMBRELLA).listings
    await acme.save_source(source())
    await acme.save_listings(LEVER, [listing()], at=NOW)
    assert await umbrella.list_sources() == []
    assert await umbrella.list_listings(LEVER, since=NOW) == []
    assert await umbrella.count_listings(LEVER, since=NOW, before=NOW + HOUR) == 0
    assert await umbrella.delete_listings(before=NOW + HOUR) == 0
    assert await umbrella.save_listings(LEVER, [listing()], at=NOW) == 1
    assert len(await acme.list_listings(LEVER, since=NOW)) == 1


async def test_many_at_once_lose_nothing(store):
    batches = [[listing(n % 40) for n in range(first, first + 30)] for first in range(0, 80, 8)]
    new = await asyncio.gather(
        *(store.listings.save_listings(LEVER, batch, at=NOW) for batch in batches)
    )
    assert len(await store.listings.list_listings(LEVER, since=NOW)) == 40
    assert sum(new) >= 40
