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
