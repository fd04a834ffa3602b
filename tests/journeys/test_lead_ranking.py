"""A night's leads are a ranking: few are High, each about the best person, each with its reason."""

from collections import Counter

from night_house import ACME, house
from stoker.accounts.contacts import choose_best_contact, get_seniority, get_usable_email
from stoker.accounts.model import Bucket

COMPANIES = 40


async def test_few_leads_are_high_and_each_reason_is_its_own(tmp_path):
    async with house(tmp_path, companies=COMPANIES, troubles=False) as here:
        await here.night(limit=COMPANIES)
        records = await here.records(ACME)
    fitting = [each for each in records if each.score is not None and each.score.value > 0]
    high = [each for each in fitting if each.score.bucket is Bucket.HIGH]
    assert len(fitting) >= COMPANIES // 2
    assert 0 < len(high) <= 0.3 * len(fitting)
    reasons = Counter(each.score.rationale.partition(": ")[2] for each in fitting)
    assert max(reasons.values()) <= 2
    assert all(len(each.score.rationale) <= 300 for each in fitting)
    for record in fitting:
        best = choose_best_contact(record)
        deciders = [
            each
            for each in record.contacts
            if get_seniority(each) == 1.0 and each.name and get_usable_email(each)
        ]
        if deciders:
            assert best in deciders
        if best is None or not best.email:
            assert record.score.bucket is not Bucket.HIGH
