"""Which files of the register are read, over everything that may have been read before."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.base.reasons import Reason
from stoker.registry.model import PARTS, Load, LoadCount
from stoker.registry.releases import (
    INCOMPLETE,
    LoadRefusal,
    RegistryFile,
    choose_downloads,
    find_earlier_load,
    find_load_refusal,
    find_part,
    find_part_in_name,
    find_release_in_name,
    format_loaded_part,
    get_part,
    get_release_and_part,
    parse_release,
    sort_oldest_first,
)

NOW = datetime(2026, 2, 7, 3, tzinfo=UTC)
releases = st.dates(date(2020, 1, 1), date(2026, 2, 8)).map(date.isoformat)
parts = st.sampled_from([*sorted(PARTS), "a file.csv"])
lines = st.integers(0, 10_000)
digests = st.sampled_from(["d1", "d2"])


@st.composite
def offers(draw):
    return RegistryFile(
        digest=draw(digests),
        name="file.csv",
        release=draw(releases),
        part=draw(parts),
        lines=draw(lines),
    )


@st.composite
def read_loads(draw):
    offered, rejected = draw(offers()), draw(st.integers(0, 1))
    return Load(
        id=offered.load_id,
        release=offered.release,
        part=format_loaded_part(offered.part, rejected=rejected),
        source="file.csv",
        began_at=NOW,
        ended_at=draw(st.sampled_from([None, NOW])),
        count=LoadCount(same=draw(lines), rejected=rejected),
    )


many = st.lists(read_loads(), max_size=6)


def loaded(offered, **said):
    return Load(
        **{
            "id": offered.load_id,
            "release": offered.release,
            "part": offered.part,
            "source": offered.name,
            "began_at": NOW,
            "ended_at": NOW,
            **said,
        }
    )


@given(offers(), many)
def test_a_file_was_read_before_only_by_its_own_load_that_ended(offered, loads):
    before = find_earlier_load(offered, loads)
    if before is not None:
        assert before.ended_at is not None
        assert (before.release, get_part(before)) == (offered.release, offered.part)
        assert before.id.startswith(offered.digest)
    assert find_earlier_load(offered, [*loads, loaded(offered)]) is not None
    assert find_earlier_load(offered, [loaded(offered, ended_at=None)]) is None
    assert find_earlier_load(offered, [loaded(offered, release="1999-12-31")]) is None


@given(offers(), many)
def test_what_is_read_takes_no_row_back_and_is_no_cut_part(offered, loads):
    said = find_load_refusal(offered, loads, now=NOW)
    about = [
        load
        for load in loads
        if get_part(load) == offered.part or not {get_part(load), offered.part} <= PARTS
    ]
    later = [load for load in about if load.release > offered.release]
    ended = [load for load in loads if load.ended_at and get_part(load) == offered.part]
    shrunk = bool(offered.part in PARTS and ended and offered.lines * 2 < ended[0].count.rows_read)
    wanted = Reason.RELEASE_PASSED if later else Reason.PART_SHRUNK if shrunk else None
    assert (said.reason if said else None) == wanted
    if said is not None:
        assert "--allow-older" in said.message
        assert offered.name in said.message


def test_an_older_release_is_older_than_its_own_part_or_a_file_that_may_hold_any():
    offered = RegistryFile(digest="d", name="f", release="2025-09-30", part="Q", lines=3)

    def refused(part):
        had = loaded(offered, release="2025-12-31", part=part, source="later.csv")
        return find_load_refusal(offered, [had], now=NOW)

    assert refused("A") is None
    for part in ("Q", "Q" + INCOMPLETE, "a file.csv"):
        assert refused(part).reason is Reason.RELEASE_PASSED
        assert "later.csv of 2025-12-31" in refused(part).message


@given(offers(), st.integers(-3, 3), many)
def test_a_release_is_read_from_the_day_on_that_it_may_be_somewhere(offered, days, loads):
    release = (NOW + timedelta(days=days)).date().isoformat()
    given = RegistryFile(digest="d", name="f", release=release, part=offered.part, lines=10)
    said = find_load_refusal(given, loads, now=NOW)
    assert (said is not None and said.reason is Reason.RELEASE_TO_COME) == (days > 1)


def test_an_empty_part_is_read_where_there_was_none():
    offered = RegistryFile(digest="d", name="f", release="2025-12-31", part="Q", lines=0)
    assert find_load_refusal(offered, [], now=NOW) is None
    had = loaded(offered, release="2025-09-30", count=LoadCount(new=1))
    assert find_load_refusal(offered, [had], now=NOW).reason is Reason.PART_SHRUNK


@given(st.sampled_from(sorted(PARTS)), st.integers(0, 5))
def test_only_a_part_without_rejects_speaks_for_who_is_gone(part, rejected):
    kept = format_loaded_part(part, rejected=rejected)
    assert (kept in PARTS) == (rejected == 0)
    assert kept.removesuffix(INCOMPLETE) == part
    assert format_loaded_part("a file.csv", rejected=rejected) == "a file.csv"


@given(st.dictionaries(parts, releases), st.lists(parts, unique=True), many, st.booleans())
def test_a_part_is_downloaded_unless_its_release_was_read_to_the_end(
    published, wanted, loads, again
):
    found = choose_downloads(published, wanted=wanted, loads=loads, again=again)
    if set(wanted) - published.keys():
        assert isinstance(found, LoadRefusal)
        assert found.reason is Reason.PART_NOT_PUBLISHED
        return
    assert len(found) == len(wanted or published)
    for part, each in zip(wanted or published, found, strict=True):
        read = [
            load
            for load in loads
            if load.ended_at and (load.release, get_part(load)) == (published[part], part)
        ]
        assert (each == part) == (again or not read)
        assert each == part or each in read


@given(st.text(max_size=60), st.none() | releases, st.none() | parts)
@example("acra_q_2025-12-31.csv", None, None)
@example("ACRA Information on Corporate Entities ('Q').csv", "2025-12-31", None)
@example("register.csv", None, None)
def test_what_a_person_says_of_a_file_counts_before_its_name(name, release, part):
    told = get_release_and_part(name, release=release, part=part)
    if isinstance(told, LoadRefusal):
        assert release is None
        assert told.reason is Reason.RELEASE_UNKNOWN
        return
    assert told[0] == (release or told[0])
    assert date.fromisoformat(told[0])
    assert told[1] == (part or told[1])
    assert part or told[1] == name or told[1] in PARTS


@given(st.lists(releases, max_size=5))
def test_older_files_are_read_before_newer_ones_and_those_that_do_not_say_first(dates):
    names = [f"acra_{each}.csv" for each in dates] + ["register.csv"]
    assert sort_oldest_first(names) == ["register.csv", *sorted(names[:-1])]


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_is_told_by_the_names_its_publisher_gives(part):
    assert find_part_in_name(f"ACRA Information on Corporate Entities ('{part}')") == part
    assert find_part_in_name(f"ACRAInformationonCorporateEntities{part}.csv") == part
    assert find_part(f" {part.lower()} ") == part


@pytest.mark.parametrize(
    "name", ["acra_q_2025-12-31.csv.gz", "Q.csv", "ACRA Information on Corporate Entities.csv", ""]
)
def test_no_other_name_tells_a_part(name):
    assert find_part_in_name(name) is None


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("acra_q_2025-12-31.csv.gz", "2025-12-31"),
        ("register20250930.csv", "2025-09-30"),
        ("acra_2025-02-31.csv", None),
        ("acra_120251231.csv", None),
        ("acra.csv", None),
    ],
)
def test_a_release_is_told_by_a_date_in_a_name(name, release):
    assert find_release_in_name(name) == release


def test_a_release_is_a_date():
    assert parse_release(" 2025-12-31 ") == "2025-12-31"
    with pytest.raises(ConfigError, match="2025-12-31"):
        parse_release("latest")
