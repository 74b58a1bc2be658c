"""What the provider bills against what is charged: on each route, answered or streamed, whatever becomes of the answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from calls import (
    BREAKS,
    CLAUDE,
    DEAR,
    EMBED,
    OWN,
    ROUTE,
    ROUTES,
    WAITS,
    WAY,
    WORDS_BEFORE,
    Call,
    Make,
    ask,
    bill,
    break_stream,
    chat,
    completions,
    cost,
    embeddings,
    leave_stream,
    messages,
    responses,
)
from conftest import Proxy, Team, World, eventually, said

Price = tuple[int, int]
MAIN = [(chat, "dear", DEAR), (completions, "dear", DEAR), (responses, "dear", DEAR), (messages, "claude", CLAUDE)]
MAIN_IDS = ["a chat", "a text completion", "a response", "a message"]
# The requests have fewer words than this, and the limit of their output is this.
MOST_IN = 100
LIMIT = 100


def is_counted(spent: int, price: Price, least: int, most: int) -> bool:
    """Whether a charge is that of so many words of an answer, with a request whose words are counted, too."""
    return cost(price, 10, least) <= spent <= cost(price, MOST_IN, most)


def is_orphaned(spent: int, price: Price, attempts: int) -> bool:
    """Whether a charge is the whole hold, once for each attempt."""
    return attempts * cost(price, 10, LIMIT) <= spent <= attempts * cost((2 * price[0], price[1]), MOST_IN, LIMIT)


@WAY
@ROUTE
def test_what_is_billed_is_charged(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price, stream: bool
) -> None:
    answer = ask(strict, team, make(model, stream=stream, tag=tag, prompt_tokens=1234, completion_tokens=77))
    assert answer.status_code == 200, answer.text
    assert answer.text.count("word ") >= 77
    assert team.settled().spent == bill(world, tag, price) == cost(price, 1234, 77)


@pytest.mark.parametrize(("make", "model", "price"), [(embeddings, "embed", EMBED), (chat, "own", OWN)])
def test_so_is_that_of_an_embedding_and_at_a_price_of_ones_own(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price
) -> None:
    assert ask(strict, team, make(model, tag=tag)).status_code == 200
    assert team.settled().spent == bill(world, tag, price) > 0


def test_a_text_completion_has_no_usage_for_a_client_that_did_not_ask_for_it(strict: Proxy, team: Team, tag: str) -> None:
    path, body = completions("instruct", stream=True, tag=tag)
    assert "usage" not in ask(strict, team, (path, body)).text
    assert '"total_tokens":15' in ask(strict, team, (path, {**body, "stream_options": {"include_usage": True}})).text
    assert team.settled().spent == 2 * cost(ROUTES["a text completion"][2])


def check_without_usage(world: World, proxy: Proxy, team: Team, tag: str, call: Call, price: Price) -> None:
    ask(proxy, team, call)
    spent = team.settled().spent
    attempts = len(world.upstream.billed(tag))
    # LiteLLM cannot read some of these, and asks again.
    assert (attempts == 1 and is_counted(spent, price, 40, 41)) or is_orphaned(spent, price, attempts)


@WAY
@ROUTE
def test_an_answer_without_its_usage_is_counted_or_unknown(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price, stream: bool
) -> None:
    check_without_usage(world, strict, team, tag, make(model, stream=stream, tag=tag, completion_tokens=40, no_usage=True), price)


@pytest.mark.parametrize("without", ["null_usage", "zero_usage"])
@WAY
@pytest.mark.parametrize(("make", "model", "price"), MAIN, ids=MAIN_IDS)
def test_so_is_one_whose_usage_is_nothing(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price, stream: bool, without: str
) -> None:
    check_without_usage(world, strict, team, tag, make(model, stream=stream, tag=tag, completion_tokens=40, **{without: True}), price)


def test_what_was_counted_or_unknown_is_told(strict: Proxy, team: Team, tag: str) -> None:
    counted, unknown = strict.told("cost_counted"), strict.told("cost_unknown")
    ask(strict, team, chat("dear", tag=tag, no_usage=True))
    ask(strict, team, chat("dear", stream=True, tag=tag, cut_after=0))
    team.settled()
    assert (strict.told("cost_counted"), strict.told("cost_unknown")) == (counted + 1, unknown + 1)


@pytest.mark.parametrize("without", ["no_usage", "zero_usage"])
def test_so_is_an_embedding(strict: Proxy, team: Team, tag: str, without: str) -> None:
    assert ask(strict, team, embeddings("embed", tag=tag, **{without: True})).status_code == 200
    assert is_counted(team.settled().spent, EMBED, 0, 0)


def test_a_budget_ends_without_any_usage(world: World, strict: Proxy, team: Team, tag: str) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, cost(DEAR, MOST_IN, 2 * LIMIT))
    call = completions("dear", stream=True, tag=tag, no_usage=True, completion_tokens=100)
    answers = []
    for _ in range(10):
        answers.append(ask(strict, poor, call).status_code)
        poor.settled()
    assert answers.count(200) <= 2
    assert answers[2:] == [429] * 8


@pytest.mark.parametrize("asked", [{"background": True}, {"extra_body": {"background": True}}])
def test_a_response_in_the_background_is_refused(world: World, strict: Proxy, team: Team, tag: str, asked: dict[str, Any]) -> None:
    path, body = responses("dear", tag=tag)
    answer = ask(strict, team, (path, {**body, **asked}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "background_not_counted")
    assert (world.upstream.calls(tag), team.settled().spent) == (0, 0)


@ROUTE
def test_a_stream_that_ends_with_an_error_is_charged_what_had_arrived(
    strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price
) -> None:
    ask(strict, team, make(model, stream=True, tag=tag, completion_tokens=60, error_after=50))
    assert is_counted(team.settled().spent, price, 45, 52)


@ROUTE
def test_a_stream_that_breaks_is_charged_what_had_arrived(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price
) -> None:
    break_stream(world, strict, team, make(model, tag=tag, **BREAKS), tag)
    # The provider's own count of a broken stream is unknown: it read the request, and wrote some of the words.
    assert is_counted(team.settled().spent, price, WORDS_BEFORE, 14)
    assert len(world.upstream.billed(tag)) == 1


@ROUTE
def test_a_client_that_leaves_a_stream_is_charged_what_had_arrived(
    strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price
) -> None:
    leave_stream(strict, team, make(model, tag=tag, **WAITS))
    assert is_counted(team.settled().spent, price, 3, 14)


@ROUTE
def test_a_stream_that_breaks_before_its_first_word_counts_once_for_each_attempt(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price
) -> None:
    ask(strict, team, make(model, stream=True, tag=tag, cut_after=0))
    assert is_orphaned(team.settled().spent, price, len(world.upstream.billed(tag)))


def test_so_does_one_whose_retry_succeeds(world: World, strict: Proxy, team: Team, tag: str) -> None:
    assert ask(strict, team, chat("dear", stream=True, tag=tag, cut_after=0, times=1)).status_code == 200
    assert len(world.upstream.billed(tag)) == 2
    assert is_orphaned(team.settled().spent - cost(DEAR), DEAR, 1)


@WAY
@ROUTE
def test_what_the_provider_refused_costs_nothing(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, price: Price, stream: bool
) -> None:
    ask(strict, team, make(model, stream=stream, tag=tag, status=400))
    assert (team.settled().spent, world.upstream.calls(tag)) == (0, 1)


MALFORMED: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/chat/completions", "dear", {"messages": [{"role": "user", "content": 5}]}),
    ("/v1/chat/completions", "claude", {"messages": [{"role": "user", "content": 5}]}),
    ("/v1/chat/completions", "claude", {"messages": said(), "tools": [{"type": "function"}]}),
    ("/v1/responses", "claude", {"input": [{"role": "user", "content": 5}]}),
]


@WAY
@pytest.mark.parametrize(("path", "model", "body"), MALFORMED)
def test_what_was_never_sent_costs_nothing(
    world: World, strict: Proxy, team: Team, path: str, model: str, body: dict[str, Any], stream: bool
) -> None:
    asked, released, unknown = world.upstream.calls(""), strict.told("released"), strict.told("cost_unknown")
    assert ask(strict, team, (path, {"model": model, "stream": stream, **body})).status_code >= 400
    assert (team.settled().spent, world.upstream.calls("")) == (0, asked)
    eventually(lambda: strict.told("released") == released + 1)
    assert strict.told("cost_unknown") == unknown


@pytest.mark.parametrize("after", [None, 1, 1000], ids=["answer", "in the stream", "at its end"])
@pytest.mark.parametrize("by", ["before", "after", "rail"])
@pytest.mark.parametrize(("make", "model", "price"), MAIN, ids=MAIN_IDS)
def test_an_answer_that_a_guard_refuses_is_charged(
    world: World, guarded: Proxy, team: Team, tag: str, make: Make, model: str, price: Price, by: str, after: int | None
) -> None:
    orders = {"refused_by": by, "refuse_after": after or 0}
    refused = False
    try:
        answer = ask(guarded, team, make(model, stream=after is not None, tag=tag, completion_tokens=40, **orders))
        refused = answer.status_code == 400 or "refused" in answer.text
    except httpx.RemoteProtocolError:
        refused = True
    # After the last event of a response, LiteLLM does not tell its client.
    assert refused or (make is responses and after == 1000)
    spent = team.settled().spent
    if after is None:
        assert spent == bill(world, tag, price)
    else:
        assert is_counted(spent, price, 0 if after == 1 else 40, 41)
        assert spent > 0
    assert len(world.upstream.billed(tag)) == 1
