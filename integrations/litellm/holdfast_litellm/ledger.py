"""The holds of calls: reserve, extend, settle. Whatever happens to a request, its hold is settled once."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from . import errors
from .attempts import Attempts
from .client import FORBIDDEN, KEY_REFUSED, Answer, Away, Client, NotSent
from .estimate import UNIT, Estimate
from .told import log, tell

# A reserve has this long. One that lands later is undone.
RESERVE_S = 1.0
# It counts only the time in which this process could listen: of each turn, at most this. A proxy that is busy with its own work would
# otherwise take its own delay for Holdfast's.
LISTEN_S = 0.05
# One request in the background, which nobody waits for.
BACKGROUND_S = 5.0
# For so long a settlement is tried again while Holdfast is away, or refuses the key.
SETTLE_S = 900.0
MOST_PAUSE_S = 10.0
# No call runs longer. A hold whose end LiteLLM does not tell is left to its expiry then.
LONGEST_CALL_S = 3600.0
# When holds are looked through for those to extend.
BEAT_S = 0.25
AFTER_FAILURE_S = 1.0


class _TooLate(Away):
    """The answer is still awaited, by nobody."""


@dataclass
class Call:
    """One request of a client, with all of its attempts."""

    subject: dict[str, str]
    action: dict[str, str]
    estimate: Estimate
    charge_on_expiry: int
    attempts: Attempts
    # Clients choose `litellm_call_id`, so it is no key.
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    # None if the call was admitted while Holdfast was away.
    reservation_id: str | None = None
    began: float = field(default_factory=time.monotonic)
    granted_ms: int = 0
    # By this process' clock, counted from before the request was sent, so it is never too late.
    expires: float = 0.0
    is_settled: bool = False
    extending: bool = False


@dataclass(frozen=True)
class Usage:
    """What a commit tells beside its amount."""

    tokens_input: int | None = None
    tokens_output: int | None = None
    model: str | None = None


class Ledger:
    def __init__(self, client: Client, *, ttl_ms: int) -> None:
        self._client = client
        self._ttl_ms = ttl_ms
        self._held: dict[str, Call] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heart: asyncio.Task[None] | None = None

    def in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Reserving

    async def reserve(self, call: Call) -> Answer:
        """Holds the estimate. Raises Away or NotSent if nobody answers in time; whatever lands later is undone."""
        body = {
            "idempotency_key": call.nonce,
            "subject": call.subject,
            "action": call.action,
            "estimate": {"unit": UNIT, "amount": call.estimate.amount},
            "ttl_ms": self._ttl_ms,
        }
        sent = time.monotonic()
        task = self.in_background(self._send_reserve(call, body))
        try:
            if not await self._listen(task):
                raise _TooLate(f"no answer within {RESERVE_S} s")
            answer = task.result()
        except (asyncio.CancelledError, _TooLate):
            self.in_background(self._undo(call, body, task))
            raise
        except Away:
            self.in_background(self._undo(call, body, None))
            raise
        if answer.status == 200:
            call.reservation_id = str(answer.body["reservation_id"])
            call.granted_ms = self._ttl_ms
            call.expires = sent + self._ttl_ms / 1000
            self._held[call.nonce] = call
            self._beat()
            tell("reserved")
        return answer

    @staticmethod
    async def _listen(task: asyncio.Task[Answer]) -> bool:
        """Whether it ended in time."""
        for _ in range(round(RESERVE_S / LISTEN_S)):
            if (await asyncio.wait((task,), timeout=LISTEN_S))[0]:
                return True
        return False

    async def _send_reserve(self, call: Call, body: dict[str, Any], timeout_s: float = BACKGROUND_S) -> Answer:
        headers = {"X-Holdfast-Explain": "true", "X-Holdfast-Charge-On-Expiry": str(call.charge_on_expiry)}
        return await self._client.post("/v1/reservations", body, timeout_s=timeout_s, headers=headers)

    async def _undo(self, call: Call, body: dict[str, Any], sent: asyncio.Task[Answer] | None) -> None:
        """Gives back what a reserve may have held that nobody waits for any more. The same key gives the same reservation."""
        async for _ in self._patiently():
            try:
                answer = await (sent or self._send_reserve(call, body))
                if answer.status == 200:
                    # Not that of the call, which may have been admitted without one by now.
                    landed = str(answer.body["reservation_id"])
                    await self._release(call, landed, "nobody waited for this reserve")
                    tell("late_reserve_undone", f"reservation {landed}")
                if answer.status not in KEY_REFUSED:
                    return
            except (Away, NotSent):
                pass
            sent = None
        tell("undo_failed", f"reserve {call.nonce} may hold {call.estimate.amount} until it expires")

    # Extending

    def _beat(self) -> None:
        if self._heart is None or self._heart.done():
            self._heart = self.in_background(self._extend_all())

    async def _extend_all(self) -> None:
        while self._held:
            now = time.monotonic()
            for call in list(self._held.values()):
                is_due = now > call.expires - call.granted_ms / 2000
                if is_due and not call.extending and now - call.began < LONGEST_CALL_S:
                    call.extending = True
                    self.in_background(self._extend(call))
            await asyncio.sleep(BEAT_S)

    async def _extend(self, call: Call) -> None:
        """Adds as long as the call has run already, so that the ten extensions of a reservation last for hours."""
        more_ms = max(self._ttl_ms, int(1000 * (time.monotonic() - call.began)))
        key = f"{call.nonce}-extend-{more_ms}"
        path = f"/v1/reservations/{call.reservation_id}/extend"
        try:
            answer = await self._client.post(path, {"idempotency_key": key, "extend_by_ms": more_ms}, timeout_s=BACKGROUND_S)
            if answer.status in KEY_REFUSED:
                raise Away(f"{answer.status} {answer.error}")
        except (Away, NotSent) as error:
            tell("extend_failed", repr(error))
            await asyncio.sleep(AFTER_FAILURE_S)
            call.extending = False
            return
        if answer.status == 200:
            call.expires += more_ms / 1000
            call.granted_ms = more_ms
            call.extending = False
            tell("extended")
        elif call.nonce in self._held:
            # It is left to its expiry, or has expired: the settlement deals with both.
            tell("extend_failed", f"reservation {call.reservation_id}: {answer.status} {answer.error}")

    # Settling

    def settle(self, call: Call, amount: int, usage: Usage) -> asyncio.Task[Any] | None:
        """Commits what the call cost, or releases what cost nothing. Only the first settlement of a call counts."""
        if call.is_settled:
            return None
        call.is_settled = True
        self._held.pop(call.nonce, None)
        return self.in_background(self._settle(call, amount, usage))

    def debit_late(self, call: Call, amount: int, usage: Usage, number: int) -> None:
        """Charges what became known after the settlement."""
        self.in_background(self._debit(call, amount, usage, f"late-{number}"))

    async def _settle(self, call: Call, amount: int, usage: Usage) -> None:
        try:
            if call.reservation_id is None:
                if amount > 0:
                    await self._debit(call, amount, usage, "unreserved")
            elif amount == 0:
                await self._release(call, call.reservation_id, "the call cost nothing")
            else:
                await self._commit(call, amount, usage)
        except Exception as error:
            log.exception("the settlement of %s failed", call.nonce)
            self._tell_failed(call, amount, call.reservation_id, repr(error))

    @staticmethod
    def _tell_failed(call: Call, amount: int, held: str | None, why: str) -> None:
        what = f"{amount} of {call.subject} for {call.action['name']} is not charged"
        tell("settle_failed", f"{what}, and {held} costs {call.charge_on_expiry} if it expires: {why}" if held else f"{what}: {why}")

    async def _commit(self, call: Call, amount: int, usage: Usage) -> None:
        def body(actual: int, key: str) -> dict[str, Any]:
            return {
                "idempotency_key": f"{call.nonce}-{key}",
                "actual": {"unit": UNIT, "amount": actual},
                "metrics": self._metrics(call, usage),
            }

        path = f"/v1/reservations/{call.reservation_id}/commit"
        answer = await self._until_answered(path, body(amount, "commit"))
        if answer.status == 409 and amount > call.estimate.amount and answer.error != "RESERVATION_FINALIZED":
            # The overage policy refuses the rest with the whole. So the hold is charged alone, and the rest is a debit of its own.
            answer = await self._until_answered(path, body(call.estimate.amount, "commit-estimate"))
            if answer.status == 200:
                tell("committed")
                await self._debit(call, amount - call.estimate.amount, usage, "overage")
                return
        if answer.status == 200:
            tell("committed")
            charged = int((answer.body.get("charged") or {}).get("amount", amount))
            if charged < amount:
                tell("capped", f"{charged} of {amount} charged to {call.subject}: the budget had no more")
        elif answer.status == 410:
            # The expiry has charged what it was told.
            rest = amount - call.charge_on_expiry
            if rest > 0:
                await self._debit(call, rest, usage, "expired")
            elif rest < 0:
                await self._refund(call, str(call.reservation_id), -rest)
        else:
            self._tell_failed(call, amount, call.reservation_id, f"{answer.status} {answer.body}")

    async def _release(self, call: Call, reservation_id: str, reason: str) -> None:
        body = {"idempotency_key": f"{call.nonce}-release", "reason": reason}
        answer = await self._until_answered(f"/v1/reservations/{reservation_id}/release", body)
        if answer.status == 200:
            tell("released")
        elif answer.status == 410 and call.charge_on_expiry > 0:
            await self._refund(call, reservation_id, call.charge_on_expiry)
        elif answer.status != 410:
            self._tell_failed(call, 0, reservation_id, f"{answer.status} {answer.body}")

    async def _refund(self, call: Call, reservation_id: str, amount: int) -> None:
        """Takes back what the expiry of a hold has charged beyond what the call cost. By default, no key may."""
        body = {
            "idempotency_key": f"{call.nonce}-refund",
            "amount": {"unit": UNIT, "amount": amount},
            "reason": "the call cost less than its expiry charged",
        }
        answer = await self._until_answered(f"/v1/reservations/{reservation_id}/refunds", body, last=FORBIDDEN)
        what = f"{amount} of {call.subject}: {reservation_id} had expired"
        if answer.status == 200:
            tell("refunded", what)
        else:
            tell("overcharged", f"{what}, and is not refunded: {answer.status} {answer.error}")

    async def _debit(self, call: Call, amount: int, usage: Usage, key: str) -> None:
        body = {
            "idempotency_key": f"{call.nonce}-{key}",
            "subject": call.subject,
            "action": call.action,
            "actual": {"unit": UNIT, "amount": amount},
            "metrics": self._metrics(call, usage),
        }
        answer = await self._until_answered("/v1/events", body)
        if answer.status not in (200, 201):
            self._tell_failed(call, amount, None, f"{answer.status} {answer.body}")
            return
        tell("debited", f"{amount} for {call.subject}: {key}")
        charged = int((answer.body.get("charged") or {}).get("amount", amount))
        if charged < amount:
            tell("capped", f"{charged} of {amount} charged to {call.subject}: the budget had no more")

    @staticmethod
    def _metrics(call: Call, usage: Usage) -> dict[str, Any]:
        metrics = {
            "tokens_input": usage.tokens_input,
            "tokens_output": usage.tokens_output,
            "model_version": usage.model and usage.model[:128],
            "latency_ms": int(1000 * (time.monotonic() - call.began)),
        }
        return {name: value for name, value in metrics.items() if value is not None}

    async def _until_answered(self, path: str, body: dict[str, Any], *, last: int | None = None) -> Answer:
        """Repeats a request while Holdfast is away, too busy, or refuses the key. Its idempotency key makes that safe.

        An answer with the status `last` is not repeated.
        """
        why: Exception | None = None
        async for _ in self._patiently():
            try:
                answer = await self._client.post(path, body, timeout_s=BACKGROUND_S)
            except (Away, NotSent) as error:
                why = error
            else:
                if answer.status == last or (answer.status != 429 and answer.status not in KEY_REFUSED):
                    return answer
                why = Away(f"{answer.status} {answer.body}")
            tell("settle_retried", f"{path}: {why!r}")
        raise Away(f"{path}: no answer for {SETTLE_S} s, the last time {why!r}")

    @staticmethod
    async def _patiently() -> Any:
        """One turn at once, then others with growing pauses."""
        until = time.monotonic() + SETTLE_S
        pause = 0.2
        while True:
            yield
            if time.monotonic() > until:
                return
            await asyncio.sleep(pause)
            pause = min(MOST_PAUSE_S, 2 * pause)

    async def drain(self, timeout_s: float) -> None:
        """Waits for settlements on their way."""
        waiting = [task for task in self._tasks if task is not self._heart and task is not asyncio.current_task()]
        if waiting:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait(waiting, timeout=timeout_s)


def refusal_of(answer: Answer, denied_status: int) -> errors.Refusal | None:
    """How a client learns that its reserve was refused, or None if it was not."""
    if answer.status == 200:
        return None
    if answer.status in (404, 409):
        tell("denied")
        return errors.denied(denied_status, answer.body)
    if answer.status == 429:
        tell("limited")
        return errors.too_many(answer.body, answer.retry_after)
    tell("misconfigured", f"{answer.status} {answer.body}")
    return errors.misconfigured(answer.status, answer.body)
