"""The callback: which of LiteLLM's hooks begins, prices and ends a call.

    async_pre_call_hook                     before anything is sent: reserve, or refuse
    async_pre_call_deployment_hook          an attempt begins
    async_post_call_*_deployment_hook       an attempt ends
    async_post_call_success_hook            the end of a call that is no stream
    async_post_call_streaming_iterator_hook the end of a stream, however it ends
    async_post_call_failure_hook            the end of a call that failed, as far as LiteLLM tells
    async_log_success_event                 the cost, also of what a client left behind
    async_log_failure_event                 the cost of what had arrived before a stream broke

All of them must stand in the class itself: LiteLLM looks for some of them there, and not in what it inherits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from . import errors
from .asked import Unbounded, count, read
from .attempts import Attempts, cost_nothing
from .client import Away, Client, NotSent
from .estimate import FREE, KINDS, Prices, estimate, microcents
from .ledger import Call, Ledger, Usage, refusal_of
from .prices import Unpriced
from .settings import Settings
from .streams import text_of
from .told import tell

# Where LiteLLM carries the nonce from the first hook to the last.
NONCE = "holdfast_call"
# How long the answer to a client waits for its commit, so that the next call of a client finds its budget settled.
ANSWER_WAITS_S = 0.25
# How long a cost may take to be reported after the end of a call.
REPORT_S = 10.0
# The same where there is rarely a report.
UNLIKELY_REPORT_S = 1.0
# How long a settled call is remembered, for a report that comes after that.
REMEMBERED_S = 120.0

# The calls in which LiteLLM takes commas in the model's name for a list.
_SPLIT = ("completion", "acompletion")

_current: ContextVar[str | None] = ContextVar("holdfast_call", default=None)


class _Followed(Call):
    """A call as the hooks see it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # In USD_MICROCENTS, of all reports. None until there is one.
        self.cost: int | None = None
        self.usage = Usage()
        # What a hook found in the answer and settled with, before the report of the same cost.
        self.settled_with: int | None = None
        # What arrived of a stream that broke, at its price.
        self.partial: int | None = None
        self.reported = asyncio.Event()
        self.late_reports = 0


def _buckets(data: Mapping[str, Any]) -> list[Any]:
    return [data.get("litellm_metadata"), data.get("metadata")]


class HoldfastBudget(CustomLogger):
    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings or Settings.read()
        self._ledger = Ledger(Client(self._settings.url, self._settings.api_key), ttl_ms=self._settings.ttl_ms)
        self._prices = Prices(allows_unpriced=self._settings.allows_unpriced)
        self._calls: dict[str, _Followed] = {}

    # Beginning

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> dict[str, Any] | None:
        await self._forget_unsent()
        if call_type in FREE:
            return None
        if call_type in _SPLIT and "," in str(data.get("model") or ""):
            # LiteLLM would ask each of them, at once.
            tell("unpriced_refused")
            raise errors.several_models()
        try:
            call = await self._priced(user_api_key_dict, data, call_type)
        except Unpriced as what:
            if not self._settings.allows_unpriced:
                tell("unpriced_refused")
                raise errors.unpriced(str(what)) from None
            tell("unpriced_admitted", str(what))
            return None
        except Unbounded as what:
            # Whatever the operator lets pass: a client could make any model uncounted otherwise.
            tell("unbounded_refused")
            raise errors.unbounded(str(what)) from None
        if not call.subject:
            tell("misconfigured", "HOLDFAST_SUBJECT gives this caller no level")
            raise errors.misconfigured(0, {"error": "NO_SUBJECT"})
        if call.estimate.amount > 0:
            await self._admit(call)
        self._calls[call.nonce] = call
        for bucket in _buckets(data):
            if isinstance(bucket, dict):
                bucket.pop(NONCE, None)  # A client's own.
        name = "litellm_metadata" if isinstance(data.get("litellm_metadata"), dict) else "metadata"
        if not isinstance(data.get(name), dict):
            data[name] = {}
        data[name][NONCE] = call.nonce
        _current.set(call.nonce)
        return data

    async def _forget_unsent(self) -> None:
        """LiteLLM begins anew with a fallback when a limit of its own refuses the first model, and tells no hook."""
        call = self._calls.get(_current.get() or "")
        if call is not None and not call.attempts.has_begun:
            self._settle(call, 0)

    async def _priced(self, caller: Any, data: dict[str, Any], call_type: str) -> _Followed:
        if call_type not in KINDS:
            raise Unpriced(f"a call of the kind {call_type!r}")
        from litellm.proxy.proxy_server import llm_router  # Made after the callbacks.

        model = str(data.get("model") or "")
        prices = self._prices.of_call(model, data, llm_router, caller.team_id)
        asked = await asyncio.to_thread(read, data)
        amounts = estimate(prices, asked, call_type, data, self._settings.output_tokens)
        return _Followed(
            subject=self._settings.hierarchy.subject_of(caller),
            action={"kind": KINDS[call_type], "name": model[:256]},
            estimate=amounts,
            charge_on_expiry=amounts.orphan(self._settings.orphan_policy),
            attempts=Attempts(call_type),
        )

    async def _admit(self, call: _Followed) -> None:
        try:
            answer = await self._ledger.reserve(call)
        except (Away, NotSent) as error:
            if not self._settings.fails_open:
                tell("away_refused", repr(error))
                raise errors.away() from None
            tell("away_admitted", f"{error!r}; it is charged when its cost is known")
            call.reservation_id = None
            return
        refusal = refusal_of(answer, self._settings.denied_status)
        if refusal is not None:
            raise refusal

    # Attempts

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
        call = self._call_of(kwargs)
        if call is not None:
            call.attempts.start(_word(call_type))

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        call = self._call_of(request_data)
        if call is not None:
            call.attempts.succeed(_word(call_type))

    async def async_post_call_failure_deployment_hook(
        self, request_data: Any, exception: Exception, call_type: Any, fallback_depth: int | None = None
    ) -> None:
        call = self._call_of(request_data)
        if call is not None:
            call.attempts.fail(_word(call_type), exception)

    # Costs

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._report(kwargs, kwargs.get("response_cost"))

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        # It comes for attempts that are repeated, too, and says 0 whenever LiteLLM does not know better. So it never releases.
        cost = kwargs.get("response_cost")
        if cost:
            self._report(kwargs, cost)

    def _report(self, kwargs: Any, dollars: float | None) -> None:
        nonce = _nonce(kwargs.get("litellm_params") or {})
        if nonce is None or dollars is None:
            return
        call = self._calls.get(nonce)
        cost = microcents(dollars)
        if call is None:
            if cost > 0:
                tell("stray_report", f"{cost} for a call that is no longer known")
            return
        logged = kwargs.get("standard_logging_object") or {}
        usage = Usage(logged.get("prompt_tokens"), logged.get("completion_tokens"), kwargs.get("model"))
        if not call.is_settled:
            call.cost = (call.cost or 0) + cost
            call.usage = usage
            call.reported.set()
            return
        # The report of what was settled already, or the cost of something more.
        rest, call.settled_with = cost - (call.settled_with or 0), None
        if rest > 0:
            call.late_reports += 1
            self._ledger.debit_late(call, rest, usage, call.late_reports)

    # Ends

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        call = self._call_of(data)
        if call is None:
            return
        hidden = response.get("_hidden_params") if isinstance(response, dict) else getattr(response, "_hidden_params", None)
        dollars = (hidden or {}).get("response_cost")
        if dollars is None or call.cost is not None or call.attempts.unheard:
            self._ledger.in_background(self._settle_when_reported(call))
            return
        call.usage = _usage_in(response)
        call.settled_with = microcents(dollars)
        task = self._settle(call, call.settled_with)
        if task is not None:
            await asyncio.wait([task], timeout=ANSWER_WAITS_S)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        call = self._call_of(request_data)
        seen: list[Any] = []
        try:
            async for chunk in response:
                seen.append(chunk)
                yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            # The client left. LiteLLM reports what had arrived.
            raise
        except Exception:
            if call is not None:
                await self._price_partial(call, seen)
            raise
        finally:
            seen.clear()
            if call is not None:
                self._ledger.in_background(self._settle_when_reported(call))

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: str | None = None
    ) -> None:
        call = self._call_of(request_data)
        if call is None:
            return
        attempts = call.attempts
        is_open = attempts.open and not cost_nothing(original_exception)
        may_cost = attempts.has_begun and (is_open or attempts.unheard or attempts.succeeded)
        if may_cost or call.cost is not None or call.partial is not None:
            self._ledger.in_background(self._settle_when_reported(call, has_failed=True))
        else:
            self._settle(call, 0)

    async def _price_partial(self, call: _Followed, seen: list[Any]) -> None:
        words = "".join(text_of(chunk) for chunk in seen)
        tokens = await asyncio.to_thread(count, words)
        call.partial = min(call.estimate.amount, call.estimate.input + microcents(tokens * call.estimate.output_token))

    async def _settle_when_reported(self, call: _Followed, *, has_failed: bool = False) -> None:
        """LiteLLM reports costs a little after the end, or before it, or not at all."""
        is_unlikely = call.partial is not None or (has_failed and not call.attempts.succeeded)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(call.reported.wait(), UNLIKELY_REPORT_S if is_unlikely else REPORT_S)
        if call.is_settled:
            return
        known = call.cost if call.cost is not None else call.partial
        unknown = call.attempts.unheard if known is not None else max(1, call.attempts.unheard)
        if unknown:
            told = f"{call.action['name']} for {call.subject}: {unknown} attempts, {call.charge_on_expiry} each by the orphan policy"
            tell("cost_unknown", told)
        self._settle(call, (known or 0) + unknown * call.charge_on_expiry)

    def _settle(self, call: _Followed, amount: int) -> asyncio.Task[Any] | None:
        asyncio.get_running_loop().call_later(REMEMBERED_S, self._calls.pop, call.nonce, None)
        return self._ledger.settle(call, amount, call.usage)

    def _call_of(self, data: Any) -> _Followed | None:
        return self._calls.get(_nonce(data) or "")


def _nonce(data: Any) -> str | None:
    if isinstance(data, Mapping):
        for bucket in _buckets(data):
            if isinstance(bucket, Mapping) and isinstance(bucket.get(NONCE), str):
                return str(bucket[NONCE])
    return None


def _word(call_type: Any) -> str:
    return str(getattr(call_type, "value", call_type))


def _usage_in(response: Any) -> Usage:
    used = getattr(response, "usage", None)
    tokens_in = getattr(used, "prompt_tokens", None) or getattr(used, "input_tokens", None)
    tokens_out = getattr(used, "completion_tokens", None) or getattr(used, "output_tokens", None)
    return Usage(tokens_in, tokens_out, getattr(response, "model", None))
