"""A made-up provider: OpenAI's and Anthropic's wire formats, with faults that the text of a request asks for.

The last user text may be a JSON object of the fields of `Orders`. What the provider bills is counted: a call is billed from the moment
at which it starts to answer, whatever becomes of the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass
class Orders:
    """What the text of a request orders."""

    tag: str = ""
    # How long the answer takes; in a stream, before the first part.
    delay_ms: int = 0
    # Wait until somebody posts to /go.
    wait: bool = False
    status: int = 200
    # How many calls of this tag fail with `status`, or are cut; 0 for all.
    times: int = 0
    prompt_tokens: int = 10
    completion_tokens: int = 5
    # Break the connection: at once if 0, after so many parts of a stream.
    cut_after: int = -1
    # Wait in a stream, after so many parts, until somebody posts to /go.
    wait_after: int = -1
    # Leave out the usage of an answer, or at the end of a stream.
    no_usage: bool = False
    # Say `usage: null` instead, or zeros.
    null_usage: bool = False
    zero_usage: bool = False
    # End a stream with an error event, after so many parts.
    error_after: int = -1


@dataclass
class Books:
    calls: dict[str, int] = field(default_factory=dict)
    # How many have waited, or wait.
    waits: dict[str, int] = field(default_factory=dict)
    billed: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    in_flight: int = 0


books = Books()
go = asyncio.Event()


def orders_in(body: dict[str, Any]) -> Orders:
    source = body.get("messages") or body.get("input") or body.get("prompt") or ""
    text = source if isinstance(source, str) else ""
    if isinstance(source, list):
        last = source[-1]
        content = last.get("content", "") if isinstance(last, dict) else last
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    if not text.startswith("{"):
        return Orders()
    known = {one.name for one in fields(Orders)}
    return Orders(**{name: value for name, value in json.loads(text).items() if name in known})


async def wait_for_go(orders: Orders) -> None:
    books.waits[orders.tag] = books.waits.get(orders.tag, 0) + 1
    await go.wait()


@contextmanager
def counted() -> Iterator[None]:
    books.in_flight += 1
    try:
        yield
    finally:
        books.in_flight -= 1


async def begin(request: Request) -> tuple[dict[str, Any], Orders, Response | None]:
    """Reads a request, waits as it says, and bills it unless it fails."""
    body = await request.json()
    orders = orders_in(body)
    seen = books.calls[orders.tag] = books.calls.get(orders.tag, 0) + 1
    if orders.times and seen > orders.times:
        orders.status, orders.cut_after = 200, -1
    fails = orders.status != 200
    with counted():
        if not fails:
            books.billed.append(
                {"tag": orders.tag, "model": body.get("model"), "in": orders.prompt_tokens, "out": orders.completion_tokens}
            )
        if orders.wait:
            await wait_for_go(orders)
        await asyncio.sleep(orders.delay_ms / 1000)
    if fails:
        books.failed += 1
        error = {"message": "made up", "type": "server_error", "param": None, "code": None}
        return body, orders, JSONResponse({"error": error}, orders.status)
    if orders.cut_after == 0:
        return body, orders, Broken()
    return body, orders, None


def with_usage(answer: dict[str, Any], usage: dict[str, Any], orders: Orders) -> dict[str, Any]:
    if orders.no_usage:
        return answer
    if orders.zero_usage:
        usage = {name: 0 if isinstance(value, int) else value for name, value in usage.items()}
    return {**answer, "usage": None if orders.null_usage else usage}


class Broken(Response):
    """Ends the connection in the middle of an answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"application/json"), (b"content-length", b"9999")],
            }
        )
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise ConnectionResetError("ordered")


def sse(data: Any, event: str = "") -> str:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


async def stream(parts: list[str], orders: Orders, error: str) -> AsyncIterator[str]:
    with counted():
        for index, part in enumerate(parts):
            if index == orders.error_after:
                yield error
                return
            if index == orders.wait_after:
                await wait_for_go(orders)
            if index == orders.cut_after:
                raise ConnectionResetError("ordered")
            yield part


def streaming(parts: list[str], orders: Orders, error: str) -> Response:
    return StreamingResponse(stream(parts, orders, error), media_type="text/event-stream")


def tokens(orders: Orders) -> dict[str, int]:
    asked, written = orders.prompt_tokens, orders.completion_tokens
    return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}


OPENAI_ERROR = sse({"error": {"message": "made up", "type": "server_error", "param": None, "code": None}})


async def chat(request: Request) -> Response:
    body, orders, ended = await begin(request)
    if ended is not None:
        return ended
    base = {"id": f"chatcmpl-{len(books.billed)}", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        message = {"role": "assistant", "content": "word " * orders.completion_tokens}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse(with_usage({**base, "object": "chat.completion", "choices": [choice]}, tokens(orders), orders))
    chunk = {**base, "object": "chat.completion.chunk"}
    parts = [
        sse({**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "word "}, "finish_reason": None}]})
        for _ in range(orders.completion_tokens)
    ]
    parts.append(sse({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        parts.append(sse(with_usage({**chunk, "choices": []}, tokens(orders), orders)))
    return streaming([*parts, sse("[DONE]")], orders, OPENAI_ERROR)


async def completions(request: Request) -> Response:
    body, orders, ended = await begin(request)
    if ended is not None:
        return ended
    base = {"id": f"cmpl-{len(books.billed)}", "object": "text_completion", "created": 1, "model": body["model"]}
    choice = {"index": 0, "text": "word ", "logprobs": None, "finish_reason": None}
    if not body.get("stream"):
        whole = {**choice, "text": "word " * orders.completion_tokens, "finish_reason": "stop"}
        return JSONResponse(with_usage({**base, "choices": [whole]}, tokens(orders), orders))
    parts = [sse({**base, "choices": [choice]})] * orders.completion_tokens
    parts.append(sse({**base, "choices": [{**choice, "text": "", "finish_reason": "stop"}]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        parts.append(sse(with_usage({**base, "choices": []}, tokens(orders), orders)))
    return streaming([*parts, sse("[DONE]")], orders, OPENAI_ERROR)


async def embeddings(request: Request) -> Response:
    body, orders, ended = await begin(request)
    if ended is not None:
        return ended
    usage = {"prompt_tokens": orders.prompt_tokens, "total_tokens": orders.prompt_tokens}
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}]
    return JSONResponse(with_usage({"object": "list", "data": data, "model": body["model"]}, usage, orders))


async def responses(request: Request) -> Response:
    body, orders, ended = await begin(request)
    if ended is not None:
        return ended
    text = "word " * orders.completion_tokens
    content = [{"type": "output_text", "text": text, "annotations": []}]
    usage = {
        "input_tokens": orders.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": orders.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": orders.prompt_tokens + orders.completion_tokens,
    }
    answer = {
        "id": f"resp_{len(books.billed)}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }
    answer = with_usage(answer, usage, orders)
    if not body.get("stream"):
        return JSONResponse(answer)
    started = {**answer, "status": "in_progress", "output": [], "usage": None}
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "word "}
    parts = [sse({"type": "response.created", "sequence_number": 0, "response": started}, "response.created")]
    parts += [sse({**delta, "sequence_number": 1 + n}, delta["type"]) for n in range(orders.completion_tokens)]
    parts.append(sse({"type": "response.completed", "sequence_number": 99, "response": answer}, "response.completed"))
    error = {"type": "error", "sequence_number": 99, "code": "server_error", "message": "made up", "param": None}
    return streaming(parts, orders, sse(error, "error"))


async def messages(request: Request) -> Response:
    body, orders, ended = await begin(request)
    if ended is not None:
        return ended
    usage = {"input_tokens": orders.prompt_tokens, "output_tokens": orders.completion_tokens}
    answer = {"id": f"msg_{len(books.billed)}", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}
    text = "word " * orders.completion_tokens
    if not body.get("stream"):
        content = [{"type": "text", "text": text}]
        return JSONResponse(with_usage({**answer, "content": content, "stop_reason": "end_turn"}, usage, orders))
    first = with_usage({**answer, "content": [], "stop_reason": None}, {**usage, "output_tokens": 1}, orders)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    last = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    end = with_usage(last, {"output_tokens": orders.completion_tokens}, orders)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": first},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[delta] * orders.completion_tokens,
        {"type": "content_block_stop", "index": 0},
        end,
        {"type": "message_stop"},
    ]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "made up"}}
    return streaming([sse(event, event["type"]) for event in events], orders, sse(error, "error"))


async def show_books(_: Request) -> Response:
    return JSONResponse(
        {"calls": books.calls, "waits": books.waits, "billed": books.billed, "failed": books.failed, "in_flight": books.in_flight}
    )


async def release_waiters(_: Request) -> Response:
    go.set()
    await asyncio.sleep(0)
    go.clear()
    return Response(status_code=204)


async def forget(_: Request) -> Response:
    books.calls.clear()
    books.waits.clear()
    books.billed.clear()
    books.failed = 0
    return Response(status_code=204)


app = Starlette(
    routes=[
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/books", show_books),
        Route("/go", release_waiters, methods=["POST"]),
        Route("/forget", forget, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
