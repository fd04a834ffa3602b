"""What Odoo may answer that the make-believe one does not: rare, odd, and once seen enough."""

import asyncio
import json
import xmlrpc.client as oracle
from datetime import timedelta

import pytest

from stoker.crm.model import PARTNER, CrmRow, RowWrite
from stoker.crm.odoo import Odoo
from stoker.crm.odoo_load import MAX_CONFLICTS
from stoker.http.client import HttpClient
from stoker.sandbox.http import Response, to_json_response
from stoker.sandbox.server import Sandbox
from stoker.sandbox.vendors.odoo.methods import Databases
from stoker.sandbox.vendors.odoo.server import build_odoo_handler


def row(name, *, look=None):
    return CrmRow(
        model=PARTNER,
        external_id=f"stoker.acme_{name}",
        values={"name": name},
        on_create={"is_company": True},
        match_by=look,
        is_unique=look is not None,
    )


def write(name):
    return RowWrite(row=row(name), cells={"name": name}, digest="", before={}, intent={})


async def asked_of(handler, work, *, protocol="json2", dials=None, databases=None):
    """Let a handler stand in for odoo.test, or none for the make-believe one."""

    def stands_in(*there):
        return handler or build_odoo_handler(*there, databases=databases)

    how = {"vendors": {"odoo.test": stands_in}}
    async with Sandbox(companies=5, dials=dials, **how) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
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


async def upserting(handler, *names, **how):
    told, box = await asked_of(
        handler, lambda crm: crm.upsert([write(each) for each in names]), **how
    )
    return {id_.removeprefix("stoker.acme_"): each for id_, each in told.items()}, box


def failing(name, *, status=500):
    data = {"name": name, "message": "m", "debug": "Traceback (most recent call last)"}
    return to_json_response(data, status=status)


def message(at, kind="error", **more):
    rows = {"from": at, "to": at}
    return {"rows": rows, "record": at, "type": kind, "message": "m", **more}


async def test_a_record_others_write_all_the_time_is_for_later():
    told, box = await upserting(None, "one", dials={"odoo.races": 1})

    assert told["one"].is_retryable
    assert len(box.log) == MAX_CONFLICTS + 1


async def test_when_every_row_is_bad_nothing_more_is_sent():
    sent = []

    def handler(asked):
        sent.append(asked.parse_json()["data"])
        bad = [message(at, field="name") for at in range(2)]
        return to_json_response({"ids": False, "messages": bad})

    told, _ = await upserting(handler, "a", "b")

    assert (len(sent), [each.is_retryable for each in told.values()]) == (1, [False, False])


async def test_a_row_that_breaks_the_whole_call_is_found_by_sending_fewer():
    def handler(asked):
        data = asked.parse_json()["data"]
        if any("bad" in each[1] for each in data):
            return failing("builtins.ValueError")
        return to_json_response({"ids": list(range(len(data))), "messages": []})

    told, _ = await upserting(handler, *(f"good{nth}" for nth in range(9)), "bad1", "bad2")

    assert {name for name, each in told.items() if each.id is None} == {"bad1", "bad2"}


async def test_a_warning_is_no_reason_to_refuse_a_row():
    def handler(asked):
        data = asked.parse_json()["data"]
        if len(data) == 2:
            told = [message(0, "warning"), message(1, field="name")]
            return to_json_response({"ids": False, "messages": told})
        return to_json_response({"ids": [7], "messages": [message(0, "warning")]})

    told, _ = await upserting(handler, "a", "b")

    assert (told["a"].id, told["b"].id) == (7, None)


def fault(text):
    return Response(body=oracle.dumps(oracle.Fault(1, text), methodresponse=True).encode())


def said(value):
    return Response(body=oracle.dumps((value,), methodresponse=True).encode())


@pytest.mark.parametrize("protocol", ["json2", "xmlrpc"])
async def test_two_transactions_that_meet_are_run_again_however_that_is_said(protocol):
    answers = {
        "json2": [
            failing("psycopg2.errors.SerializationFailure"),
            to_json_response({"ids": [7], "messages": []}),
        ],
        "xmlrpc": [
            said(2),
            fault("psycopg2.errors.X: could not serialize access"),
            said({"ids": [7], "messages": []}),
        ],
    }[protocol]
    told, _ = await upserting(lambda _: answers.pop(0), "one", protocol=protocol)

    assert told["one"].id == 7
    assert not answers


@pytest.mark.parametrize("answer", [[], None, 3, {"ids": [1, 2]}, {"ids": "x"}, {"messages": []}])
async def test_an_answer_that_does_not_say_what_became_of_rows_is_for_later(answer):
    told, _ = await upserting(lambda _: to_json_response(answer), "one")
    assert told["one"].is_retryable


@pytest.mark.parametrize("protocol", ["json2", "xmlrpc"])
@pytest.mark.parametrize("by_number", [True, False])
async def test_of_several_external_ids_ours_counts(protocol, by_number):
    """A person merged a record of theirs into ours: it goes by both names from then on."""
    databases, ours = Databases(), "stoker.acme_one"

    async def work(crm):
        id_ = (await crm.upsert([write("one")]))[ours].id
        await crm.change(PARTNER, [id_], {"is_company": True})
        databases.by_name["acme"].bind("__export__.res_partner_1_a2b", PARTNER, id_)
        databases.by_name["acme"].bind("zzz.theirs", PARTNER, id_)
        known = {ours: id_} if by_number else {}
        return id_, await crm.find_records([row("one", look=("name", "one"))], known=known)

    (id_, found), _ = await asked_of(None, work, protocol=protocol, databases=databases)

    assert (found[ours].id, found[ours].external_id) == (id_, ours)


@pytest.mark.parametrize("status", [403, 404])
async def test_a_server_that_shows_one_external_id_only_is_believed(status):
    def answer(asked):
        if asked.path.endswith("fields_get"):
            return to_json_response({"name": {"type": "char"}})
        if asked.path.endswith("search_read"):
            return to_json_response([{"id": 7, "name": "one"}])
        if asked.path.endswith("get_external_id"):
            return to_json_response({"7": "__export__.x"})
        return failing("odoo.exceptions.AccessError", status=status)

    found, box = await asked_of(
        answer, lambda crm: crm.search(PARTNER, [], fields=["name"], limit=10)
    )

    assert [each.external_id for each in found] == ["__export__.x"]
    assert box.log[-1].target.endswith("get_metadata")


async def test_who_else_s_record_it_is_is_asked_only_where_ours_was_not_seen():
    async def work(crm):
        await crm.upsert([write("one"), write("two")])
        return await crm.search(PARTNER, [], fields=["name"])

    found, box = await asked_of(None, work)

    assert {each.external_id for each in found} >= {"stoker.acme_one", "stoker.acme_two"}
    assert not any(each.target.endswith("get_metadata") for each in box.log)


async def test_a_contact_with_its_companys_number_is_not_taken_for_the_company():
    look = ("company_registry", "2009")
    company_2009 = {"company_registry": "2009", "is_company": True}

    async def work(crm):
        calls = await crm._get_protocol()
        contact, company = await calls.call(
            PARTNER,
            "create",
            {"vals_list": [{"name": "Mei"}, {**company_2009, "name": "A"}]},
        )
        await calls.call(PARTNER, "write", {"vals": {"parent_id": company}}, ids=[contact])
        return company, await crm.find_records([row("one", look=look)], known={})

    (company, found), _ = await asked_of(None, work)

    assert found["stoker.acme_one"].id == company


async def test_json_that_is_no_error_body_shows_nothing_either():
    body = json.dumps({"name": ["x"], "debug": "Traceback"}).encode()
    told, _ = await upserting(lambda _: Response(status=422, body=body), "one")

    assert "Traceback" not in told["one"].reason
