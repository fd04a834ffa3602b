"""Texts that break something somewhere: stores, protocols, pages, spreadsheets, terminals."""

POISON = {
    "NUL": "a\0b",
    "half a surrogate": "a\ud800b",
    "two megabytes": "x" * 2_000_000,
    "terminal colours": "\x1b[31mred\x1b[0m",
    "right to left": "\u202egnp.exe",
    "zero width": "a\u200bb\u2060c\ufeff",
    "a formula": '=HYPERLINK("http://x.test";"y")',
    "markup": "<script>alert(1)</script>&amp;]]>",
    "SQL": "'; DROP TABLE res_partner; --",
    "line ends": "a\r\nb\rc\nd",
    "line separators": "a\u2028b\u2029c",
    "emoji": "👩\u200d👩\u200d👧 🇸🇬",
    "no character": "a\uffffb\ufffec",
    "a template": "{{7*7}} %s ${x} {0}",
    "spaces": " \t a \u00a0 ",
}

_ALPHABETS = (
    "\0\x01\x08\x0b\x1b\x7f\x85\x9f",
    "\ud800\udbff\udc00\udfff\ufffe\uffff",
    "\u200b\u200e\u202e\u2066\u2069\ufeff\u2028\u2029",
    "\r\n\t \u00a0\u3000",
    "=+-@|%\uff1d\uff0b'\"`;,",
    "<>&]{}$[]()/\\",
    "\U0001f469\u200d\U0001f1f8\U0001f1ec\u0301\u0e33\u05d0\u0627",
    "abc019",
)


def made_up(rng):
    """Return a text made of what breaks something somewhere, sometimes a long one."""
    letters = "".join(rng.sample(_ALPHABETS, rng.randrange(1, 4)))
    some = "".join(rng.choice(letters) for _ in range(rng.choice((1, 3, 12, 40, 300))))
    return some * rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, 400))
