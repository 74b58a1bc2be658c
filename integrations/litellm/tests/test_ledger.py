"""The holds of calls, without a proxy: a real Holdfast, and connections that break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Team, World, eventually

from holdfast_litellm import callback, errors
from holdfast_litellm import ledger as ledger_module
from holdfast_litellm.attempts import Attempts
from holdfast_litellm.charges import Followed
from holdfast_litellm.client import Away, Client
from holdfast_litellm.estimate import Estimate
from holdfast_litellm.ledger import Call, Ledger, Usage, refusal_of
from holdfast_litellm.settings import Settings
from holdfast_litellm.told import counts


def call_of(team: Team, amount: int, charge_on_expiry: int = 0) -> Call:
    return Call(
        subject={"workspace": team.name},
        action={"kind": "llm.completion", "name": "test"},
        estimate=Estimate(amount, 1, 1.0),
        charge_on_expiry=charge_on_expiry,
        attempts=Attempts(),
    )


def run(world: World, work: Callable[[Ledger], Awaitable[None]], *, url: str = "", ttl_ms: int = 60_000) -> None:
    async def all_of_it() -> None:
        ledger = Ledger(Client(url or world.holdfast.url, lambda: world.holdfast.key), ttl_ms=ttl_ms)
        await work(ledger)
        await ledger.drain(30)

    asyncio.run(all_of_it())


def test_a_call_that_ends_after_its_hold_expired_is_charged_the_rest(world: World, team: Team) -> None:
    async def work(ledger: Ledger) -> None:
        call = call_of(team, 1000, charge_on_expiry=300)
        await ledger.reserve(call)
        # As if the process had been stopped: nothing extends the hold.
        ledger._held.clear()
        await asyncio.to_thread(team.settled, 30)
        assert team.budget().spent == 300
        ledger.settle(call, 900, Usage())

    run(world, work, ttl_ms=1000)
    assert team.budget().spent == 900


@pytest.mark.parametrize("waits_s", [60.0, 0.01], ids=["long enough", "not for ever"])
def test_an_answer_waits_for_its_commit(world: World, team: Team, monkeypatch: pytest.MonkeyPatch, waits_s: float) -> None:
    """So the client's next call finds its budget settled. Whoever is slow does not hold up the client."""
    monkeypatch.setattr(callback, "ANSWER_WAITS_S", waits_s)

    async def work() -> None:
        budget = callback.HoldfastBudget(Settings.read({"HOLDFAST_URL": world.holdfast.url, "HOLDFAST_API_KEY": world.holdfast.key}))
        call = Followed(
            subject={"workspace": team.name},
            action={"kind": "llm.completion", "name": "test"},
            estimate=Estimate(1000, 1, 1.0),
            charge_on_expiry=0,
            attempts=Attempts(),
            tokens=1,
        )
        await budget._ledger.reserve(call)
        budget._calls[call.nonce] = call
        sent, may_go = asyncio.Event(), asyncio.Event()
        post = budget._ledger._client.post

        async def held_up(*given: Any, **named: Any) -> Any:
            sent.set()
            await may_go.wait()
            return await post(*given, **named)

        monkeypatch.setattr(budget._ledger._client, "post", held_up)
        response = {"_hidden_params": {"response_cost": 4e-6}}
        answering = asyncio.create_task(budget.async_post_call_success_hook({"metadata": {callback.NONCE: call.nonce}}, None, response))
        await sent.wait()
        if waits_s > 1:
            assert not answering.done()
            may_go.set()
            await answering
            assert (await asyncio.to_thread(team.budget)).spent == 400
        else:
            await answering
            assert (await asyncio.to_thread(team.budget)).reserved == 1000
            may_go.set()
        await budget._ledger.drain(30)

    asyncio.run(work())
    assert team.settled().spent == 400


def test_a_long_call_keeps_its_hold(world: World, team: Team) -> None:
    """It outlives the hold of a second with its grace of five, and then costs what it cost."""

    async def work(ledger: Ledger) -> None:
        call = call_of(team, 1000, charge_on_expiry=1000)
        await ledger.reserve(call)
        first_end = call.expires + 5
        await asyncio.sleep(first_end + 1 - time.monotonic())
        assert (await asyncio.to_thread(team.budget)).reserved == 1000
        ledger.settle(call, 400, Usage())

    before = counts["extended"]
    run(world, work, ttl_ms=1000)
    assert team.budget().spent == 400
    # Each adds as long as the call has run, so few are needed.
    assert 1 <= counts["extended"] - before <= 8


def test_only_the_first_settlement_counts(world: World, team: Team) -> None:
    async def work(ledger: Ledger) -> None:
        call = call_of(team, 1000)
        await ledger.reserve(call)
        ledger.settle(call, 400, Usage())
        assert ledger.settle(call, 700, Usage()) is None

    run(world, work)
    assert team.budget().spent == 400


def test_what_a_budget_does_not_cover_is_told(world: World, team: Team) -> None:
    poor = Team(world.holdfast, f"{team.name}-poor")
    world.holdfast.allocate(poor.scope, 1000)
    before = counts["capped"]

    async def work(ledger: Ledger) -> None:
        call = call_of(poor, 800)
        await ledger.reserve(call)
        ledger.settle(call, 1500, Usage())

    run(world, work)
    assert poor.budget().spent == 1000
    assert counts["capped"] == before + 1


def test_under_a_policy_that_rejects_overage_the_hold_is_charged_and_the_rest_is_told(world: World, team: Team) -> None:
    strict = Team(world.holdfast, f"{team.name}-strict")
    world.holdfast.allocate(strict.scope, 1000, commit_overage_policy="REJECT")
    before = counts["settle_failed"]

    async def work(ledger: Ledger) -> None:
        call = call_of(strict, 800)
        answer = await ledger.reserve(call)
        assert answer.status == 200
        ledger.settle(call, 1500, Usage())

    run(world, work)
    assert strict.settled().spent in (800, 1000)
    assert counts["settle_failed"] + counts["capped"] > before


@pytest.mark.parametrize("is_late", [False, True], ids=["while the call waits", "when it waits no more"])
def test_a_reserve_whose_answer_is_lost_is_undone(world: World, team: Team, is_late: bool) -> None:
    """The connection breaks after Holdfast has the request, so nobody knows whether it holds anything."""
    given_up = asyncio.Event()
    before = counts["late_reserve_undone"]
    lost: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", world.holdfast.port)

        async def forward() -> None:
            while data := await reader.read(65536):
                there_writer.write(data)
            there_writer.close()

        forwarding = asyncio.create_task(forward())
        while data := await there_reader.read(65536):
            if not lost:
                lost.append(data)
                if is_late:
                    await given_up.wait()
                break
            writer.write(data)
        forwarding.cancel()
        there_writer.close()
        writer.close()

    async def all_of_it() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ledger = Ledger(Client(f"http://127.0.0.1:{port}", lambda: world.holdfast.key), ttl_ms=60_000)
        with pytest.raises(Away):
            await ledger.reserve(call_of(team, 1000, charge_on_expiry=1000))
        given_up.set()
        await ledger.drain(30)
        server.close()

    asyncio.run(all_of_it())
    assert b"rsv_" in lost[0]
    assert (team.budget().reserved, team.budget().spent) == (0, 0)
    assert counts["late_reserve_undone"] == before + 1


def test_an_expiry_costs_what_the_orphan_policy_says(world: World, team: Team) -> None:
    charges = {"estimate": 1000, "input": 200, "release": 0}
    teams = {policy: Team(world.holdfast, f"{team.name}-{policy}") for policy in charges}

    async def work(ledger: Ledger) -> None:
        for policy, one in teams.items():
            world.holdfast.allocate(one.scope, 10_000)
            await ledger.reserve(call_of(one, 1000, Estimate(1000, 200, 1.0).orphan(policy)))
        ledger._held.clear()

    run(world, work, ttl_ms=1000)
    assert {policy: one.settled(30).spent for policy, one in teams.items()} == charges


REFUSED: list[tuple[int, dict[str, Any], int, str, str, bool]] = [
    (409, {"error": "BUDGET_EXCEEDED", "message": "no"}, 429, "insufficient_quota", "denied", False),
    (404, {"error": "NOT_FOUND", "message": "no budget"}, 429, "insufficient_quota", "denied", False),
    (429, {"error": "LIMIT_EXCEEDED", "message": "slow down"}, 429, "rate_limit_exceeded", "limited", True),
    (401, {"error": "UNAUTHORIZED", "message": "who?"}, 500, "budget_misconfigured", "misconfigured", False),
]


@pytest.mark.parametrize(("status", "body", "told_status", "code", "event", "may_retry"), REFUSED)
def test_a_refusal_of_holdfast_becomes_an_error_of_openai(
    status: int, body: dict[str, Any], told_status: int, code: str, event: str, may_retry: bool
) -> None:
    from holdfast_litellm.client import Answer

    before = counts[event]
    refusal = refusal_of(Answer(status, body, "3"), 429)
    assert isinstance(refusal, errors.Refusal)
    assert (refusal.code, refusal.to_dict()["code"]) == (str(told_status), code)
    assert (refusal.headers.get("x-should-retry") != "false") is may_retry
    assert counts[event] == before + 1


def test_a_revoked_key_refuses_calls_loudly(world: World, team: Team) -> None:
    async def work() -> None:
        ledger = Ledger(Client(world.holdfast.url, lambda: "cyc_wrong"), ttl_ms=60_000)
        answer = await ledger.reserve(call_of(team, 1000))
        refusal = refusal_of(answer, 429)
        assert refusal is not None
        assert refusal.to_dict()["code"] == "budget_misconfigured"

    asyncio.run(work())
    assert team.budget().reserved == 0


def test_settlements_and_extensions_wait_for_a_new_key(world: World, team: Team, tmp_path: Path) -> None:
    file = tmp_path / "key"
    old, old_id = world.holdfast.make_key()
    file.write_text(old)
    retried, changed, extended = counts["settle_retried"], counts["key_changed"], counts["extended"]

    async def work() -> None:
        ledger = Ledger(Client(world.holdfast.url, file.read_text), ttl_ms=30_000)
        calls = [call_of(team, 1000, charge_on_expiry=1000) for _ in range(4)]
        for call in calls:
            await ledger.reserve(call)
        world.holdfast.revoke(old_id)
        ledger.settle(calls[0], 400, Usage())
        ledger.settle(calls[1], 0, Usage())
        ledger.debit_late(calls[2], 30, Usage(), 1)
        # As if half of its time had passed.
        calls[3].expires -= 20
        await asyncio.to_thread(eventually, lambda: counts["settle_retried"] >= retried + 3)
        assert (await asyncio.to_thread(team.budget)).spent == 0
        file.unlink()
        await asyncio.to_thread(eventually, lambda: counts["key_unreadable"])
        file.write_text(world.holdfast.make_key()[0])
        await asyncio.to_thread(eventually, lambda: counts["extended"] > extended)
        ledger.settle(calls[2], 0, Usage())
        ledger.settle(calls[3], 7, Usage())
        await ledger.drain(30)

    asyncio.run(work())
    assert team.budget().spent == 437
    assert team.budget().reserved == 0
    assert counts["key_changed"] == changed + 1


@pytest.mark.parametrize(("amount", "told"), [(400, "400 of"), (0, "0 of")])
def test_a_settlement_that_fails_says_what_happens(
    world: World, team: Team, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, amount: int, told: str
) -> None:
    monkeypatch.setattr(ledger_module, "SETTLE_S", 0.1)
    secret, key_id = world.holdfast.make_key()

    async def work() -> None:
        ledger = Ledger(Client(world.holdfast.url, lambda: secret), ttl_ms=1000)
        call = call_of(team, 1000, charge_on_expiry=700)
        await ledger.reserve(call)
        world.holdfast.revoke(key_id)
        ledger.settle(call, amount, Usage())
        await ledger.drain(30)
        (line,) = [record.message for record in caplog.records if record.message.startswith("settle_failed")]
        assert told in line
        assert f"{call.reservation_id} costs 700 if it expires" in line
        assert "401" in line

    asyncio.run(work())
    assert team.settled(30).spent == 700


def test_what_an_expiry_has_charged_too_much_is_told(world: World, team: Team) -> None:
    async def work(ledger: Ledger) -> None:
        calls = [call_of(team, 1000, charge_on_expiry=700) for _ in range(2)]
        for call in calls:
            await ledger.reserve(call)
        ledger._held.clear()
        await asyncio.to_thread(team.settled, 30)
        ledger.settle(calls[0], 400, Usage())
        ledger.settle(calls[1], 0, Usage())

    before = counts["overcharged"]
    run(world, work, ttl_ms=1000)
    assert team.budget().spent == 1400
    assert counts["overcharged"] == before + 2


def test_what_an_expiry_has_charged_for_a_call_that_cost_nothing_comes_back_if_the_key_may_refund(world: World, team: Team) -> None:
    secret, _ = world.holdfast.make_key("refunds:create")

    async def work() -> None:
        ledger = Ledger(Client(world.holdfast.url, lambda: secret), ttl_ms=1000)
        call = call_of(team, 1000, charge_on_expiry=700)
        await ledger.reserve(call)
        ledger._held.clear()
        await asyncio.to_thread(team.settled, 30)
        ledger.settle(call, 0, Usage())
        await ledger.drain(30)

    before = counts["refunded"]
    asyncio.run(work())
    assert team.budget().spent == 0
    assert counts["refunded"] == before + 1
