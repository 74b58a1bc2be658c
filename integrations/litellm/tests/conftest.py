"""The world of the tests: a Holdfast of this repository's build, a made-up provider, and LiteLLM's real proxies."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

# LiteLLM looks for prices on the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CHILD = [sys.executable, str(HERE / "child.py")]
START_S = 240.0
ADMIN_KEY = "integration-admin-key"
TENANT = "acme"
UNIT = "USD_MICROCENTS"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(is_so: Callable[[], Any], within_s: float = 20.0) -> Any:
    """Asks until the answer is true, and returns it."""
    until = time.monotonic() + within_s
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < until, f"not so within {within_s} s"
        time.sleep(0.03)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    return {**kept, "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **more}


class Process:
    """A child that ends with the test run, whose last lines are kept for a failure's report."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.lines: deque[str] = deque(maxlen=2000)
        self._child = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.pid = self._child.pid
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.lines.append(line.rstrip())

    def await_http(self, url: str) -> None:
        def answers() -> bool:
            self.require_life()
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(url, trust_env=False).status_code == 200
            return False

        try:
            eventually(answers, START_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.lines)) from None

    def require_life(self) -> None:
        assert self._child.poll() is None, f"exit code {self._child.poll()}\n" + "\n".join(self.lines)

    def count_of(self, text: str) -> int:
        return sum(text in line for line in list(self.lines))

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()

    def stop(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass
class Budget:
    """The figures of a budget, in USD_MICROCENTS."""

    allocated: int
    remaining: int
    reserved: int
    spent: int
    debt: int


class Holdfast:
    """The service with its embedded Redis, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._admin = httpx.Client(base_url=self.url, headers={"X-Admin-API-Key": ADMIN_KEY}, trust_env=False, timeout=10)
        self.start()
        self._post("/v1/admin/tenants", {"tenant_id": TENANT, "name": "Acme"})
        self.key, _ = self.make_key()

    def start(self) -> None:
        env = environment(
            PORT=str(self.port),
            HOST="127.0.0.1",
            DATA_DIR=str(self._folder),
            ADMIN_API_KEY=ADMIN_KEY,
            WEBHOOK_SECRET_ENCRYPTION_KEY="be" * 32,
            LOG_LEVEL="error",
        )
        # Ends it when this process ends in any way, because the pipe to its stdin closes then.
        preload = (ROOT / "scripts" / "stop-with-parent.mjs").as_uri()
        self._process = Process(["node", "--import", preload, str(ROOT / "dist" / "main.js")], env, ROOT)
        self._process.await_http(f"{self.url}/health/ready")

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.stop()

    def _post(self, path: str, body: Any) -> dict[str, Any]:
        self._process.require_life()
        response = self._admin.post(path, json=body)
        assert response.is_success, response.text
        return dict(response.json())

    def make_key(self, *more: str) -> tuple[str, str]:
        """Its secret and its id. `more` are further permissions."""
        permissions = [*(f"reservations:{verb}" for verb in ("create", "commit", "release", "extend")), *more]
        made = self._post("/v1/admin/api-keys", {"tenant_id": TENANT, "name": "gateway", "permissions": permissions})
        return str(made["key_secret"]), str(made["key_id"])

    def revoke(self, key_id: str) -> None:
        response = self._admin.delete(f"/v1/admin/api-keys/{key_id}")
        assert response.is_success, response.text

    def allocate(self, scope: str, amount: int, **more: Any) -> None:
        allocated = {"unit": UNIT, "amount": amount}
        self._post("/v1/admin/budgets", {"tenant_id": TENANT, "scope": scope, "unit": UNIT, "allocated": allocated, **more})

    def budget(self, scope: str) -> Budget:
        response = self._admin.get("/v1/admin/budgets", params={"tenant_id": TENANT, "scope_prefix": scope})
        assert response.is_success, response.text
        found = next(one for one in response.json()["ledgers"] if one["scope"] == scope)
        figures = {name: found[name]["amount"] for name in ("allocated", "remaining", "reserved", "spent")}
        return Budget(**figures, debt=(found.get("debt") or {}).get("amount", 0))

    def settled(self, scope: str, within_s: float = 20.0) -> Budget:
        """The budget as soon as nothing is held."""
        return eventually(lambda: (lambda one: one if one.reserved == 0 else None)(self.budget(scope)), within_s)

    def get(self, path: str, **params: Any) -> Any:
        response = self._admin.get(path, params=params)
        assert response.is_success, response.text
        return response.json()


class Upstream:
    def __init__(self) -> None:
        self.port = free_port()
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False)
        self._process = Process([*CHILD, str(HERE / "upstream.py"), str(self.port)], environment(), HERE)
        self._process.await_http(f"http://127.0.0.1:{self.port}/books")

    def books(self) -> dict[str, Any]:
        return dict(self._http.get("/books").json())

    def billed(self, tag: str) -> list[dict[str, Any]]:
        return [one for one in self.books()["billed"] if one["tag"] == tag]

    def calls(self, tag: str) -> int:
        return int(self.books()["calls"].get(tag, 0))

    def waits(self, tag: str) -> int:
        return int(self.books()["waits"].get(tag, 0))

    def go(self) -> None:
        self._http.post("/go")

    def stop(self) -> None:
        self._process.stop()


@dataclass
class Proxy:
    process: Process
    url: str

    def client(self, key: str, timeout_s: float = 60.0) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=timeout_s)

    def told(self, event: str) -> int:
        """How often the callback has counted an event, by LiteLLM's own metrics."""
        text = httpx.get(f"{self.url}/metrics/", trust_env=False, timeout=30).text
        lines = [line for line in text.splitlines() if line.startswith("holdfast_litellm_events_total") and f'event="{event}"' in line]
        return int(float(lines[0].split()[-1]))


# Names of models, with the provider's model, and the price of it that LiteLLM knows, in dollars a token.
def config_of(upstream: Upstream, general: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    base = f"http://127.0.0.1:{upstream.port}"

    def model(name: str, target: str, **more: Any) -> dict[str, Any]:
        api_base = base if target.startswith("anthropic/") else f"{base}/v1"
        return {"model_name": name, "litellm_params": {"model": target, "api_key": "none", "api_base": api_base, **more}}

    return {
        "model_list": [
            model("cheap", "openai/gpt-4o-mini"),
            model("dear", "openai/gpt-4o"),
            model("falls", "openai/gpt-4o-mini"),
            model("instruct", "text-completion-openai/gpt-3.5-turbo-instruct"),
            model("embed", "openai/text-embedding-3-small"),
            model("claude", "anthropic/claude-sonnet-4-5"),
            model("own", "openai/of-our-own", input_cost_per_token=1e-6, output_cost_per_token=2e-6),
            model("free", "openai/for-free", input_cost_per_token=0, output_cost_per_token=0),
            model("unpriced", "openai/nobody-knows"),
            model("hasty", "openai/gpt-4o", timeout=2),
            {"model_name": "nowhere", "litellm_params": {"model": "openai/gpt-4o", "api_key": "none", "api_base": "http://127.0.0.1:9/v1"}},
        ],
        "router_settings": {"num_retries": 1, "retry_after": 0, "fallbacks": [{"falls": ["dear"]}], "disable_cooldowns": True},
        "litellm_settings": {
            "callbacks": ["holdfast_litellm.budget", "hook_recorder.recorder", "prometheus"],
            "require_auth_for_metrics_endpoint": False,
            **settings,
        },
        "general_settings": {"custom_auth": "gateway_auth.user_api_key_auth", "master_key": f"sk-{uuid.uuid4().hex * 2}", **general},
    }


def with_guards(config: dict[str, Any]) -> None:
    """A guardrail, and callbacks on either side of Holdfast's, which refuse answers."""
    callbacks = config["litellm_settings"]["callbacks"]
    config["litellm_settings"]["callbacks"] = ["gateway_guards.before", callbacks[0], "gateway_guards.after", *callbacks[1:]]
    rail = {"guardrail": "gateway_guards.Rail", "mode": "post_call", "default_on": True}
    config["guardrails"] = [{"guardrail_name": "rail", "litellm_params": rail}]


@dataclass
class World:
    holdfast: Holdfast
    upstream: Upstream
    folder: Path
    proxies: list[Process] = field(default_factory=list)
    # Of the key of the proxy that reads it from a file, until it is revoked.
    rotated_key_id: str = ""

    @property
    def key_file(self) -> Path:
        return self.folder / "key"

    @property
    def hook_record(self) -> Path:
        return self.folder / "hooks.jsonl"

    def launch(
        self,
        *,
        general: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        has_guards: bool = False,
        **env: str,
    ) -> Proxy:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("gateway_auth.py", "gateway_guards.py", "hook_recorder.py"):
            shutil.copy(HERE / name, folder)
        config = config_of(self.upstream, general or {}, settings or {})
        if has_guards:
            with_guards(config)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        port = free_port()
        command = [*CHILD, "litellm", "--config", str(folder / "config.yaml"), "--port", str(port), "--host", "127.0.0.1"]
        given = {"HOLDFAST_URL": self.holdfast.url, "HOLDFAST_API_KEY": self.holdfast.key, **env}
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"}
        process = Process(command, environment(HOOK_RECORD=str(self.hook_record), **quiet, **given), folder)
        self.proxies.append(process)

        url = f"http://127.0.0.1:{port}"
        process.await_http(f"{url}/health/liveliness")
        return Proxy(process, url)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="hf-litellm-"))
    holdfast = upstream = None
    proxies: list[Process] = []
    try:
        holdfast, upstream = Holdfast(folder / "data"), Upstream()
        one = World(holdfast, upstream, folder, proxies)
        yield one
    finally:
        for process in proxies:
            process.stop()
        for server in (upstream, holdfast):
            if server is not None:
                server.stop()
        shutil.rmtree(folder, ignore_errors=True)


# Each proxy starts when a test needs it: a start takes a processor for many seconds.
@pytest.fixture(scope="session")
def strict(world: World) -> Proxy:
    """As it is without further settings."""
    return world.launch()


@pytest.fixture(scope="session")
def doomed(world: World) -> Proxy:
    """Which a test kills. Its holds lapse soon, and not so soon that a busy proxy cannot extend them."""
    return world.launch(HOLDFAST_TTL_SECONDS="10")


@pytest.fixture(scope="session")
def guarded(world: World) -> Proxy:
    """Where others refuse answers of the provider."""
    return world.launch(has_guards=True)


@pytest.fixture(scope="session")
def lenient(world: World) -> Proxy:
    """With the other value of each setting."""
    secret, world.rotated_key_id = world.holdfast.make_key()
    world.key_file.write_text(f"{secret}\n")
    return world.launch(
        general={"cancel_on_disconnect": True},
        settings={"cache": True, "cache_params": {"type": "local"}},
        HOLDFAST_API_KEY="",
        HOLDFAST_API_KEY_FILE=str(world.key_file),
        HOLDFAST_WHEN_AWAY="allow",
        HOLDFAST_UNPRICED="allow",
        HOLDFAST_DENIED_STATUS="402",
        HOLDFAST_ORPHAN_POLICY="input",
        HOLDFAST_SUBJECT="workspace=team, agent=end_user",
    )


@dataclass
class Team:
    """A team of its own for a test, with a budget."""

    holdfast: Holdfast
    name: str
    user: str = "ann"

    @property
    def key(self) -> str:
        return f"sk-{self.name}.{self.user}"

    @property
    def scope(self) -> str:
        return f"tenant:{TENANT}/workspace:{self.name}"

    def budget(self) -> Budget:
        return self.holdfast.budget(self.scope)

    def settled(self, within_s: float = 20.0) -> Budget:
        return self.holdfast.settled(self.scope, within_s)


@pytest.fixture
def team(world: World) -> Team:
    one = Team(world.holdfast, f"t{uuid.uuid4().hex[:12]}")
    world.holdfast.allocate(one.scope, 10**8)
    return one


@pytest.fixture
def tag() -> str:
    return uuid.uuid4().hex


def said(**orders: Any) -> list[dict[str, str]]:
    """Messages that order something from the made-up provider."""
    return [{"role": "user", "content": json.dumps(orders)}]
