"""The requests that the tests send. Their texts order what the made-up provider does."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conftest import Proxy, Team, World, eventually, said

# USD_MICROCENTS a token, 10^-8 dollars, in and out.
CHEAP = (15, 60)
DEAR = (250, 1000)
EMBED = (2, 0)
CLAUDE = (300, 1500)
OWN = (100, 200)
INSTRUCT = (150, 200)

Call = tuple[str, dict[str, Any]]
Make = Callable[..., Call]


def chat(model: str, stream: bool = False, **orders: Any) -> Call:
    body: dict[str, Any] = {"model": model, "messages": said(**orders), "max_tokens": 100}
    return "/v1/chat/completions", {**body, "stream": True} if stream else body


def responses(model: str, stream: bool = False, **orders: Any) -> Call:
    body: dict[str, Any] = {"model": model, "input": json.dumps(orders), "max_output_tokens": 100}
    return "/v1/responses", {**body, "stream": True} if stream else body


def messages(model: str, stream: bool = False, **orders: Any) -> Call:
    body: dict[str, Any] = {"model": model, "messages": said(**orders), "max_tokens": 100}
    return "/v1/messages", {**body, "stream": True} if stream else body


def embeddings(model: str, **orders: Any) -> Call:
    return "/v1/embeddings", {"model": model, "input": json.dumps(orders)}


def completions(model: str, stream: bool = False, **orders: Any) -> Call:
    body: dict[str, Any] = {"model": model, "prompt": json.dumps(orders), "max_tokens": 100}
    return "/v1/completions", {**body, "stream": True} if stream else body


def cost(price: tuple[int, int], tokens_in: int = 10, tokens_out: int = 5) -> int:
    """By default, what the provider counts unless a request orders otherwise."""
    return tokens_in * price[0] + tokens_out * price[1]


# Each way to a provider: the route, and whose format LiteLLM speaks behind it.
ROUTES: dict[str, tuple[Make, str, tuple[int, int]]] = {
    "a chat": (chat, "dear", DEAR),
    "a chat with Anthropic": (chat, "claude", CLAUDE),
    "a text completion": (completions, "instruct", INSTRUCT),
    "a text completion by a chat": (completions, "dear", DEAR),
    "a text completion by Anthropic": (completions, "claude", CLAUDE),
    "a response": (responses, "dear", DEAR),
    "a response by Anthropic": (responses, "claude", CLAUDE),
    "a message": (messages, "claude", CLAUDE),
    "a message to OpenAI": (messages, "dear", DEAR),
}
ROUTE = pytest.mark.parametrize(("make", "model", "price"), ROUTES.values(), ids=ROUTES)
WAY = pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])


def bill(world: World, tag: str, price: tuple[int, int]) -> int:
    """What the provider bills."""
    return sum(cost(price, one["in"], one["out"]) for one in world.upstream.billed(tag))


def ask(proxy: Proxy, team: Team, call: Call) -> httpx.Response:
    with proxy.client(team.key) as client:
        return client.post(call[0], json=call[1])


# Orders a stream that waits in the middle of its answer, and then breaks.
BREAKS: dict[str, object] = {"stream": True, "completion_tokens": 40, "wait_after": 12, "cut_after": 12}
# Orders a stream that goes on for as long as somebody listens.
WAITS: dict[str, object] = {"stream": True, "completion_tokens": 60, "wait_after": 12}
# Of the twelve parts before that, some are no words.
WORDS_BEFORE = 8


def break_stream(world: World, proxy: Proxy, team: Team, call: Call, tag: str) -> None:
    """Has the provider break the connection of a call with BREAKS as soon as words of its answer are here."""
    with proxy.client(team.key) as client, client.stream("POST", call[0], json=call[1]) as answer:
        words = (line for line in answer.iter_lines() if "word" in line)
        for _ in range(WORDS_BEFORE):
            next(words)
        eventually(lambda: world.upstream.waits(tag))
        world.upstream.go()
        with contextlib.suppress(httpx.HTTPError):
            for _ in words:
                pass


def leave_stream(proxy: Proxy, team: Team, call: Call, after: int = 3) -> None:
    """Closes the connection after so many words of the stream."""
    with proxy.client(team.key) as client, client.stream("POST", call[0], json=call[1]) as answer:
        words = (line for line in answer.iter_lines() if "word" in line)
        for _ in range(after):
            next(words)


def leave(world: World, proxy: Proxy, team: Team, call: Call, tag: str) -> None:
    """Sends a request, and closes the connection as soon as the provider has it."""
    content = json.dumps(call[1]).encode()
    head = f"POST {call[0]} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {team.key}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", httpx.URL(proxy.url).port or 0)) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        eventually(lambda: world.upstream.calls(tag))
