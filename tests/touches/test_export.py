"""Plans as iCalendar and CSV: complete, safe to open, the same bytes every time."""

import csv
import io
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.touches.export import COLUMNS, plan_to_csv, plan_to_ics, touch_to_json
from stoker.touches.model import OutcomeMark, Profile, TouchOutcome, derive_channel
from stoker.touches.planning.planner import apply_outcomes, mark_handed_out, plan_week
from stoker.touches.settings import PlanRule

MONDAY = date(2026, 2, 9)
NOW = datetime(2026, 2, 8, 20, tzinfo=UTC)
NAME = 'Zoë; the "first", née O\'Neil\\\nEND:VEVENT ' + "長い名前" * 20


def planned(url="https://a.test/?q=1", name=NAME, person="", channel=""):
    people = [Profile(url=url, name=name, person=person, channel=channel)]
    people += [Profile(url=f"https://p{n}.test", last_done_at=NOW) for n in range(30)]
    plan = plan_week(
        people, monday=MONDAY, rule=PlanRule(), seed=1, zone="Asia/Singapore", created_at=NOW
    )
    first = plan.days[0].touches[0]
    said = [OutcomeMark(url=first.url, day=MONDAY, outcome=TouchOutcome.FAILED, marked_at=NOW)]
    return mark_handed_out(apply_outcomes(plan, said), day=MONDAY + timedelta(days=1), at=NOW)


PLAN = planned()


def unfolded(text):
    return text.replace("\r\n ", "").split("\r\n")


def events(text):
    """Read a calendar the way RFC 5545 says: unfold, split at the first colon, unescape."""
    found, here = [], None
    for line in unfolded(text):
        name, _, value = line.partition(":")
        if line == "BEGIN:VEVENT":
            here = {}
        elif line == "END:VEVENT":
            found.append(here)
            here = None
        elif here is not None:
            here[name] = value
    return found


def unescaped(text):
    out, letters = "", iter(text)
    for letter in letters:
        if letter == "\\":
            following = next(letters)
            out += "\n" if following == "n" else following
        else:
            out += letter
    return out


def test_a_calendar_has_every_touch_at_its_moment():
    text = plan_to_ics(PLAN)
    touches = [touch for slot in PLAN.days for touch in slot.touches]
    read = events(text)
    assert len(read) == len(touches)
    for event, touch in zip(read, touches, strict=True):
        at = datetime.strptime(event["DTSTART"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert at == touch.at
        assert unescaped(event["SUMMARY"]) == f"Touch {touch.name or touch.url} by web"
        assert touch.url in unescaped(event["DESCRIPTION"])
        assert event["URL"] == touch.url
    assert [e["STATUS"] for e in read].count("CANCELLED") == 1
    assert len({e["UID"] for e in read}) == len(read)
    assert text == plan_to_ics(PLAN)
    assert text.startswith("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n")
    assert text.endswith("END:VCALENDAR\r\n")


def test_every_export_names_the_person_and_the_channel():
    plan = planned("https://www.linkedin.com/in/ann", "Acme", "Ann Lee", "phone")
    touch = next(t for slot in plan.days for t in slot.touches if t.person)
    assert touch_to_json(touch)["person"] == "Ann Lee"
    assert touch_to_json(touch)["channel"] == "phone"
    rows = list(csv.DictReader(io.StringIO(plan_to_csv(plan))))
    assert ("Ann Lee", "phone") in {(row["person"], row["channel"]) for row in rows}
    assert "Touch Ann Lee, Acme by phone" in {
        unescaped(e["SUMMARY"]) for e in events(plan_to_ics(plan))
    }


@pytest.mark.parametrize(
    ("url", "channel"),
    [
        ("https://www.linkedin.com/in/ann", "linkedin"),
        ("https://sg.linkedin.com/in/ann", "linkedin"),
        ("https://x.com/ann", "x"),
        ("https://twitter.com:443/ann", "x"),
        ("https://notlinkedin.com/in/ann", "web"),
        ("https://linkedin.com.evil.test/in/ann", "web"),
        ("p001", "web"),
    ],
)
def test_the_channel_of_an_address_is_its_network(url, channel):
    assert derive_channel(url) == channel


texts = st.text(max_size=200)


@given(texts, texts, texts)
def test_nothing_in_a_name_or_address_breaks_out_of_its_line(name, url, person):
    touch = replace(PLAN.days[0].touches[0], url=url, name=name, person=person, channel=person)
    plan = replace(PLAN, days=(replace(PLAN.days[0], touches=(touch,)),))
    text = plan_to_ics(plan)
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    assert len(events(text)) == 1
    assert "\n" not in text.replace("\r\n", "")
    assert sum(line == "END:VCALENDAR" for line in unfolded(text)) == 1


def test_rows_of_a_csv_file_say_what_was_planned_and_no_cell_is_a_formula():
    evil = planned(url="=cmd|' /C calc'!A0", name="+1", person="=1+1", channel="@x")
    rows = list(csv.DictReader(io.StringIO(plan_to_csv(evil))))
    touches = [touch for slot in evil.days for touch in slot.touches]
    assert tuple(rows[0]) == COLUMNS
    assert [row["url"].removeprefix("'") for row in rows] == [touch.url for touch in touches]
    assert [row["status"] for row in rows] == [touch.status for touch in touches]
    assert not any(cell[:1] in set("=+-@") for row in rows for cell in row.values())
