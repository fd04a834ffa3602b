"""Robots.txt files, sitemaps and pages made by hand to hold a reader up, each with its name."""

import gzip
from collections.abc import Iterator

KIB = 1024


def bad_robots() -> Iterator[tuple[str, bytes]]:
    """Return files that a robots.txt must never be, each with its name."""
    every = b"User-agent: *\n"
    ours = b"User-agent: stoker\n"
    size = 500 * KIB
    yield "many rules", every + b"".join(b"Disallow: /%d\n" % nth for nth in range(600_000))
    yield "short rules", every + b"".join(b"Allow:/%x\n" % nth for nth in range(60_000))
    yield "many agents", b"".join(b"User-agent: a%d\n" % nth for nth in range(25_000)) + every
    yield (
        "agents times rules",
        b"".join(b"User-agent: b%d\n" % nth for nth in range(12_000))
        + every
        + b"".join(b"Disallow: /%d\n" % nth for nth in range(12_000)),
    )
    yield (
        "our agents times rules",
        ours * 12_000 + b"".join(b"Disallow: /%d\n" % nth for nth in range(12_000)),
    )
    yield "one group each", b"".join(b"User-agent:*\nAllow:/%x\n" % nth for nth in range(25_000))
    yield "wild cards", every + b"".join(b"Disallow: /*%d*a*b*c*$\n" % nth for nth in range(25_000))
    yield "stars", every + b"Disallow: /" + b"*" * size
    yield "stars and letters", every + b"Disallow: /" + b"*a" * (size // 2)
    yield "dollars", every + b"Disallow: /" + b"$" * size
    yield "many dollars", every + b"".join(b"Disallow: /$%d$\n" % nth for nth in range(30_000))
    yield "percents", every + b"Disallow: /" + b"%" * size
    yield "escapes", every + b"".join(b"Disallow: /%%41%%zz%d\n" % nth for nth in range(25_000))
    yield "index pages", every + b"".join(b"Allow: /%d/index.html\n" % n for n in range(25_000))
    yield "one long line", b"Disallow: /" + b"a" * 10_000_000
    yield "ten megabytes", every + b"Disallow: /private\n" * 550_000
    yield "spaces", b" " * size + every
    yield "a line of spaces each", (b" " * 200 + b"\n") * 2_500
    yield "spaced names", every + b"Disallow" + b" " * size + b": /"
    yield "comments", b"#" * size
    yield "colons", b":" * size
    yield "no line ends", b"User-agent: * Disallow: / " * 20_000
    yield "empty lines", b"\n" * size
    yield "carriage returns", b"\r" * size
    yield "odd line ends", b"User-agent: *\x0b\x0c\x1c\x1d\x85Disallow: /\n" * 10_000
    yield "NULs", b"\0" * size
    yield "NULs between", b"\0".join(b"User-agent: *" for _ in range(20_000))
    yield "a web page", b"<!doctype html><html><body>" + b"<p>Not found</p>" * 30_000
    yield "JSON", b'{"user-agent": "*", "disallow": "/"}' * 10_000
    yield "random bytes", bytes((nth * 7919 + nth // 251) % 256 for nth in range(size))
    yield "bad UTF-8", b"\xff\xfe\xfd" * (size // 3)
    yield "UTF-16", "User-agent: *\nDisallow: /\n".encode("utf-16") * 5_000
    yield "half a letter", every + b"Disallow: /" + b"\xe4\xbc" * 100_000
    yield "packed", gzip.compress(every + b"Disallow: /\n" * 10_000)
    yield "delays", every + b"Crawl-delay: 1\n" * 30_000
    yield "long delays", every + b"Crawl-delay: " + b"9" * size
    yield "rates", every + b"Request-rate: 1/1s 0000-2359\n" * 15_000
    yield "long rates", every + b"Request-rate: " + b"9" * 200_000 + b"/" + b"9" * 200_000
    yield "bad rates", every + b"Request-rate: 1/0\n" * 25_000
    yield "sitemaps", b"".join(b"Sitemap: http://a.test/%d.xml\n" % nth for nth in range(15_000))
    yield "one long sitemap", b"Sitemap: http://a.test/" + b"a" * size
    yield "hosts", b"Host: a.test\n" * 35_000
    yield "unknown words", b"".join(b"X-%d: y\n" % nth for nth in range(50_000))
    yield "misspelt", every + b"Dissallow: /x\nDisalow: /y\nDisallaw: /z\n" * 10_000
    yield "agents with stars", b"".join(b"User-agent: *%d*\n" % nth for nth in range(25_000))
    yield "long agents", b"User-agent: " + b"stoker" * 80_000 + b"\nDisallow: /\n"
    yield "agents in a row of ours", b"User-agent: stoker\nDisallow:\n" * 15_000
    yield "terminal codes", b"\x1b[2J\x1b[31mUser-agent: *\n" * 15_000
    yield "nothing", b""
    yield "one letter", b"u"


def bad_sitemaps() -> Iterator[tuple[str, bytes]]:
    """Return files that a sitemap must never be."""
    laughs = '<!DOCTYPE lolz [<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{nth} "{f"&a{nth - 1};" * 10}">' for nth in range(1, 12)
    )
    loc = b"<url><loc>http://acme.test/%d</loc></url>"
    yield "billion laughs", f"{laughs}]><urlset><loc>&a11;</loc></urlset>".encode()
    blown = f'<!DOCTYPE x [<!ENTITY a "{"x" * 100_000}">]>'
    yield "quadratic", f"{blown}<urlset><loc>{'&a;' * 50_000}</loc></urlset>".encode()
    for target in ("file:///etc/passwd", "http://127.0.0.1/x", "http://169.254.169.254/", "//x"):
        yield (
            f"outside {target}",
            (
                f'<!DOCTYPE x [<!ENTITY e SYSTEM "{target}">]><urlset><loc>&e;</loc></urlset>'
            ).encode(),
        )
    yield "parameters", b'<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1/">%p;]><urlset/>'
    yield "outside type", b'<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd"><urlset><loc>&x;</loc>'
    yield "packed bomb", gzip.compress(b"<urlset>" + b" " * 200_000_000)
    yield "packed twice", gzip.compress(gzip.compress(b"<urlset>" + b" " * 20_000_000))
    yield "half packed", gzip.compress(b"<urlset>" + loc % 1)[:20]
    yield "too many", b"<urlset>" + b"".join(loc % nth for nth in range(200_000))
    yield "no end tags", b"<urlset>" + b"<loc>http://acme.test/x" * 200_000
    yield "no words", b"<urlset>" + b"<loc>" * 1_000_000
    yield "blanks", b"<urlset><loc>" + b" " * 5_000_000
    yield "deep", b"<urlset>" * 600_000
    yield "one long address", b"<urlset><loc>http://acme.test/" + b"a" * 5_000_000
    yield "data marks", b"<urlset>" + b"<loc><![CDATA[" * 300_000
    yield "entity marks", b"<urlset><loc>http://acme.test/" + b"&#" * 2_000_000
    yield "NULs", b"\0" * 5_000_000


def bad_pages() -> Iterator[tuple[str, bytes]]:
    """Return pages that no browser would thank anybody for."""
    yield "a hundred thousand levels", b"<div>" * 100_000 + b"deep down"
    yield "levels of every kind", b"<div><b><i><table><tr><td><ul><li>" * 30_000
    yield "unknown levels", b"<x>" * 100_000 + b"</y>" * 100_000
    yield "one attribute of ten megabytes", b"<a href='x' " + b"z" * 10_000_000 + b">t</a>"
    yield "many attributes", b"<p " + b" ".join(b"a%d" % nth for nth in range(500_000)) + b">x"
    yield (
        "many small bags of attributes",
        ((b"<p " + b" ".join(b"a%d" % nth for nth in range(400)) + b">") * 800),
    )
    yield (
        "attributes behind a false quote",
        (b"<p a' b=\"' > " + b" ".join(b"c%d" % nth for nth in range(150_000)) + b'" d>x'),
    )
    yield (
        "attributes behind a comment",
        (
            b'<svg><![CDATA[ > <p x="<!-- ]]> '
            + b" ".join(b"c%d" % nth for nth in range(150_000))
            + b'-->">x'
        ),
    )
    yield "a million links", b"".join(b"<a href=/%d>x</a>" % nth for nth in range(1_000_000))
    yield "links to dates", b"".join(b"<a href=/events?day=%d>x</a>" % n for n in range(100_000))
    yield "open tags", b"<" * 5_000_000
    yield "open links", b"<a " * 1_500_000
    yield "open quotes", b'<a "' * 1_000_000
    yield "open values", b'<a x="' * 800_000
    yield "open comments", b"<!--" * 1_000_000
    yield "open scripts", b"<script>" * 600_000
    yield "open titles", b"<title>" * 600_000
    yield "equals", b"<a " + b"=" * 5_000_000
    yield "at signs", b"a@" * 1_500_000
    yield "dots at", b"a.b" * 500_000 + b"@" + b"c." * 500_000
    yield "veiled at", b"a at " * 600_000
    yield "veiled dots", b"a (at) b (dot) " * 200_000
    yield "digits", b"9" * 3_000_000
    yield "spaced digits", b"1234 5678 90 " * 200_000
    yield "brackets", b"(1-" * 800_000
    yield "numbers", b"+65 6123 4567 " * 200_000
    yield "letters of two bytes", "日本".encode("utf-16") * 800_000
    yield "NULs", b"\0" * 5_000_000
    yield "entities", b"&lt;" * 1_000_000
    yield "nested forms", b"<form><select><option><b>" * 40_000
    yield "styles", b"<p style='" + b"display:none;" * 300_000 + b"'>x"
    yield "linked data", b"<script type=application/ld+json>" + b"[" * 3_000_000
