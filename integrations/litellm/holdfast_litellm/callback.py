"""The callback: which of LiteLLM's hooks begins, prices and ends a call.

    async_pre_call_hook                     before anything is sent: reserve, or refuse
    async_pre_call_deployment_hook          an attempt begins
    log_pre_api_call                        it is handed to the provider
    async_post_call_*_deployment_hook       an attempt ends
    async_post_call_success_hook            the end of a call that is no stream
    async_post_call_streaming_iterator_hook the parts of a stream and its end, of the `Witness`
    async_post_call_failure_hook            the end of a call that failed, as far as LiteLLM tells
    async_log_success_event                 the cost, also of what a client left behind
    async_log_failure_event                 the cost of what had arrived before a stream broke

All of them must stand in the class itself: LiteLLM looks for some of them there, and not in what it inherits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import litellm
from litellm.constants import LITELLM_LOGGING_NO_UPSTREAM_LLM_CALL
from litellm.integrations.custom_logger import CustomLogger

from . import errors
from .asked import Unbounded, read, variants
from .attempts import Attempts
from .charges import Followed, cost_in
from .client import Away, Client, NotSent
from .estimate import FREE, KINDS, Prices, estimate
from .ledger import Ledger, Usage, refusal_of
from .prices import Unpriced
from .settings import Settings
from .told import log, tell
from .witness import Witness

# Where LiteLLM carries the nonce from the first hook to the last.
NONCE = "holdfast_call"
# How long the answer to a client waits for its commit, so that the next call of a client finds its budget settled.
ANSWER_WAITS_S = 0.25
# How long a cost may take to be reported after the end of a call.
REPORT_S = 10.0
# The same where there is often none.
UNLIKELY_REPORT_S = 2.0
# How long a settled call is remembered, for a report that comes after that.
REMEMBERED_S = 120.0

# The calls in which LiteLLM takes commas in the model's name for a list.
_SPLIT = ("completion", "acompletion")

_current: ContextVar[str | None] = ContextVar("holdfast_call", default=None)


def _buckets(data: Mapping[str, Any]) -> list[Any]:
    return [data.get("litellm_metadata"), data.get("metadata")]


class HoldfastBudget(CustomLogger):
    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings or Settings.read()
        self._ledger = Ledger(Client(self._settings.url, self._settings.read_key), ttl_ms=self._settings.ttl_ms)
        self._prices = Prices(allows_unpriced=self._settings.allows_unpriced)
        self._calls: dict[str, Followed] = {}
        self._witness = Witness(self._call_of, self._settle_when_reported)

    # Beginning

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> dict[str, Any] | None:
        self._witness.stand_first()
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

    async def _priced(self, caller: Any, data: dict[str, Any], call_type: str) -> Followed:
        if call_type not in KINDS:
            raise Unpriced(f"a call of the kind {call_type!r}")
        if any(body.get("background") for body in variants(data)):
            tell("unpriced_refused")
            raise errors.in_background()
        from litellm.proxy.proxy_server import llm_router  # Made after the callbacks.

        model = str(data.get("model") or "")
        prices = self._prices.of_call(model, data, llm_router, caller.team_id)
        asked = await asyncio.to_thread(read, data)
        amounts = estimate(prices, asked, call_type, data, self._settings.output_tokens)
        return Followed(
            subject=self._settings.hierarchy.subject_of(caller),
            action={"kind": KINDS[call_type], "name": model[:256]},
            estimate=amounts,
            charge_on_expiry=amounts.orphan(self._settings.orphan_policy),
            attempts=Attempts(),
            tokens=asked.tokens + asked.media_tokens,
        )

    async def _admit(self, call: Followed) -> None:
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

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> dict[str, Any] | None:
        call = self._call_of(kwargs)
        if call is None:
            return None
        call.attempts.start(_word(call_type))
        call.meter = kwargs.get("litellm_logging_obj")
        if _word(call_type) != "atext_completion" or not _lacks_usage(kwargs):
            return None
        # For chats, LiteLLM asks for it.
        call.hides_usage = True
        return {**kwargs, "stream_options": {**(kwargs.get("stream_options") or {}), "include_usage": True}}

    def log_pre_api_call(self, model: str, messages: Any, kwargs: dict[str, Any]) -> None:
        call = self._call_of(kwargs.get("litellm_params"))
        if call is not None and not kwargs.get(LITELLM_LOGGING_NO_UPSTREAM_LLM_CALL):
            call.attempts.send()

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        call = self._call_of(request_data)
        if call is not None and call.attempts.succeed(_word(call_type)):
            call.answers.append(response)

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
        if cost_in(kwargs.get("response_cost")) > 0:
            self._report(kwargs, kwargs["response_cost"])

    def _report(self, kwargs: Any, dollars: Any) -> None:
        nonce = _nonce(kwargs.get("litellm_params"))
        if nonce is None:
            return
        call = self._calls.get(nonce)
        cost = cost_in(dollars)
        if call is None:
            if cost > 0:
                tell("stray_report", f"{cost} for a call that is no longer known")
            return
        logged = kwargs.get("standard_logging_object") or {}
        usage = Usage(logged.get("prompt_tokens"), logged.get("completion_tokens"), kwargs.get("model"))
        if not call.is_settled:
            call.cost += cost
            call.usage = usage
            call.is_cached = kwargs.get("cache_hit") is True
            call.reported.set()
            return
        # The report of what was settled already, or the cost of something more.
        rest = max(0, cost - call.guessed)
        call.guessed = max(0, call.guessed - cost)
        if rest > 0:
            call.late_reports += 1
            self._ledger.debit_late(call, rest, usage, call.late_reports)

    # Ends

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        call = self._call_of(data)
        if call is None:
            return
        hidden = (response.get("_hidden_params") if isinstance(response, dict) else getattr(response, "_hidden_params", None)) or {}
        dollars = hidden.get("response_cost")
        cost = cost_in(dollars)
        if cost > 0 and call.cost == 0 and not call.attempts.unheard:
            call.usage = _usage_in(response)
            call.guessed = cost
            settled = self._settle(call, call.guessed)
        else:
            settled = self._settle_when_reported(call, True)
        if dollars is not None and settled is not None:
            await asyncio.wait([settled], timeout=ANSWER_WAITS_S)

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: str | None = None
    ) -> None:
        call = self._call_of(request_data)
        if call is None:
            return
        if call.parts is None:
            call.failed_with = original_exception
        self._settle_when_reported(call, False)

    def _settle_when_reported(self, call: Followed, is_likely: bool) -> asyncio.Task[Any]:
        """LiteLLM reports costs a little after the end, or before it, or not at all."""
        return self._ledger.in_background(self._settle_after(call, REPORT_S if is_likely else UNLIKELY_REPORT_S))

    async def _settle_after(self, call: Followed, waits_s: float) -> None:
        if call.may_cost:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(call.reported.wait(), waits_s)
        charge = None
        while charge is None or charge.reported != call.cost:
            try:
                charge = await asyncio.to_thread(call.charge)
            except Exception:  # Whatever has arrived, in whatever form.
                log.exception("what call %s cost could not be counted", call.nonce)
                charge = call.charge_by_policy(call.cost, 0, 1 + call.attempts.unheard)
        if call.is_settled:
            return
        if charge.orphans:
            each = f"{charge.orphans} attempts, {call.charge_on_expiry} each by the orphan policy"
            tell("cost_unknown", f"{call.action['name']} for {call.subject}: {each}")
        if charge.counted:
            tell("cost_counted", f"{call.action['name']} for {call.subject}: {charge.counted}, by what arrived")
        # Of attempts that were not heard, no report will come.
        call.guessed = charge.amount - charge.reported - call.attempts.unheard * call.charge_on_expiry
        task = self._settle(call, charge.amount)
        if task is not None:
            await asyncio.wait([task])

    def _settle(self, call: Followed, amount: int) -> asyncio.Task[Any] | None:
        call.forget_answers()
        asyncio.get_running_loop().call_later(REMEMBERED_S, self._calls.pop, call.nonce, None)
        return self._ledger.settle(call, amount, call.usage)

    def _call_of(self, data: Any) -> Followed | None:
        return self._calls.get(_nonce(data) or "")


def _nonce(data: Any) -> str | None:
    if isinstance(data, Mapping):
        for bucket in _buckets(data):
            if isinstance(bucket, Mapping) and isinstance(bucket.get(NONCE), str):
                return str(bucket[NONCE])
    return None


def _word(call_type: Any) -> str:
    return str(getattr(call_type, "value", call_type))


def _lacks_usage(kwargs: Mapping[str, Any]) -> bool:
    """Whether a provider would stream the usage if it were asked for it, and is not."""
    options = kwargs.get("stream_options")
    if kwargs.get("stream") is not True or (isinstance(options, dict) and options.get("include_usage")):
        return False
    try:
        supported = litellm.get_supported_openai_params(kwargs["model"], kwargs.get("custom_llm_provider"))
    except Exception:  # A model that LiteLLM does not know.
        return False
    return "stream_options" in (supported or [])


def _usage_in(response: Any) -> Usage:
    used = getattr(response, "usage", None)
    tokens_in = getattr(used, "prompt_tokens", None) or getattr(used, "input_tokens", None)
    tokens_out = getattr(used, "completion_tokens", None) or getattr(used, "output_tokens", None)
    return Usage(tokens_in, tokens_out, getattr(response, "model", None))
