"""What one unit costs at most, of all that a request can make a model use. Prices are LiteLLM's, in dollars.

The bound comes from every price of the model. One is left out only if it is known what a request needs for it, and this request has
nothing of that. A price whose unit is unknown must not be dearer than a token, or the model counts as unpriced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import litellm
from litellm.constants import OPENAI_FILE_SEARCH_COST_PER_1K_CALLS

from .asked import NOTHING, Asked, Selection, Unbounded

# How often a request searches that sets no limit, such as `max_uses` or `max_tool_calls`.
SEARCHES = 10
# What LiteLLM bills for a search, at most, where the model's entry has no price of it.
_SEARCH_DOLLARS = 0.035

_ABOVE = re.compile(r"_above_(\d+)(k?)_tokens")
_LONG_CACHE = "_above_1hr"
_TIER = re.compile(r"_(batches|decisions|flex|balanced|priority|ultrafast|fast)(?=_|$)")
# No call that is counted is billed at these.
_OTHER_CALLS = ("batches", "decisions")
# Words for the usual price. LiteLLM bills `fast` at the price that is named `priority`.
_USUAL_TIERS = ("auto", "default", "standard", "standard_only")
_TIER_NAMES = {"fast": ("fast", "priority"), **{name: (name,) for name in ("flex", "balanced", "priority", "ultrafast")}}
_TOKEN = re.compile(r"_token(_cost)?(_cache_hit)?$")
_MODALITY = re.compile(r"_(audio|image|video)_")
_TEXT_MODES = ("chat", "completion", "responses", "embedding", None)


class Unpriced(Exception):
    """The cost of a call could not be counted."""


@dataclass(frozen=True)
class Rate:
    """A price, and what a request must have so that it applies."""

    name: str
    dollars: float
    # "input", "output", "query", "request", "character", "image", "length" or "images"; empty if it is unknown.
    unit: str
    # Input tokens.
    above: int
    tier: str | None
    modality: str | None
    needs_long_cache: bool


def _number(value: Any) -> float | None:
    """A configuration may have a price as text, because YAML reads `1e-6` so."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _unit(base: str) -> str:
    side = "output" if base.startswith("output_") else "input" if "input_" in base else ""
    if side and _TOKEN.search(base):
        return side
    if "_per_query" in base and re.search("search|ground", base):
        return "query"
    if side == "input" and re.search("_(audio|video)_per_second", base):
        return "length"
    known = {"input_cost_per_request": "request", "input_cost_per_character": "character"}
    images = {"input_cost_per_image": "image", "output_cost_per_image": "images"}
    return {**known, **images}.get(base, "")


def _rate(name: str, dollars: float, above: int) -> Rate:
    tokens = _ABOVE.search(name)
    tier = _TIER.search(name)
    base = _TIER.sub("", _ABOVE.sub("", name)).replace(_LONG_CACHE, "")
    modality = _MODALITY.search(base)
    return Rate(
        name=name,
        dollars=dollars,
        unit=_unit(base),
        above=max(above, int(tokens[1]) * (1000 if tokens[2] else 1) if tokens else 0),
        tier=tier[1] if tier else None,
        modality=modality[1] if modality else None,
        needs_long_cache=_LONG_CACHE in name,
    )


def rates_of(entry: Mapping[str, Any], above: int = 0) -> Iterator[Rate]:
    """All prices of an entry of LiteLLM's map, with those that stand deeper in it."""
    for name, value in entry.items():
        if name == "tiered_pricing" and isinstance(value, list):
            for tier in value:
                yield from rates_of(tier, int((tier.get("range") or [0])[0]))
        elif name == "off_peak_pricing" and isinstance(value, Mapping):
            yield from rates_of(value, above)
        elif "cost" not in name or "_dbu_" in name:
            continue  # Databricks' own unit stands beside the price in dollars.
        elif isinstance(value, Mapping):
            for kind, deeper in value.items():
                dollars = _number(deeper)
                if dollars is not None:
                    yield _rate(f"{name}.{kind}", dollars, above)
        else:
            dollars = _number(value)
            if dollars is not None:
                yield _rate(name, dollars, above)


def _factors(entry: Mapping[str, Any], location: str | None) -> Iterator[tuple[str, float]]:
    """By how much all prices grow, and what a request must name for it, as `field=word`; empty if it cannot help it."""
    for word, value in (entry.get("provider_specific_entry") or {}).items():
        factor = _number(value)
        if factor is not None and factor > 1:
            yield "speed=fast" if word == "fast" else "inferencegeo=" if len(word) == 2 else "", factor
    for name, value in entry.items():
        factor = _number(value) if "uplift_multiplier" in name else None
        if factor is None or factor <= 1:
            continue
        if name.startswith("regional_processing_uplift_multiplier_"):
            # Of hosts such as eu.api.openai.com.
            if location is not None and location.startswith(f"{name.rsplit('_', 1)[1]}."):
                yield "", factor
        elif location != "global":
            yield "", factor


def _margin(provider: str) -> tuple[float, float]:
    """What the operator adds: a part of the cost, and dollars for each call."""
    shares, fixed = [0.0], [0.0]
    for name, config in (litellm.cost_margin_config or {}).items():
        if name == "global" or provider.startswith(name):
            given = config if isinstance(config, Mapping) else {"percentage": config}
            shares.append(_number(given.get("percentage")) or 0.0)
            fixed.append(_number(given.get("fixed_amount")) or 0.0)
    return max(shares), max(fixed)


@dataclass(frozen=True)
class Bound:
    """Dollars, the dearest of those that may apply."""

    # For each token of text, of media, and of what is written.
    input: float
    media: float
    output: float
    # Instead of the tokens, for each character of the text.
    character: float
    # For each answer that is asked for.
    answer: float
    # For the whole call.
    call: float


@dataclass(frozen=True)
class Price:
    """What a model costs."""

    rates: tuple[Rate, ...]
    factors: tuple[tuple[str, float], ...]
    model: str
    provider: str
    max_output: int | None
    # Whether it answers with words unless it is asked for something else.
    writes_text: bool
    # What the deployment selects by itself.
    own: Selection

    def bound(self, asked: Asked) -> Bound:
        """Raises Unbounded if the request asks for something whose amount it does not show, and that is not counted in tokens."""
        chosen = self.own.joined(asked.selection)
        tiers = [None, *_tiers_of(chosen)]
        is_long = any(word not in ("5m", "300s") for word in chosen.words("ttl"))
        reached = [
            rate
            for rate in self.rates
            if rate.tier in tiers and asked.tokens + asked.media_tokens >= rate.above and (is_long or not rate.needs_long_cache)
        ]

        def dearest(unit: str, *modalities: str | None) -> float:
            return max((rate.dollars for rate in reached if rate.unit == unit and rate.modality in modalities), default=0.0)

        text = dearest("output", None)
        speaks = not text or not self.writes_text or chosen.words("modalities") - {"text"} or "audio" in chosen.options
        asks_image = not text or "image" in chosen.words("modalities")
        if asks_image and dearest("images", "image", None) and not dearest("output", "image"):
            raise Unbounded("images as an answer have a price for each image")
        if asked.has_media and dearest("length", "audio", "video", None):
            raise Unbounded("sound and video of this model have a price for each second")
        if any(kind.startswith("image_generation") for kind in chosen.tools):
            raise Unbounded("the tool image_generation has a price of its own")
        factor = math.prod(by for need, by in self.factors if chosen.has(need))
        share, fixed = _margin(self.provider)
        factor *= 1 + share
        plain = dearest("input", None)
        return Bound(
            input=factor * plain,
            media=factor * dearest("input", None, "audio", "image", "video"),
            output=factor * (dearest("output", None, "audio", "image", "video") if speaks else dearest("output", None, "image", "video")),
            character=factor * dearest("character", None),
            answer=factor * self._searches(chosen, reached),
            call=factor * (dearest("request", None) + asked.images * dearest("image", "image", None)) + fixed,
        )

    def _searches(self, chosen: Selection, reached: list[Rate]) -> float:
        is_file = any(kind.startswith("file_search") for kind in chosen.tools)
        always = re.search("search|compound|sonar|research", self.model) is not None
        if not always and not is_file and not chosen.searches:
            return 0.0
        has_size = chosen.words("searchcontextsize") - {"low", "medium"}
        queries = [rate.dollars for rate in reached if rate.unit == "query" and (has_size or not rate.name.endswith("_size_high"))]
        if chosen.searches and not any(rate.name.endswith("_size_medium") for rate in reached):
            queries.append(_SEARCH_DOLLARS)
        dearest = max([OPENAI_FILE_SEARCH_COST_PER_1K_CALLS if is_file else 0.0, *queries])
        return dearest * (chosen.most_searches or SEARCHES)


def _tiers_of(chosen: Selection) -> set[str]:
    every = {name for names in _TIER_NAMES.values() for name in names}
    tiers: set[str] = set()
    for word in chosen.words("servicetier") - set(_USUAL_TIERS):
        tiers |= set(_TIER_NAMES.get(word, every))
    return tiers


def price_from(
    entry: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]] = (),
    own: Selection = NOTHING,
    *,
    model: str = "",
    provider: str = "",
    location: str | None = None,
) -> Price:
    """At the dearest of the entries. Raises Unpriced if there is a price that no request bounds."""
    rates = tuple({rate for one in (entry, *others) for rate in rates_of(one) if rate.tier not in _OTHER_CALLS})
    for rate in rates:
        if not math.isfinite(rate.dollars):
            raise Unpriced(f"{rate.name} is no number")
        side = [other.dollars for other in rates if other.unit and other.unit == ("output" if rate.name.startswith("output_") else "input")]
        if not rate.unit and rate.dollars > max(side if "put_" in rate.name else [0.0], default=0.0):
            raise Unpriced(f"{rate.name} is the price of an unknown unit")
    if not any(rate.unit == side and rate.dollars > 0 for rate in rates for side in ("input", "output")):
        other = next((rate.name for rate in rates if rate.dollars > 0), None)
        if other is not None:
            raise Unpriced(f"{other} is its only price")
    max_output = entry.get("max_output_tokens")
    return Price(
        rates=rates,
        factors=tuple(_factors(entry, location)),
        model=model,
        provider=provider or str(entry.get("litellm_provider") or ""),
        max_output=max_output if isinstance(max_output, int) else None,
        writes_text=entry.get("mode") in _TEXT_MODES,
        own=own,
    )
