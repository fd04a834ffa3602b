"""Nights killed at random moments and gone on with, tried and tallied."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from faults.forks import Forks
from faults.night_worker import PULLS, TENANT, installation, meet, set_ahead
from faults.tally import Tally
from kit.crm_office import ask_as_person, list_records
from night_house import ANYBODY, chosen, entity_of, register
from running_box import RunningBox
from stoker.accounts.model import EmailStatus
from stoker.budgets.verify import verify_ledger
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.rows import build_rows
from stoker.enrichment.model import WorkState
from stoker.sandbox.meter import compute_fingerprint
from watched_box import Watch

VENDORS = ("tavily", "openai", "lusha", "zerobounce")
PREFIX = {"tavily": "tvly-", "openai": "sk-"}
PLENTY = 100_000_000
GONE = 200  # seconds after which nothing of a dead process holds anybody up
A_DAY = 86_400
SETTLING_NIGHTS = 3  # after which every address of a company is verified
MOST_KILLS = 4  # of one night
MOST_LIVES = 6  # undisturbed ones, until a night is through
LATENCY = {"sites": (1, 6), "odoo": (2, 8)} | dict.fromkeys(VENDORS, (5, 25))  # milliseconds
_CONTACTS, _LEADS = "_contact_", "_lead_"  # in external ids
WHOM_A_LEAD_IS_ABOUT = ("partner_id", "contact_name", "function", "email_from")  # set when made
CAPS = (
    *("tavily_queries", "tavily_credits", "lusha_contact_lookups", "lusha_credits"),
    *("zerobounce_verifications", "zerobounce_credits", "openai_daily_tokens", "openai_calls"),
    *("pull_units_per_day", "money_per_day_minor"),
)


def key_of(vendor, name):
    """Return a make-believe key that nobody else has."""
    return f"{PREFIX.get(vendor, '')}sandbox-{vendor}-{name}"


IN_A_FILE = ('storage.backend = "sqlite"', 'storage.sqlite_path = "stoker.db"')


def settings_text(address, names, *, at_once=3, caps=None, storage=IN_A_FILE):
    """Return settings in which every tenant has keys and a database of its own.

    `names` has the tenants, and the word that is in each one's keys.
    """
    lines = [
        *storage,
        f'sandbox.address = "{address}"',
        "crawl.gap_s = 0.001",
        "crawl.timeout_s = 5",
        f"scheduling.company_concurrency = {at_once}",
        "score.min_export = 0.3",
    ]
    lines += [f"caps.{cap} = {(caps or {}).get(cap, PLENTY)}" for cap in CAPS]
    for vendor in (*VENDORS, "odoo"):
        lines += [f"{vendor}.calls = 100000", f"{vendor}.burst = 1000"]
    for tenant, word in names.items():
        lines += [f"[tenants.{tenant}]", f'odoo.database = "{word}"']
        lines += [f'keys.{vendor} = "{key_of(vendor, word)}"' for vendor in VENDORS]
        lines += [f'keys.odoo = "odoo-{word}-sandbox"']
    return "\n".join([*lines, ""])


@dataclass
class Nights:
    """A make-believe internet that outlives every night, and a program to fork nights from."""

    box: RunningBox
    watch: Watch
    forks: Forks
    room: Path
    companies: int
    way: str = ""

    def build_order(self, name, began, lives):
        set_ahead(self.room / name, lives * GONE)
        return {"room": str(self.room / name), "began": began, "way": self.way}

    def place(self, name):
        """Make a room in which nobody has had a night yet; return when."""
        began, where = time.time(), self.room / name
        blank = self.room / "blank.db"
        where.mkdir()
        (where / "stoker.toml").write_text(settings_text(self.box.box.address, {TENANT: name}))
        if blank.exists():
            shutil.copy(blank, where / "stoker.db")
            return began

        async def filled():
            async with installation(self.build_order(name, began, 0)) as app:
                world = self.box.world
                await register(app, map(entity_of, some_companies(world, self.companies)))
                await app.backend.tenant(TENANT).accounts.save_rule(ANYBODY)
                if self.way == PULLS:
                    await meet(app)

        asyncio.run(filled())
        shutil.copy(where / "stoker.db", blank)
        return began

    def life(self, name, began, lives, *, kill_after=None):
        """Let a process have the room's night; return its exit code, -9 when it was killed."""
        pid = self.forks.start(self.build_order(name, began, lives))
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        return self.forks.wait(pid)

    def killed(self, name, began, moments):
        """Kill a night at each of these moments of a life; return how many lives it lost."""
        for lives, after in enumerate(moments):
            if self.life(name, began, lives, kill_after=after) != -signal.SIGKILL:
                return lives
        return len(moments)

    def paused(self, name, began, *, after):
        """Hold a night still while another process has it; return whether it was under way."""
        pid = self.forks.start(self.build_order(name, began, 0))
        time.sleep(after)
        os.kill(pid, signal.SIGSTOP)
        self.life(name, began, 1)
        os.kill(pid, signal.SIGCONT)
        return self.forks.wait(pid) != 0

    def finish(self, name, began, lives):
        """Go on with a night until it is through; return how many lives that took."""
        for more in range(MOST_LIVES):
            if self.life(name, began, lives + more) == 0:
                return more + 1
        return MOST_LIVES


def dials():
    """Return how long everybody takes over an answer: long enough to be killed in."""
    turned = {"zerobounce.calls": PLENTY}
    for name, (low, high) in LATENCY.items():
        turned |= {f"{name}.latency_low": low / 1000, f"{name}.latency_high": high / 1000}
    return turned


@contextmanager
def nights(room, *, companies, way=""):
    """Lend everything a trial needs."""
    watch = Watch()
    with (
        RunningBox(companies=50 * companies, seed=3, dials=dials(), vendors=watch.vendors) as box,
        Forks("faults.night_worker") as forks,
    ):
        yield Nights(box, watch, forks, room, companies, way)


def some_companies(world, number):
    """Return companies of every kind that answers at once: in order, without words, gone."""
    found = chosen(world, 10 * number, troubles=True)
    usual = [each for each in found if each.trouble in ("fine", "thin", "gone")]
    odd = [each for each in usual if each.trouble != "fine"][: number // 2]
    return odd + [each for each in usual if each.trouble == "fine"][: number - len(odd)]


@dataclass(frozen=True)
class State:
    """What there is in the end, by company; moments and names of runs left out."""

    known: dict
    crm: dict
    unsure: set  # of whom nobody knows what was paid for
    problems: tuple


def state_of(trial, name, began, lives):
    """Read the room's final state, and what its CRM has."""

    async def read():
        known, unsure, owners = {}, set(), {}
        async with installation(trial.build_order(name, began, lives)) as app:
            store = app.backend.tenant(TENANT)
            for each in await store.accounts.list_company_records(limit=1000):
                company = replace(each.company, last_seen_at=None)
                score = each.score and (each.score.value, each.score.rationale)
                contacts = sorted(each.contacts, key=repr)
                known[company.id] = (company, sorted(map(repr, each.facts)), contacts, score)
                for row in build_rows(each, tenant=TENANT, least=0.3):
                    owners[row.external_id] = company.id
            for run in await store.runs.list_runs(limit=100):
                states = (WorkState.UNKNOWN,)
                units = await store.work_items.list_items(run.name, states=states)
                unsure |= {unit.company for unit in units}
            return known, unsure, (await verify_ledger(store)).problems, owners

    known, unsure, problems, owners = asyncio.run(read())
    return State(known, _crm(trial, name, owners), unsure, problems)


def _crm(trial, database, owners):
    """Return what a tenant's CRM has, by company, each record with its external id."""
    found = {}
    for model in (PARTNER, LEAD):
        records = list_records(trial.box, database, model)
        metadata = ask_as_person(trial.box, database, model, "get_metadata", ids=list(records))
        names = {each["id"]: each["xmlid"] for each in metadata}
        for id_, shown in records.items():
            name = names.get(id_) or "nobody's"
            found.setdefault(owners.get(name, name), []).append((name, shown))
    return {company: sorted(records, key=itemgetter(0)) for company, records in found.items()}


def killed(rng: random.Random, n: int, room: Path, *, companies=6, way="", pauses=False) -> Tally:
    """Kill nights n times at random moments, let each end; tally what is not as undisturbed.

    With `pauses`, each is held still instead, for so long that another process takes over, and
    goes on when that is through. `acked` is how many companies' outcomes nobody knows, all nights
    together.
    """
    tally = Tally()
    with nights(room, companies=companies, way=way) as trial:
        began = trial.place("calm")
        assert trial.life("calm", began, 0) == 0
        again = trial.place("calm-again")  # the sandbox makes its pages once
        assert trial.life("calm-again", again, 0) == 0
        took = time.time() - again
        calm = state_of(trial, "calm", began, 1)
        settled = _settle(trial, "calm-again", again, 1)
        assert len(calm.known) == companies
        assert all(charged(trial.box, vendor, "calm") for vendor in VENDORS), "nobody left out"
        nth = 0
        # A life that ended before its moment came was not killed: others are, until enough were.
        while tally.n < n and nth < 5 * n:
            name = f"trial-{nth}"
            began = trial.place(name)
            if pauses:
                times, lives = trial.paused(name, began, after=rng.uniform(0.02, took)), 2
            else:
                moments = [rng.uniform(0.02, 0.8 * took) for _ in range(rng.randint(1, MOST_KILLS))]
                times = lives = trial.killed(name, began, moments[: n - tally.n])
            tally.n += times
            lives += trial.finish(name, began, lives)
            seen = state_of(trial, name, began, lives)
            tally.broken += _judged(trial, name, calm, seen)
            tally.broken += _overspent(trial, name)
            tally.acked += len(seen.unsure)
            if seen.unsure:
                tally.broken += _made_up_for(trial, name, began, lives, settled, seen)
            shutil.rmtree(room / name)
            nth += 1
            if way not in ("", PULLS) and tally.broken:
                break
    return tally


def next_night(room: Path, *, companies: int) -> tuple[Counter, Counter, set]:
    """Have a night, and another one a day later; return the paid questions of each.

    The third is which addresses the first night left for the next one: it verifies few of a
    company.
    """
    with nights(room, companies=companies) as trial:
        began = trial.place("two")
        assert trial.life("two", began, 0) == 0
        first, visited = Counter(trial.watch.paid), trial.box.meter.by_host["sites"]
        known = state_of(trial, "two", began, 1).known.values()
        left = {
            each.email
            for _, _, contacts, _ in known
            for each in contacts
            if each.email and each.verdict is EmailStatus.UNVERIFIED
        }
        assert trial.life("two", began, A_DAY // GONE) == 0
        assert trial.box.meter.by_host["sites"] >= visited + companies, "all were visited again"
        return first, trial.watch.paid - first, left


def _judged(trial, name, calm, seen):
    wrong = [told for vendor in VENDORS for told in trial.watch.twice(key_of(vendor, name))]
    wrong += [f"the ledger: {problem}" for problem in seen.problems]
    ids = Counter(id_ for records in seen.crm.values() for id_, _ in records)
    wrong += [f"the CRM has {many} of {id_}" for id_, many in ids.items() if many > 1]
    wrong += [f"{id_} was lost" for id_ in calm.known.keys() - seen.known.keys()]
    wrong += _not_the_same(calm, seen, calm.known.keys() & seen.known.keys() - seen.unsure)
    if strangers := seen.crm.keys() - seen.known.keys():
        wrong.append(f"the CRM has records of {sorted(strangers)}, whom nobody knows")
    return [f"{name}: {told}" for told in wrong]


def _settle(trial, name, began, lives):
    """Have the nights of the next days, until every address is verified; return the state then.

    A night verifies few addresses of a company, and those of which nobody knows the outcome once
    more: how many nights that takes is not the same for all, what is known in the end is.
    """
    for _ in range(SETTLING_NIGHTS):
        lives += A_DAY // GONE
        lives += trial.finish(name, began, lives)
    return state_of(trial, name, began, lives)


def _made_up_for(trial, name, began, lives, calm, seen):
    """Have the nights of the next days; return of whom they know other things than calm ones.

    What nobody knew the outcome of may be asked anew by then, so nobody is left out any more.
    What a CRM was given before all was known stays where a calm night would have left a blank:
    nothing never replaces something there. So does whom a lead is about, which is said when it is
    made, and the key of a contact, which is its name when its address was found later.
    """
    after = _settle(trial, name, began, lives)
    for company in seen.unsure & calm.crm.keys():
        made = dict(seen.crm.get(company, ()))
        usual = {_who(*record): record[1] for record in calm.crm[company]}
        for id_, values in after.crm.get(company, ()):
            calmly = usual.get(_who(id_, values), {})
            values |= {key: False for key, value in calmly.items() if value is False}
            if _LEADS in id_ and id_ in made:
                kept = [key for key in WHOM_A_LEAD_IS_ABOUT if values[key] == made[id_][key]]
                values |= {key: calmly[key] for key in kept if key in calmly}
    wrong = [f"{company} is still unsure" for company in after.unsure - seen.unsure]
    wrong += _not_the_same(_without_keys(calm), _without_keys(after), seen.unsure)
    return [f"{name}, the nights after: {told}" for told in wrong]


def _who(id_, values):
    """Return whom a record is of, whatever a contact's key is."""
    return f"{_CONTACTS}{values['name']}" if _CONTACTS in id_ else id_


def _without_keys(state):
    """Return a state with contacts by name, not by the key that each was first known by."""
    known = {
        id_: (
            company,
            facts,
            sorted((replace(each, identity="") for each in contacts), key=repr),
            score,
        )
        for id_, (company, facts, contacts, score) in state.known.items()
    }
    crm = {
        company: sorted(((_who(*record), record[1]) for record in records), key=repr)
        for company, records in state.crm.items()
    }
    return replace(state, known=known, crm=crm)


def _not_the_same(calm, seen, companies):
    wrong = []
    for company in companies:
        if seen.known[company] != calm.known[company]:
            wrong.append(f"{company}: {_difference(calm.known[company], seen.known[company])}")
        if seen.crm.get(company) != calm.crm.get(company):
            told = _difference(calm.crm.get(company) or (), seen.crm.get(company) or ())
            wrong.append(f"{company} in the CRM: {told}")
    return wrong


def _overspent(trial, name):
    return [
        f"{name}: {vendor} was paid more {unit} than by an undisturbed night"
        for vendor in VENDORS
        for unit, most in charged(trial.box, vendor, "calm").items()
        if charged(trial.box, vendor, name).get(unit, 0) > most
    ]


def charged(box, vendor, name):
    """Return what a vendor charged the key of this name, by unit."""
    mark = compute_fingerprint(key_of(vendor, name))
    return box.meter.charges_by_key.get(vendor, {}).get(mark, {})


def _difference(before, after):
    changed = [
        f"{old!r:.300} became {new!r:.300}"
        for old, new in zip(before, after, strict=False)
        if old != new
    ]
    return "; ".join(changed) or f"{len(before)} became {len(after)}"
