"""Profiles out of tables and leads: every row becomes one or says why it does not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
    SiteOwner,
    SiteVerdict,
)
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.files.tables import TableRow
from stoker.http.client import HttpClient
from stoker.http.client import Response as Reply
from stoker.sandbox.http import Response, to_page_response, to_text_response
from stoker.sandbox.server import Sandbox
from stoker.touches.model import Profile, ProfileStatus
from stoker.touches.profiles import (
    MAX_NAME_LENGTH,
    BadRow,
    compute_appeals,
    fetch_profiles,
    leads_to_profiles,
    merge_profile,
    normalize_profile_url,
    parse_profiles,
    read_profiles_file,
    to_csv_export_url,
)

ZONE = ZoneInfo("Asia/Singapore")
NOW = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)


def read(*rows, columns=("url", "name", "last_done_at", "status")):
    numbered = [
        TableRow(line, dict(zip(columns, cells, strict=True))) for line, cells in enumerate(rows, 2)
    ]
    return parse_profiles(numbered, zone=ZONE, now=NOW)


def only(*cells):
    told = read(cells)
    assert told.bad_rows == ()
    [profile] = told.profiles
    return profile


def fault(*cells):
    told = read(cells)
    assert told.profiles == ()
    [bad] = told.bad_rows
    assert bad.where == "line 2"
    return bad.reason


def test_a_row_becomes_a_profile():
    done_at = datetime(2026, 2, 1, 1, 30, tzinfo=UTC)
    assert only("https://p.test/a", " Ann  Tan ", "2026-02-01T09:30", "Paused") == Profile(
        url="https://p.test/a", name="Ann Tan", last_done_at=done_at, status=ProfileStatus.PAUSED
    )


def test_a_date_alone_is_that_days_beginning_in_the_tenants_zone():
    assert only("p.test/a", "", "2026-02-01", "").last_done_at == datetime(
        2026, 1, 31, 16, tzinfo=UTC
    )
    aware = only("p.test/a", "", "2026-02-01T00:00:00+00:00", "").last_done_at
    assert aware == datetime(2026, 2, 1, tzinfo=UTC)


def test_what_is_not_known_may_be_left_out():
    told = read(("p.test/a",), columns=("url",))
    assert told.profiles == (Profile(url="https://p.test/a", name="https://p.test/a"),)


@pytest.mark.parametrize(
    ("cells", "because"),
    [
        (("", "Ann", "", ""), "url"),
        (("no address", "Ann", "", ""), "url"),
        (("ftp://p.test/a", "Ann", "", ""), "url"),
        (("javascript:alert(1)", "Ann", "", ""), "url"),
        (("https://127.0.0.1/", "Ann", "", ""), "url"),
        (("https://p.test/" + "a" * 2_000, "Ann", "", ""), "url"),
        (("p.test/a", "Ann", "last week", ""), "last_done_at"),
        (("p.test/a", "Ann", "0000-00-00", ""), "last_done_at"),
        (("p.test/a", "Ann", "2026-03-01", ""), "still to come"),
        (("p.test/a", "Ann", "", "retired"), "active, paused, private, deleted"),
    ],
)
def test_a_bad_row_says_why(cells, because):
    assert because in fault(*cells)


def test_no_bad_row_stops_the_others_and_each_is_told():
    rows = [
        TableRow(2, {"url": "p.test/a"}),
        TableRow(3, wrong="it is not UTF-8 text"),
        TableRow(5, {"url": "https://P.test/a"}),
        TableRow(6, {"url": "p.test/b"}),
    ]
    told = parse_profiles(rows, zone=ZONE, now=NOW)
    assert [each.url for each in told.profiles] == ["https://p.test/a", "https://p.test/b"]
    assert told.bad_rows == (
        BadRow(where="line 3", reason="it is not UTF-8 text"),
        BadRow(where="line 5", reason="its url stands in an earlier row"),
    )


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.text()), max_size=5))
def test_whatever_rows_say_each_becomes_a_profile_or_a_reason(rows):
    told = read(*rows)
    assert len(told.profiles) + len(told.bad_rows) == len(rows)
    for profile in told.profiles:
        assert normalize_profile_url(profile.url) == profile.url
        assert 0 < len(profile.name) <= max(MAX_NAME_LENGTH, len(profile.url))
        assert "\0" not in profile.name
    assert all(each.reason and "\n" not in each.reason for each in told.bad_rows)


def lead(number, website, value=None):
    score = value and LeadScore(
        value=value, bucket=Bucket.HIGH, features={}, feature_hash="x", rationale="good"
    )
    company = Company(id=CompanyId(f"T{number}"), name=f"Lead {number}", website=website)
    return CompanyRecord(company=company, score=score or None)


def test_leads_become_profiles_by_their_websites():
    probable = SiteVerdict(host="four.test", owner=SiteOwner.PROBABLE)
    squatted = replace(lead(4, "https://four.test/"), site=probable)
    told = leads_to_profiles(
        [lead(1, "https://one.test/"), lead(2, ""), lead(3, "https://one.test"), squatted]
    )
    assert told.profiles == (Profile(url="https://one.test/", name="Lead 1"),)
    assert [each.where for each in told.bad_rows] == ["T2", "T3", "T4"]
    assert "only probable" in told.bad_rows[-1].reason


def test_a_lead_names_its_best_contact_and_the_channel_that_contact_has():
    def contact(**known):
        return Contact(source="apollo", confidence=0.9, **known)

    def profile(*contacts):
        record = replace(lead(1, "https://one.test/"), contacts=contacts)
        [found] = leads_to_profiles([record]).profiles
        return found.person, found.channel, found.name

    assert profile() == ("", "", "Lead 1")
    phone = contact(name="Bob", phone="+65 1")
    assert profile(phone) == ("Bob", "phone", "Lead 1")
    assert profile(phone, contact(name="Ann", email="a@one.test")) == ("Ann", "email", "Lead 1")
    invalid = contact(name="Ann", email="a@one.test", verdict=EmailStatus.INVALID)
    assert profile(invalid) == ("Ann", "", "Lead 1")


def test_a_source_without_names_or_channels_takes_none_away():
    known = Profile(url="https://p.test/a", name="Acme", person="Ann", channel="phone")
    given_url = Profile(url=known.url, name=known.url)
    assert merge_profile(known, given_url) == known


MOMENTS = st.none() | st.integers(0, 1000).map(lambda hours: NOW - timedelta(hours=hours))
PROFILES = st.builds(
    Profile,
    url=st.just("https://p.test/a"),
    name=st.sampled_from(["", "Ann", "Bob"]),
    last_done_at=MOMENTS,
    status=st.sampled_from(ProfileStatus),
)


@given(PROFILES, PROFILES)
def test_a_wait_never_begins_earlier_and_saying_the_same_again_changes_nothing(known, said):
    merged = merge_profile(known, said)
    waits = [each.last_done_at for each in (known, said) if each.last_done_at]
    assert merged.last_done_at == max(waits, default=None)
    assert merged.name == (said.name or known.name)
    assert merged.status is said.status
    assert merge_profile(merged, said) == merged


SHEET = "https://docs.google.com/spreadsheets/d/1AbC_def-GHIjkl"
EXPORT = f"{SHEET}/export?format=csv&gid="


@pytest.mark.parametrize(
    ("url", "export"),
    [
        (f"{SHEET}/edit#gid=42", EXPORT + "42"),
        (f"{SHEET}/edit?gid=7#gid=7", EXPORT + "7"),
        (f"{SHEET}/edit?usp=sharing", EXPORT + "0"),
        (SHEET, EXPORT + "0"),
        (f"{SHEET}/export?format=csv&gid=3", EXPORT + "3"),
        ("https://sheets.test/people.csv?x=1", "https://sheets.test/people.csv?x=1"),
        ("https://evil.test/spreadsheets/d/1AbC_def-GHIjkl", None),
    ],
)
def test_a_sheet_is_taken_from_where_it_is_csv(url, export):
    assert to_csv_export_url(url) == (export or url)


@pytest.mark.parametrize("url", [f"{SHEET}/edit#gid=x", "no address", "file:///etc/passwd"])
def test_what_is_no_sheet_is_refused(url):
    with pytest.raises(PermanentError):
        to_csv_export_url(url)


def test_a_leads_appeal_is_its_score_or_its_heat_whichever_is_more():
    leads = [
        lead(1, "https://one.test/", 0.9),
        lead(2, "two.test", 0.4),
        lead(3, "", 0.8),
        lead(4, "https://four.test/"),
        lead(5, "https://one.test/", 0.2),
        lead(6, "http://not an address", 0.7),
    ]
    heats = {CompanyId("T1"): 0.1, CompanyId("T2"): 0.6, CompanyId("T9"): 1.0}
    assert compute_appeals(leads, heats) == {"https://one.test/": 0.9, "https://two.test/": 0.6}


TABLE = "url,name\r\nhttps://p.test/a,Ann\r\nnope,X\r\n"


async def fetched(told, url="http://sheets.test/people.csv"):
    async with Sandbox(vendors={"sheets.test": lambda *_: told}) as box:
        http = HttpClient(user_agent="Stoker/test", sandbox=box.address)
        try:
            return await fetch_profiles(http, url, zone=ZONE, now=NOW)
        finally:
            await http.close()


async def test_a_file_is_read_and_its_bad_rows_are_told(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("\ufeff" + TABLE)
    told = await read_profiles_file(path, zone=ZONE, now=NOW)
    assert told.profiles == (Profile(url="https://p.test/a", name="Ann", person="Ann"),)
    assert [each.where for each in told.bad_rows] == ["line 3"]


async def test_the_columns_of_a_weekly_planner_are_read_with_their_dates(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(
        "linkedin_url,name,last_engaged_date,status\n"
        "https://www.linkedin.com/in/ann,Ann Lee,2026-02-01,active\n"
    )
    told = await read_profiles_file(path, zone=ZONE, now=NOW)
    [profile] = told.profiles
    assert profile.last_done_at == datetime(2026, 1, 31, 16, tzinfo=UTC)
    assert (profile.person, profile.status) == ("Ann Lee", ProfileStatus.ACTIVE)
    assert told.columns.unused == ()
    assert told.has_status


async def test_columns_that_are_not_understood_are_named(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(
        "Profile URL,company,contact,Posted Date,notes\np.test/a,Acme,Ann,2026-01-01,x\n"
    )
    told = await read_profiles_file(path, zone=ZONE, now=NOW)
    assert told.profiles == (Profile(url="https://p.test/a", name="Acme", person="Ann"),)
    assert told.columns.unused == ("Posted Date", "notes")
    assert told.columns.format_text() == (
        "Columns used: Profile URL (as url), company (as name), contact (as person). "
        "Not used: Posted Date, notes."
    )
    assert not told.has_status
    path.write_text("homepage,notes\np.test/a,x\n")
    with pytest.raises(ConfigError, match="it has: homepage, notes"):
        await read_profiles_file(path, zone=ZONE, now=NOW)


@pytest.mark.parametrize("content", [None, b"", b"name\nAnn\n", b"\x00\xff\xfe"])
async def test_a_file_that_is_no_table_is_refused_by_name(tmp_path, content):
    path = tmp_path / "people.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"people\.csv"):
        await read_profiles_file(path, zone=ZONE, now=NOW)


async def test_a_table_on_the_web_is_read_also_behind_a_redirect():
    def told(asked):
        if asked.path == "/people.csv":
            return Response(status=307, headers={"location": "http://sheets.test/elsewhere"})
        return to_text_response(TABLE)

    assert [each.name for each in (await fetched(told)).profiles] == ["Ann"]


@pytest.mark.parametrize(
    "answer",
    [
        Response(status=403),
        Response(status=404),
        Response(status=204),
        to_page_response("<h1>Sign in</h1>"),
        to_text_response("name\nAnn\n"),
        Response(status=302, headers={"location": "http://sheets.test/people.csv"}),
    ],
)
async def test_a_table_that_is_not_open_to_us_is_for_people_to_put_right(answer):
    with pytest.raises(ConfigError):
        await fetched(lambda _: answer)


@pytest.mark.parametrize(
    "answer", [Response(status=429), Response(status=500), Response(reset=True)]
)
async def test_a_server_in_trouble_is_asked_another_time(answer):
    with pytest.raises(TransientError):
        await fetched(lambda _: answer)


async def test_an_address_we_do_not_visit_is_refused():
    with pytest.raises(ConfigError):
        await fetched(lambda _: to_text_response(TABLE), url="http://127.0.0.1/people.csv")


class CutOff:
    """An HTTP client whose answers end before their end."""

    async def send(self, call):
        body = TABLE.encode()
        return Reply(
            status=200, headers={}, body=body, url=call.url, truncated=True, wire_bytes=len(body)
        )


async def test_a_table_that_is_too_long_is_not_imported_in_part():
    with pytest.raises(ConfigError, match="split the table"):
        await fetch_profiles(CutOff(), "http://sheets.test/people.csv", zone=ZONE, now=NOW)
