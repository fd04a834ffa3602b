"""What a posting's words say: the same words always the same, and no odd text gets past."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.job_enriching import (
    MOST_TAGS,
    enriched,
    is_remote,
    normal_title,
    seniority_of,
    stack_of,
)
from stoker.core.model import Job, storable

texts = st.text(max_size=200)


@pytest.mark.parametrize(
    ("title", "normal", "seniority"),
    [
        ("Senior Backend Engineer", "backend engineer", "senior"),
        ("Sr. Software Eng. II (m/f/d) - Remote", "software engineer", "senior"),
        ("SWE, Payments", "software engineer payments", ""),
        ("Jr Data Analyst [Contract]", "data analyst", "junior"),
        ("Head of Sales | Singapore", "head of sales", "head"),
        ("VP Engineering", "vp engineering", "head"),
        ("Principal Engineer – APAC", "engineer", "staff"),
        ("Chief Technology Officer", "chief technology officer", "chief"),
        ("Intern, Office of the CEO", "intern office of the ceo", "intern"),
        ("Warehouse Supervisor", "warehouse supervisor", "manager"),
        ("Marketing Executive", "marketing executive", ""),
        ("C++ Developer", "c++ developer", ""),
        ("Senior", "senior", "senior"),
        ("(m/f/d)", "m f d", ""),
        ("", "", ""),
    ],
)
def test_titles_are_written_one_way(title, normal, seniority):
    assert (normal_title(title), seniority_of(title)) == (normal, seniority)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Python and Django, PostgreSQL.", ("django", "postgresql", "python")),
        ("C++, C# or .NET; Node.js (k8s)", (".net", "c#", "c++", "kubernetes", "node.js")),
        ("Go Developer", ("go",)),
        ("Go to market, react quickly to a swift change, spark joy", ()),
        ("We use React, Spark and Rust", ("react", "rust", "spark")),
        ("Power BI on Google Cloud", ("gcp", "power bi")),
        ("javascript is not java", ("java", "javascript")),
        ("pythonic javanese", ()),
        ("", ()),
    ],
)
def test_technologies_are_named_or_not(text, tags):
    assert stack_of(text) == tags


@pytest.mark.parametrize(
    ("title", "location", "remote"),
    [
        ("Engineer (Remote)", "Singapore", True),
        ("Engineer", "Remote - APAC", True),
        ("Engineer", "Work from home", True),
        ("Engineer, not remote", "", False),
        ("Engineer", "Hybrid remote, Singapore", False),
        ("Remote Sensing Analyst", "Singapore", False),
        ("Engineer", "Singapore", False),
    ],
)
def test_remote_is_what_the_title_or_the_place_says(title, location, remote):
    assert is_remote(title, location) is remote


def test_a_sources_own_word_that_work_is_remote_counts():
    job = Job.found(source="ashby", url="https://a.test/1", title="Cook")
    assert enriched(job, remote=True).remote
    assert enriched(job, text="We use Terraform").stack == ("terraform",)


@given(title=texts, location=texts, text=texts, remote=st.booleans())
def test_no_words_get_past_and_the_same_say_the_same(title, location, text, remote):
    job = Job.found(source="feed", url="https://a.test/1", title=title, location=location)
    says = enriched(job, text=text, remote=remote)

    assert says == enriched(job, text=text, remote=remote)
    assert says.job == job.id
    assert all(storable(word) for word in (says.title, says.seniority, *says.stack))
    assert list(says.stack) == sorted(set(says.stack))
    assert len(says.stack) <= MOST_TAGS


@given(texts)
def test_a_normal_title_is_normal_already(title):
    assert normal_title(normal_title(title)) == normal_title(title)
