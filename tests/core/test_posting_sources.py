"""How sources are written, and what cannot be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.posting_sources import SourceKind, WantedSource, wanted_source
from stoker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("greenhouse:acme", WantedSource(kind=SourceKind.GREENHOUSE, place="acme")),
        (
            " lever : acme-1 | Acme Pte Ltd | https://www.acme.com.sg/jobs ",
            WantedSource(
                kind=SourceKind.LEVER, place="acme-1", company="Acme Pte Ltd", domain="acme.com.sg"
            ),
        ),
        (
            "ashby:Acme || acme.com",
            WantedSource(kind=SourceKind.ASHBY, place="Acme", domain="acme.com"),
        ),
        (
            "feed:https://acme.com/jobs.rss?a=b | Acme",
            WantedSource(
                kind=SourceKind.FEED, place="https://acme.com/jobs.rss?a=b", company="Acme"
            ),
        ),
        ("file:my jobs.CSV", WantedSource(kind=SourceKind.FILE, place="my jobs.CSV")),
    ],
)
def test_a_source_is_what_somebody_means_and_is_written_back_so(text, source):
    assert wanted_source(text) == source
    assert wanted_source(str(source)) == source


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
        wanted_source(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60) | st.builds("{}:{}".format, st.sampled_from(SourceKind), st.text()))
def test_no_text_gets_past(text):
    try:
        found = wanted_source(text)
    except ConfigError:
        return
    assert wanted_source(str(found)) == found
