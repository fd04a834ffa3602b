"""The words of the fake Singapore: companies, people, streets, trades.

The lists are invented. Industry codes are real ones, found in both editions of the classification
still in use.
"""

from __future__ import annotations

from stoker.sandbox.random import Weighted


def split_words(text: str, *, apart: str = " ") -> tuple[str, ...]:
    return tuple(text.split(apart))


FIRST_WORDS = split_words(
    "amber anchor apex arbour atlas aurora azure banyan beacon bluewater bright canopy cedar "
    "cobalt compass coral crescent crimson delta eastern ember equator everest falcon fern "
    "frangipani garnet golden granite halcyon harbour heron horizon indigo ivory jade jasmine "
    "kestrel keystone kingfisher lantern lotus lumen maple marina merlion meridian monsoon "
    "northstar nova ocean orchid osprey pacific palm pelican pioneer pinnacle polar prime quartz "
    "raintree redwood ridge river sapphire sentosa silver skyline solar southern spice starling "
    "straits summit sunbird tembusu temasek topaz tropic union valley vanda velvet vertex vista "
    "westlake willow zenith"
)

SECOND_WORDS = split_words(
    "analytics automation biotech builders capital cloud commerce components consulting creative "
    "data design devices digital dynamics electronics energy engineering environmental fabrication "
    "finance foods freight global health holdings imaging industries infotech innovations "
    "instruments interiors international labs logistics machinery marine materials media "
    "medical mobility networks optics packaging partners photonics precision print properties "
    "research resources retail robotics security semicon services shipping software solutions "
    "studios supplies systems technologies trading ventures waste water works"
)

NAME_ENDINGS = Weighted(
    (
        ("PTE. LTD.", 80),
        ("PTE LTD", 8),
        ("PRIVATE LIMITED", 6),
        ("(SINGAPORE) PTE. LTD.", 4),
        ("LIMITED", 2),
    )
)

# (code, words of our own for it, weight)
TRADES = Weighted(
    (
        (("62011", "software and applications"), 60),
        (("62012", "computer games"), 6),
        (("62013", "security software"), 8),
        (("62021", "information technology consulting"), 35),
        (("62022", "cybersecurity consulting"), 8),
        (("62023", "management of computer facilities"), 6),
        (("62090", "information technology services"), 16),
        (("63111", "data centres"), 4),
        (("63112", "web hosting"), 5),
        (("63119", "data analytics and processing"), 10),
        (("63201", "an online marketplace for goods"), 8),
        (("58202", "software publishing"), 8),
        (("46900", "general wholesale trade"), 110),
        (("64202", "investment holding"), 95),
        (("70201", "management consulting"), 85),
        (("70209", "business consulting"), 16),
        (("41001", "building and construction"), 16),
        (("43301", "renovation"), 10),
        (("43210", "electrical works"), 8),
        (("49231", "road freight"), 8),
        (("52101", "warehousing"), 6),
        (("56111", "restaurants"), 14),
        (("68101", "property development"), 14),
        (("69201", "accounting and audit"), 8),
        (("71122", "process plant engineering"), 6),
        (("72104", "engineering research"), 4),
        (("73100", "advertising"), 10),
        (("74192", "graphic design"), 6),
        (("78104", "recruitment"), 6),
        (("82303", "events"), 5),
        (("86201", "medical clinics"), 6),
        (("10200", "seafood processing"), 3),
        (("26112", "wafer fabrication"), 3),
        (("28181", "industrial robots"), 3),
        (("01111", "vegetable farming"), 3),
        (("01141", "orchid growing"), 2),
    )
)

STREETS = split_words(
    "ROBINSON ROAD|ANSON ROAD|CECIL STREET|BEACH ROAD|PAYA LEBAR ROAD|NORTH BRIDGE ROAD|"
    "RAFFLES PLACE|UBI AVENUE 1|KAKI BUKIT ROAD 3|TAMPINES AVENUE 5|TOH GUAN ROAD EAST|"
    "ANG MO KIO AVENUE 10|WOODLANDS SQUARE|SIN MING LANE|TUAS SOUTH AVENUE 2|JALAN BUKIT MERAH|"
    "BUKIT BATOK CRESCENT|SCIENCE PARK DRIVE|AYER RAJAH CRESCENT|MACPHERSON ROAD|DEFU LANE 10|"
    "LORONG KILAT|TEMASEK BOULEVARD|COLEMAN STREET",
    apart="|",
)

BUILDINGS = split_words(
    "RAINTREE POINT|CRESCENT TOWER|LANTERN HOUSE|BANYAN CENTRE|HARBOURLIGHT PLAZA|"
    "TEMBUSU EXCHANGE|STRAITS BUSINESS HUB|ORCHID INDUSTRIAL BUILDING|KINGFISHER COURT|"
    "SKYLINE SQUARE",
    apart="|",
)

# The first two digits of a postal code say which part of the island it is.
POSTAL_SECTORS = tuple(
    f"{sector:02d}" for sector in (*range(1, 74), 75, 76, 77, 78, 79, 80, 81, 82)
)

SURNAMES = split_words(
    "Tan Lim Lee Ng Ong Wong Goh Chua Chan Koh Teo Ang Yeo Tay Ho Low Toh Sim Chong Chia Fong "
    "Kumar Pillai Nair Menon Rajan Ismail Rahman Hassan Yusof Salleh Pereira Fernandez Oliveiro"
)

GIVEN_NAMES = split_words(
    "Wei Ming|Hui Min|Jia Hao|Xin Yi|Kok Leong|Siew Ling|Zhi Wei|Mei Fang|Boon Keng|Shu Hui|"
    "Jun Jie|Li Ting|Aisyah|Nurul|Farid|Hafiz|Siti|Priya|Arjun|Deepa|Vikram|Kavitha|Daniel|"
    "Rachel|Marcus|Vanessa|Adrian|Michelle|Jeremy|Sharon|Nicholas|Cheryl",
    apart="|",
)

# (title, seniority, department, weight)
TITLES = Weighted(
    (
        (("Founder & CEO", "founder", "General Management"), 8),
        (("Managing Director", "c-suite", "General Management"), 10),
        (("Chief Technology Officer", "c-suite", "Engineering & Technical"), 6),
        (("Chief Financial Officer", "c-suite", "Finance"), 4),
        (("Chief Operating Officer", "c-suite", "Operations"), 4),
        (("VP Sales", "vp", "Sales"), 6),
        (("Head of Marketing", "director", "Marketing"), 7),
        (("Head of Engineering", "director", "Engineering & Technical"), 7),
        (("Sales Director", "director", "Sales"), 6),
        (("HR Manager", "manager", "Human Resources"), 6),
        (("Operations Manager", "manager", "Operations"), 8),
        (("Business Development Manager", "manager", "Sales"), 8),
        (("Finance Executive", "entry", "Finance"), 5),
        (("Software Engineer", "entry", "Engineering & Technical"), 9),
        (("Customer Success Executive", "entry", "Customer Service"), 6),
    )
)
