"""How sources are written, and what cannot be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.discovery.sources import (
    HIDDEN,
    SourceKind,
    SourceSpec,
    build_display_names,
    hide_secrets,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("greenhouse:acme", SourceSpec(kind=SourceKind.GREENHOUSE, address="acme")),
        (
            " lever : acme-1 | Acme Pte Ltd | https://www.acme.com.sg/jobs ",
            SourceSpec(
                kind=SourceKind.LEVER,
                address="acme-1",
                company="Acme Pte Ltd",
                domain="acme.com.sg",
            ),
        ),
        (
            "ashby:Acme || acme.com",
            SourceSpec(kind=SourceKind.ASHBY, address="Acme", domain="acme.com"),
        ),
        (
            "feed:https://acme.com/@jobs.rss | Acme",
            SourceSpec(kind=SourceKind.FEED, address="https://acme.com/@jobs.rss", company="Acme"),
        ),
        ("file:my jobs.CSV", SourceSpec(kind=SourceKind.FILE, address="my jobs.CSV")),
    ],
)
def test_a_source_is_what_somebody_means_and_is_written_back_so(text, source):
    assert parse_source(text) == source
    assert parse_source(str(source)) == source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acme",
        "monster:acme",
        "greenhouse:",
        "greenhouse:../admin",
        "greenhouse:a/b",
        "lever:" + "x" * 101,
        "feed:acme.com/jobs.rss",
        "feed:ftp://acme.com/",
        "file:jobs.xlsx",
        "file:jobs\0.csv",
        "file:" + "x" * 2_001 + ".csv",
        "ashby:acme | Acme | no domain",
        "ashby:acme | Acme | acme.com | more",
    ],
)
def test_what_cannot_be_one_is_answered_with_how_to_write_it(text):
    with pytest.raises(ConfigError) as caught:
        parse_source(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60) | st.builds("{}:{}".format, st.sampled_from(SourceKind), st.text()))
def test_no_text_gets_past(text):
    try:
        found = parse_source(text)
    except ConfigError:
        return
    assert str(parse_source(str(found))) == str(found)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("https://a.com/x?key=k&q=1;z=2#t=3", f"?key={HIDDEN}&q={HIDDEN};z={HIDDEN}#t={HIDDEN}"),
        ("https://a.com/x?k", f"?{HIDDEN}"),
        ("https://a.com/x?k=a=b", f"?k={HIDDEN}"),
        ("https://a.com/x?", "?"),
        ("https://a.com/x", ""),
    ],
)
def test_what_a_feed_is_asked_with_is_not_shown(place, shown):
    source = parse_source(f"feed:{place} | A")
    assert source.address == place
    assert source.display_name == f"feed:https://a.com/x{shown}"
    assert str(source) == f"{source.display_name} | A"


SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=40)


@given(SECRETS, st.sampled_from(["feed:", "feeed:", "", "file:"]), st.booleans())
def test_nothing_that_could_be_a_secret_is_repeated_whoever_wrote_what(secret, kind, whole):
    secret = f"~{secret}"
    for text in (
        f"{kind}https://{secret}@a.com/x",
        f"{kind}https://me:{secret}@a.com/x | A",
        f"{kind}https://me:a/{secret}@a.com/x?b=1",
        f"{kind}https://a.com/x?t={secret} | A | {'a.com' if whole else 'no domain'}",
        f"{kind}https://a.com/x?{secret}",
        f"{kind}https://a.com/x?a=1&t={secret}#b",
    ):
        assert secret not in hide_secrets(text)
        try:
            told = str(parse_source(text))
        except ConfigError as error:
            told = str(error)
        assert secret not in told


def test_feeds_that_look_alike_without_their_secrets_are_told_apart():
    one, other, third = (parse_source(f"feed:https://a.com/x?t={n}") for n in (1, 2, 3))
    board = parse_source("lever:a")
    shown = build_display_names((one, board, other, third))
    assert shown[one.name] == one.display_name == other.display_name
    assert shown[board.name] == "lever:a"
    assert [shown[other.name], shown[third.name]] == [
        f"{one.display_name} #2",
        f"{one.display_name} #3",
    ]
