"""The examples with LiteLLM, as a reader runs them."""

from __future__ import annotations

import re
import subprocess

import pytest
from conftest import ADMIN_KEY, ROOT, World, environment

# 20 tokens at $0.5 and 60 at $2 for a million.
COST = 0.00013


def run(world: World, name: str) -> str:
    env = environment(HOLDFAST_URL=world.holdfast.url, ADMIN_API_KEY=ADMIN_KEY)
    done = subprocess.run(["node", str(ROOT / "examples" / "run.mjs"), name], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def spent(output: str, scope: str) -> float:
    found = re.search(rf"^tenant:[\w-]+{scope}: spent \$([\d.]+) of \$[\d.]+, held \$0\.000000$", output, re.MULTILINE)
    assert found is not None, output
    return float(found[1])


def test_litellm_refuses_each_caller_by_the_budget_that_is_used_up(world: World) -> None:
    output = run(world, "litellm")
    calls = {
        caller: int(count) for caller, count in re.findall(r"^(\S+): (\d+) calls, then 429 insufficient_quota: ", output, re.MULTILINE)
    }
    assert set(calls) == {"red.ann", "red.bob", "blue.eve"}, output
    assert min(calls.values()) > 0
    assert f"The provider billed {sum(calls.values())} calls." in output
    assert spent(output, "/workspace:red/agent:ann") == pytest.approx(calls["red.ann"] * COST)
    assert spent(output, "/workspace:red") == pytest.approx((calls["red.ann"] + calls["red.bob"]) * COST)
    assert spent(output, "/workspace:blue") == pytest.approx(calls["blue.eve"] * COST)
    # Each was refused once, and the SDK asked no second time.
    assert "denied: 3\n" in output


def test_a_plain_openai_client_is_refused_once(world: World) -> None:
    output = run(world, "openai")
    assert "Refused with 429 insufficient_quota, worth a retry: false" in output
    calls = output.count("The answer is 42. (80 tokens)")
    assert calls > 0
    assert f"The provider billed {calls} calls." in output
    assert spent(output, "/workspace:red") == pytest.approx(calls * COST)
    assert "denied: 1\n" in output
