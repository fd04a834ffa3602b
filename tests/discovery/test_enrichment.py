"""What a posting's words say: the same words always the same, and no odd text gets past."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import Job, is_storable
from stoker.discovery import enrichment as job_enriching
from stoker.discovery.enrichment import (
    MAX_TAGS,
    enrich_job,
    find_seniority,
    is_remote,
    normalize_title,
)

texts = st.text(max_size=200)


def find_technologies(*parts):
    """Return the technologies that texts name, as enrichment does."""
    return job_enriching._to_stack(
        {tag for part in parts for tag in job_enriching._find_tags(part)}
    )


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
    assert (normalize_title(title), find_seniority(title)) == (normal, seniority)


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
    assert find_technologies(text) == tags


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
    job = Job.create(source="ashby", url="https://a.test/1", title="Cook")
    assert enrich_job(job, remote=True).remote
    assert enrich_job(job, text="We use Terraform").stack == ("terraform",)


@given(title=texts, location=texts, text=texts, remote=st.booleans())
def test_no_words_get_past_and_the_same_say_the_same(title, location, text, remote):
    job = Job.create(source="feed", url="https://a.test/1", title=title, location=location)
    says = enrich_job(job, text=text, remote=remote)

    assert says == enrich_job(job, text=text, remote=remote)
    assert says.job == job.id
    assert all(is_storable(word) for word in (says.title, says.seniority, *says.stack))
    assert list(says.stack) == sorted(set(says.stack))
    assert len(says.stack) <= MAX_TAGS


@given(texts)
def test_a_normal_title_is_normal_already(title):
    assert normalize_title(normalize_title(title)) == normalize_title(title)


def plainly(text):
    """The technologies of a text, word by word and without haste."""
    tokens = [token.rstrip(".") for token in re.findall(r"\.?[A-Za-z0-9][A-Za-z0-9+#.]*", text)]
    small = [token.lower() for token in tokens]
    found = [job_enriching._TAGS.get(token) for token in small]
    found += [job_enriching._CAPITALIZED_TAGS.get(token) for token in tokens]
    found += [job_enriching._PAIR_TAGS.get(pair) for pair in pairwise(small)]
    return tuple(sorted({tag for tag in found if tag})[:MAX_TAGS])


words = st.sampled_from(
    ["Go", "go", "developer", "React", "react", "native", "C++", ".NET", "node.js.", "Spark...",
     "sql", "Server", "a.b", "..", ".", "+", "\u212aafka", "\u0130OS", "Excel", "Power", "BI"]
)  # fmt: skip


@given(st.lists(words | texts, max_size=12), st.sampled_from([" ", ", ", ".", "", "\n", "/"]))
def test_technologies_are_found_as_they_would_be_word_by_word(said, between):
    text = between.join(said)
    assert find_technologies(text) == plainly(text)
    job = Job.create(source="feed", url="https://a.test/", title="Go Developer")
    assert enrich_job(job, text=text).stack == find_technologies("Go Developer", text)


@given(
    st.lists(st.sampled_from(["remote", "non-remote", "Hybrid", "sensing", "home", "work from"]))
)
def test_title_and_place_say_no_more_together_than_each_alone(said):
    for at in range(len(said) + 1):
        title, place = " ".join(said[:at]), " ".join(said[at:])
        text = f"{title} | {place}"
        says = job_enriching._REMOTE.search(text) and not job_enriching._NOT_REMOTE.search(text)
        assert is_remote(title, place) is bool(says)
