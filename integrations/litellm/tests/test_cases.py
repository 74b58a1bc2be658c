"""What both integrations do alike, from integrations/cases.json: the table that test/integrations/ai-sdk-cases.test.ts reads, too."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import httpx
import litellm
import openai
import pytest
from conftest import ROOT, Team, World

from holdfast_litellm import ledger as ledger_module
from holdfast_litellm.asked import Asked
from holdfast_litellm.attempts import cost_nothing
from holdfast_litellm.client import Answer, Client
from holdfast_litellm.estimate import Estimate, Prices, estimate
from holdfast_litellm.ledger import Call, Ledger, Usage
from holdfast_litellm.subject import Hierarchy, segment
from holdfast_litellm.told import counts

CASES: dict[str, Any] = json.loads((ROOT / "integrations" / "cases.json").read_text())
ORPHANS = CASES["orphans"]
HELD = Estimate(ORPHANS["held"], ORPHANS["held_for_input"], 1.0)


def named(cases: list[dict[str, Any]], *keys: str) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[" ".join(str(case.get(key, "")) for key in keys) for case in cases])


@named(CASES["segments"], "segment")
def test_a_value_has_its_segment(case: dict[str, str]) -> None:
    assert segment(case["value"]) == case["segment"]


@named(CASES["subjects"])
def test_a_caller_has_its_subject(case: dict[str, dict[str, str]]) -> None:
    sources = {"workspace": "team_id", "app": "key_alias", "workflow": "user_id", "agent": "end_user_id"}
    names = ("api_key", "team_alias", "org_id", *sources.values())
    given = {source: case["given"].get(level) for level, source in sources.items()}
    assert Hierarchy.parse(Hierarchy.DEFAULT).subject_of(SimpleNamespace(**{**dict.fromkeys(names), **given})) == case["subject"]


@named(CASES["prices"], "name")
def test_a_price_holds_its_bound(case: dict[str, Any]) -> None:
    names = {"input": "input_cost_per_token", "output": "output_cost_per_token", "cache_write": "cache_creation_input_token_cost"}
    own = {names[side]: dollars / 1e6 for side, dollars in case["dollars_per_million"].items()}
    target = {"model": "openai/of-our-own", "api_key": "none", **own}
    router = litellm.Router(model_list=[{"model_name": case["name"], "litellm_params": target}])
    prices = Prices().of_call(case["name"], {}, router)
    tokens = case["tokens"]
    found = estimate(prices, Asked(tokens["input"]), "acompletion", {"max_tokens": tokens["output"]}, 0)
    assert (found.amount, found.input) == (case["held"], case["held_for_input"])


@named(CASES["failures"], "how", "status")
def test_a_failure_costs_nothing_or_not(case: dict[str, Any]) -> None:
    request = httpx.Request("POST", "http://provider")
    if "status" in case:
        error: Exception = openai.APIStatusError(case["how"], response=httpx.Response(case["status"], request=request), body=None)
    else:
        error = {"never connected": httpx.ConnectError, "the connection broke": httpx.ReadError}[case["how"]](case["how"])
    assert cost_nothing(error) is case["costs_nothing"]


@pytest.mark.parametrize("policy", ["estimate", "input", "release"])
def test_an_unknown_end_costs_what_the_policy_says(policy: str) -> None:
    assert HELD.orphan(policy) == ORPHANS[policy]


def call_of(team: Team, policy: str) -> Call:
    return Call(
        subject={"workspace": team.name},
        action={"kind": "llm.completion", "name": "test"},
        estimate=HELD,
        charge_on_expiry=HELD.orphan(policy),
        attempts=SimpleNamespace(),  # type: ignore[arg-type]
    )


class Wire(Client):
    """Remembers what was sent after the reserve, and may answer a request in Holdfast's place."""

    def __init__(self, world: World, *instead: Answer, key: str | None = None) -> None:
        super().__init__(world.holdfast.url, lambda: key or world.holdfast.key)
        self.sent: list[str] = []
        self._instead = list(instead)

    async def post(self, path: str, body: dict[str, Any], **more: Any) -> Answer:
        if path.endswith("/reservations") or path.endswith("/extend"):
            return await super().post(path, body, **more)
        self.sent.append(path.rsplit("/", 1)[1])
        return self._instead.pop() if self._instead else await super().post(path, body, **more)


WORDS = {"capped": "capped", "settle_failed": "uncharged", "overcharged": "overcharged"}


@named(CASES["ends"], "name")
def test_a_call_costs_what_its_end_says(world: World, team: Team, case: dict[str, Any]) -> None:
    one = Team(world.holdfast, f"{team.name}-end")
    world.holdfast.allocate(one.scope, case["allocated"], commit_overage_policy=case["overage"])
    key = world.holdfast.make_key("refunds:create")[0] if case.get("may_refund") else None
    wire, before = Wire(world, key=key), Counter(counts)
    has_expired = case.get("has_expired", False)

    async def work() -> None:
        ledger = Ledger(wire, ttl_ms=1000 if has_expired else 60_000)
        call = call_of(one, case["policy"])
        if not case.get("is_unreserved"):
            assert (await ledger.reserve(call)).status == 200
        if has_expired:
            # As if the process had been stopped: nothing extends the hold.
            ledger._held.clear()
            await asyncio.to_thread(one.settled, 60)
        ledger.settle(call, case["cost"], Usage())
        await ledger.drain(60)

    asyncio.run(work())
    assert wire.sent == case["requests"]
    assert one.settled().spent == case["spent"]
    assert [word for event, word in WORDS.items() if counts[event] > before[event]] == case["told"]


@named(CASES["settlements"], "status")
def test_a_charge_is_repeated_where_that_may_help(world: World, team: Team, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = Counter(counts)
    wire = Wire(world, Answer(case["status"], {"error": "OTHER", "message": "not now"}, None))

    async def post(path: str, body: dict[str, Any], **more: Any) -> Answer:
        answer = await Wire.post(wire, path, body, **more)
        if answer.status >= 500:
            raise ledger_module.Away(str(answer.status))  # As the client does.
        return answer

    monkeypatch.setattr(wire, "post", post)

    async def work() -> None:
        ledger = Ledger(wire, ttl_ms=60_000)
        call = call_of(team, "estimate")
        await ledger.reserve(call)
        ledger.settle(call, 130, Usage())
        await ledger.drain(60)

    asyncio.run(work())
    if case["is_repeated"]:
        assert wire.sent == ["commit", "commit"]
        assert team.budget().spent == 130
        assert counts["settle_retried"] == before["settle_retried"] + 1
    else:
        assert wire.sent == ["commit"]
        assert counts["settle_failed"] == before["settle_failed"] + 1
