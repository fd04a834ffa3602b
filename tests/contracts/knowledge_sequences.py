"""Random sequences about the register of companies, pages and cached answers."""

from dataclasses import replace
from datetime import timedelta

from contracts.agreement import Sequence
from contracts.knowledge import NOW, PARTS, answer, entity, load, page, reject
from stoker.registry.model import IndustryCode, Load, LoadCount

RELEASES = ["2026-01-31", "2026-02-28", "2026-03-31"]
# The other parts are loaded before the first step, so that few loads complete a release.
OPEN_PARTS = ["A", "B", "Others"]
SITES = ["a.test", "b.test"]


class KnowledgeSequence(Sequence):
    async def prepare(self, backend):
        registry = backend.registry()
        for one in [load(part, release=release) for release in RELEASES for part in PARTS]:
            await registry.begin_load(one)
            if one.part not in OPEN_PARTS:
                await registry.end_load(one, now=NOW)

    def next(self):
        return self.rng.choice(
            [self.begin_load] + [self.end_load] * 4 + [self.reject_rows, self.save_pages]
            + [self.save_answers] + [self.load_entities] * 6 + [self.list_changed, self.read]
        )()  # fmt: skip

    def begin_load(self):
        one = replace(self.load(), began_at=self.now(), source=self.text())
        return self.call("registry.begin_load", one)

    def load_entities(self):
        rows = [
            entity(
                f"T{self.rng.randint(0, 9)}",
                name=self.text(),
                officers=self.rng.choice([None, 1]),
                ssic=self.rng.choice(["", "01111"]),
                live=self.rng.random() < 0.5,
            )
            for _ in range(self.rng.randint(0, 6))
        ]
        return self.call("registry.load_entities", self.load(), rows, now=self.now())

    def end_load(self):
        count = LoadCount(new=self.rng.randint(0, 9), rejected=1, gone=5)
        return self.call("registry.end_load", replace(self.load(), count=count), now=self.now())

    def reject_rows(self):
        one = self.load()
        lines = [self.rng.randint(0, 5) for _ in range(self.rng.randint(0, 4))]
        bad = [reject(line, of=one, reason=self.text()) for line in lines]
        return self.call("registry.reject_rows", one, bad)

    def save_pages(self):
        site = self.rng.choice(SITES)
        if self.rng.random() < 0.2:
            return self.call("pages.delete_site", site)
        pages = [
            page(self.rng.choice("abc") + self.text(), etag=self.text(), seen_at=self.now())
            for _ in range(self.rng.randint(0, 3))
        ]
        return self.call("pages.save_pages", site, pages)

    def save_answers(self):
        if self.rng.random() < 0.3:
            limit = self.rng.randint(0, 3)
            return self.call("answers.delete_answers", before=self.now(), limit=limit)
        some = [
            answer(
                self.rng.choice("abcd"),
                answer=self.rng.choice([None, 1, self.text(), [self.text()], {"a": 0.1}]),
                expires_at=self.now(),
            )
            for _ in range(self.rng.randint(0, 3))
        ]
        return self.call("answers.save_answers", some)

    def list_changed(self):
        since = self.rng.choice([None, NOW, self.clock, self.clock - timedelta(minutes=5)])
        after, limit = self.rng.choice(["", "T0", "T5"]), self.rng.randint(0, 5)
        return self.call("registry.list_changed_entities", since=since, after=after, limit=limit)

    def read(self):
        codes = [
            IndustryCode(version="2020", code=one, title=self.text(), level="class")
            for one in self.rng.sample("ABC", 2)
        ]
        by = self.rng.choice(["status", "division", "state"])
        return self.rng.choice(
            [
                self.call("registry.count_entities", by=by),
                self.call("registry.find_entity", f"T{self.rng.randint(0, 9)}"),
                self.call("registry.load_codes", self.rng.choice(["2020", "2025"]), codes),
            ]
        )

    async def dump(self, backend):
        registry = backend.registry()
        found = [
            await registry.list_changed_entities(),
            await registry.list_loads(),
            await registry.list_rejects(),
        ]
        found += [await registry.list_codes(version) for version in ("2020", "2025")]
        for stores in map(backend.tenant, set(self.tenants)):
            found += [await stores.pages.list_pages(site) for site in SITES]
            found.append(await stores.answers.find_answers("abcd"))
        return found

    def is_counted(self, step, answer):
        """Whether companies left the register."""
        return isinstance(answer, Load) and answer.count.gone > 0

    def load(self):
        return load(self.rng.choice(OPEN_PARTS), release=self.rng.choice(RELEASES))
