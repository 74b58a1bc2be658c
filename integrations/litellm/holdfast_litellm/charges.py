"""What a call cost, in USD_MICROCENTS: by LiteLLM's reports, by what arrived where they say too little, or else by the orphan policy."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import litellm

from .asked import count
from .estimate import microcents
from .ledger import Call, Usage
from .streams import arrived


def cost_in(dollars: Any) -> int:
    """0 for what is no cost, as of a usage with negative numbers."""
    return microcents(dollars) if isinstance(dollars, (int, float)) and 0 < dollars < math.inf else 0


@dataclass(frozen=True)
class Charge:
    reported: int
    # By what arrived.
    counted: int
    # How many attempts only the orphan policy knows, and what they cost by it.
    orphans: int
    amount: int


class Followed(Call):
    """A call as the hooks see it."""

    def __init__(self, *, tokens: int, **given: Any) -> None:
        super().__init__(**given)
        # Of the request, by our own count.
        self._tokens = tokens
        # Of all reports. One of nothing says nothing: LiteLLM reports 0 where it does not know, too.
        self.cost = 0
        self.usage = Usage()
        self.is_cached = False
        # Whether the stream has its usage only for this call's sake, and the client has not asked for it.
        self.hides_usage = False
        # LiteLLM's own record of the last attempt, which knows its prices.
        self.meter: Any = None
        # Of attempts that were no streams.
        self.answers: list[Any] = []
        # None until somebody listens to a stream.
        self.parts: list[Any] | None = None
        self.has_ended = False
        # What ended the last attempt, if nobody else tells that.
        self.failed_with: BaseException | None = None
        # How much was settled before its report.
        self.guessed = 0
        self.reported = asyncio.Event()
        self.late_reports = 0

    def forget_answers(self) -> None:
        self.parts, self.answers, self.meter = None, [], None

    @property
    def may_cost(self) -> bool:
        has_come = self.cost > 0 or self.parts or self.answers
        is_unknown = self.attempts.is_open and self.attempts.may_cost(self.failed_with)
        return bool(has_come or is_unknown or self.attempts.unheard)

    def charge(self) -> Charge:
        """Counts words, so it belongs into a thread."""
        reported, counted, orphans = self.cost, 0, self.attempts.unheard
        if self.attempts.was_sent or not self.is_cached:
            stream = arrived(self.parts or [])
            if stream.words:
                is_known = reported > 0 and self.has_ended and stream.is_whole and self.usage.tokens_input != 0
                counted = 0 if is_known else self._rest_of(stream.words, reported)
            elif reported == 0 and self.answers:
                prices = [self._price_of(answer) for answer in self.answers]
                counted = sum(price for price in prices if price is not None)
                orphans += prices.count(None)
            elif reported == 0 and (self.has_ended or (self.attempts.is_open and self.attempts.may_cost(self.failed_with))):
                orphans += 1
        return self.charge_by_policy(reported, counted, orphans)

    def charge_by_policy(self, reported: int, counted: int, orphans: int) -> Charge:
        return Charge(reported, counted, orphans, reported + counted + orphans * self.charge_on_expiry)

    def _rest_of(self, words: str, reported: int) -> int:
        """What a stream cost beyond what was reported, which may be only its beginning."""
        tokens_out = count(words)
        if reported == 0:
            return self._price(self._tokens, tokens_out)
        told_in, told_out = self.usage.tokens_input or 0, self.usage.tokens_output or 0
        return max(0, self._price(told_in or self._tokens, max(told_out, tokens_out)) - self._price(told_in, told_out))

    def _price_of(self, answer: Any) -> int | None:
        """LiteLLM's price, which it does not report if a guardrail refused the answer. Else that of the words, if there are any."""
        words = arrived([answer]).words
        is_read = bool(words) or self.action["kind"] == "llm.embedding"
        return self._ask_meter(answer) or (self._price(self._tokens, count(words)) if is_read else None)

    def _price(self, tokens_in: int, tokens_out: int) -> int:
        usage = litellm.Usage(prompt_tokens=tokens_in, completion_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
        priced = self._ask_meter(litellm.ModelResponse(usage=usage))
        return self.estimate.input + microcents(tokens_out * self.estimate.output_token) if priced is None else priced

    def _ask_meter(self, answer: Any) -> int | None:
        try:
            dollars = self.meter.response_cost_calculator(result=answer)
        except Exception:  # An answer in a form that it cannot price.
            return None
        return None if dollars is None else cost_in(dollars)
