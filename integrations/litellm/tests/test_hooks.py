"""Which of LiteLLM's hooks come for which call. The callback relies on this table; a new version that differs is noticed here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from calls import BREAKS, WAITS, Call, Make, ask, break_stream, chat, embeddings, leave, leave_stream, messages, responses
from conftest import Proxy, Team, World, eventually

# Name, request, model, orders, how the client leaves, hooks. Those that log come when they come; the others come in this order.
ONE = ["begin", "attempt", "sent"]
TWO = [*ONE, "attempt failed", "attempt", "sent"]
LOGGED = "log: cost"


def malformed(model: str, **orders: Any) -> Call:
    return "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": 5}]}


TABLE: list[tuple[str, Make, str, dict[str, object], str, list[str]]] = [
    ("an answer", chat, "dear", {}, "", [*ONE, "attempt succeeded", "answer with a cost", LOGGED]),
    ("an embedding", embeddings, "embed", {}, "", [*ONE, "attempt succeeded", "answer with a cost", LOGGED]),
    ("a response", responses, "dear", {}, "", [*ONE, "attempt succeeded", "answer with a cost", LOGGED]),
    # Its cost is only logged.
    ("a message", messages, "claude", {}, "", [*ONE, "attempt succeeded", "answer", LOGGED]),
    # So a logged failure does not mean that the call failed.
    (
        "a retry that succeeds",
        chat,
        "dear",
        {"status": 500, "times": 1},
        "",
        [*TWO, "attempt succeeded", "answer with a cost", "log: failed", LOGGED],
    ),
    # LiteLLM cannot translate it.
    ("a malformed request", malformed, "dear", {}, "", ["begin", *["attempt", "attempt failed"] * 2, "failure", "log: failed"]),
    # The second begins without an end of the first.
    ("a stream that breaks at once", chat, "dear", {"stream": True, "cut_after": 0}, "", [*ONE, *ONE[1:], "failure", "log: failed"]),
    ("a failure", chat, "dear", {"status": 500}, "", [*TWO, "attempt failed", "failure", "log: failed"]),
    ("a stream", chat, "dear", {"stream": True}, "", [*ONE, "stream ended", LOGGED]),
    ("a stream of a response", responses, "dear", {"stream": True}, "", [*ONE, "stream ended", LOGGED]),
    ("a stream of a message", messages, "claude", {"stream": True}, "", [*ONE, "stream ended", LOGGED]),
    (
        "a stream that breaks",
        chat,
        "dear",
        BREAKS,
        "",
        [*ONE, "stream broke", "failure", "log: failed at a cost"],
    ),
    # Here, LiteLLM knows no cost.
    ("a broken response", responses, "dear", BREAKS, "", [*ONE, "stream broke", "failure", "log: failed"]),
    (
        "a broken message",
        messages,
        "claude",
        BREAKS,
        "",
        [*ONE, "stream broke", "failure", "log: failed at a cost"],
    ),
    (
        "a stream that is left",
        chat,
        "dear",
        WAITS,
        "stream",
        [*ONE, "stream left", LOGGED],
    ),
    (
        "a message that is left",
        messages,
        "claude",
        WAITS,
        "stream",
        [*ONE, "stream left", LOGGED],
    ),
    # The call goes on without its client.
    ("an answer that is not awaited", chat, "dear", {"wait": True}, "answer", [*ONE, "attempt succeeded", "answer with a cost", LOGGED]),
]


@pytest.mark.parametrize(("make", "model", "orders", "leaves", "hooks"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_hooks_of_a_call(
    world: World, strict: Proxy, team: Team, tag: str, make: Make, model: str, orders: dict[str, object], leaves: str, hooks: list[str]
) -> None:
    call = make(model, tag=tag, **orders)
    if orders is BREAKS:
        break_stream(world, strict, team, call, tag)
    elif leaves == "stream":
        leave_stream(strict, team, call)
    elif leaves == "answer":
        leave(world, strict, team, call, tag)
        world.upstream.go()
    else:
        ask(strict, team, call)

    def recorded() -> list[str]:
        lines = [json.loads(line) for line in world.hook_record.read_text().splitlines()]
        return [line["hook"] for line in lines if line["team"] == team.name]

    def in_order(seen: list[str]) -> list[str]:
        return [hook for hook in seen if not hook.startswith("log")] + sorted(hook for hook in seen if hook.startswith("log"))

    eventually(lambda: len(recorded()) >= len(hooks))
    team.settled()
    assert in_order(recorded()) == in_order(hooks)
