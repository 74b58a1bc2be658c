"""What a call may cost, by LiteLLM's own prices and its own count of tokens. Amounts are USD_MICROCENTS: 10^8 are a dollar."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import litellm

UNIT = "USD_MICROCENTS"
MICROCENTS = 10**8

# The calls whose cost is counted: LiteLLM's name for the call, and the kind of action in Holdfast.
KINDS = {
    "completion": "llm.completion",
    "acompletion": "llm.completion",
    "text_completion": "llm.completion",
    "atext_completion": "llm.completion",
    "responses": "llm.completion",
    "aresponses": "llm.completion",
    "anthropic_messages": "llm.completion",
    "embedding": "llm.embedding",
    "embeddings": "llm.embedding",
    "aembedding": "llm.embedding",
}
# Calls that no provider bills by themselves. Whatever is in neither table is unpriced.
FREE = {
    "aget_responses",
    "adelete_responses",
    "acancel_responses",
    "alist_input_items",
    "moderation",
    "amoderation",
    "acount_tokens",
    "call_mcp_tool",
    "list_mcp_tools",
}

# Where the text of a request stands, in all of the formats above.
_TEXTS = ("messages", "prompt", "input", "system", "instructions")
_SCHEMAS = ("tools", "functions", "response_format", "text", "output_format")
# Which fields limit the output. The same name may mean nothing to another endpoint.
_CHAT_LIMITS = ("max_completion_tokens", "max_tokens")
_LIMITS = {"responses": ("max_output_tokens",), "aresponses": ("max_output_tokens",), "anthropic_messages": ("max_tokens",)}
_CHOICES = ("n", "best_of")
# For a model whose maximum is unknown, if neither the request nor the operator sets a limit.
_OUTPUT_TOKENS = 4096
# An image, a file or a sound. Providers count by size, and the estimate does not fetch anything to find out.
_MEDIA_TOKENS = 1500
_MEDIA = ("image_url", "image", "input_image", "document", "file", "input_file", "input_audio", "audio")
# Roles and separators of a message.
_MESSAGE_TOKENS = 6
_PRICE_S = 30.0
_PRICES_KEPT = 1000
_TIER = re.compile(r"^(input|output)_cost_per_token_above_(\d+)k_tokens$")


class Unpriced(Exception):
    """The cost of a call could not be counted."""


@dataclass(frozen=True)
class Estimate:
    # The most that the call may cost, as far as the request bounds it.
    amount: int
    # What the provider bills as soon as it has read the request.
    input: int
    # For output that was cut off, whose usage nobody reports.
    output_token: float

    def orphan(self, policy: str) -> int:
        """What the call costs if nobody ever learns its cost."""
        return {"estimate": self.amount, "input": self.input, "release": 0}[policy]


def microcents(dollars: float) -> int:
    """Rounded up, so that nothing that costs something is free. Less than a thousandth of a unit is noise of the floating point."""
    return math.ceil(round(dollars * MICROCENTS, 3))


@dataclass(frozen=True)
class Price:
    """Dollars a token, the dearest of those that may apply."""

    input: float
    output: float
    # From this many input tokens on, other prices apply.
    tiers: tuple[tuple[int, float, float], ...]
    max_output: int | None

    def at(self, input_tokens: int) -> tuple[float, float]:
        reached = [(self.input, self.output), *((a, b) for least, a, b in self.tiers if input_tokens > least)]
        return max(a for a, _ in reached), max(b for _, b in reached)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def price_from(info: Mapping[str, Any]) -> Price:
    input_price = max(_number(info.get("input_cost_per_token")), _number(info.get("cache_creation_input_token_cost")))
    output_price = max(_number(info.get("output_cost_per_token")), _number(info.get("output_cost_per_reasoning_token")))
    above: dict[int, dict[str, float]] = {}
    for name, value in info.items():
        match = _TIER.match(name)
        if match and value is not None:
            above.setdefault(1000 * int(match[2]), {})[match[1]] = _number(value)
    tiers = tuple((least, side.get("input", input_price), side.get("output", output_price)) for least, side in above.items())
    max_output = info.get("max_output_tokens")
    return Price(input_price, output_price, tiers, max_output if isinstance(max_output, int) else None)


def _names_price(entry: Mapping[str, Any] | None) -> bool:
    return any((entry or {}).get(f"{side}_cost_per_token") is not None for side in ("input", "output"))


class Prices:
    """The prices of what a request may reach: the deployments of its model, and those of its fallbacks."""

    def __init__(self, *, allows_unpriced: bool = False) -> None:
        self._allows_unpriced = allows_unpriced
        self._known: dict[str, tuple[float, Price | None]] = {}

    def of_call(self, model: str, data: Mapping[str, Any], router: Any, team: str | None = None) -> list[Price]:
        """Raises Unpriced if one of them has no price, because the router decides by itself which one is called.

        Where calls without a price may pass, only if none has one: a client that names any fallback could spend without a hold.
        """
        prices: list[Price] = []
        unpriced: Unpriced | None = None
        for group in self._reachable(model, data, router):
            for name, find in self._finders(group, router, team):
                try:
                    prices.append(self._priced(name, find, group))
                except Unpriced as what:
                    unpriced = unpriced or what
        if unpriced is not None and not (prices and self._allows_unpriced):
            raise unpriced
        return prices

    def _finders(self, group: str, router: Any, team: str | None) -> Iterator[tuple[str, Callable[[], Price | None]]]:
        deployments = self._deployments(group, router, team)
        if not deployments:
            yield group, lambda: self._by_name(group)
        for deployment in deployments:
            name = str((deployment.get("model_info") or {}).get("id") or deployment["litellm_params"]["model"])
            yield name, lambda d=deployment: self._of_deployment(d, group, router)

    @staticmethod
    def _reachable(model: str, data: Mapping[str, Any], router: Any) -> list[str]:
        # A request may bring its own, in the form of the router's configuration or as a list of models.
        names = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
        chains = [chain for name in names for chain in (getattr(router, name, None), data.get(name)) if isinstance(chain, list)]
        found = [model]
        for given in data.get("fallbacks") or []:
            name = given.get("model") if isinstance(given, dict) else given
            if isinstance(name, str):
                found.append(name)
        for name in found:
            for chain in chains:
                for entry in chain:
                    targets = [entry.get(key) for key in (name, "*")] if isinstance(entry, dict) else []
                    listed = [one for target in targets if isinstance(target, list) for one in target]
                    found += [one for one in listed if isinstance(one, str) and one not in found]
        return found

    @staticmethod
    def _deployments(group: str, router: Any, team: str | None) -> list[Any]:
        if router is None:
            return []
        name = router.get_model_from_alias(model=group) or group
        by_id = router.get_deployment(model_id=name)
        if by_id is not None:
            return [by_id.model_dump(exclude_none=True)]
        return list(router.get_all_deployments(model_name=name, team_id=team) or router.get_model_list(model_name=name) or [])

    @staticmethod
    def _of_deployment(deployment: Any, group: str, router: Any) -> Price | None:
        info = router.get_router_model_info(deployment=deployment, received_model_name=group)
        own = (deployment.get("model_info") or {}, deployment["litellm_params"], litellm.model_cost.get(info.get("key")))
        return price_from(info) if any(_names_price(entry) for entry in own) else None

    @staticmethod
    def _by_name(name: str) -> Price | None:
        info = litellm.get_model_info(name)
        return price_from(info) if _names_price(litellm.model_cost.get(info.get("key", ""))) else None

    def _priced(self, name: str, find: Callable[[], Price | None], shown: str) -> Price:
        until, price = self._known.get(name, (0.0, None))
        if until < time.monotonic():
            try:
                price = find()
            except Exception:  # LiteLLM raises plain exceptions for a model that it does not know.
                price = None
            if len(self._known) >= _PRICES_KEPT:
                self._known.clear()  # Clients name what they like.
            self._known[name] = (time.monotonic() + _PRICE_S, price)
        if price is None:
            raise Unpriced(f"model {shown!r}")
        return price


def texts(value: Any) -> Iterator[str | int]:
    """The texts of a part of a request, and for what is no text its number of tokens."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        kind = value.get("type")
        if kind in _MEDIA:
            yield _MEDIA_TOKENS
            source = value.get("source")
            if isinstance(source, dict) and source.get("type") in ("text", "content"):
                yield from texts([source.get("data"), source.get("content")])
            return
        if "role" in value:
            yield _MESSAGE_TOKENS
        for name, part in value.items():
            if name not in ("type", "role"):
                yield from texts(part)
    elif isinstance(value, list):
        if value and all(isinstance(part, int) for part in value):
            yield len(value)
            return
        for part in value:
            yield from texts(part)


def count(text: str) -> int:
    """LiteLLM's count with its own tokenizer. Naming another provider's model would make it download that one's."""
    return int(litellm.token_counter(model="", text=text)) if text else 0


def input_tokens(data: Mapping[str, Any]) -> int:
    parts = [part for name in _TEXTS for part in texts(data.get(name))]
    schemas = [json.dumps(data[name]) for name in _SCHEMAS if data.get(name)]
    words = "\n".join([*(part for part in parts if isinstance(part, str)), *schemas])
    return count(words) + sum(part for part in parts if isinstance(part, int))


def _prompts(data: Mapping[str, Any]) -> int:
    """How many texts a text completion asks for. A list of numbers is one prompt, of tokens."""
    prompt = data.get("prompt")
    return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def estimate(prices: list[Price], tokens: int, call_type: str, data: Mapping[str, Any], default_output: int) -> Estimate:
    """At the dearest of the prices."""
    has_output = KINDS[call_type] != "llm.embedding"
    limits = [data[name] for name in _LIMITS.get(call_type, _CHAT_LIMITS) if _is_count(data.get(name))]
    choices = _prompts(data) * max([1, *(data[name] for name in _CHOICES if _is_count(data.get(name)))])
    amounts: list[tuple[float, float, float]] = []
    for price in prices:
        per_input, per_output = price.at(tokens)
        limit = max(limits) if limits else default_output or price.max_output or _OUTPUT_TOKENS
        amounts.append((tokens * per_input, choices * limit * per_output if has_output else 0.0, per_output))
    return Estimate(
        amount=max(microcents(a + b) for a, b, _ in amounts),
        input=max(microcents(a) for a, _, _ in amounts),
        output_token=max(c for _, _, c in amounts),
    )
