import io
import json
import logging
import unicodedata
from dataclasses import fields
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.base.events import Event, LeaseLost, RunEnded, RunStarted, TenantFailed
from stoker.base.telemetry import (
    REDACTED,
    Redactor,
    Telemetry,
    build_telemetry,
    capture_library_logs,
    escape_invisible,
)
from stoker.base.types import TenantId
from stoker.config.fields import POSTGRES_URL
from stoker.settings import FIELDS
from stoker.settings.load import load_settings

# On a busy machine an example may take long; that says nothing about the promise.
untimed = how(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ACME = TenantId("acme")
STARTED = RunStarted(at=NOON, tenant=ACME, run="20300101_120000", kind="upkeep")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def failed(text):
    return TenantFailed(at=NOON, tenant=ACME, error=text)


def test_a_terminal_gets_a_line_for_people():
    stream = Terminal()
    build_telemetry(stream, no_colour=True)(STARTED)

    assert stream.getvalue() == (
        "2030-01-01 12:00:00Z info acme: upkeep run 20300101_120000 started\n"
    )


def test_anything_else_gets_a_json_line_with_every_field_of_the_event():
    stream = io.StringIO()
    build_telemetry(stream)(STARTED)

    assert json.loads(stream.getvalue()) == {
        "at": "2030-01-01T12:00:00+00:00",
        "level": "info",
        "event": "RunStarted",
        "tenant": "acme",
        "message": "upkeep run 20300101_120000 started",
        "run": "20300101_120000",
        "kind": "upkeep",
    }


def test_the_format_that_was_asked_for_is_used_whoever_reads():
    human, programs = io.StringIO(), Terminal()
    build_telemetry(human, form="human")(STARTED)
    build_telemetry(programs, form="json")(STARTED)

    assert human.getvalue().startswith("2030-01-01 12:00:00Z")
    assert json.loads(programs.getvalue())["event"] == "RunStarted"


@pytest.mark.parametrize(
    ("stream", "no_colour", "coloured"),
    [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)],
)
def test_colour_is_for_terminals_whose_owner_did_not_refuse_it(stream, no_colour, coloured):
    written = stream()
    build_telemetry(written, form="human", no_colour=no_colour)(LeaseLost(at=NOON, lease="x"))

    assert ("\x1b[" in written.getvalue()) is coloured


def test_what_is_less_important_than_the_level_is_not_written():
    stream = io.StringIO()
    observer = build_telemetry(stream, level="error")
    observer(STARTED)
    observer(failed("no"))

    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["error"]


def test_an_unknown_format_or_level_is_refused():
    with pytest.raises(ConfigError, match="allowed: auto, human, json"):
        build_telemetry(io.StringIO(), form="xml")


VALUES = {"datetime": NOON, "int": 3, "float": 0.5, "bool": True, "tuple[str, ...]": ("a", "b")}


@pytest.mark.parametrize("event", Event.__subclasses__(), ids=lambda event: event.__name__)
def test_every_event_has_a_message_of_one_line_about_its_fields(event):
    values = {field.name: VALUES.get(str(field.type), "{x}") for field in fields(event)}
    values |= {field.name: NOON for field in fields(event) if "datetime" in str(field.type)}
    message = event(**values).message()
    assert message
    assert "\n" not in message


def test_a_stream_that_cannot_be_written_to_stops_no_work():
    closed = io.StringIO()
    observer = build_telemetry(closed)
    closed.close()

    assert observer(STARTED) is None


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b[2Jb",
        "a\rb",
        "a\nb",
        "a\u202eb",
        "a\u200bb",
        "a\u2066b",
        "a\u2028b",
        "a\x9b31mb",
        "a\ufeffb",
        "a\U000e0041b",
        "a\x00b",
        "a\x07b",
        "a\u00adb",
    ],
)
def test_characters_that_hide_or_move_text_become_visible(text):
    assert escape_invisible(text) == f"a\\u{{{ord(text[1]):x}}}{text[2:]}"
    for form in ("human", "json"):
        stream = io.StringIO()
        build_telemetry(stream, form=form)(failed(text))
        assert text[1] not in stream.getvalue().rstrip("\n")
        assert stream.getvalue().count("\n") == 1


@untimed
@given(st.text())
def test_no_text_leaves_its_line_or_hides_anything(text):
    shown = escape_invisible(text)

    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Cf") for letter in shown)


blank = "\u115f\u1160\u3164\uffa0"  # letters by name that show nothing
ordinary = st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters=blank + "\ufffc")


@untimed
@given(st.text(ordinary))
def test_ordinary_text_stays_as_it_is(text):
    assert escape_invisible(text) == text


secrets = st.text(min_size=6, max_size=40)


@untimed
@given(secret=secrets, before=st.text(), after=st.text())
def test_a_known_secret_never_gets_through(secret, before, after):
    shown = Redactor([secret]).redact(before + secret + after)

    # What surrounds the mark may by chance spell the secret again; take the mark's place away.
    assert secret not in shown.split(REDACTED)
    assert REDACTED in shown


@untimed
@given(secret=secrets)
def test_a_secret_is_found_in_every_shape_it_takes_on_the_way(secret):
    redactor = Redactor([secret])
    for shape in (json.dumps(secret), repr(secret), quote(secret, safe="", errors="replace")):
        assert REDACTED in redactor.redact(shape)
    assert REDACTED in redactor.redact(quote_plus(secret, errors="replace"))


def test_the_longer_of_two_secrets_is_taken_out_whole():
    redactor = Redactor(["secret-1", "secret-1-and-more"])

    assert redactor.redact("x secret-1-and-more y") == f"x {REDACTED} y"


def test_words_too_short_to_be_secrets_are_left_alone():
    assert Redactor(["on", "", "abcde"]).redact("come on, abcde") == "come on, abcde"


def test_a_secret_is_taken_out_of_keys_and_depths_of_json():
    shown = Redactor(["hunter-22"]).redact_json({"hunter-22": [{"a": "x hunter-22"}], "n": 1})

    assert shown == {REDACTED: [{"a": f"x {REDACTED}"}], "n": 1}


def test_what_libraries_log_goes_the_same_way_redacted_and_ends_with_the_block():
    stream = io.StringIO()
    observer = build_telemetry(stream, level="debug", secrets=["hunter-22"])
    before = logging.getLogger().handlers[:]
    with capture_library_logs(observer):
        logging.getLogger("vendor").warning("GET /?key=%s", "hunter-22")
        try:
            raise RuntimeError("cannot reach hunter-22")
        except RuntimeError:
            logging.getLogger("vendor").exception("failed")
    logging.getLogger("vendor").warning("after")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["vendor", "vendor"]
    assert lines[0]["message"] == f"GET /?key={REDACTED}"
    assert "RuntimeError: cannot reach" in lines[1]["message"]
    assert "hunter" not in stream.getvalue()
    assert logging.getLogger().handlers == before


def test_a_badly_formed_log_call_of_a_library_is_written_as_it_stands():
    record = logging.LogRecord("v", logging.INFO, "f", 1, "%d at %s", ("x", "hunter-22"), None)
    stream = io.StringIO()
    with capture_library_logs(build_telemetry(stream, secrets=["hunter-22"])):
        # Ours alone: pytest's own handler raises for such a call.
        logging.getLogger().handlers[-1].handle(record)

    assert json.loads(stream.getvalue())["message"] == f"%d at %s ('x', '{REDACTED}')"


def canaries():
    """Fill every secret slot there is with a value of its own."""
    slots = [(key, about) for key, about in FIELDS.items() if about.kind.secret]
    return {
        about.env[0]: f"postgresql://app:canary-{n}@127.0.0.1:1/db"
        if about.kind is POSTGRES_URL
        else f"canary-{n}"
        for n, (_, about) in enumerate(slots)
    }


def chatter(observer, settings):
    """Say everything one could carelessly say about settings, through every way there is."""
    revealed = [settings.get_value(key) for key, about in FIELDS.items() if about.kind.secret]
    for secret in revealed:
        careless = f"cannot use {secret} {secret!r} {secret.reveal()}"
        observer(failed(careless))
        observer(RunEnded(at=NOON, run="r", kind="k", state="FAILED", reason=careless))
        with capture_library_logs(observer):
            logging.getLogger("vendor").debug("%s", [secret.reveal()])
            try:
                raise RuntimeError(secret.reveal())
            except RuntimeError:
                logging.getLogger("vendor").exception("failed")
    with capture_library_logs(observer):
        logging.getLogger("vendor").debug("%r %r", settings, settings.snapshot())


@pytest.mark.parametrize("form", ["human", "json"])
def test_no_canary_in_any_secret_slot_reaches_the_log_at_debug(form):
    settings = load_settings(file=None, env_file=None, environment=canaries(), flags={})
    stream, secrets = io.StringIO(), settings.list_secret_values()
    for level in ("info", "debug"):
        chatter(build_telemetry(stream, form=form, level=level, secrets=secrets), settings)

    assert len(canaries()) == 9
    assert stream.getvalue().count("\n") > 9 * 4
    assert "canary" not in stream.getvalue()


@pytest.mark.parametrize("form", ["human", "json"])
def test_the_naive_twin_that_redacts_nothing_is_caught(form):
    settings = load_settings(file=None, env_file=None, environment=canaries(), flags={})
    stream = io.StringIO()
    naive = Telemetry(stream, human=form == "human", level="debug", redactor=Redactor([]))
    chatter(naive, settings)

    assert all(f"canary-{n}" in stream.getvalue() for n in range(9))
