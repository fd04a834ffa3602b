"""ZeroBounce as it answers in the sandbox: verdicts, batches, blocks, and a key nobody sees."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import normalize_email
from stoker.accounts.model import EmailStatus
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.retry import MAX_WAIT
from stoker.vendors.zerobounce import (
    DEADLINE,
    MAX_ADDRESSES,
    VERDICT_TTL,
    EmailBatch,
    EmailQuery,
    EmailVerdict,
    normalize_emails,
)
from vendor_desk import CANARY, Saying, at_desk

TWO = EmailBatch(emails=("a@a.test", "b@a.test"))


async def told(said, question=TWO):
    async def work(here):
        return await here.verifier.ask(question, key="k")

    return await at_desk(work, says=said if isinstance(said, Saying) else Saying(said))


@pytest.mark.parametrize(
    ("account", "verdict"),
    [
        ("valid", EmailStatus.VALID),
        ("invalid", EmailStatus.INVALID),
        ("catch_all", EmailStatus.CATCH_ALL),
        ("unknown", EmailStatus.UNKNOWN),
        ("spamtrap", EmailStatus.RISKY),
        ("abuse", EmailStatus.RISKY),
        ("donotmail", EmailStatus.RISKY),
        ("greylisted", EmailStatus.UNKNOWN),
        ("role_based", EmailStatus.RISKY),
    ],
)
async def test_the_vendors_own_test_addresses_get_their_verdicts(account, verdict):
    async def work(here):
        batch = EmailBatch(emails=(f"{account}@example.com",))
        return (await here.verifier.ask(batch, key="k")).answer

    [verified] = (await at_desk(work)).verified.values()
    assert verified.verdict is verdict


async def test_a_full_batch_is_never_counted_below_what_was_charged():
    async def work(here):
        world = here.box.world
        people = [p.email.lower() for c in map(world.get_company, range(80)) for p in c.people]
        emails = tuple(dict.fromkeys(people))[:MAX_ADDRESSES]
        batch = EmailBatch(emails=emails)
        done = await here.verifier.ask(batch, key="k")
        return here.verifier.price(batch), done, here.charged("zerobounce")

    price, done, charged = await at_desk(work)
    verdicts = [each.verdict for each in done.answer.verified.values()]
    assert len(verdicts) == price["calls"] == done.cost["calls"] == MAX_ADDRESSES
    assert charged == done.cost["credits"] == MAX_ADDRESSES - verdicts.count(EmailStatus.UNKNOWN)
    assert charged < MAX_ADDRESSES  # some were unknown, and those are free


async def test_the_timeout_is_sent_as_a_text_and_the_key_in_the_body():
    vendor = Saying({"email_batch": [{"address": "a@a.test", "status": "valid"}]})
    await told(vendor)
    [body] = vendor.bodies
    assert isinstance(body["timeout"], str)
    assert CANARY in body["api_key"]
    assert [item["email_address"] for item in body["email_batch"]] == list(TWO.emails)
    [asked] = vendor.asked
    assert CANARY not in str((asked.path, asked.search, asked.headers))
    assert timedelta(seconds=130) <= DEADLINE


async def test_a_status_that_is_new_to_us_says_nothing_but_is_counted():
    answer = [{"address": "a@a.test", "status": "marvellous"}, {"address": "b@a.test"}]
    done = await told({"email_batch": answer})
    assert {each.verdict for each in done.answer.verified.values()} == {EmailStatus.UNKNOWN}
    assert done.cost == {"calls": 2, "credits": 2}


async def test_addresses_with_errors_are_named_and_the_others_have_their_verdicts():
    said = {
        "email_batch": [{"address": "A@a.test", "status": "valid", "sub_status": "alias_address"}],
        "errors": [{"error": "no mailbox given", "email_address": "b@a.test"}, 3, None],
    }
    done = await told(said)
    assert done.answer.verified == {
        "a@a.test": EmailVerdict(
            email="a@a.test", verdict=EmailStatus.VALID, reason="alias_address"
        )
    }
    assert done.answer.unanswered == {"b@a.test": "no mailbox given"}
    assert done.cost["credits"] == 2


async def test_verdicts_on_others_than_those_asked_about_count_for_nothing():
    said = [
        {"address": "x@a.test", "status": "valid"},
        {"address": "a@a.test", "status": "invalid"},
    ]
    said += [{"address": "a@a.test", "status": "valid"}]
    assert (await told({"email_batch": said})).answer.verified.keys() == {"a@a.test"}
    assert (await told({"email_batch": said})).answer.verified[
        "a@a.test"
    ].verdict is EmailStatus.INVALID


NO_KEY = "Invalid API key or your account ran out of credits"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"email_batch": [], "errors": [{"error": NO_KEY, "email_address": "all"}]}, ConfigError),
        ({"error": NO_KEY}, ConfigError),
        ({"email_batch": [], "errors": [{"error": "Too many emails"}]}, PermanentError),
        ({"email_batch": [], "errors": []}, UncertainError),
        ({"email_batch": {}}, UncertainError),
        ({}, UncertainError),
        (None, UncertainError),
        ([], UncertainError),
        ({"email_batch": [{"address": "other@a.test", "status": "valid"}]}, UncertainError),
    ],
)
async def test_an_answer_without_verdicts_is_told_apart(said, kind):
    with pytest.raises(kind):
        await told(said)


async def test_a_key_without_credits_is_for_a_person_to_mend():
    async def work(here):
        with pytest.raises(ConfigError):
            await here.verifier.ask(TWO, key="k")
        return here.charged("zerobounce")

    assert await at_desk(work, {"zerobounce.credits": 1}) == 0


async def test_a_wrong_key_is_known_from_the_credits_it_has():
    async def work(here):
        return await here.verifier.check()

    health = await at_desk(work, key="wrong-key")
    assert not health.ok
    assert "key" in health.detail
    assert (await at_desk(work)).detail == "100000 credits left"


@pytest.mark.parametrize(("status", "wait"), [(403, MAX_WAIT), (429, timedelta(minutes=10))])
async def test_whoever_is_kept_out_waits_until_the_block_is_over(status, wait):
    with pytest.raises(TransientError) as raised:
        await told(Saying({"error": "blocked"}, status=status))
    assert raised.value.retry_after == wait


async def test_asking_too_often_gets_us_kept_out_and_nothing_charged():
    async def work(here):
        for number in range(5):
            await here.verifier.ask(EmailBatch(emails=(f"p{number}@nobody.com",)), key="k")
        before = here.charged("zerobounce")
        with pytest.raises(TransientError):
            await here.verifier.ask(TWO, key="k")
        return here.charged("zerobounce") - before

    assert await at_desk(work, {"zerobounce.calls": 0}) == 0


@given(st.text(max_size=80))
def test_no_text_breaks_the_reading_of_an_address(text):
    for address in normalize_emails([text]).values():
        assert normalize_email(address) == address
        assert EmailQuery(email=address)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (" Tan.Wei@Acme.com.SG ", "tan.wei@acme.com.sg"),
        ("o'brien+x@a.co", "o'brien+x@a.co"),
        ("tän@müller.de", "tän@müller.de"),
    ],
)
def test_an_address_is_kept_in_one_form(text, plain):
    assert normalize_email(text) == plain


@pytest.mark.parametrize(
    "text",
    ["", "@", "a@", "@a.com", "a@b", "a b@c.com", "a@b..com", "a@b.c", "a@a.com\nbcc:x", "<a@b.co>",
     "a@b.co, c@d.co", "x" * 65 + "@a.com", "a@" + "b" * 250 + ".com",
     "x" * 64 + "@" + "b" * 60 + ("." + "b" * 60) * 3, "a\x00@b.co", "\ud800@b.co"],
)  # fmt: skip
def test_what_is_no_address_is_never_sent(text):
    with pytest.raises(PermanentError):
        normalize_email(text)


@pytest.mark.parametrize(
    "emails", [(), ("a@a.co", "a@a.co"), ("A@a.co",), tuple(f"a{n}@a.co" for n in range(101))]
)
def test_a_batch_has_a_hundred_plain_addresses_at_most(emails):
    with pytest.raises(PermanentError):
        EmailBatch(emails=emails)


def test_sure_verdicts_are_kept_long_and_unsure_ones_briefly():
    sure, unsure = (
        (EmailStatus.VALID, EmailStatus.INVALID),
        (EmailStatus.CATCH_ALL, EmailStatus.UNKNOWN),
    )
    assert min(VERDICT_TTL[each] for each in sure) > max(VERDICT_TTL[each] for each in unsure)
    assert VERDICT_TTL.keys() == set(EmailStatus)


def test_verdicts_come_back_from_what_is_kept_as_they_were():
    said = EmailVerdict(email="a@a.co", verdict=EmailStatus.CATCH_ALL, reason="x")
    question = EmailQuery(email="a@a.co")
    assert question.decode_answer(json.loads(json.dumps(said.as_json()))) == said
    for odd in (None, {}, {"verdict": "unverified"}, {"verdict": 3}, {"verdict": "great"}):
        with pytest.raises(PermanentError):
            question.decode_answer(odd)
