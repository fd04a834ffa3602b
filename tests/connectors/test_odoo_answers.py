"""What Odoo may answer that the make-believe one does not: rare, odd, and once seen enough."""

import asyncio
import json
import xmlrpc.client as oracle
from datetime import timedelta

import pytest

from stoker.connectors.http import Http
from stoker.connectors.odoo import Odoo
from stoker.connectors.odoo_rows import MOST_RACES
from stoker.core.crm import PARTNER, CrmRow
from stoker.core.upserts import Write
from stoker.sandbox.box import Sandbox
from stoker.sandbox.serving import Told, json_told


def row(name, *, look=None):
    return CrmRow(
        model=PARTNER,
        external_id=f"stoker.acme_{name}",
        values={"name": name},
        once={"is_company": True},
        look=look,
        alone=look is not None,
    )


def write(name):
    return Write(row=row(name), cells={"name": name}, digest="", before={}, intent={})


def asked_of(handler, work, *, protocol="json2", dials=None):
    """Let a handler stand in for odoo.test, or none for the make-believe one."""

    async def run():
        how = {"vendors": {"odoo.test": lambda *_: handler}} if handler else {}
        async with Sandbox(companies=5, dials=dials, **how) as box:
            http = Http(user_agent="Stoker test", sandbox=box.address)
            crm = Odoo(
                http,
                url="http://odoo.test",
                database="acme",
                key="odoo-acme-ours",
                login="stoker",
                protocol=protocol,
                deadline=timedelta(seconds=5),
                sleep=lambda _: asyncio.sleep(0),
            )
            try:
                return await work(crm), box
            finally:
                await http.close()

    return asyncio.run(run())


def upserting(handler, *names, **how):
    told, box = asked_of(handler, lambda crm: crm.upsert([write(each) for each in names]), **how)
    return {id_.removeprefix("stoker.acme_"): each for id_, each in told.items()}, box


def failing(name, *, status=500):
    data = {"name": name, "message": "m", "debug": "Traceback (most recent call last)"}
    return json_told(data, status=status)


def message(at, kind="error"):
    return {"rows": {"from": at, "to": at}, "record": at, "type": kind, "message": "m"}


def test_a_record_others_write_all_the_time_is_for_later():
    told, box = upserting(None, "one", dials={"odoo.races": 1})

    assert told["one"].later
    assert len(box.log) == MOST_RACES + 1


def test_when_every_row_is_bad_nothing_more_is_sent():
    sent = []

    def handler(asked):
        sent.append(asked.json()["data"])
        return json_told({"ids": False, "messages": [message(0), message(1)]})

    told, _ = upserting(handler, "a", "b")

    assert (len(sent), [each.later for each in told.values()]) == (1, [False, False])


def test_a_row_that_breaks_the_whole_call_is_found_by_sending_fewer():
    def handler(asked):
        data = asked.json()["data"]
        if any("bad" in each[1] for each in data):
            return failing("builtins.ValueError")
        return json_told({"ids": list(range(len(data))), "messages": []})

    told, _ = upserting(handler, *(f"good{nth}" for nth in range(9)), "bad1", "bad2")

    assert {name for name, each in told.items() if each.id is None} == {"bad1", "bad2"}


def test_a_warning_is_no_reason_to_refuse_a_row():
    def handler(asked):
        data = asked.json()["data"]
        if len(data) == 2:
            return json_told({"ids": False, "messages": [message(0, "warning"), message(1)]})
        return json_told({"ids": [7], "messages": [message(0, "warning")]})

    told, _ = upserting(handler, "a", "b")

    assert (told["a"].id, told["b"].id) == (7, None)


def fault(text):
    return Told(body=oracle.dumps(oracle.Fault(1, text), methodresponse=True).encode())


def said(value):
    return Told(body=oracle.dumps((value,), methodresponse=True).encode())


@pytest.mark.parametrize("protocol", ["json2", "xmlrpc"])
def test_two_transactions_that_meet_are_run_again_however_that_is_said(protocol):
    answers = {
        "json2": [
            failing("psycopg2.errors.SerializationFailure"),
            json_told({"ids": [7], "messages": []}),
        ],
        "xmlrpc": [
            said(2),
            fault("psycopg2.errors.X: could not serialize access"),
            said({"ids": [7], "messages": []}),
        ],
    }[protocol]
    told, _ = upserting(lambda _: answers.pop(0), "one", protocol=protocol)

    assert told["one"].id == 7
    assert not answers


@pytest.mark.parametrize("answer", [[], None, 3, {"ids": [1, 2]}, {"ids": "x"}, {"messages": []}])
def test_an_answer_that_does_not_say_what_became_of_rows_is_for_later(answer):
    told, _ = upserting(lambda _: json_told(answer), "one")
    assert told["one"].later


def test_of_several_external_ids_ours_counts():
    named = {"id": 7, "xmlid": "__export__.x", "xmlids": [{"xmlid": "stoker.acme_one"}]}
    answers = [
        said(2),
        said({"name": {"type": "char"}}),
        said([{"id": 7, "name": "one"}]),
        said([named]),
    ]
    found, _ = asked_of(
        lambda _: answers.pop(0),
        lambda crm: crm.found([row("one")], known={"stoker.acme_one": 7}),
        protocol="xmlrpc",
    )

    assert found["stoker.acme_one"].id == 7


def test_a_contact_with_its_companys_number_is_not_taken_for_the_company():
    look = ("company_registry", "2009")
    company_2009 = {"company_registry": "2009", "is_company": True}

    async def work(crm):
        calls = await crm._spoken()
        contact, company = await calls.call(
            PARTNER,
            "create",
            {"vals_list": [{"name": "Mei"}, {**company_2009, "name": "A"}]},
        )
        await calls.call(PARTNER, "write", {"vals": {"parent_id": company}}, ids=[contact])
        return company, await crm.found([row("one", look=look)], known={})

    (company, found), _ = asked_of(None, work)

    assert found["stoker.acme_one"].id == company


def test_json_that_is_no_error_body_shows_nothing_either():
    body = json.dumps({"name": ["x"], "debug": "Traceback"}).encode()
    told, _ = upserting(lambda _: Told(status=422, body=body), "one")

    assert "Traceback" not in told["one"].because
