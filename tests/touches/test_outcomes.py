"""What a word about a touch changes."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.touches.model import OutcomeMark, TouchOutcome
from stoker.touches.queue import is_new_outcome, parse_outcome

AT = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)


def word(outcome):
    return OutcomeMark(url="https://p.test/a", day=date(2026, 2, 9), outcome=outcome, marked_at=AT)


@given(st.lists(st.sampled_from(TouchOutcome), max_size=10))
def test_however_words_follow_each_other_a_touch_is_made_at_most_once_and_stays_made(words):
    known, made = None, 0
    for outcome in words:
        try:
            news = is_new_outcome(known, word(outcome))
        except PermanentError:
            assert known is TouchOutcome.DONE
            continue
        assert news == (known is not outcome)
        made += news and outcome.is_counted
        known = outcome
    assert made == (TouchOutcome.DONE in words)


@pytest.mark.parametrize("text", ["done", " Done ", "NO_POSTS", "already_reacted"])
def test_an_outcome_is_known_by_its_name(text):
    assert parse_outcome(text).value == text.strip().lower()


@pytest.mark.parametrize("text", ["", "pending", "finished", "x" * 1000, "done\n now"])
def test_another_word_is_refused_with_those_there_are(text):
    with pytest.raises(PermanentError, match="done, skipped, failed") as caught:
        parse_outcome(text)
    assert len(str(caught.value)) < 200
