"""Each kind of call and of end, through the real proxy: what it reserves, and what it costs at last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from calls import (
    CHEAP,
    DEAR,
    Make,
    ask,
    chat,
    completions,
    cost,
    embeddings,
    leave,
    messages,
    responses,
)
from conftest import Proxy, Team, World, eventually, said


def test_a_client_that_leaves_before_its_answer_is_charged_anyway(world: World, strict: Proxy, tag: str, team: Team) -> None:
    leave(world, strict, team, chat("dear", tag=tag, wait=True), tag)
    world.upstream.go()
    assert team.settled().spent == cost(DEAR)


def test_a_call_that_is_cancelled_when_its_client_leaves_is_charged_by_the_orphan_policy(
    world: World, lenient: Proxy, tag: str, team: Team
) -> None:
    # Of this proxy, that is the input: the words of the request, as LiteLLM counts them.
    leave(world, lenient, team, chat("dear", tag=tag, wait=True), tag)
    spent = team.settled().spent
    world.upstream.go()
    assert len(world.upstream.billed(tag)) == 1
    assert 20 * DEAR[0] < spent < 100 * DEAR[0]


FAILED = [
    ("the provider refuses", "dear", {"status": 400}),
    ("the provider fails, and again", "dear", {"status": 500}),
    ("the provider is busy", "dear", {"status": 429}),
    ("no provider is there", "nowhere", {}),
]


@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize(("model", "orders"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED])
def test_a_failure_that_cost_nothing_is_released(
    strict: Proxy, team: Team, tag: str, model: str, orders: dict[str, Any], stream: bool
) -> None:
    before = strict.told("released")
    answer = ask(strict, team, chat(model, stream=stream, tag=tag, **orders))
    assert answer.status_code >= 400
    assert team.settled().spent == 0
    eventually(lambda: strict.told("released") == before + 1)


@pytest.mark.parametrize(("make", "model"), [(responses, "dear"), (messages, "claude"), (embeddings, "embed"), (completions, "dear")])
def test_so_is_one_of_another_kind(strict: Proxy, team: Team, tag: str, make: Make, model: str) -> None:
    assert ask(strict, team, make(model, tag=tag, status=500)).status_code == 500
    assert team.settled().spent == 0


def test_what_may_have_been_billed_is_charged_by_the_orphan_policy(world: World, strict: Proxy, team: Team, tag: str) -> None:
    before = strict.told("cost_unknown")
    # The provider bills each of the two attempts, and the connection breaks.
    assert ask(strict, team, chat("dear", tag=tag, cut_after=0)).status_code == 500
    assert len(world.upstream.billed(tag)) == 2
    spent = team.settled().spent
    assert 2 * 100 * DEAR[1] < spent < 2 * (100 * DEAR[1] + 100 * DEAR[0])
    assert strict.told("cost_unknown") == before + 1


def test_so_is_a_call_that_took_too_long(world: World, strict: Proxy, team: Team, tag: str) -> None:
    assert ask(strict, team, chat("hasty", tag=tag, wait=True)).status_code == 408
    world.upstream.go()
    assert len(world.upstream.billed(tag)) == 2
    assert team.settled().spent > 2 * 100 * DEAR[1]


def test_a_retry_that_succeeds_is_charged_once(world: World, strict: Proxy, team: Team, tag: str) -> None:
    assert ask(strict, team, chat("dear", tag=tag, status=500, times=1)).status_code == 200
    assert world.upstream.calls(tag) == 2
    assert team.settled().spent == cost(DEAR)


def test_a_fallback_is_charged_at_its_own_price_and_was_reserved_at_that(world: World, strict: Proxy, team: Team, tag: str) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    # Enough at the price of the cheap model, and not at that of the one it may fall back to.
    world.holdfast.allocate(poor.scope, 100 * CHEAP[1] + 100 * CHEAP[0])
    assert ask(strict, poor, chat("falls", tag=tag)).status_code == 429
    assert ask(strict, poor, chat("cheap", tag=tag)).status_code == 200
    assert ask(strict, team, chat("falls", tag=f"{tag}2", status=500, times=2)).status_code == 200
    assert [one["model"] for one in world.upstream.billed(f"{tag}2")] == ["gpt-4o"]
    assert team.settled().spent == cost(DEAR)


@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
def test_an_answer_from_the_cache_costs_nothing(world: World, lenient: Proxy, team: Team, tag: str, stream: bool) -> None:
    for _ in range(2):
        assert ask(lenient, team, chat("cheap", stream=stream, tag=tag)).status_code == 200
        team.settled()
    assert world.upstream.calls(tag) == 1
    assert team.settled().spent == cost(CHEAP)


def test_a_model_for_free_needs_no_hold(strict: Proxy, team: Team, tag: str) -> None:
    before = strict.told("reserved")
    assert ask(strict, team, chat("free", tag=tag)).status_code == 200
    assert (strict.told("reserved"), team.settled().spent) == (before, 0)


def test_a_model_without_a_price_is_refused(world: World, strict: Proxy, team: Team, tag: str) -> None:
    before = strict.told("unpriced_refused")
    answer = ask(strict, team, chat("unpriced", tag=tag))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "model_not_priced"
    assert world.upstream.calls(tag) == 0
    assert strict.told("unpriced_refused") == before + 1


def test_a_model_without_a_price_passes_uncounted_if_the_operator_says_so(world: World, lenient: Proxy, team: Team, tag: str) -> None:
    before = lenient.told("unpriced_admitted")
    assert ask(lenient, team, chat("unpriced", tag=tag)).status_code == 200
    assert team.settled().spent == 0
    assert lenient.told("unpriced_admitted") == before + 1


@pytest.mark.parametrize(
    "asked", [{"fallbacks": ["nobody-knows"]}, {"fallbacks": [{"dear": ["nobody-knows"]}]}], ids=["a name", "a model's"]
)
def test_a_client_cannot_make_a_priced_model_uncounted(lenient: Proxy, team: Team, tag: str, asked: dict[str, Any]) -> None:
    path, body = chat("dear", tag=tag)
    assert ask(lenient, team, (path, {**body, **asked})).status_code == 200
    assert team.settled().spent == cost(DEAR)


def test_several_models_in_one_request_are_refused(world: World, strict: Proxy, lenient: Proxy, team: Team, tag: str) -> None:
    for proxy in (strict, lenient):
        answer = ask(proxy, team, chat("dear,dear", tag=tag))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "model_not_priced")
    assert world.upstream.calls(tag) == 0


PICTURE = {"image": ("a.png", b"\x89PNG\r\n", "image/png")}
SOUND = {"file": ("a.wav", b"RIFF", "audio/wav")}
UNCOUNTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("/v1/images/generations", {"prompt": "a cat"}, {}),
    ("/v1/images/edits", {"prompt": "a cat"}, PICTURE),
    ("/v1/audio/transcriptions", {}, SOUND),
    ("/v1/audio/speech", {"input": "a cat", "voice": "alloy"}, {}),
    ("/v1/rerank", {"query": "a cat", "documents": ["a dog"]}, {}),
    ("/v1/ocr", {"document": {"type": "document_url", "document_url": "http://127.0.0.1/"}}, {}),
]


@pytest.mark.parametrize(("path", "body", "files"), UNCOUNTED, ids=[row[0] for row in UNCOUNTED])
def test_a_kind_of_call_whose_cost_is_not_counted_is_refused(
    world: World, strict: Proxy, team: Team, path: str, body: dict[str, Any], files: dict[str, Any]
) -> None:
    before, billed = strict.told("unpriced_refused"), len(world.upstream.books()["billed"])
    sent = {"model": "dear", **body}
    with strict.client(team.key) as client:
        answer = client.post(path, data=sent, files=files) if files else client.post(path, json=sent)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error"), answer.text
    assert "has no price" in answer.text
    assert strict.told("unpriced_refused") == before + 1
    assert len(world.upstream.books()["billed"]) == billed


@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize(
    ("make", "more"),
    [
        (chat, {"max_tokens": 10**18}),
        (chat, {"max_completion_tokens": 10**18}),
        (chat, {"n": 10**18}),
        (responses, {"max_output_tokens": 10**18}),
        (messages, {"max_tokens": 10**18}),
        (chat, {"extra_body": {"model": "gpt-4o"}}),
    ],
)
def test_a_request_that_no_hold_could_cover_is_its_clients_fault(
    world: World, strict: Proxy, lenient: Proxy, team: Team, tag: str, make: Make, more: dict[str, Any], stream: bool
) -> None:
    path, body = make("dear", stream=stream, tag=tag)
    for proxy in (strict, lenient):
        before = proxy.told("unbounded_refused")
        answer = ask(proxy, team, (path, {**body, **more}))
        error = answer.json()["error"]
        # Anthropic's form of an error has no code.
        assert (answer.status_code, error.get("code")) == (400, None if make is messages else "cost_not_bounded"), answer.text
        assert "has no bound" in error["message"]
        assert proxy.told("unbounded_refused") == before + 1
    assert world.upstream.calls(tag) == 0


def test_a_health_check_of_litellm_calls_a_model_that_nobody_pays(world: World, strict: Proxy, team: Team) -> None:
    before = len(world.upstream.books()["billed"])
    with strict.client(team.key) as client:
        assert client.get("/health/readiness").status_code == 200
        assert len(world.upstream.books()["billed"]) == before
        assert client.get("/health", params={"model": "cheap"}).status_code == 200
    assert len(world.upstream.books()["billed"]) == before + 1
    assert team.settled().spent == 0


SELECTED = [
    ({}, "dear", 1),
    ({"service_tier": "priority"}, "dear", 1.7),
    ({"n": 3}, "dear", 2.8),
    ({"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}, "claude", 1.01),
]


@pytest.mark.parametrize(("more", "model", "least"), SELECTED, ids=[str(row[0])[:20] for row in SELECTED])
def test_what_a_request_selects_is_held(
    world: World, strict: Proxy, team: Team, tag: str, more: dict[str, Any], model: str, least: float
) -> None:
    def held(extra: dict[str, Any], suffix: str) -> int:
        path, body = (messages if model == "claude" else chat)(model, tag=f"{tag}{suffix}", wait=True)
        with ThreadPoolExecutor() as others:
            answer = others.submit(ask, strict, team, (path, {**body, **extra}))
            eventually(lambda: world.upstream.calls(f"{tag}{suffix}"))
            reserved = team.budget().reserved
            world.upstream.go()
            assert answer.result().status_code == 200, answer.result().text
        team.settled()
        return reserved

    # A letter that continues the tag could make another number of tokens of it.
    assert held(more, "-b") >= least * held({}, "-a") > 0


def test_a_client_cannot_set_a_price(world: World, strict: Proxy, team: Team, tag: str) -> None:
    path, body = chat("dear", tag=tag)
    refused = ask(strict, team, (path, {**body, "input_cost_per_token": 0, "output_cost_per_token": 0}))
    assert refused.status_code >= 400
    assert world.upstream.calls(tag) == 0


def test_a_client_cannot_join_another_call(strict: Proxy, team: Team, tag: str) -> None:
    path, body = chat("dear", tag=tag)
    same = {"litellm_call_id": "mine", "metadata": {"holdfast_call": "mine"}}
    for _ in range(2):
        assert ask(strict, team, (path, {**body, **same})).status_code == 200
    assert team.settled().spent == 2 * cost(DEAR)


def test_a_denial_is_an_error_that_the_sdk_asks_once(world: World, strict: Proxy, team: Team, tag: str) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, 1000)
    before = strict.told("denied")
    client = openai.OpenAI(base_url=f"{strict.url}/v1", api_key=poor.key)
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="cheap", messages=said(tag=tag), max_tokens=1000)  # type: ignore[arg-type]
    error = caught.value
    assert (error.status_code, error.code, error.type) == (429, "insufficient_quota", "insufficient_quota")
    assert isinstance(error.body, dict)
    assert (error.body["scope"], error.body["holdfast_error"]) == (poor.scope, "BUDGET_EXCEEDED")
    # Asked once, and the provider not at all.
    assert strict.told("denied") == before + 1
    assert world.upstream.calls(tag) == 0


@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize("make", [chat, responses, messages])
def test_a_denial_is_the_same_on_each_path(world: World, strict: Proxy, team: Team, tag: str, make: Make, stream: bool) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, 1000)
    refused = ask(strict, poor, make("dear", stream=stream, tag=tag))
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
    assert refused.json()["error"]["message"].startswith("The call is over budget")
    assert world.upstream.calls(tag) == 0


def test_a_denial_says_when_funds_come_back(world: World, lenient: Proxy, team: Team, tag: str) -> None:
    # The hold of this proxy costs only the input if it expires, so the rest would come back.
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, 180 * DEAR[1])
    with ThreadPoolExecutor() as others:
        first = others.submit(ask, lenient, poor, chat("dear", tag=tag, wait=True))
        eventually(lambda: world.upstream.calls(tag))
        refused = ask(lenient, poor, chat("dear", tag=f"{tag}2"))
        world.upstream.go()
        assert first.result().status_code == 200
    error = refused.json()["error"]
    assert error["holdfast_error"] == "BUDGET_EXCEEDED"
    assert 0 < error["retry_after_ms"] <= 66_000
    assert 1 <= int(refused.headers["retry-after"]) <= 66
    assert refused.headers["x-should-retry"] == "false"


def test_the_status_of_a_denial_can_be_set(world: World, lenient: Proxy, team: Team, tag: str) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, 1000)
    refused = ask(lenient, poor, chat("dear", tag=tag))
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "insufficient_quota")


def test_a_caller_without_a_budget_is_refused(strict: Proxy, tag: str) -> None:
    with strict.client("sk-nobody.ann") as client:
        refused = client.post("/v1/chat/completions", json=chat("dear", tag=tag)[1])
    assert (refused.status_code, refused.json()["error"]["holdfast_error"]) == (429, "NOT_FOUND")


def test_each_level_of_the_hierarchy_has_its_budget(world: World, strict: Proxy, team: Team, tag: str) -> None:
    user = f"{team.scope}/app:key-{team.name}/workflow:ann..40example.com"
    world.holdfast.allocate(user, 10**6)
    ann = Team(world.holdfast, team.name, "ann@example.com")
    path, body = chat("cheap", tag=tag)
    world.holdfast.allocate(f"{user}/agent:end-7", 10**6)
    assert ask(strict, ann, (path, {**body, "user": "end-7"})).status_code == 200
    for scope in (team.scope, user, f"{user}/agent:end-7"):
        assert world.holdfast.settled(scope).spent == cost(CHEAP)


def test_a_commit_tells_tokens_model_and_time(world: World, strict: Proxy, team: Team, tag: str) -> None:
    ask(strict, team, chat("cheap", tag=tag))
    team.settled()
    (found,) = world.holdfast.get("/v1/reservations", tenant="acme", workspace=team.name)["reservations"]
    record = world.holdfast.get(f"/ops/reservations/{found['reservation_id']}")
    metrics = record["end"]["committed_metrics"]
    assert (metrics["tokens_input"], metrics["tokens_output"]) == (10, 5)
    assert metrics["latency_ms"] >= 0
    assert found["action"] == {"kind": "llm.completion", "name": "cheap"}
