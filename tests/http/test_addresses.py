from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.http.url import is_public, is_public_text

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
