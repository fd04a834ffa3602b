"""Random sequences about sources of postings and what they listed."""

from dataclasses import replace

from contracts.agreement import TEXTS, Sequence
from contracts.knowledge import HOUR, NOW
from stoker.base.types import Job
from stoker.discovery.enrichment import enrich_job
from stoker.discovery.model import Listing
from stoker.discovery.sources import SourceRecord, SourceState

LEVER = "lever:acme"
NAMES = [LEVER, "file:a.csv"]


def listing(nth=1, *, title="Senior Python Engineer", **more):
    job = Job.create(source="lever", url=f"https://a.test/{nth}", title=title, **more)
    return Listing(job=job, enriched=enrich_job(job))


def source(name=LEVER, **more):
    return SourceRecord(**{"name": name, "state": SourceState.READ, "tried_at": NOW, **more})


class ListingSequence(Sequence):
    bad_share = 0.05

    def next(self):
        rng = self.rng
        name = rng.choice(["", "\0"] if rng.random() < self.bad_share else NAMES)
        at, limit = NOW + rng.randint(-3, 3) * HOUR, rng.randint(0, 4)
        later = at + rng.randint(0, 3) * HOUR
        listings = [
            replace(
                listing(rng.randint(0, 9), company=self.text()), is_duplicate=rng.random() < 0.5
            )
            for _ in range(rng.randint(0, 4))
        ]
        record = source(name, tried_at=at, reason=rng.choice(TEXTS), listed=rng.randint(0, 9))
        return rng.choice(
            [
                self.call("listings.save_source", record),
                self.call("listings.save_listings", name, listings, at=later),
                self.call("listings.list_listings", name, since=at, limit=limit),
                self.call("listings.count_listings", name, since=at, before=later),
                self.call("listings.delete_listings", before=at, limit=limit),
            ]
        )

    async def dump(self, backend):
        stores = [backend.tenant(name).listings for name in set(self.tenants)]
        listed = [await one.list_listings(name, since=NOW) for one in stores for name in NAMES]
        return [[await one.list_sources() for one in stores], listed]

    def is_counted(self, step, answer):
        return step.startswith("listings.save_listings") and isinstance(answer, int) and answer > 0
