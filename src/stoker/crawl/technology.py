"""Detect what a site is built with, from a small table of hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.accounts.facts import Fact, FactField, Method
from stoker.crawl.page import ParsedPage

# Part of an address that a page loads → what it belongs to.
_BY_RESOURCE = {
    "wp-content/": "WordPress",
    "wp-includes/": "WordPress",
    "cdn.shopify.com": "Shopify",
    "static.wixstatic.com": "Wix",
    "parastorage.com": "Wix",
    "squarespace.com": "Squarespace",
    "squarespace-cdn.com": "Squarespace",
    "assets.website-files.com": "Webflow",
    "webflow.com": "Webflow",
    "/_next/": "Next.js",
    "/_nuxt/": "Nuxt",
    "googletagmanager.com": "Google Tag Manager",
    "google-analytics.com": "Google Analytics",
    "js.hs-scripts.com": "HubSpot",
    "hsforms.net": "HubSpot",
    "js.stripe.com": "Stripe",
    "widget.intercom.io": "Intercom",
    "static.zdassets.com": "Zendesk",
    "embed.tawk.to": "Tawk.to",
    "static.hotjar.com": "Hotjar",
    "connect.facebook.net": "Meta Pixel",
    "snap.licdn.com": "LinkedIn Insight",
    "recaptcha": "reCAPTCHA",
    "boards.greenhouse.io": "Greenhouse",
    "jobs.lever.co": "Lever",
    "jobs.ashbyhq.com": "Ashby",
    "/sites/default/files": "Drupal",
    "/media/jui/": "Joomla",
    "/static/version": "Magento",
    "web/assets/": "Odoo",
}

_GENERATORS = (
    *("WordPress", "Drupal", "Joomla", "Wix", "Squarespace", "Shopify", "Webflow", "Ghost", "Hugo"),
    *(
        "Jekyll",
        "Gatsby",
        "Next.js",
        "Odoo",
        "TYPO3",
        "PrestaShop",
        "Magento",
        "Weebly",
        "Elementor",
    ),
)

_SERVERS = {"cloudflare": "Cloudflare", "nginx": "nginx", "apache": "Apache", "iis": "IIS"}


def find_technology(reading: ParsedPage, *, url: str, headers: Mapping[str, str]) -> list[Fact]:
    """Return the technologies that a page reveals, each once, best hint first."""
    facts: dict[str, Fact] = {}
    for name, evidence, how, confidence in _iterate_hints(reading, headers):
        if name not in facts:
            facts[name] = Fact.build(
                FactField.TECHNOLOGY,
                name,
                source=url,
                how=how,
                confidence=confidence,
                evidence=evidence[:200],
            )
    return list(facts.values())


def _iterate_hints(
    reading: ParsedPage, headers: Mapping[str, str]
) -> Iterable[tuple[str, str, Method, float]]:
    generator = reading.meta_tags.generator.lower()
    for name in _GENERATORS:
        if name.lower() in generator:
            yield name, reading.meta_tags.generator, Method.META, 0.9
    addresses = [*reading.scripts, *(link.href for link in reading.links)]
    for address in addresses:
        small = address.lower()
        for part, name in _BY_RESOURCE.items():
            if part in small:
                yield name, address, Method.LINK, 0.7
    server = headers.get("server", "").lower()
    for part, name in _SERVERS.items():
        if part in server:
            yield name, headers["server"], Method.META, 0.6
