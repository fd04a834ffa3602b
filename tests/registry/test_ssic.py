"""Words for industries, the codes they mean, and rows of a classification."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.icp import IcpRule
from stoker.base.errors import ConfigError, PermanentError
from stoker.registry.model import IndustryCode
from stoker.registry.ssic import (
    INDUSTRIES,
    SECTIONS,
    VERSIONS,
    CodeColumns,
    find_section,
    has_prefix,
    list_prefixes,
)


def test_technology_means_what_a_rule_wants_unless_told_otherwise():
    assert list_prefixes(" Technology ") == IcpRule().industries


@pytest.mark.parametrize("word", INDUSTRIES)
def test_every_word_of_ours_makes_a_rule(word):
    assert IcpRule(industries=list_prefixes(word)).industries == INDUSTRIES[word]


def test_digits_and_letters_are_taken_as_they_are():
    assert list_prefixes("62011") == ("62011",)
    assert list_prefixes("j") == ("58", "59", "60", "61", "62", "63")
    assert list_prefixes("J", version="2025") == ("58", "59", "60")
    assert list_prefixes("K", version="2025") == ("61", "62", "63")


@pytest.mark.parametrize("word", ["tecnology", "", "624444", "62-", "²"])
def test_a_word_that_is_no_industry_is_refused_with_words_that_are(word):
    near = "technology" if word == "tecnology" else ""
    with pytest.raises(ConfigError, match=f"such as .*{near}"):
        list_prefixes(word)


@pytest.mark.parametrize("code", ["00", "04", "34", "40", "67999"])
def test_digits_no_code_begins_with_are_refused(code):
    with pytest.raises(ConfigError, match=f"no industry's code begins with {code[:2]}"):
        list_prefixes(code)


def test_an_edition_there_never_was_is_refused():
    with pytest.raises(ConfigError, match="2020, 2025"):
        list_prefixes("A", version="1996")


@pytest.mark.parametrize("version", VERSIONS)
def test_sections_cover_every_division_once_and_in_order(version):
    spans = list(SECTIONS[version].values())
    assert all(first <= last for first, last in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))
    assert list(SECTIONS[version]) == sorted(SECTIONS[version])


@given(st.integers(1, 99_999).map(lambda code: f"{code:05d}"), st.sampled_from(VERSIONS))
def test_a_code_falls_under_its_section_and_no_other(code, version):
    letter = find_section(code, version=version)
    for other in SECTIONS[version]:
        assert has_prefix(code, list_prefixes(other, version=version)) == (other == letter)


def test_everything_falls_under_nothing_in_particular():
    assert has_prefix("62011", ())
    assert has_prefix("", ())
    assert not has_prefix("", ("62",))


def test_a_row_of_a_classification_is_a_code_with_its_level():
    columns = CodeColumns(["SSIC 2020 Title", "SSIC 2020"], version="2020")
    assert columns.parse_row([" Smithies ", "25911"]) == IndustryCode(
        version="2020", code="25911", title="Smithies", level="subclass"
    )
    section = columns.parse_row(["Making", "c"])
    assert isinstance(section, IndustryCode)
    assert (section.code, section.level) == ("C", "section")


@pytest.mark.parametrize("cells", [["x"], ["", "62"], ["x", "6"], ["x", "62A"], ["x" * 501, "62"]])
def test_a_row_that_is_no_industry_says_why(cells):
    columns = CodeColumns(["title", "code"], version="2020")
    assert isinstance(columns.parse_row(cells), str)


@pytest.mark.parametrize("header", [["uen", "name"], ["code"], ["title"], []])
def test_a_file_without_codes_and_titles_is_refused(header):
    with pytest.raises(PermanentError, match="code,title"):
        CodeColumns(header, version="2020")
