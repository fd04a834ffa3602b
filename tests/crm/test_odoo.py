"""The connector to Odoo, held against the make-believe server by both of its protocols."""

import asyncio
import os
from datetime import timedelta

import pytest

from running_box import RunningBox
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.crm.model import LEAD, PARTNER, CrmRow, RowWrite
from stoker.crm.odoo import Odoo, _parse_version
from stoker.crm.odoo_load import QUIET, load_rows
from stoker.crm.odoo_protocols import Json2, OdooServer
from stoker.http.client import HttpClient

KEY, HUMAN = "odoo-acme-s3cret", "odoo-acme-human-mei"
PROTOCOLS = ("json2", "xmlrpc")


@pytest.fixture
def box():
    with RunningBox(companies=10) as running:
        yield running


def odoo(
    http, *, key=KEY, protocol="json2", database="acme", login="stoker", url="http://odoo.test"
):
    return Odoo(
        http,
        url=url,
        database=database,
        key=key,
        login=login,
        protocol=protocol,
        deadline=timedelta(seconds=2),
        sleep=lambda _: asyncio.sleep(0),
    )


async def with_odoo(box, work, **settings):
    http = HttpClient(user_agent="Stoker test", sandbox=box.box.address)
    try:
        return await work(odoo(http, **settings))
    finally:
        await http.close()


def row(name, /, *, model=PARTNER, links=None, look=None, alone=False, **values):
    return CrmRow(
        model=model,
        external_id=f"stoker.acme_{name}",
        values={"name": name, **values},
        links=links or {},
        match_by=look,
        is_unique=alone,
    )


def write(row, **more):
    cells = {**row.values, **row.on_create, **{f"{k}/id": v for k, v in row.links.items()}, **more}
    return RowWrite(row=row, cells=cells, digest="", before={}, intent={})


def records(box, model=PARTNER):
    headers = {"Authorization": f"bearer {KEY}", "X-Odoo-Database": "acme"}
    body = {"domain": [], "context": {"active_test": False}}
    return box.ask(
        "odoo.test", "POST", f"/json/2/{model}/search_read", body, headers=headers
    ).parse_json()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_row_sent_twice_is_one_record(box, protocol):
    one = row("one", email="a@one.test", is_company=True)

    async def work(crm):
        first = await crm.upsert([write(one)])
        again = await crm.upsert([write(row("one", email="b@one.test"))])
        return first, again

    first, again = await with_odoo(box, work, protocol=protocol)

    assert first[one.external_id].id == again[one.external_id].id is not None
    (there,) = records(box)
    assert (there["email"], there["is_company"]) == ("b@one.test", True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_companies_contacts_and_leads_go_in_one_sending_whatever_their_order(box, protocol):
    company = row("c", company_registry="200900001A")
    contact = row("p", links={"parent_id": company.external_id}, email="p@c.test")
    lead = row("l", model=LEAD, links={"partner_id": company.external_id}, priority="3")

    told = await with_odoo(
        box,
        lambda crm: crm.upsert([write(lead), write(contact), write(company)]),
        protocol=protocol,
    )

    assert all(each.id for each in told.values())
    by_name = {each["name"]: each for each in records(box)}
    assert by_name["p"]["parent_id"][0] == by_name["c"]["id"]
    assert records(box, LEAD)[0]["partner_id"][0] == by_name["c"]["id"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_bad_row_is_set_aside_and_the_others_are_written(box, protocol):
    rows = [row(f"r{nth}", model=LEAD, priority="3" if nth % 7 else "9") for nth in range(30)]

    told = await with_odoo(
        box, lambda crm: crm.upsert([write(each) for each in rows]), protocol=protocol
    )

    bad = {f"stoker.acme_r{nth}" for nth in range(0, 30, 7)}
    assert {id_ for id_, each in told.items() if each.id is None} == bad
    assert all("priority" in told[id_].reason and not told[id_].is_retryable for id_ in bad)
    assert len(records(box, LEAD)) == 30 - len(bad)


async def test_rows_with_other_columns_never_blank_each_others_fields(box):
    both = row("both", email="b@b.test", phone="1")
    await with_odoo(box, lambda crm: crm.upsert([write(both)]))
    await with_odoo(
        box,
        lambda crm: crm.upsert(
            [write(row("both", email="c@b.test")), write(row("new", phone="2"))]
        ),
    )

    by_name = {each["name"]: each for each in records(box)}
    assert (by_name["both"]["email"], by_name["both"]["phone"]) == ("c@b.test", "1")
    assert by_name["new"]["phone"] == "2"


class Overheard(Json2):
    """A protocol that notes what it is called with."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.heard = []

    async def call(self, model, method, arguments, *, ids=None, context=None):
        self.heard.append((model, method, context))
        return await super().call(model, method, arguments, ids=ids, context=context)


async def at_once():
    """Wait for no turn."""


async def test_records_are_made_without_followers_messages_and_tracked_changes(box):
    http = HttpClient(user_agent="Stoker test", sandbox=box.box.address)
    calls = Overheard(
        OdooServer(
            http=http,
            url="http://odoo.test",
            database="acme",
            login="",
            key=KEY,
            deadline=timedelta(seconds=2),
            turn=at_once,
        )
    )
    writes = [write(row("l", model=LEAD)), write(row("p"))]
    try:
        await load_rows(calls, writes, chance=lambda: 0.5, sleep=asyncio.sleep)
        assert calls.heard == [(PARTNER, "load", QUIET), (LEAD, "load", QUIET)]
    finally:
        await http.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_archived_record_is_found_and_stays_archived(box, protocol):
    one = row("one", look=("name", "one"))

    async def work(crm):
        id_ = (await crm.upsert([write(one)]))[one.external_id].id
        await crm.change(PARTNER, [id_], {"active": False})
        by_number = await crm.find_records([one], known={one.external_id: id_})
        by_word = await crm.find_records([one], known={})
        await crm.upsert([write(one, phone="7")])
        return id_, by_number, by_word

    id_, by_number, by_word = await with_odoo(box, work, protocol=protocol)

    assert by_number == by_word
    assert by_number[one.external_id].id == id_
    (there,) = records(box)
    assert (there["active"], there["phone"]) == (False, "7")


async def test_a_record_of_somebody_elses_is_found_where_there_may_be_one_only(box):
    headers = {"Authorization": f"bearer {HUMAN}", "X-Odoo-Database": "acme"}
    body = {"vals_list": [{"name": "Theirs", "company_registry": "2009", "is_company": True}]}
    box.ask("odoo.test", "POST", "/json/2/res.partner/create", body, headers=headers)
    look = ("company_registry", "2009")
    alone = row("alone", look=look, alone=True)
    other = row("other", look=look)

    found = await with_odoo(box, lambda crm: crm.find_records([alone, other], known={}))

    assert set(found) == {alone.external_id}
    assert found[alone.external_id].external_id == ""


async def test_a_record_whose_number_is_anothers_now_is_not_taken_for_ours(box):
    one, two = row("one"), row("two")

    async def work(crm):
        told = await crm.upsert([write(one), write(two)])
        return await crm.find_records([one], known={one.external_id: told[two.external_id].id})

    assert await with_odoo(box, work) == {}


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({"version_info": [19, 0, 0, "final", 0, ""]}, 19),
        ({"version_info": ["saas~18", 3], "version": "saas~18.3"}, 18),
        ({"version": "17.0+e"}, 17),
        ({}, None),
        (None, None),
        ({"version_info": "x", "version": "none"}, None),
    ],
)
def test_versions_are_understood_in_every_shape(body, version):
    assert _parse_version(body) == version


async def test_the_servers_version_chooses_the_protocol_once(box):
    async def work(crm):
        await crm.fields(PARTNER)
        await crm.fields(PARTNER)
        await crm.fields(LEAD)

    await with_odoo(box, work, protocol="")

    paths = [each.target for each in box.box.log]
    assert paths == [
        "/web/version",
        "/json/2/res.partner/fields_get",
        "/json/2/crm.lead/fields_get",
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_fields_say_what_they_allow(box, protocol):
    fields = await with_odoo(box, lambda crm: crm.fields(LEAD), protocol=protocol)

    assert fields["priority"].choices == ("0", "1", "2", "3")
    assert fields["create_date"].readonly
    assert not fields["name"].readonly
    assert "mobile" not in await with_odoo(box, lambda crm: crm.fields(PARTNER), protocol=protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_wrong_key_stops_everything_and_is_not_repeated(box, protocol):
    with pytest.raises(ConfigError) as caught:
        await with_odoo(
            box, lambda crm: crm.upsert([write(row("x"))]), protocol=protocol, key="odoo-acme-wrong"
        )

    assert "wrong" not in str(caught.value)
    health = await with_odoo(box, lambda crm: crm.check(), protocol=protocol, key="odoo-acme-wrong")
    assert not health.ok
    assert "odoo-acme" not in health.detail


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_right_stops_and_what_is_not_there_does_not_help(box, protocol):
    async def closed(crm):
        await crm.search("ir.model.data", [], fields=["name"])

    async def unknown(crm):
        await crm.fields("no.such.model")

    with pytest.raises(ConfigError):
        await with_odoo(box, closed, protocol=protocol)
    with pytest.raises(PermanentError):
        await with_odoo(box, unknown, protocol=protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_traceback_gets_past_the_connector(box, protocol):
    async def work(crm):
        await crm.search(PARTNER, [], fields=["no_such_field"])

    with pytest.raises(PermanentError) as caught:
        await with_odoo(box, work, protocol=protocol)

    shown = "".join(str(error) for error in (caught.value, caught.value.__cause__))
    assert "Traceback" not in shown
    assert "no_such_field" not in shown


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", ["close", "reset", "garbage", "cut_json", "truncated", "error"])
async def test_whatever_goes_wrong_on_the_way_may_be_done_again(box, protocol, fault):
    async def work(crm):
        await crm.fields(PARTNER)
        box.faults.set_value(f"odoo.fault.{fault}", 1)
        told = await crm.upsert([write(row("one"))])
        with pytest.raises(TransientError):
            await crm.search(PARTNER, [], fields=["name"])
        box.faults.set_value(f"odoo.fault.{fault}", 0)
        return told, await crm.upsert([write(row("one"))])

    told, again = await with_odoo(box, work, protocol=protocol)

    assert told["stoker.acme_one"].is_retryable
    assert told["stoker.acme_one"].id is None
    assert again["stoker.acme_one"].id is not None
    assert len(records(box)) == 1


async def test_a_server_that_wants_us_gone_is_left_alone_and_says_when_to_come_back(box):
    box.faults.set_value("odoo.retry_after", "120")
    box.faults.set_value("odoo.fault.busy", 1)
    rows = [row("a"), row("b", phone="1"), row("c", email="c@c.test")]

    told = await with_odoo(box, lambda crm: crm.upsert([write(each) for each in rows]))

    assert {each.retry_after for each in told.values()} == {timedelta(minutes=2)}
    assert all(each.is_retryable for each in told.values())
    assert len([each for each in box.box.log if each.target.endswith("load")]) == 1


@pytest.mark.parametrize("protocol", ["", *PROTOCOLS])
async def test_every_request_waits_for_its_turn(box, protocol):
    turns = []

    async def turn():
        turns.append(len(box.box.log))

    http = HttpClient(user_agent="Stoker test", sandbox=box.box.address)
    crm = Odoo(
        http,
        url="http://odoo.test",
        database="acme",
        key=KEY,
        login="stoker",
        protocol=protocol,
        turn=turn,
    )
    try:
        await crm.check()
        await crm.upsert([write(row("one"))])
        await crm.find_records([row("one", look=("name", "one"))], known={})
    finally:
        await http.close()

    assert len(turns) == len(box.box.log)


async def test_a_protocol_nobody_speaks_and_a_missing_login_are_settings_to_change(box):
    with pytest.raises(ConfigError):
        await with_odoo(box, lambda crm: crm.check(), protocol="soap")
    assert not (await with_odoo(box, lambda crm: crm.check(), protocol="xmlrpc", login="")).ok


async def test_a_real_server_keeps_the_same_promises():
    """Over https and on a public address, as tenants' servers are."""
    names = ("ODOO_URL", "ODOO_DB", "ODOO_API_KEY")
    if missing := [name for name in names if not os.environ.get(name)]:
        pytest.skip(f"no real Odoo server: {', '.join(missing)} not set")
    url, database, key = (os.environ[name] for name in names)
    one = row("real_server_check", phone="1", look=("name", "real_server_check"))

    http = HttpClient(user_agent="Stoker test")
    try:
        crm = Odoo(http, url=url, database=database, key=key)
        first = await crm.upsert([write(one)])
        again = await crm.upsert([write(one)])
        found = await crm.find_records([one], known={})
        await crm.change(PARTNER, [first[one.external_id].id], {"active": False})

    finally:
        await http.close()
    assert first[one.external_id].id == again[one.external_id].id == found[one.external_id].id
