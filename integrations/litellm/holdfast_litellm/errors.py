"""Refusals in the form of OpenAI's errors, which the OpenAI SDKs turn into exceptions and do not retry."""

from __future__ import annotations

from typing import Any

from litellm.proxy._types import ProxyException

# Stops both OpenAI SDKs from repeating a 429, a 409 or a 5xx.
DO_NOT_RETRY = {"x-should-retry": "false"}


class Refusal(ProxyException):
    """A call that is not made. The proxy answers with it, and counts nothing."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        type: str | None = None,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message=message, type=type or code, param=None, code=status, headers=dict(headers or {}))
        # Routes that wrap whatever a callback raises look for the status here. Without it they answer 500.
        self.status_code = status
        self._code = code
        self._details = details or {}

    def to_dict(self) -> dict[str, Any]:
        # LiteLLM's own form has the status in `code`, where OpenAI has a word.
        return {"message": self.message, "type": self.type, "param": None, "code": self._code, **self._details}


def denied(status: int, body: dict[str, Any]) -> Refusal:
    """The budget does not cover the call. `body` is Holdfast's error."""
    details = body.get("details") or {}
    scope = details.get("scope") or (details.get("deny_detail") or {}).get("blocked_by_scope")
    retry_after_ms = details.get("retry_after_ms")
    told = {"holdfast_error": body.get("error"), "scope": scope, "retry_after_ms": retry_after_ms}
    where = f" at {scope}" if scope and scope not in str(body.get("message")) else ""
    headers = dict(DO_NOT_RETRY)
    if retry_after_ms is not None:
        headers["retry-after"] = str(-(-int(retry_after_ms) // 1000))
    return Refusal(
        status,
        "insufficient_quota",
        f"The call is over budget: {body.get('message', 'refused')}{where}",
        headers=headers,
        details={name: value for name, value in told.items() if value is not None},
    )


def too_many(body: dict[str, Any], retry_after: str | None) -> Refusal:
    """Holdfast limits the rate of requests. Waiting helps, so that clients may retry."""
    headers = {"retry-after": retry_after} if retry_after else {}
    return Refusal(429, "rate_limit_exceeded", f"Holdfast: {body.get('message', 'too many requests')}", headers=headers)


def away() -> Refusal:
    """Nobody can say whether the budget covers the call."""
    return Refusal(
        503,
        "budget_authority_unavailable",
        "The budget cannot be checked at the moment.",
        type="server_error",
        headers={"retry-after": "1"},
    )


def misconfigured(status: int, body: dict[str, Any]) -> Refusal:
    """Holdfast refused the request itself, such as for a revoked key. The log says more than the client may know."""
    told = {"holdfast_error": body.get("error"), "holdfast_status": status}
    return Refusal(
        500,
        "budget_misconfigured",
        "The budget cannot be checked: the gateway's request to Holdfast was refused.",
        type="server_error",
        headers=DO_NOT_RETRY,
        details=told,
    )


def several_models() -> Refusal:
    """Each of them would be billed, and the estimate is that of one call."""
    message = "A request for several models at once cannot be counted against a budget. Ask for one."
    return Refusal(400, "model_not_priced", message, type="invalid_request_error", headers=DO_NOT_RETRY)


def in_background() -> Refusal:
    """Its cost would be known only when nobody waits for it any more."""
    message = "A response in the background cannot be counted against a budget. Ask for it without `background`."
    return Refusal(400, "background_not_counted", message, type="invalid_request_error", headers=DO_NOT_RETRY)


def unpriced(what: str) -> Refusal:
    """The cost of the call could not be counted."""
    message = f"{what} has no price, so that its cost cannot be counted against a budget. Give it one in the gateway's configuration."
    return Refusal(400, "model_not_priced", message, type="invalid_request_error", headers=DO_NOT_RETRY)


def unbounded(why: str) -> Refusal:
    """The client asks for more than any hold could cover, whatever its budget has."""
    message = f"The cost of the request has no bound: {why}."
    return Refusal(400, "cost_not_bounded", message, type="invalid_request_error", headers=DO_NOT_RETRY)
