from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import is_storable
from stoker.crawl.page import (
    MAX_LINKS,
    MAX_PAGE_TEXT_LENGTH,
    MAX_TAGS,
    decode_page,
    parse_page,
    sanitize_html,
)


def text_of(markup):
    return parse_page(markup.encode()).text


def test_words_are_those_a_visitor_sees_a_line_for_each_block():
    markup = "<h1>Acme</h1><p>We <b>mak</b>e anvils</p>and more<ul><li>One<li>Two</ul><div>x</div>y"

    assert text_of(markup) == "Acme\nWe make anvils\nand more\nOne\nTwo\nx\ny"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>secret</script>",
        "<style>secret</style>",
        "<noscript>secret</noscript>",
        "<template>secret</template>",
        "<svg><title>secret</title></svg>",
        "<!-- secret -->",
        "<p hidden>secret</p>",
        "<div style='display: none'><p>secret</p></div>",
        '<span style="color:red; VISIBILITY : hidden;">secret</span>',
        "<p style='font-size:0'>secret</p>",
        "<p style='opacity:0'>secret</p>",
        "<p style='display&colon;none'>secret</p>",
        "<iframe>secret</iframe>",
        "<script><!-- <script>secret</script> -->",
    ],
)
def test_what_a_visitor_does_not_see_is_not_text(hidden):
    assert "secret" not in text_of(f"<p>one</p>{hidden}<p>two</p>")


@pytest.mark.parametrize("style", ["opacity:0.5", "font-size:0.9em", "display:block"])
def test_what_is_only_small_or_pale_is_seen(style):
    assert "words" in text_of(f"<p style='{style}'>words</p>")


def test_a_text_whose_letters_are_many_in_comparisons_is_cut():
    text = text_of("ﷺ" * 100_000)
    assert 0 < len(normalize("NFKC", text)) <= 2 * MAX_PAGE_TEXT_LENGTH
    assert len(text_of("é " * 60_000)) == MAX_PAGE_TEXT_LENGTH


def test_links_come_with_their_words_each_once():
    reading = parse_page(b"<a href=/about>About <b>us</b></a><a href='/about'>x</a><area href=/m>")

    assert [(link.href, link.text) for link in reading.links] == [
        ("/about", "About us"),
        ("/m", ""),
    ]


def test_linked_data_stays_in_the_markup_and_other_scripts_go():
    reading = parse_page(
        b'<script type="application/ld+json">{"name":"Acme"}</script><script>evil()</script>'
    )

    assert '{"name":"Acme"}' in reading.markup
    assert "evil" not in reading.markup


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("Café".encode(), "text/html; charset=utf-8"),
        ("Café".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("Café".encode(), ""),
        ("Café déjà".encode("latin-1"), ""),
        ("\ufeffCafé".encode("utf-16"), "text/html"),
        (b"\xef\xbb\xbf" + "Café".encode(), "text/html; charset=latin-1"),
        (b'<meta charset="windows-1252">' + "Café".encode("cp1252"), "text/html"),
        (b'<meta charset="utf-16">' + "Café".encode(), "text/html"),
        ("Café".encode(), "text/html; charset=rot13"),
        ("Café".encode(), 'text/html; charset="unicode_escape"'),
        ("Café".encode() * 40, "text/html; charset=zlib"),
    ],
)
def test_letters_are_found_by_header_mark_markup_or_guess(body, content_type):
    assert "Café" in decode_page(body, content_type=content_type)


def test_a_page_that_says_utf_8_and_is_not_is_read_as_what_it_is():
    assert "Café déjà vu naïve" in decode_page(
        "Café déjà vu naïve".encode("latin-1"), content_type="text/html; charset=utf-8"
    )


def test_japanese_without_a_word_about_it_is_read():
    assert "会社概要" in decode_page("会社概要のご案内".encode("shift_jis"))


@given(st.binary(max_size=2000), st.text(max_size=30))
def test_no_bytes_at_all_make_reading_fail_and_all_text_can_be_kept(body, content_type):
    reading = parse_page(body, content_type=content_type)

    assert is_storable(reading.title)
    assert is_storable(reading.text)
    assert all(is_storable(link.href) and is_storable(link.text) for link in reading.links)


pieces = st.sampled_from(
    [
        "<p ",
        "<a href=",
        '"',
        "'",
        ">",
        "</p>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "<title>",
        "</title>",
        " x=1",
        "=",
        "/",
        "<",
        "text",
        "<svg>",
        "<textarea>",
        "&lt;",
        "\n",
        "<b/c d>",
    ]
)


@given(st.lists(pieces, max_size=60).map("".join))
def test_taming_twice_is_taming_once_for_whoever_reads_it(markup):
    once = sanitize_html(markup)

    assert parse_page(once.encode()).text == parse_page(sanitize_html(once).encode()).text


@given(st.integers(0, 3 * MAX_TAGS))
def test_tamed_markup_never_has_more_tags_than_the_limit(tags):
    assert sanitize_html("<i>" * tags).count("<i") <= MAX_TAGS


def test_an_end_without_a_beginning_is_left_out():
    assert sanitize_html("a</y>b<i>c</i></i>") == "ab<i>c</i>"


def test_linked_data_that_could_run_on_behind_its_end_is_left_out():
    # Behind these two a browser reads on past the first end of a script.
    assert sanitize_html('<script type="application/ld+json"><!--<script></script>x') == "x"


def test_a_quote_that_opens_inside_a_name_does_not_hide_what_follows():
    # A browser takes quotes for quotes only behind an equals sign; so must we.
    markup = "<p a' b=\"' > c1 c2 c3\" d>seen</p>"

    assert sanitize_html(markup) == "<p>seen</p>\n"


def test_there_are_never_more_links_than_the_limit():
    markup = "".join(f"<a href=/{nth}>x</a>" for nth in range(MAX_LINKS + 500))

    assert len(parse_page(markup.encode()).links) == MAX_LINKS


def test_a_page_tells_whether_it_wants_a_password_or_a_browser():
    assert parse_page(b"<form><input type=password></form>").asks_for_password
    assert parse_page(b"<div id=root></div>").needs_javascript
    assert not parse_page(b"<p>x</p>").needs_javascript
