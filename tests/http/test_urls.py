from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.http.url import MAX_URL_LENGTH, Url, is_public, is_public_text, parse_url, resolve_link

REFUSED = [
    "",
    "example.com",
    "//example.com",
    "http:/example.com",
    "http:example.com",
    "http://",
    "http:///etc/passwd",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:70/_x",
    "javascript:alert(1)",
    "data:text/html,x",
    "ws://example.com",
    "http+unix://%2Fvar%2Frun/x",
    "http://localhost/",
    "http://intranet/",
    "http://metadata/",
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://1.2.3/",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
    "http://08.8.8.8/",
    "http://foo.0x7f000001/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1%25eth0]/",
    "http://[2606:4700::1111%25lo]/",
    "http://[2606:4700::1111%lo]/",
    "http://[2606:4700::1111/",
    "http://2606:4700::1111]/",
    "http://[8.8.8.8]/",
    "http://[]/",
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1\\@example.com/",
    "http://example.com\\.evil.com/",
    "http://example.com:22/",
    "http://example.com:8080/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-80/",
    "http://example.com:８０/",
    "http://example.com:80a/",
    "http://example.com:80:80/",
    "http://example .com/",
    "http://exa\tmple.com/",
    "http://example.com/a b",
    "http://example.com/\r\nX: y",
    "http://example.com/\0",
    "http://exam%70le.com/",
    "http://example..com/",
    "http://.example.com/",
    "http://-example.com/",
    "http://example-.com/",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 130 + "com/",
    "http://example.com/\u202egnp.exe",
    "http://exam\u200bple.com/",
    "http://\ud800.com/",
    "http://example.com/" + "a" * MAX_URL_LENGTH,
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_could_mean_something_else_is_refused(text):
    with pytest.raises(PermanentError):
        parse_url(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("http://example.com", "http://example.com/"),
        ("  HTTPS://Example.COM:443/A?b=C#d ", "https://example.com/A?b=C"),
        ("http://example.com:80", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://example.com:", "http://example.com/"),
        ("http://example.com.", "http://example.com/"),
        ("http://example.com?q=1", "http://example.com/?q=1"),
        ("http://example.com/?", "http://example.com/?"),
        ("http://bücher.example/ä?ö", "http://xn--bcher-kva.example/%C3%A4?%C3%B6"),
        ("http://日本。jp/", "http://xn--wgv71a.jp/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("https://[2606:4700:0::1111]/x", "https://[2606:4700::1111]/x"),
        ("http://a_b.example.com/", "http://a_b.example.com/"),
        ("http://example.com/a%20b\\c", "http://example.com/a%20b%5Cc"),
        ("http://example.com/x@y:z", "http://example.com/x@y:z"),
        ("http://tavily.test/search", "http://tavily.test/search"),
    ],
)
def test_an_address_is_written_one_way(text, written):
    assert str(parse_url(text)) == written
    assert parse_url(written) == parse_url(text)


@given(st.text(max_size=60) | st.text("0123456789abcdefx.:[]%@/\\?#①１。", max_size=30))
def test_an_address_is_refused_or_safe_whatever_is_written_there(text):
    try:
        address = parse_url(f"http://{text}")
    except PermanentError:
        return
    assert address.port in (80, 443)
    assert address.host.isascii()
    assert str(address).isascii()
    assert not set(str(address)) & set(" \t\r\n\0\\@") or "@" in address.target
    last = address.host.rpartition(".")[2]
    if ":" in address.host or last.isdigit():
        assert is_public_text(address.host)
    else:
        assert "." in address.host
    assert parse_url(str(address)) == address


@given(st.text(min_size=1, max_size=40))
def test_a_query_never_shows_in_a_sentence(secret):
    try:
        address = parse_url("https://example.com/path?key=canary" + secret)
    except PermanentError:
        return
    assert "canary" not in address.display_text


def test_a_refusal_does_not_repeat_the_address():
    with pytest.raises(PermanentError) as refused:
        parse_url("http://user:canary@example.com/?canary")
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "written"),
    [
        ("/b", "https://example.com/b"),
        ("c?d#e", "https://example.com/a/c?d"),
        ("../../x", "https://example.com/x"),
        ("//other.com/y", "https://other.com/y"),
        ("http://other.com", "http://other.com/"),
        ("\\\\other.com\\y", "https://other.com/y"),
        ("?q", "https://example.com/a/b?q"),
    ],
)
def test_a_link_leads_where_a_browser_would_go(reference, written):
    assert str(resolve_link(parse_url("https://example.com/a/b"), reference)) == written


@pytest.mark.parametrize(
    "reference",
    [
        "javascript:1",
        "file:///etc",
        "http://[::1]/",
        "//127.0.0.1/",
        "http://[",
        "a\nb",
        "mailto:x@y.z",
    ],
)
def test_a_link_to_where_we_do_not_go_is_refused(reference):
    with pytest.raises(PermanentError):
        resolve_link(parse_url("https://example.com/a/b"), reference)


@given(st.text(max_size=50))
def test_a_link_is_refused_or_safe_whatever_it_says(reference):
    try:
        address = resolve_link(parse_url("https://example.com/a/b"), reference)
    except PermanentError:
        return
    assert isinstance(address, Url)
    assert address.port in (80, 443)


INTERNAL = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2620:4f:8000::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.15",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.1",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.112.1",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2400:cb00::1",
    "2606:4700::1111",
    "2a00:1450::1",
    "2a03:2880::1",
    "3ffe:ffff::1",
]


@pytest.mark.parametrize("text", INTERNAL)
def test_an_address_that_is_not_everybodys_is_not_public(text):
    assert not is_public_text(text)


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_open_internet_is_public(text):
    assert is_public_text(text)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "8.8.8.8 ", "8.8.8.8:80"])
def test_what_cannot_be_read_as_an_address_is_not_public(text):
    assert not is_public_text(text)


@given(st.ip_addresses(v=4))
def test_whatever_the_library_calls_private_is_not_public(address):
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not is_public(address)


@given(st.ip_addresses(v=6))
def test_only_global_unicast_of_ipv6_is_ever_public(address):
    if is_public(address):
        assert address in IPv6Network("2000::/3")
        assert address.is_global
        assert address.ipv4_mapped is None
        assert address.sixtofour is None
        assert address.teredo is None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_ipv6_clothes_is_never_public(address):
    number = int(address)
    clothes = (0, 0xFFFF << 32, 0x64FF9B << 96, 0x2002 << 112, 0x64FF9B0001 << 80)
    disguises = [IPv6Address(prefix + number) for prefix in clothes]
    disguises.append(IPv6Address((0x2002 << 112) + (number << 80)))
    assert not any(is_public(each) for each in disguises)


@given(st.ip_addresses(v=6), st.sampled_from(["1", "eth0", "lo"]))
def test_an_address_with_a_zone_is_never_public(address, zone):
    assert not is_public_text(f"{address}%{zone}")


@given(st.integers(0, 2**32 - 1))
def test_text_and_number_are_the_same_address(number):
    assert is_public_text(str(IPv4Address(number))) == is_public(ip_address(number))
