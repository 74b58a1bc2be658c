"""Subjects, settings, estimates, and what is known of failed attempts: what needs no server."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import litellm
import openai
import pytest
from fastapi import HTTPException
from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices

from holdfast_litellm.asked import Asked, Unbounded, read
from holdfast_litellm.attempts import Attempts, cost_nothing
from holdfast_litellm.estimate import Prices, estimate, microcents
from holdfast_litellm.prices import Price, Unpriced, price_from
from holdfast_litellm.settings import Settings, SettingsError
from holdfast_litellm.streams import Arrived, arrived
from holdfast_litellm.subject import Hierarchy, segment

NEEDED = {"HOLDFAST_URL": "http://holdfast/", "HOLDFAST_API_KEY": "key"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("red", "red"),
        ("a.b", "a.b"),
        ("ann@example.com", "ann..40example.com"),
        ("a..b", "a..2e..2eb"),
        ("a.@b", "a..2e..40b"),
        ("a/b:c d", "a..2fb..3ac..20d"),
        ("ü", "..c3..bc"),
    ],
)
def test_a_segment_says_its_value(value: str, expected: str) -> None:
    assert segment(value) == expected


def test_different_values_have_different_segments() -> None:
    letters = ["a", ".", "@", "2", "e", "4", "0"]
    values = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    assert len({segment(value) for value in values}) == len(values)
    long = [f"{'x' * 200}{n}" for n in range(10)]
    assert len({segment(value) for value in long}) == 10
    assert all(len(segment(value)) <= 128 for value in long)


def caller(**given: Any) -> Any:
    names = ("api_key", "key_alias", "team_id", "team_alias", "user_id", "org_id", "end_user_id")
    return SimpleNamespace(**{**dict.fromkeys(names), **given})


def test_a_level_without_its_property_is_left_out() -> None:
    hierarchy = Hierarchy.parse(Hierarchy.DEFAULT)
    assert hierarchy.subject_of(caller(team_id="red", key_alias="ci", end_user_id="7")) == {"workspace": "red", "app": "ci", "agent": "7"}
    assert hierarchy.subject_of(caller(api_key="ab" * 32)) == {"app": "ab" * 16}
    assert hierarchy.subject_of(caller()) == {}


def test_a_level_can_have_a_value_of_its_own() -> None:
    assert Hierarchy.parse('app="chat", agent=user').subject_of(caller(user_id="ann")) == {"app": "chat", "agent": "ann"}


@pytest.mark.parametrize("text", ["team=red", "workspace=colour", "workspace=team, workspace=user", "workspace", "app=chat"])
def test_a_wrong_hierarchy_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_SUBJECT"):
        Settings.read({**NEEDED, "HOLDFAST_SUBJECT": text})


def test_the_settings_have_defaults() -> None:
    settings = Settings.read(NEEDED)
    assert (settings.url, settings.orphan_policy, settings.ttl_ms, settings.denied_status) == ("http://holdfast", "estimate", 60_000, 429)
    assert not settings.fails_open
    assert not settings.allows_unpriced


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_URL", ""),
        ("HOLDFAST_API_KEY", " "),
        ("HOLDFAST_ORPHAN_POLICY", "nothing"),
        ("HOLDFAST_OUTPUT_TOKENS", "-1"),
        ("HOLDFAST_TTL_SECONDS", "0"),
        ("HOLDFAST_WHEN_AWAY", "open"),
        ("HOLDFAST_UNPRICED", "free"),
        ("HOLDFAST_DENIED_STATUS", "200"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.read({**NEEDED, name: value})


@pytest.mark.parametrize(
    "env", [{"HOLDFAST_API_KEY": ""}, {"HOLDFAST_API_KEY_FILE": "/key"}, {"HOLDFAST_API_KEY": "", "HOLDFAST_API_KEY_FILE": "/none"}]
)
def test_a_key_is_given_once(env: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_API_KEY_FILE"):
        Settings.read({**NEEDED, **env})


def test_a_key_is_read_from_its_file_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(" one\n")
    read_key = Settings.read({"HOLDFAST_URL": "http://holdfast", "HOLDFAST_API_KEY_FILE": str(file)}).read_key
    assert read_key() == "one"
    file.write_text("two")
    assert read_key() == "two"
    file.write_text("")
    with pytest.raises(SettingsError, match="is empty"):
        read_key()


def test_an_amount_is_rounded_up() -> None:
    assert microcents(1e-8) == 1
    assert microcents(1.01e-8) == 2
    assert microcents(4.5e-06) == 450
    assert microcents(0.0) == 0


PLAIN = price_from({"mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "max_output_tokens": 1000})
TEN = Asked(10)


@pytest.mark.parametrize(
    ("kind", "request_", "default", "tokens_out"),
    [
        ("acompletion", {}, 0, 1000),
        ("acompletion", {}, 50, 50),
        ("acompletion", {"max_tokens": 7}, 50, 7),
        ("acompletion", {"max_completion_tokens": 9, "max_tokens": 7}, 0, 9),
        ("acompletion", {"max_tokens": 8, "n": 3}, 0, 24),
        # Each prompt of several is answered.
        ("atext_completion", {"max_tokens": 8, "prompt": ["a", "b", "c"], "n": 2}, 0, 48),
        ("atext_completion", {"max_tokens": 8, "prompt": [[1, 2], [3]]}, 0, 16),
        ("atext_completion", {"max_tokens": 8, "prompt": [1, 2, 3]}, 0, 8),
        ("aresponses", {"max_output_tokens": 8}, 0, 8),
        ("anthropic_messages", {"max_tokens": 8}, 0, 8),
        # What is no limit there, or none at all, does not make a call cheap.
        ("aresponses", {"max_tokens": 1}, 0, 1000),
        ("acompletion", {"max_output_tokens": 1}, 0, 1000),
        ("acompletion", {"max_tokens": -5, "n": -1}, 0, 1000),
        ("acompletion", {"max_tokens": True}, 0, 1000),
        # What some provider takes for a number is one, and what nobody understands is no small limit.
        ("acompletion", {"max_tokens": 70.0, "n": "2"}, 50, 140),
        ("acompletion", {"max_tokens": -1}, 50, 1000),
        # What a client lays over its request, or over a fallback.
        ("acompletion", {"max_tokens": 5, "extra_body": {"max_tokens": 70}}, 0, 70),
        ("acompletion", {"max_tokens": 5, "fallbacks": [{"model": "m", "max_tokens": 70, "n": 2}]}, 0, 140),
    ],
)
def test_the_output_is_bounded_by_the_request_the_operator_or_the_model(
    kind: str, request_: dict[str, Any], default: int, tokens_out: int
) -> None:
    found = estimate([PLAIN], TEN, kind, request_, default)
    assert found.amount == 100 * 10 + 200 * tokens_out
    assert found.input == 100 * 10
    assert [found.orphan(policy) for policy in ("estimate", "input", "release")] == [found.amount, found.input, 0]


def test_an_embedding_has_no_output() -> None:
    assert estimate([PLAIN], TEN, "aembedding", {}, 0).amount == 1000


def test_the_dearest_price_counts() -> None:
    dear = price_from({"input_cost_per_token": "5e-6", "output_cost_per_token": 1e-6})
    assert estimate([PLAIN, dear], TEN, "acompletion", {"max_tokens": 1}, 0).amount == 10 * 500 + 100


@pytest.mark.parametrize("asked", [{"max_tokens": 10**18}, {"max_tokens": 1000, "n": 10**18}, {"max_tokens": 10**400}])
def test_more_than_any_budget_can_hold_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(Unbounded, match="no budget"):
        estimate([PLAIN], TEN, "acompletion", asked, 0)


def hold(entry: dict[str, Any], request_: dict[str, Any], tokens: int = 10, media: int = 0) -> int:
    asked = Asked(tokens, media, selection=read(request_).selection)
    return estimate([price_from({"mode": "chat", **entry})], asked, "acompletion", {"max_tokens": 10, **request_}, 0).amount


MANY = {
    "input_cost_per_token": 1e-6,
    "input_cost_per_token_above_200k_tokens": 2e-6,
    "input_cost_per_token_priority": 3e-6,
    "input_cost_per_audio_token": 20e-6,
    "cache_creation_input_token_cost_above_1hr": 4e-6,
    "output_cost_per_token": 2e-6,
    "output_cost_per_token_flex": 1e-6,
    "output_cost_per_token_batches": 9e-6,
    "output_cost_per_audio_token": 30e-6,
    "provider_specific_entry": {"fast": 2, "us": 1.5},
    "search_context_cost_per_query": {"search_context_size_medium": 0.01, "search_context_size_high": 0.02},
}
CACHED = {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("request_", "tokens", "media", "expected"),
    [
        # Only what the request selects is held.
        ({}, 10, 0, 10 * 100 + 10 * 200),
        ({"service_tier": "auto"}, 10, 0, 10 * 100 + 10 * 200),
        ({"service_tier": "flex"}, 10, 0, 10 * 100 + 10 * 200),
        ({"service_tier": "priority"}, 10, 0, 10 * 300 + 10 * 200),
        ({"extra_body": {"service_tier": "FAST"}}, 10, 0, 10 * 300 + 10 * 200),
        # What LiteLLM does not know may be any.
        ({"service_tier": "sprint"}, 10, 0, 10 * 300 + 10 * 200),
        ({}, 200_000, 0, 200_000 * 200 + 10 * 200),
        ({}, 10, 1, 10 * 100 + 1500 * 2000 + 10 * 200),
        ({"system": [CACHED]}, 10, 0, 10 * 100 + 10 * 200),
        ({"system": [{**CACHED, "cache_control": {"ttl": "1h"}}]}, 10, 0, 10 * 400 + 10 * 200),
        ({"modalities": ["text"]}, 10, 0, 10 * 100 + 10 * 200),
        ({"modalities": ["text", "audio"]}, 10, 0, 10 * 100 + 10 * 3000),
        ({"speed": "fast"}, 10, 0, 2 * (10 * 100 + 10 * 200)),
        ({"inference_geo": "us"}, 10, 0, 1.5 * (10 * 100 + 10 * 200)),
        ({"n": 2}, 10, 0, 10 * 100 + 20 * 200),
        ({"tools": [{"type": "web_search_20250305", "max_uses": 3}]}, 10, 0, 10 * 100 + 10 * 200 + 3 * 10**6),
        ({"web_search_options": {"search_context_size": "high"}}, 10, 0, 10 * 100 + 10 * 200 + 10 * 2 * 10**6),
        ({"tools": [{"type": "function", "function": {"name": "search", "parameters": {"search": {}}}}]}, 10, 0, 10 * 100 + 10 * 200),
    ],
)
def test_a_hold_is_the_most_of_what_the_request_can_select(request_: dict[str, Any], tokens: int, media: int, expected: int) -> None:
    assert hold(MANY, request_, tokens, media) == expected


def test_the_operators_margin_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "cost_margin_config", {"global": {"percentage": 0.1, "fixed_amount": 0.00001}})
    assert hold(MANY, {}) == 1.1 * (10 * 100 + 10 * 200) + 1000


def test_a_price_of_an_unknown_unit_that_is_dearer_than_a_token_makes_the_model_unpriced() -> None:
    for name in ("output_cost_per_smell", "cost_per_thought", "input_cost_per_token_tomorrow"):
        with pytest.raises(Unpriced, match=name):
            price_from({**MANY, name: 1.0})
    assert hold({**MANY, "output_cost_per_smell": 1e-6}, {}) == hold(MANY, {})
    # Where the unit is known, an unknown modality counts as usual.
    assert hold({**MANY, "output_cost_per_smell_token": 5e-6}, {}) == 10 * 100 + 10 * 500


def test_what_has_a_price_of_its_own_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Unbounded, match="image_generation"):
        hold(MANY, {"tools": [{"type": "image_generation", "model": "gpt-image-1"}]})
    with pytest.raises(Unbounded, match="second"):
        hold({**MANY, "input_cost_per_video_per_second": 0.001}, {}, media=1)
    with pytest.raises(Unbounded, match="another model"):
        hold(MANY, {"extra_body": {"model": "gpt-4o"}})


def test_all_texts_of_a_request_are_counted_and_media_at_a_flat_rate() -> None:
    words = "a reasonably long text about nothing at all " * 20
    count = litellm.token_counter(model="", text=words)
    parts = [{"type": "text", "text": words}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}]
    chat = {"messages": [{"role": "system", "content": words}, {"role": "user", "content": parts}]}
    asked = read(chat)
    assert asked.media == 1
    assert 2 * count <= asked.tokens <= 2 * count + 100
    assert read({"system": words, "messages": []}).tokens >= count
    assert read({"instructions": words, "input": words}).tokens >= 2 * count
    assert read({"tools": [{"type": "function", "function": {"name": "f", "description": words}}]}).tokens >= count
    assert read({"input": [[1, 2, 3], [4]]}).tokens == 4
    # A document may be a text of any length.
    pages = words * 20
    plain = {"type": "text", "media_type": "text/plain", "data": pages}
    whole = {"type": "content", "content": [{"type": "text", "text": pages}]}
    for source in (plain, whole):
        document = {"type": "document", "source": source}
        assert read({"messages": [{"role": "user", "content": [document]}]}).tokens >= litellm.token_counter(model="", text=pages)


def paid(price: Price) -> float:
    return price.bound(Asked(1)).input


def test_each_model_that_a_call_may_reach_needs_a_price() -> None:
    priced = {"model_name": "cheap", "litellm_params": {"model": "openai/gpt-4o-mini", "api_key": "k"}}
    unknown = {"model_name": "odd", "litellm_params": {"model": "openai/nobody-knows", "api_key": "k"}}
    router = litellm.Router(model_list=[priced, unknown], fallbacks=[{"cheap": ["odd"]}], model_group_alias={"alias": "cheap"})
    with pytest.raises(Unpriced, match="odd"):
        Prices().of_call("cheap", {}, router)
    router.fallbacks = []
    assert [paid(price) for price in Prices().of_call("alias", {}, router)] == [1.5e-7]
    with pytest.raises(Unpriced, match="odd"):
        Prices().of_call("cheap", {"fallbacks": ["odd"]}, router)


def test_a_deployment_for_many_models_has_the_price_of_each() -> None:
    router = litellm.Router(model_list=[{"model_name": "openai/*", "litellm_params": {"model": "openai/*", "api_key": "k"}}])
    prices = Prices()
    found = {name: [paid(price) for price in prices.of_call(f"openai/{name}", {}, router)] for name in ("gpt-4o-mini", "gpt-4o")}
    assert found == {"gpt-4o-mini": [1.5e-7], "gpt-4o": [2.5e-6]}


def test_what_a_deployment_selects_is_held() -> None:
    params = {"model": "openai/gpt-4o", "api_key": "k", "service_tier": "priority"}
    router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": params}])
    assert [paid(price) for price in Prices().of_call("m", {}, router)] == [4.25e-6]


@pytest.mark.parametrize(
    "asked",
    [
        {"fallbacks": ["dear"]},
        {"fallbacks": [{"model": "dear", "temperature": 0}]},
        {"fallbacks": [{"cheap": ["dear"]}]},
        {"context_window_fallbacks": [{"cheap": ["dear"]}]},
        {"content_policy_fallbacks": [{"*": ["dear"]}]},
    ],
)
def test_a_fallback_that_the_client_asks_for_has_its_price(asked: dict[str, Any]) -> None:
    models = {"cheap": "gpt-4o-mini", "dear": "gpt-4o"}
    listed = [{"model_name": name, "litellm_params": {"model": f"openai/{of}", "api_key": "k"}} for name, of in models.items()]
    assert [paid(price) for price in Prices().of_call("cheap", asked, litellm.Router(model_list=listed))] == [1.5e-7, 2.5e-6]


def test_a_fallback_without_a_price_does_not_make_a_call_uncounted() -> None:
    priced = {"model_name": "cheap", "litellm_params": {"model": "openai/gpt-4o-mini", "api_key": "k"}}
    router = litellm.Router(model_list=[priced])
    prices = Prices(allows_unpriced=True)
    assert [paid(price) for price in prices.of_call("cheap", {"fallbacks": ["nobody-knows"]}, router)] == [1.5e-7]
    with pytest.raises(Unpriced, match="nobody-knows"):
        prices.of_call("nobody-knows", {}, router)


REQUEST = httpx.Request("POST", "http://provider")
FAILURES: list[tuple[BaseException, bool]] = [
    (openai.InternalServerError("no", response=httpx.Response(500, request=REQUEST), body=None), True),
    (httpx.ConnectError("refused"), True),
    (httpx.ReadError("reset"), False),
    (httpx.ReadTimeout("slow"), False),
    (openai.APITimeoutError(REQUEST), False),
    (litellm.BadRequestError("no", "m", "openai"), True),
    (litellm.Timeout("slow", "m", "openai"), False),
    (RuntimeError("who knows"), False),
]


@pytest.mark.parametrize(("error", "is_free"), FAILURES, ids=[type(error).__name__ for error, _ in FAILURES])
def test_only_a_failure_that_was_refused_or_not_sent_cost_nothing(error: BaseException, is_free: bool) -> None:
    assert cost_nothing(error) is is_free
    wrapped = litellm.InternalServerError("wrapped", "openai", "m")
    wrapped.__cause__ = error
    # LiteLLM turns a request that it refuses itself into no server error.
    assert cost_nothing(wrapped) is (is_free and not isinstance(error, litellm.BadRequestError))


@pytest.mark.parametrize("refusal", [HTTPException(400, "a guardrail"), RuntimeError("a callback")])
def test_what_is_no_failure_of_a_provider_says_nothing_of_its_bill(refusal: Exception) -> None:
    refusal.__cause__ = httpx.HTTPStatusError("of somebody else", request=REQUEST, response=httpx.Response(500, request=REQUEST))
    assert not cost_nothing(refusal)


def test_an_attempt_that_passes_through_another_format_counts_once() -> None:
    attempts = Attempts()
    for kind in ("anthropic_messages", "aresponses"):
        attempts.start(kind)
    attempts.send()
    for kind in ("aresponses", "anthropic_messages"):
        attempts.fail(kind, httpx.ReadError("reset"))
    assert (attempts.unheard, attempts.is_open) == (1, False)


def test_an_attempt_that_was_not_sent_counts_nothing() -> None:
    attempts = Attempts()
    attempts.start("acompletion")
    attempts.fail("acompletion", RuntimeError("cannot be translated"))
    assert attempts.unheard == 0


def part_of_chat(**delta: Any) -> ModelResponseStream:
    return ModelResponseStream(choices=[StreamingChoices(index=0, delta=Delta(**delta))])


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events)


def test_the_words_of_a_chat_are_found() -> None:
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    seen = arrived([part_of_chat(content="a", reasoning_content="b"), part_of_chat(tool_calls=[call])])
    assert sorted(seen.words) == sorted("abf{}")
    assert seen.is_whole


def test_the_words_of_a_response_are_found_once() -> None:
    delta = {"type": "response.output_text.delta", "delta": "word"}
    done = {"type": "response.output_text.done", "text": "word"}
    assert arrived([delta, done]) == Arrived("word", True)
    assert arrived([delta, {"type": "response.failed", "response": {}}]) == Arrived("word", False)
    output = [{"type": "message", "content": [{"type": "output_text", "text": "word"}]}]
    assert arrived([{"object": "response", "instructions": "none", "output": output}]).words == "word"


def test_the_words_of_a_message_are_found_however_its_lines_are_cut() -> None:
    start = {"type": "message_start", "message": {"content": [], "usage": {"output_tokens": 1}}}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "word"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    whole = lines(start, delta, end)
    assert arrived([whole]) == arrived([whole[:70], whole[70:]]) == Arrived("word", True)
    # The count at its beginning is not that of its output.
    assert arrived([lines(start, delta)]) == Arrived("word", False)
    assert arrived([lines(start, delta, end, {"type": "error"})]) == Arrived("word", False)
    assert arrived([{"type": "message", "content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]}]).words == 'f{"a": 1}'
