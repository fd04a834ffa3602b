"""What a value of each field looks like, and what its evidence has to call it.

A model in a stranger's hands may file any words of a page in any field. So a value must have the
shape of its field, and words that belong to the field must stand beside it: a number of employees
beside a word for employees, a year beside a word for founding. What has neither is no fact, however
true its words are. All texts are compared as `normalize_text` returns them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise

from stoker.accounts.evidence import normalize_text
from stoker.accounts.facts import FactField


def _to_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words for a reader that obeys, in a field that only describes.
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|obey\w{0,3}|instructions?|prompts?|jailbreak|"
    r"passwords?|passcode|api keys?|credentials?|click here|(?:reply|respond) with|"
    r"you (?:must|are now|should)|do not (?:tell|mention)|system message)\b"
)

_LEGAL_FORM = re.compile(
    r"\b(?:pte|private|pty)\.? (?:ltd|limited)\b\.?|\b(?:ltd|limited|llp|llc|inc|incorporated|corp|"
    r"corporation|plc|gmbh|ag|bv|nv|sa|sarl|sas|srl|spa|ab|oy|kk|sdn\.? bhd|co)\b\.?$"
)

_ROLE = (
    r"(?:founder|co-founder|owner|proprietor|partner|principal|chair(?:man|woman|person)?|president|"
    r"vice president|vp|svp|evp|chief|ceo|cto|cfo|coo|cmo|cio|cpo|chro|director|managing|head|"
    r"manager|lead|leader|officer|executive|supervisor|secretary|treasurer|trustee|engineer|"
    r"architect|developer|designer|consultant|advis[eo]r|analyst|specialist|accountant|lawyer|"
    r"counsel|solicitor|doctor|dentist|surgeon|physician|teacher|professor|editor|coordinator|"
    r"assistant|associate|representative|administrator|technician|planner|buyer|broker|agent)"
)

_HAS_ROLE = re.compile(rf"\b{_ROLE}s?\b")

# Words of menus and buttons, which are no part of any name.
_MENU_WORDS = _to_words(
    """
    about accept all any article available back blog buy call career careers cart case cases
    click contact cookie cookies copyright customer customers details discover download email
    enquiries enquiry every faq features find follow free friday get have help here home hours
    how is it job jobs join latest learn login menu message monday more most name news next now
    number only open opening or order orders our over overview page please policy posted price
    prices pricing privacy quick quote read register registered request reserved return returns
    review reviews right rights saturday section see send share sign site sitemap subscribe
    sunday tel terms testimonials than thank thanks that their these this thursday today
    tomorrow touch tuesday us user view visit was we website wednesday welcome what when where
    who why with you your
    """
)

# And these of companies and places, which are no part of a person's.
_NO_PERSON = _MENU_WORDS | _to_words(
    """
    above account address an award best big board book brand business by client clients
    companies company corporate data day days delivery department east events first for from
    group growing her his history holdings industries industry info information international
    kind last legal limited line llp local log ltd mailing main make management map media meet
    mission mobile my new north of office offices on online partners payment people phone
    portfolio press private product products project projects pte quality resources road search
    sector secure service services shipping shop size social solutions some south start story
    street success support team to tools top total unit values vision west work world years
    """
)

_HONORIFICS = _to_words("mr mrs ms mdm miss dr prof professor sir dato datuk")

_NAME_WORD = re.compile(r"[^\W\d_][^\W\d_]*(?:['’.-][^\W\d_]+)*\.?")

_PARTICLES = _to_words("bin binte bte al el da de del der di dos du la le van von s/o d/o y e")

# Between the words of a name that have capitals.
_SMALL_WORDS = _to_words("and of the for in on at by de la le du van von und & + et y")

_STREET = re.compile(
    r"\b(?:road|rd|street|st|avenue|ave|drive|dr|lane|way|walk|crescent|cres|close|place|plaza|park|"
    r"boulevard|blvd|quay|link|loop|view|rise|hill|terrace|square|circle|central|building|bldg|tower|"
    r"towers|centre|center|house|block|blk|jalan|jln|lorong|lor|bukit|kampong|floor|level|suite|unit|"
    r"estate|industrial|highway|expressway|court|gardens?)\b\.?"
)

_STREET_ADDRESS = re.compile(
    rf"\b(?:blk\.? |block |no\.? )?\d{{1,5}}[a-z]?,? (?:[\w'.-]+ ){{0,4}}{_STREET.pattern}"
)

_STAFF = (
    r"(?:employees?|staff|headcount|workforce|professionals|colleagues|personnel|specialists|"
    r"engineers|consultants|experts|team members|staff members|full-time|fte|strong)"
)
_ABOUT = (
    r"(?:about|around|over|under|nearly|almost|approximately|approx\.?|some|up to|more than|"
    r"between|currently)"
)
_NOT_STAFF = (
    r"(?:customers?|clients?|users?|partners?|orders?|products?|projects?|countries|years?|days?|"
    r"hours?|sites?|our|the|their|we|with|and|of|for|to|in|trust\w{0,3})"
)

# `N` stands for the number.
_EMPLOYEES = (
    rf"N ?\+?(?:[- ](?!{_NOT_STAFF}\b)[a-z-]+){{0,2}}[- ]{_STAFF}\b",
    rf"\b(?:employ(?:s|ing)?|team(?: size)?|staff(?: strength)?|workforce|headcount|employees|"
    rf"(?:we|they) are)\b(?: of| is|:)?(?: a team of)?(?: {_ABOUT})? N\b",
    r"\b(?:team|company|firm|group|we|staff|business)\b[^.!?]{0,30} N\+? (?:people|persons)\b",
)

_FOUNDING = re.compile(
    r"\b(?:founded|founding|established|since|incorporated|incorporation|est|started|formed|set up|"
    r"began|begun|inception|launched|opened|birth|born|registered)\b"
)

_PHONE = re.compile(
    r"\b(?:tel|telephone|telefon|phone|call|calls|mobile|cell|hp|handphone|hotline|whatsapp|contact|"
    r"reach|dial|ring|enquiries|landline|office|t|p|m)\b"
)
_FAX = re.compile(r"\b(?:fax|facsimile|f)\b\W{0,3}$")

_POSTAL = re.compile(r"\b(?:singapore|postal(?: code)?|zip(?: code)?|s)\b\W{0,3}$")

_REGISTERED = re.compile(
    r"\b(?:uen|reg|registration|registered|registry|roc|brn|gst|acra|company no|co\.? no|pte|ltd|"
    r"limited|llp|private)\b"
)

_OPERATES = re.compile(
    r"copyright|©|\b(?:registered|incorporated|operated by|trading (?:as|name)|uen|company name|"
    r"legal name)\b"
)

_TRADE_BEFORE = re.compile(
    r"\b(?:(?:industry|industries|sector|trade|business|field|market)(?: is|:| of)|works? in|"
    r"working in|active in|speciali[sz]\w{1,7} in|experts? in|makes?|making|"
    r"manufactur(?:es?|ers?|ing)(?: of)?|produc(?:es?|ers?|ing)(?: of)?|"
    r"provid(?:es?|ers?|ing)(?: of)?|offers?|offering|"
    r"suppl(?:y|ies|iers?|ying)(?: of)?|delivers?|builds?|designs?|develops?|sells?|selling|"
    r"distribut(?:es?|ors?|ing)(?: of)?|we do)(?: the| a| an| our| quality| high-quality)? $"
)

_TRADE_AFTER = re.compile(
    r"^ (?:industry|sector|services|solutions|company|firm|agency|business|manufacturer|supplier|"
    r"provider|contractor|consultancy|trade)\b"
)

_TECHNOLOGIES = _to_words(
    """
    airtable airflow akamai angular ansible auth0 aws azure bigcommerce bigquery bitrix24 c++ c#
    cassandra celonis cisco citrix cloudflare confluence databricks datadog django docker drupal
    elasticsearch figma firebase flask flutter fortinet freshdesk freshsales gcp github gitlab
    golang grafana graphql hadoop haproxy heroku hubspot intercom java javascript jenkins jira
    joomla jquery kafka keras kotlin kubernetes laravel linux magento mailchimp mariadb marketo
    matlab microsoft mongodb mulesoft mysql netsuite next.js nginx node.js nodejs odoo office365
    okta openshift oracle outsystems php postgresql postgres power-bi prestashop prometheus
    python pytorch quickbooks rabbitmq rails react redis redshift ruby salesforce sap scala
    servicenow sharepoint shopify sitecore slack snowflake splunk sql squarespace stripe tableau
    talend tensorflow terraform twilio typescript ubuntu uipath vmware vue vue.js webflow
    windows wix woocommerce wordpress workday xamarin xero zendesk zoho
    """
)

_US = re.compile(r"\b(?:we|we're|our)\b")

_YEAR = re.compile(r"(?:18|19|20)[0-9]{2}")

_HALF_FORM = re.compile(r"\b(?:pte|private|pty|sdn)\.?$")  # of which the rest is missing

_LAST_WORD = re.compile(r"(\S+) $")
_FIRST_WORD = re.compile(r" ([^\s,;:|)]+)")
_MAX_PLACES = 20  # of a text on a page that are looked at

_SENTENCE_END = re.compile(r"[.!?] ")

_SENTENCE = re.compile(r"[.!?:;]\s|[!?:;]$")

_TOP_LEVELS = _to_words("com net org edu gov biz info test")

_COUNTRIES = frozenset(
    """
    afghanistan|albania|algeria|andorra|angola|antigua and barbuda|argentina|armenia|australia|
    austria|azerbaijan|bahamas|bahrain|bangladesh|barbados|belarus|belgium|belize|benin|bhutan|
    bolivia|bosnia and herzegovina|botswana|brazil|brunei|bulgaria|burkina faso|burundi|cabo verde|
    cambodia|cameroon|canada|central african republic|chad|chile|china|colombia|comoros|congo|
    costa rica|croatia|cuba|cyprus|czechia|czech republic|denmark|djibouti|dominica|
    dominican republic|ecuador|egypt|el salvador|equatorial guinea|eritrea|estonia|eswatini|
    ethiopia|fiji|finland|france|gabon|gambia|georgia|germany|ghana|greece|grenada|guatemala|
    guinea|guinea-bissau|guyana|haiti|honduras|hong kong|hungary|iceland|india|indonesia|iran|iraq|
    ireland|israel|italy|ivory coast|jamaica|japan|jordan|kazakhstan|kenya|kiribati|kosovo|kuwait|
    kyrgyzstan|laos|latvia|lebanon|lesotho|liberia|libya|liechtenstein|lithuania|luxembourg|macau|
    madagascar|malawi|malaysia|maldives|mali|malta|marshall islands|mauritania|mauritius|mexico|
    micronesia|moldova|monaco|mongolia|montenegro|morocco|mozambique|myanmar|namibia|nauru|nepal|
    netherlands|new zealand|nicaragua|niger|nigeria|north korea|north macedonia|norway|oman|
    pakistan|palau|palestine|panama|papua new guinea|paraguay|peru|philippines|poland|portugal|
    qatar|romania|russia|rwanda|saint kitts and nevis|saint lucia|samoa|san marino|saudi arabia|
    senegal|serbia|seychelles|sierra leone|singapore|slovakia|slovenia|solomon islands|somalia|
    south africa|south korea|south sudan|spain|sri lanka|sudan|suriname|sweden|switzerland|syria|
    taiwan|tajikistan|tanzania|thailand|timor-leste|togo|tonga|trinidad and tobago|tunisia|turkey|
    turkiye|turkmenistan|tuvalu|uganda|ukraine|united arab emirates|united kingdom|great britain|
    united states|united states of america|uruguay|uzbekistan|vanuatu|vatican city|venezuela|
    vietnam|viet nam|yemen|zambia|zimbabwe|uae|usa|uk|sg
    """.replace("\n", "")
    .replace("    ", "")
    .split("|")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """How a value of one field is told from other words."""

    what: str  # what it is, for a sentence
    has_shape: Callable[[str], bool] = lambda value: True
    # Whether the evidence calls it so, given both normalized, and the company's domain.
    is_called: Callable[[str, str, str], bool] = lambda value, evidence, domain: True


def find_rule_problem(field: FactField, value: str, evidence: str, *, domain: str) -> str:
    """Return why a value is not one of its field; empty when it is."""
    rule, said = RULES.get(field), normalize_text(evidence)
    if _ORDERS.search(said):
        return "its evidence gives orders instead of describing"
    if rule is not None and not rule.has_shape(value):
        return f"it does not look like {rule.what}"
    if rule is not None and not rule.is_called(normalize_text(value), said, domain):
        return f"its evidence does not call it {rule.what}"
    return ""


def is_part_of_name(name: str, page: str) -> bool:
    """Return whether a page only ever has these words as a part of a longer name.

    Looks at a few places: the words before and behind on the same line, as the page spells them.
    """
    for found in islice(re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", page), _MAX_PLACES):
        line_start = page.rfind("\n", 0, found.start()) + 1
        before = _LAST_WORD.search(page[max(line_start, found.start() - 40) : found.start()])
        after = _FIRST_WORD.match(page[found.end() : found.end() + 40])
        if not any(word and _continues_name(word[1]) for word in (before, after)):
            return False
    return True


def _continues_name(word: str) -> bool:
    plain = word.casefold().strip(".,'’-")
    if not _NAME_WORD.fullmatch(word) or word[0].islower() or _is_honorific(word):
        return False
    is_form = _LEGAL_FORM.search(plain) or _HALF_FORM.search(plain)
    return not (plain in _MENU_WORDS or _HAS_ROLE.fullmatch(plain) or is_form)


def is_whole_sentence(text: str, page: str) -> bool:
    """Return whether a text begins and ends where sentences or lines of a page do."""
    for found in islice(re.finditer(re.escape(text), page), _MAX_PLACES):
        before, after = page[: found.start()].rstrip(" ")[-1:], page[found.end() :].lstrip(" ")[:1]
        begins = before in ("", "\n", ".", "!", "?")
        if begins and (text[-1] in ".!?" or after in ("", "\n", ".", "!", "?")):
            return True
    return False


def is_company_word(words: str, domain: str) -> bool:
    """Return whether normalized words are most of a domain's name; without one, none are."""
    labels = [label for label in domain.casefold().split(".")[:-1] if label not in _TOP_LEVELS]
    found = re.findall(r"[a-z0-9]+", words)
    squeezed, initials = "".join(found), "".join(word[0] for word in found)
    for label in labels:
        host = label.replace("-", "")
        # Short words count only whole: `our` is no part of `harbour`.
        shared = {word for word in found if word in label.split("-") or len(word) > 3}
        letters = sum(len(word) for word in shared if word in host)
        if len(host) > 1 and (2 * letters > len(host) or host == initials):
            return True
        if len(host) > 3 and host in squeezed:
            return True
    return False


def _find_places(
    value: str, evidence: str, *, before: int, after: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each place of a value in its evidence."""
    for found in re.finditer(re.escape(value), evidence):
        start, end = found.span()
        yield evidence[max(0, start - before) : start], evidence[end : end + after]


def _has_beside(
    words: re.Pattern[str], *, before: int, after: int = 0
) -> Callable[[str, str, str], bool]:
    def is_called(value: str, evidence: str, _: str) -> bool:
        places = _find_places(value, evidence, before=before, after=after)
        # What stands after the end of its sentence is about something else.
        return any(
            words.search(left) or words.search(_SENTENCE_END.split(right)[0])
            for left, right in places
        )

    return is_called


def _is_title_case(words: list[str]) -> bool:
    """Return whether words are written as a name: each with a capital, a digit or no case."""
    return all(not word[0].islower() or word in _SMALL_WORDS for word in words)


def _is_name(value: str) -> bool:
    words = value.split()
    has_letter = any(letter.isalpha() for letter in value)
    if not has_letter or len(words) > 8 or not _is_title_case(words) or _SENTENCE.search(value):
        return False
    return not _has_menu_words(words) and not _HALF_FORM.search(value.casefold())


def _has_menu_words(words: list[str]) -> bool:
    plain = [word.casefold().strip(".,:()'’") for word in words]
    return any(
        (word in _MENU_WORDS and word not in _SMALL_WORDS) or _YEAR.fullmatch(word)
        for word in plain
    )


def _is_called_name(value: str, evidence: str, domain: str) -> bool:
    if domain:
        return is_company_word(value, domain)
    places = _find_places(value, evidence, before=0, after=20)
    return any(_LEGAL_FORM.search(f"{value}{right}".rstrip(" ,(")) for _, right in places)


def _is_legal_name(value: str) -> bool:
    words, plain = value.split(), normalize_text(value)
    form = _LEGAL_FORM.search(plain)
    if form is None or form.end() != len(plain) or len(words) > 12 or not _is_title_case(words):
        return False
    own = plain[: form.start()].split()
    return bool(own) and not _has_menu_words(own) and not re.search(r"[()]", value)


def _is_called_legal_name(value: str, evidence: str, domain: str) -> bool:
    own = is_company_word(_LEGAL_FORM.sub("", value), domain)
    return own or _has_beside(_OPERATES, before=60, after=40)(value, evidence, domain)


def _is_person(value: str) -> bool:
    name, _, role = (part.strip() for part in value.partition("|"))
    words = name.split()
    # In some scripts no space stands between the parts of a name.
    is_one_word = len(words) == 1 and not name.isascii() and name.isalpha() and 2 <= len(name) <= 6
    if len(name) > 60 or not (is_one_word or 2 <= len(words) <= 6):
        return False
    return all(map(_is_name_part, words)) and (not role or _is_role(role))


def _is_name_part(word: str) -> bool:
    plain = word.casefold().strip(".,'’-")
    if plain in _PARTICLES:
        return True
    if not _NAME_WORD.fullmatch(word) or word[0].islower() or plain in _NO_PERSON:
        return False
    return not _HAS_ROLE.fullmatch(plain)


def _is_role(role: str) -> bool:
    is_short = len(role) <= 80 and len(role.split()) <= 10
    return is_short and bool(_HAS_ROLE.search(role.casefold())) and not _SENTENCE.search(role)


def _is_called_person(value: str, evidence: str, _: str) -> bool:
    name, _, role = (part.strip() for part in value.partition("|"))
    for left, right in _find_places(name, evidence, before=60, after=60):
        around = f"{left} | {right}"
        if role in around if role else _HAS_ROLE.search(around) or _ends_with_honorific(left):
            return True
    return False


def _ends_with_honorific(text: str) -> bool:
    return text.endswith(" ") and text.split()[-1:] != [] and _is_honorific(text.split()[-1])


def _is_honorific(word: str) -> bool:
    return word.casefold().rstrip(".") in _HONORIFICS


def _is_called_staff(value: str, evidence: str, _: str) -> bool:
    plain = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", evidence)
    low, _, high = value.partition("-")
    number = rf"{low} ?(?:-|to|and) ?{high}" if high else low
    return any(
        re.search(pattern.replace("N", rf"(?<![0-9]){number}(?![0-9])"), plain)
        for pattern in _EMPLOYEES
    )


def _is_called_phone(value: str, evidence: str, _: str) -> bool:
    digits = re.sub(r"[^0-9]", "", value)
    for found in re.finditer(r"\+?\(?[0-9][0-9 ().-]{5,18}[0-9]", evidence):
        if not digits.endswith(re.sub(r"[^0-9]", "", found[0])[-7:]):
            continue
        left = evidence[max(0, found.start() - 30) : found.start()]
        if not _FAX.search(left) and (found[0].startswith("+") or _PHONE.search(left)):
            return True
    return False


def _is_called_postal_code(value: str, evidence: str, _: str) -> bool:
    return any(
        _POSTAL.search(left) or _STREET.search(left)
        for left, _ in _find_places(value, evidence, before=80)
    )


def _is_address(value: str) -> bool:
    plain = normalize_text(value)
    # A sentence that goes on after its end is more than an address.
    is_prose = re.search(r"[!?]|[a-z]\. [A-Z][a-z]+ [a-z]", value)
    return bool(_STREET_ADDRESS.search(plain)) and len(value.split()) <= 30 and not is_prose


def _is_industry(value: str) -> bool:
    words = value.casefold().split()
    if not 1 <= len(words) <= 8 or re.search(r"[^\w &,/()'’-]|[0-9_]|,$", value):
        return False
    ends = (words[0], words[-1])
    return not any(word in _SMALL_WORDS for word in ends) and not _has_menu_words(words)


def _is_called_industry(value: str, evidence: str, _: str) -> bool:
    return any(
        _TRADE_BEFORE.search(left) or _TRADE_AFTER.search(right)
        for left, right in _find_places(value, evidence, before=60, after=30)
    )


def _is_technology(value: str) -> bool:
    plain = value.casefold()
    return plain in _TECHNOLOGIES or plain.replace(" ", "-") in _TECHNOLOGIES


def _is_description(value: str) -> bool:
    words = value.split()
    is_prose = 2 * sum(word[0].islower() for word in words) >= len(words)
    return 5 <= len(words) <= 90 and is_prose and not re.search(r"[0-9][0-9 ().-]{5,}[0-9]", value)


def _is_called_description(value: str, _: str, domain: str) -> bool:
    return bool(_US.search(value)) or any(
        is_company_word(" ".join(pair), domain) for pair in pairwise(("", *value.split()))
    )


RULES: Mapping[FactField, FieldRule] = {
    FactField.NAME: FieldRule(
        what="the company's name", has_shape=_is_name, is_called=_is_called_name
    ),
    FactField.LEGAL_NAME: FieldRule(
        what="the company's registered name",
        has_shape=_is_legal_name,
        is_called=_is_called_legal_name,
    ),
    FactField.UEN: FieldRule(
        what="a registration number", is_called=_has_beside(_REGISTERED, before=80, after=20)
    ),
    FactField.ABOUT: FieldRule(
        what="a description of the company",
        has_shape=_is_description,
        is_called=_is_called_description,
    ),
    FactField.INDUSTRY: FieldRule(
        what="an industry", has_shape=_is_industry, is_called=_is_called_industry
    ),
    FactField.PHONE: FieldRule(what="a phone number", is_called=_is_called_phone),
    FactField.ADDRESS: FieldRule(what="an address", has_shape=_is_address),
    FactField.POSTAL_CODE: FieldRule(what="a postal code", is_called=_is_called_postal_code),
    FactField.COUNTRY: FieldRule(
        what="a country",
        has_shape=lambda value: normalize_text(value).removeprefix("the ") in _COUNTRIES,
    ),
    FactField.EMPLOYEES: FieldRule(what="a number of employees", is_called=_is_called_staff),
    FactField.FOUNDED: FieldRule(
        what="the year of founding", is_called=_has_beside(_FOUNDING, before=40, after=40)
    ),
    FactField.TECHNOLOGY: FieldRule(what="a known technology", has_shape=_is_technology),
    FactField.PERSON: FieldRule(what="a person", has_shape=_is_person, is_called=_is_called_person),
}
"""The rules of fields whose form alone does not tell them from other words."""
