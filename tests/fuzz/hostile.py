"""Files made to be slow or large to read, from a grammar of amplifiers, and a search for the worst.

A file is a list of genes: which amplifier, how many times, how large. The same genes and seed give
the same bytes, so the worst that a search found can be read again.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import repeat

Amplifier = Callable[[random.Random, int, int], Iterable[str]]
MAX_COUNT, MAX_SIZE = 200_000, 20_000
LETTERS = "aeé日ß漢😀İ"


@dataclass(frozen=True)
class Gene:
    """One amplifier of a file: its pieces, and how large each is."""

    name: str
    count: int
    size: int


@dataclass(frozen=True)
class Recipe:
    """What a hostile file is made from."""

    kind: str
    genes: tuple[Gene, ...]
    seed: int
    charset: str = "utf-8"
    packed: bool = False
    max_bytes: int = 1_000_000

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Return the recipe that was printed so."""
        found = json.loads(text)
        return cls(**{**found, "genes": tuple(Gene(**gene) for gene in found["genes"])})


def _word(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(LETTERS, k=max(1, min(size, 80))))


def _each(one: Callable[[random.Random, int, int], str]) -> Amplifier:
    """Return an amplifier that says something so many times, each time a little different."""
    return lambda rng, count, size: (one(rng, nth, size) for nth in range(count))


def _same(text: str) -> Amplifier:
    """Return an amplifier that repeats a text."""
    return lambda rng, count, size: repeat(text, count)


def _whole(make: Callable[[random.Random, int, int], str]) -> Amplifier:
    """Return an amplifier that makes one large piece."""
    return lambda rng, count, size: (make(rng, count, size),)


def _host(rng: random.Random, nth: int, size: int) -> str:
    return f"{_word(rng, size % 64)}{nth}.{_word(rng, size % 60)}.test"


def _json_ld(value: object) -> str:
    said = json.dumps(value, ensure_ascii=False)
    return f'<script type="application/ld+json">{said}</script>'


def _organizations(rng: random.Random, count: int, size: int) -> str:
    nodes = [
        {
            "@type": "Organization",
            "@id": f"#{nth}",
            "name": _word(rng, size),
            "email": f"a{nth}@{_host(rng, nth, size)}",
            "telephone": f"+65 6{nth % 1000:03d} {nth % 10_000:04d}",
            "url": f"http://{_host(rng, nth, size)}/",
            "founder": {"@id": f"#{count - nth}"},
            "address": {"streetAddress": _word(rng, size), "postalCode": f"{nth:06d}"},
        }
        for nth in range(min(count, 3_000))
    ]
    return _json_ld({"@graph": nodes})


def _deep_json(rng: random.Random, count: int, size: int) -> str:
    return f'<script type="application/ld+json">{"[" * count}{"]" * count}</script>'


def _wide_json(rng: random.Random, count: int, size: int) -> str:
    texts = [_word(rng, size) for _ in range(min(count, 5_000))]
    return _json_ld({"@type": "Organization", "sameAs": texts, "employee": texts})


PAGE: Mapping[str, Amplifier] = {
    "mail links": _each(
        lambda rng, nth, size: f'<a href="mailto:{_word(rng, size)}{nth}@{_host(rng, nth, size)}">'
    ),
    "mail lists": _each(
        lambda rng, nth, size: (
            f'<a href="mailto:{",".join(f"é{nth}@é{n}.local" for n in range(size % 100))}">x</a>'
        )
    ),
    "same mail": _same('<a href="mailto:é@é.é">x</a>'),
    "addresses": _each(lambda rng, nth, size: f"a{nth}.{'b' * (size % 60)}@c{nth}.example.com "),
    "veiled addresses": _each(
        lambda rng, nth, size: f"a{nth} (at) b{'c' * (size % 60)} (dot) com "
    ),
    "at signs": _same("a@" * 10),
    "phones": _each(lambda rng, nth, size: f"+65 6{nth % 1000:03d} {nth % 10_000:04d}, "),
    "foreign phones": _each(
        lambda rng, nth, size: f"+{nth % 99 + 1} {nth % 9000 + 1000} {nth % 7000 + 1000} "
    ),
    "digits": _whole(
        lambda rng, count, size: " ".join("9" * (size % 30 + 1) for _ in range(count))
    ),
    "phone links": _each(lambda rng, nth, size: f'<a href="tel:+656{nth:07d}">x</a>'),
    "hosts": _each(lambda rng, nth, size: f'<a href="http://{_host(rng, nth, size)}/">x</a>'),
    "links": _each(lambda rng, nth, size: f'<a href="/{nth}/{"x" * (size % 500)}">a</a>'),
    "link texts": _each(lambda rng, nth, size: f"<a href=/{nth}>{'word ' * (size % 300)}</a>"),
    "social pages": _each(lambda rng, nth, size: f'<a href="https://x.com/{nth}">x</a>'),
    "entities": _same("&amp;&#233;&lt;&nbsp;"),
    "half entities": _same("&#&#x&amp"),
    "levels": _whole(lambda rng, count, size: "<div>" * count + "x"),
    "inline levels": _same("<b><i><a href=x><font>"),
    "tables": _same("<table><tr><td><ul><li>"),
    "forms": _same("<form><select><option>x"),
    "end tags": _same("</p></b></table>"),
    "attributes": _each(
        lambda rng, nth, size: "<p " + " ".join(f"a{n}=b" for n in range(size % 2000)) + ">x</p>"
    ),
    "long attributes": _each(lambda rng, nth, size: f'<img alt="{"y" * size}" src=/{nth}>'),
    "styles": _each(lambda rng, nth, size: f'<p style="{"color:red;" * (size % 200)}">x</p>'),
    "open quotes": _same('<a x="'),
    "comments": _same("<!-- x --><!--"),
    "scripts": _each(lambda rng, nth, size: f'<script src="/{nth}.js"></script>'),
    "veiled codes": _each(lambda rng, nth, size: f'<a data-cfemail="{nth:06x}{"42" * 30}">'),
    "metas": _each(lambda rng, nth, size: f'<meta name="m{nth}" content="{"z" * (size % 900)}">'),
    "titles": _same("<title>x</title>"),
    "no scripts": _same("<noscript>please enable javascript</noscript>"),
    "hidden parts": _same("<div hidden>x</div>"),
    "organizations": _whole(_organizations),
    "deep data": _whole(_deep_json),
    "wide data": _whole(_wide_json),
    "items": _same('<div itemscope itemtype="http://schema.org/Organization"><p itemprop=name>x'),
    "people": _each(lambda rng, nth, size: f"<p>Mei {'Lin ' * (size % 9)}, Director</p>"),
    "places": _each(lambda rng, nth, size: f"<p>{nth} Anvil Road, Singapore {nth:06d}</p>"),
    "numbers": _each(lambda rng, nth, size: f"<p>UEN 2009{nth:05d}A since 19{nth % 99:02d}</p>"),
    "employees": _each(lambda rng, nth, size: f"<p>a team of {nth} people and {nth} employees</p>"),
    "long words": _whole(lambda rng, count, size: ("w" * size + " ") * min(count, 500)),
    "blanks": _whole(lambda rng, count, size: " \t\n" * count),
    "letters": _whole(lambda rng, count, size: _word(rng, 80) * count),
    "odd characters": _same("\u202e\u200b\0\ufeff\u0301"),
    "years": _each(lambda rng, nth, size: f"Founded in {1900 + nth % 120}. "),
}
ROBOTS: Mapping[str, Amplifier] = {
    "rules": _each(lambda rng, nth, size: f"Disallow: /{nth}{'a' * (size % 100)}\n"),
    "patterns": _each(lambda rng, nth, size: f"Disallow: /*{nth}{'*a' * (size % 300)}$\n"),
    "agents": _each(lambda rng, nth, size: f"User-agent: bot{nth}\n"),
    "our agents": _same("User-agent: stoker\n"),
    "everyone": _same("User-agent: *\n"),
    "allows": _each(lambda rng, nth, size: f"Allow: /{nth}/index.html\n"),
    "escapes": _each(lambda rng, nth, size: f"Disallow: /%41%zz{nth}{'%' * (size % 300)}\n"),
    "delays": _same("Crawl-delay: 1\nRequest-rate: 1/1s\n"),
    "sitemaps": _each(lambda rng, nth, size: f"Sitemap: http://{_host(rng, nth, size)}/\n"),
    "stars": _whole(lambda rng, count, size: "Disallow: /" + "*" * count + "\n"),
    "long lines": _whole(lambda rng, count, size: "Disallow: /" + "a" * count + "\n"),
    "letters": _each(lambda rng, nth, size: f"Disallow: /{_word(rng, size)}\n"),
    "comments": _whole(lambda rng, count, size: "#" * count + "\n"),
}
SITEMAP: Mapping[str, Amplifier] = {
    "pages": _each(lambda rng, nth, size: f"<url><loc>http://acme.test/{nth}</loc></url>"),
    "own pages": _each(lambda rng, nth, size: f"<loc>http://acme.test/about/{nth}-{size}</loc>"),
    "hosts": _each(lambda rng, nth, size: f"<loc>http://{_host(rng, nth, size)}/</loc>"),
    "same host": _whole(
        lambda rng, count, size: f"<loc>http://{_host(rng, 1, size)}/x</loc>" * count
    ),
    "our host": _each(lambda rng, nth, size: f"<loc>http://é{nth}.acme.test/</loc>"),
    "long": _each(lambda rng, nth, size: f"<loc>http://acme.test/{'a' * (size % 2000)}</loc>"),
    "entities": _same("<loc>http://acme.test/&amp;&#233;&lt;</loc>"),
    "blanks": _whole(lambda rng, count, size: "<loc>" + " " * count),
    "data": _same("<loc><![CDATA[http://acme.test/x]]></loc>"),
    "open": _same("<loc>http://acme.test/"),
    "maps": _same("<sitemapindex><sitemap><loc>http://acme.test/map.xml</loc></sitemap>"),
}
FEED: Mapping[str, Amplifier] = {
    "items": _each(
        lambda rng, nth, size: (
            f"<item><title>{_word(rng, size)}</title><link>http://acme.test/{nth}</link></item>"
        )
    ),
    "texts": _whole(
        lambda rng, count, size: (
            f"<item><description>{'word ' * size}</description></item>" * min(count, 3000)
        )
    ),
    "attributes": _whole(
        lambda rng, count, size: "<item " + " ".join(f"a{nth}='b'" for nth in range(count)) + "/>"
    ),
    "many attributes": _whole(
        lambda rng, count, size: "".join(
            "<x " + " ".join(f"a{n}='{nth}'" for n in range(size % 400)) + "/>"
            for nth in range(min(count, 2000))
        )
    ),
    "names": _each(lambda rng, nth, size: f"<n{nth}/>"),
    "spaces": _each(lambda rng, nth, size: f'<x xmlns:n{nth}="http://{nth}.test/"/>'),
    "levels": _whole(lambda rng, count, size: "<a>" * min(count, 90) + "</a>" * min(count, 90)),
    "entities": _same("&amp;&#233;"),
    "dates": _same("<item><pubDate>Tue, 10 Nov 2026 04:00:00 GMT</pubDate></item>"),
    "odd dates": _each(
        lambda rng, nth, size: f"<item><pubDate>{'9' * (size % 400)}</pubDate></item>"
    ),
    "words": _whole(lambda rng, count, size: "<title>" + "w" * count + "</title>"),
    "data": _same("<![CDATA[x]]>"),
    "markup": _same("<item><description>&lt;p&gt;&lt;b&gt;x&lt;/b&gt;</description></item>"),
}
_LEAVES: tuple[object, ...] = ("é@é.é", "+65 6123 4567", "2026-11-16", 7, None, "http://é.test/")


def _values(rng: random.Random, count: int, size: int) -> str:
    return json.dumps([rng.choice(_LEAVES) for _ in range(count)])


def _rows(key: str, row: Callable[[int, int], object]) -> Amplifier:
    return _whole(
        lambda rng, count, size: json.dumps(
            {key: [row(nth, size) for nth in range(min(count, 10_000_000 // (size + 50)))]}
        )
    )


ANSWER: Mapping[str, Amplifier] = {
    "results": _rows(
        "results",
        lambda nth, size: {"url": f"http://é{nth}.test/", "title": "t", "content": "c" * size},
    ),
    "mails": _rows(
        "results",
        lambda nth, size: {
            "id": f"ct-{nth}",
            "emails": [{"email": f"é{nth}@{'é' * (size % 60)}.é"}],
            "jobTitle": {"title": "Director", "seniority": "vp"},
            "firstName": "Mei",
            "lastName": "é" * (size % 200),
        },
    ),
    "verdicts": _rows(
        "email_batch", lambda nth, size: {"address": f"a{nth}@b.test", "status": "x"}
    ),
    "jobs": _rows(
        "jobs",
        lambda nth, size: {
            "title": "t" * (size % 500),
            "absolute_url": f"http://acme.test/{nth}",
            "updated_at": "9" * (size % 40),
            "content": "&lt;p&gt;" * (size % 500),
        },
    ),
    "claims": _whole(
        lambda rng, count, size: json.dumps(
            {
                "output": [
                    {
                        "type": "message",
                        "content": [
                            {
                                "type": "output_text",
                                "text": json.dumps(
                                    {
                                        "findings": [
                                            {
                                                "field": rng.choice(
                                                    ("email", "phone", "name", "uen")
                                                ),
                                                "value": f"é{nth}@é.é",
                                                "evidence": "anvils " * (size % 300),
                                            }
                                            for nth in range(count)
                                        ]
                                    }
                                ),
                            }
                        ],
                    }
                ]
            }
        )
    ),
    "values": _whole(_values),
    "objects": _whole(
        lambda rng, count, size: json.dumps({f"k{nth}": nth for nth in range(count)})
    ),
    "levels": _whole(lambda rng, count, size: "[" * count + "]" * count),
    "digits": _whole(lambda rng, count, size: "[" + "9" * count + "]"),
    "text": _whole(lambda rng, count, size: json.dumps("é" * count)),
    "escapes": _whole(lambda rng, count, size: '"' + "\\u00e9" * count + '"'),
    "blanks": _whole(lambda rng, count, size: " " * count + "{}"),
}
HTTP: Mapping[str, Amplifier] = {
    "small chunks": _each(lambda rng, nth, size: f"{size % 4 + 1:x}\r\n{'x' * (size % 4 + 1)}\r\n"),
    "chunks": _each(lambda rng, nth, size: f"{size + 1:x}\r\n{'x' * (size + 1)}\r\n"),
    "long chunk heads": _each(lambda rng, nth, size: f"1;{'e' * (size % 500)}\r\nx\r\n"),
    "zeros": _each(lambda rng, nth, size: f"{'0' * (size % 30)}1\r\nx\r\n"),
    "trailers": _whole(lambda rng, count, size: "0\r\n" + f"X: {'y' * (size % 300)}\r\n" * count),
    "plain": _whole(lambda rng, count, size: "x" * count),
}
GRAMMARS: Mapping[str, Mapping[str, Amplifier]] = {
    "http": HTTP,
    "page": PAGE,
    "robots": ROBOTS,
    "sitemap": SITEMAP,
    "feed": FEED,
    "answer": ANSWER,
    "board": ANSWER,
}
WHOLE = ("answer", "board")  # one gene, never cut: half of an answer is none
_HEADS = {
    "sitemap": "<?xml version='1.0'?><urlset>",
    "feed": "<?xml version='1.0'?><rss><channel>",
    "robots": "User-agent: *\n",
    "http": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
}
CHARSETS = ("utf-8", "latin-1", "shift_jis", "utf-16", "gb18030", "wrong")
MAX_BYTES = {"page": 1_000_000, "robots": 512_000, "sitemap": 5_000_000, "feed": 5_000_000}


def draw_recipe(rng: random.Random, kind: str, *, max_bytes: int = 0) -> Recipe:
    """Return a recipe by chance: mostly small, now and then as large as is read."""
    limit = max_bytes or MAX_BYTES.get(kind, 2_000_000)
    names = list(GRAMMARS[kind])
    genes = tuple(
        Gene(rng.choice(names), _draw_number(rng, MAX_COUNT), _draw_number(rng, 3000))
        for _ in range(1 if kind in WHOLE else rng.choice((1, 1, 2, 3, 5)))
    )
    return Recipe(
        kind=kind,
        genes=genes,
        seed=rng.randrange(10**6),
        charset=rng.choice(CHARSETS) if kind == "page" and rng.random() < 0.2 else "utf-8",
        packed=kind == "sitemap" and rng.random() < 0.1,
        max_bytes=min(limit, int(10 ** rng.uniform(2.5, 6.3))),
    )


def _draw_number(rng: random.Random, most: int) -> int:
    return int(most ** rng.random())


def build_file(recipe: Recipe) -> bytes:
    """Return the bytes a recipe makes, no more than it allows before they are packed."""
    rng, grammar = random.Random(recipe.seed), GRAMMARS[recipe.kind]
    parts, left = [_HEADS.get(recipe.kind, "")], recipe.max_bytes
    for gene in recipe.genes:
        for piece in grammar[gene.name](rng, min(gene.count, left + 1), min(gene.size, left + 1)):
            parts.append(piece)
            left -= len(piece)
            if left <= 0:
                break
        if left <= 0:
            break
    text = "".join(parts)
    codec = "utf-8" if recipe.charset == "wrong" else recipe.charset
    body = text.encode(codec, "replace")
    if recipe.charset == "wrong":
        body = b'<meta charset="shift_jis">' + body.replace(b"e", b"\xe9")
    body = body[: max(recipe.max_bytes, 1)] if recipe.kind not in WHOLE else body
    return gzip.compress(body) if recipe.packed else body


def change_recipe(rng: random.Random, recipe: Recipe) -> Recipe:
    """Return a recipe that is a little different: one step of the search for the worst."""
    genes = list(recipe.genes)
    at = rng.randrange(len(genes))
    gene = genes[at]
    match rng.randrange(6):
        case 0:
            genes[at] = replace(gene, count=min(gene.count * 2 + 1, MAX_COUNT))
        case 1:
            genes[at] = replace(gene, count=max(gene.count // 2, 1))
        case 2:
            size = int(gene.size * rng.uniform(0.3, 3)) + rng.randrange(3)
            genes[at] = replace(gene, size=min(size, MAX_SIZE))
        case 3:
            genes[at] = replace(gene, name=rng.choice(list(GRAMMARS[recipe.kind])))
        case 4 if recipe.kind not in WHOLE:
            genes.insert(rng.randrange(len(genes) + 1), replace(gene, count=gene.count // 2 + 1))
            genes = genes[:8]
        case _:
            limit = MAX_BYTES.get(recipe.kind, 2_000_000)
            return replace(recipe, max_bytes=min(recipe.max_bytes * 3, limit))
    return replace(recipe, genes=tuple(genes))
