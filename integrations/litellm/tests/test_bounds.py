"""The hold of a request is the most that LiteLLM can charge for it, for every model of its price map."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import litellm
import pytest
from litellm.types.utils import (
    CacheCreationTokenDetails,
    CompletionTokensDetailsWrapper,
    ModelResponse,
    PromptTokensDetailsWrapper,
    ServerToolUse,
    Usage,
)

from holdfast_litellm.asked import Asked, Unbounded, selection
from holdfast_litellm.estimate import Prices, estimate, microcents
from holdfast_litellm.prices import SEARCHES, Unpriced

SEED = int(os.environ.get("SEED") or random.randrange(2**32))
# Of each model with prices of its own.
REQUESTS = int(os.environ.get("REQUESTS") or 2)
LIMIT = 1000

# What a request may select, and which usage that allows beside that of a plain request.
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "n": {"n": 3},
    "priority": {"service_tier": "priority"},
    "flex": {"service_tier": "flex"},
    "fast tier": {"service_tier": "fast"},
    "ultrafast": {"extra_body": {"service_tier": "UltraFast"}},
    "balanced": {"service_tier": "balanced"},
    "long cache": {"system": [{"type": "text", "text": "", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    "fast mode": {"speed": "fast"},
    "place": {"inference_geo": "us"},
    "sound": {"modalities": ["text", "audio"]},
    "image": {"modalities": ["text", "image"]},
    "search": {"tools": [{"type": "web_search_20250305", "max_uses": 4}]},
    "deep search": {"web_search_options": {"search_context_size": "high"}},
    "maps": {"tools": [{"googleMaps": {}}]},
}
READ = ("text", "read", "written", "audio", "image", "video")
WROTE = ("text", "reasoning", "audio", "image", "video")


def split(rng: random.Random, total: int, kinds: tuple[str, ...]) -> dict[str, int]:
    """All of one kind, or a part of each."""
    if rng.random() < 0.7:
        return dict.fromkeys(kinds, 0) | {rng.choice(kinds): total}
    shares = [rng.random() for _ in kinds]
    return {kind: int(total * share / sum(shares)) for kind, share in zip(kinds, shares, strict=True)}


def usage_of(rng: random.Random, request: dict[str, Any], asked: Asked) -> Usage:
    """Any usage within the limits of a request."""
    chosen = asked.selection
    read = split(rng, asked.tokens, ("text", "read", "written"))
    media = split(rng, asked.media_tokens, ("audio", "image", "video", "read"))
    speaks = "audio" in chosen.words("modalities")
    wrote = split(rng, LIMIT * request.get("n", 1), tuple(kind for kind in WROTE if speaks or kind != "audio"))
    long = read["written"] if chosen.words("ttl") else 0
    searches = (chosen.most_searches or SEARCHES) if chosen.searches else None
    usage = Usage(
        prompt_tokens=sum(read.values()) + sum(media.values()),
        completion_tokens=sum(wrote.values()),
        # xAI reports reasoning beside the output unless this is the sum.
        total_tokens=sum(read.values()) + sum(media.values()) + sum(wrote.values()),
        prompt_tokens_details=PromptTokensDetailsWrapper(
            text_tokens=read["text"],
            cached_tokens=read["read"] + media["read"],
            audio_tokens=media["audio"],
            image_tokens=media["image"],
            video_tokens=media["video"],
            cache_creation_tokens=read["written"],
            cache_creation_token_details=CacheCreationTokenDetails(
                ephemeral_5m_input_tokens=read["written"] - long, ephemeral_1h_input_tokens=long
            )
            if read["written"]
            else None,
            web_search_requests=searches,
        ),
        completion_tokens_details=CompletionTokensDetailsWrapper(
            text_tokens=wrote["text"],
            reasoning_tokens=wrote["reasoning"],
            audio_tokens=wrote.get("audio", 0),
            image_tokens=wrote["image"],
            video_tokens=wrote["video"],
        ),
        server_tool_use=ServerToolUse(web_search_requests=searches) if searches else None,
    )
    for field in ("speed", "inference_geo"):
        if field in request:
            setattr(usage, field, request[field])
    return usage


def charged(model: str, request: dict[str, Any], usage: Usage, is_embedding: bool) -> float:
    tier = request.get("service_tier") or request.get("extra_body", {}).get("service_tier")
    return float(
        litellm.completion_cost(
            completion_response=ModelResponse(model=model, usage=usage),
            model=model,
            call_type="aembedding" if is_embedding else "acompletion",
            service_tier=tier.lower() if tier else None,
            standard_built_in_tools_params={"web_search_options": request.get("web_search_options")},
        )
    )


def requests(rng: random.Random) -> Iterator[tuple[str, dict[str, Any], Asked]]:
    for name, request in SHAPES.items():
        for tokens, media in ((10, 0), (rng.choice([900, 130_000, 210_000, 290_000, 600_000]), rng.choice([0, 2]))):
            chosen = selection(request)
            yield name, {"max_tokens": LIMIT, **request}, Asked(tokens, media, characters=4 * tokens, selection=chosen)


# LiteLLM logs in there, over the network, to learn who provides a model.
LOGS_IN = ("github_copilot", "chatgpt")


def models() -> list[str]:
    """One for each set of prices of a provider."""
    found: dict[tuple[Any, ...], str] = {}
    for name, entry in litellm.model_cost.items():
        if entry.get("mode") in ("chat", "responses", "completion", "embedding") and entry.get("litellm_provider") not in LOGS_IN:
            parts = {part: entry[part] for part in entry if re.search("cost|pric|uplift|specific", part)}
            found.setdefault((entry.get("litellm_provider"), entry["mode"], json.dumps(parts, sort_keys=True)), name)
    return list(found.values())


def test_no_usage_within_a_request_costs_more_than_its_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"SEED={SEED}")
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    rng = random.Random(SEED)
    prices = Prices()
    compared, unknown = 0, 0
    broken: list[str] = []
    for model in models():
        monkeypatch.setattr(litellm, "cost_margin_config", rng.choice([{}, {"global": {"percentage": 0.2, "fixed_amount": 0.001}}]))
        is_embedding = litellm.model_cost[model]["mode"] == "embedding"
        try:
            found = prices.of_call(model, {}, None)
        except Unpriced:
            continue
        for shape, request, asked in rng.sample(list(requests(rng)), REQUESTS):
            usage = usage_of(rng, request, asked)
            if is_embedding:
                usage.completion_tokens, usage.completion_tokens_details = 0, None
            try:
                hold = estimate(found, asked, "aembedding" if is_embedding else "acompletion", request, 0)
                cost = microcents(charged(model, request, usage, is_embedding))
            except Unbounded:
                continue
            except Exception:
                unknown += 1  # LiteLLM does not find the provider of some names of its map.
                continue
            compared += 1
            if cost > hold.amount:
                broken.append(f"{model}, {shape}: {cost} > {hold.amount} {usage.model_dump(exclude_none=True)}")
    assert not broken, f"{len(broken)} of {compared}, SEED={SEED}:\n" + "\n".join(broken[:30])
    assert compared > 1000 * REQUESTS
    assert unknown < compared / 20
