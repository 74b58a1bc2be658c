"""What a call may cost, by LiteLLM's own prices and its own count of tokens. Amounts are USD_MICROCENTS: 10^8 are a dollar."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import litellm
from litellm.llms.azure_ai.cost_calculator import is_azure_model_router

from .asked import Asked, Unbounded, selection, variants, whole
from .prices import Price, Unpriced, price_from, rates_of

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

# Which fields limit the output. The same name may mean nothing to another endpoint.
_CHAT_LIMITS = ("max_completion_tokens", "max_tokens")
_LIMITS = {"responses": ("max_output_tokens",), "aresponses": ("max_output_tokens",), "anthropic_messages": ("max_tokens",)}
_CHOICES = ("n", "best_of")
# For a model whose maximum is unknown, if neither the request nor the operator sets a limit.
_OUTPUT_TOKENS = 4096
_PRICE_S = 30.0
_PRICES_KEPT = 1000
# More than a budget can hold, as an int64.
_MOST = 2**63 - 1


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


def _price(info: Mapping[str, Any], own: Mapping[str, Any], more: Mapping[str, Any], provider: str, model: str) -> Price:
    """`own` are the deployment's prices, laid over those of LiteLLM's map. Raises Unpriced."""
    key = str(info.get("key"))
    # A cost may come from the entry with the provider before the name, or from that without a region between them.
    family, first = provider.split("-")[0], key.split("/")[0]  # As in `vertex_ai-language-models`.
    names = dict.fromkeys((key, f"{provider}/{key}", f"{family}/{key}", f"{first}/{key.split('/')[-1]}"))
    given = {name: value for name, value in own.items() if value is not None}
    entries = [{**(litellm.model_cost.get(name) or {}), **given} for name in names]
    if not any(rate.unit in ("input", "output") for entry in entries for rate in rates_of(entry)):
        raise Unpriced("no price of a token")
    if is_azure_model_router(model):
        raise Unpriced("each call costs what the model that it is routed to costs")
    entry = {**entries[0], "max_output_tokens": info.get("max_output_tokens")}
    return price_from(entry, entries[1:], selection(more), model=model, provider=provider, location=_location(more))


def _location(more: Mapping[str, Any]) -> str | None:
    """Where a deployment is, if that has a price: Vertex' region, or the host of OpenAI's."""
    base = more.get("api_base") or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    return str(more.get("vertex_location") or urlsplit(str(base or "")).hostname or "")


class Prices:
    """The prices of what a request may reach: the deployments of its model, and those of its fallbacks."""

    def __init__(self, *, allows_unpriced: bool = False) -> None:
        self._allows_unpriced = allows_unpriced
        # The reason where there is no price.
        self._known: dict[str, tuple[float, Price | str]] = {}

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

    def _finders(self, group: str, router: Any, team: str | None) -> Iterator[tuple[str, Callable[[], Price]]]:
        deployments = self._deployments(group, router, team)
        if not deployments:
            yield group, lambda: self._by_name(group)
        for deployment in deployments:
            name = str((deployment.get("model_info") or {}).get("id") or deployment["litellm_params"]["model"])
            # One deployment of `openai/*` has the prices of many models.
            yield f"{name} {group}", lambda d=deployment: self._of_deployment(d, group, router)

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
    def _of_deployment(deployment: Any, group: str, router: Any) -> Price:
        params = {name: value for name, value in dict(deployment["litellm_params"]).items() if value is not None}
        info = router.get_router_model_info(deployment=deployment, received_model_name=group)
        own = {**(deployment.get("model_info") or {}), **params}
        _, provider, _, _ = litellm.get_llm_provider(model=params["model"], custom_llm_provider=params.get("custom_llm_provider"))
        return _price(info, own, {**(router.default_litellm_params or {}), **params}, provider, f"{params['model']} {info.get('key')}")

    @staticmethod
    def _by_name(name: str) -> Price:
        info = litellm.get_model_info(name)
        return _price(info, {}, {}, str(info.get("litellm_provider") or ""), name)

    def _priced(self, name: str, find: Callable[[], Price], shown: str) -> Price:
        until, price = self._known.get(name, (0.0, ""))
        if until < time.monotonic():
            try:
                price = find()
            except Unpriced as why:
                price = f" ({why})"
            except Exception:  # LiteLLM raises plain exceptions for a model that it does not know.
                price = ""
            if len(self._known) >= _PRICES_KEPT:
                self._known.clear()  # Clients name what they like.
            self._known[name] = (time.monotonic() + _PRICE_S, price)
        if isinstance(price, str):
            raise Unpriced(f"model {shown!r}{price}")
        return price


def _prompts(data: Mapping[str, Any]) -> int:
    """How many texts a text completion asks for. A list of numbers is one prompt, of tokens."""
    prompt = data.get("prompt")
    return len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1


def _counts(body: Mapping[str, Any], names: tuple[str, ...]) -> list[int]:
    return [number for name in names if (number := whole(body.get(name))) is not None]


def _written(body: Mapping[str, Any], call_type: str, default_output: int, price: Price) -> tuple[int, int]:
    """How many answers a request allows, and how many tokens of output in all."""
    names = _LIMITS.get(call_type, _CHAT_LIMITS)
    # A limit that nobody understands may be none to the provider.
    default = 0 if any(body.get(name) is not None for name in names) else default_output
    choices = _prompts(body) * max([1, *_counts(body, _CHOICES)])
    limit = max(_counts(body, names), default=default or price.max_output or _OUTPUT_TOKENS)
    return min(choices, _MOST), min(choices * limit, _MOST) if KINDS[call_type] != "llm.embedding" else 0


def estimate(prices: list[Price], asked: Asked, call_type: str, data: Mapping[str, Any], default_output: int) -> Estimate:
    """At the dearest of the prices. Raises Unbounded if no hold could cover it."""
    if KINDS[call_type] != "llm.embedding":
        asked = replace(asked, links=0)
    amounts: list[tuple[int, int, float]] = []
    for price in prices:
        bound = price.bound(asked)
        text = max(asked.tokens * bound.input, asked.characters * bound.character)
        read = text + asked.media_tokens * bound.media + bound.call
        for body in variants(data):
            choices, written = _written(body, call_type, default_output, price)
            amounts.append((microcents(read + written * bound.output + choices * bound.answer), microcents(read), bound.output))
    found = Estimate(amount=max(a for a, _, _ in amounts), input=max(b for _, b, _ in amounts), output_token=max(c for _, _, c in amounts))
    if found.amount > _MOST:
        raise Unbounded("no budget could hold what it may cost; ask for fewer tokens or answers")
    return found
