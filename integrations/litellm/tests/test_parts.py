"""Subjects, settings, estimates, and what is known of failed attempts: what needs no server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import litellm
import openai
import pytest

from holdfast_litellm.attempts import Attempts, cost_nothing
from holdfast_litellm.estimate import Price, Prices, Unpriced, estimate, input_tokens, microcents, price_from
from holdfast_litellm.settings import Settings, SettingsError
from holdfast_litellm.streams import text_of
from holdfast_litellm.subject import Hierarchy, segment

NEEDED = {"HOLDFAST_URL": "http://holdfast/", "HOLDFAST_API_KEY": "key"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("red", "red"),
        ("a.b", "a.b"),
        ("ann@example.com", "ann..40example.com"),
        ("a..b", "a..2e..2eb"),
        ("a.@b", "a..2e..40b"),
        ("a/b:c d", "a..2fb..3ac..20d"),
        ("ü", "..c3..bc"),
    ],
)
def test_a_segment_says_its_value(value: str, expected: str) -> None:
    assert segment(value) == expected


def test_different_values_have_different_segments() -> None:
    letters = ["a", ".", "@", "2", "e", "4", "0"]
    values = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    assert len({segment(value) for value in values}) == len(values)
    long = [f"{'x' * 200}{n}" for n in range(10)]
    assert len({segment(value) for value in long}) == 10
    assert all(len(segment(value)) <= 128 for value in long)


def caller(**given: Any) -> Any:
    names = ("api_key", "key_alias", "team_id", "team_alias", "user_id", "org_id", "end_user_id")
    return SimpleNamespace(**{**dict.fromkeys(names), **given})


def test_a_level_without_its_property_is_left_out() -> None:
    hierarchy = Hierarchy.parse(Hierarchy.DEFAULT)
    assert hierarchy.subject_of(caller(team_id="red", key_alias="ci", end_user_id="7")) == {"workspace": "red", "app": "ci", "agent": "7"}
    assert hierarchy.subject_of(caller(api_key="ab" * 32)) == {"app": "ab" * 16}
    assert hierarchy.subject_of(caller()) == {}


def test_a_level_can_have_a_value_of_its_own() -> None:
    assert Hierarchy.parse('app="chat", agent=user').subject_of(caller(user_id="ann")) == {"app": "chat", "agent": "ann"}


@pytest.mark.parametrize("text", ["team=red", "workspace=colour", "workspace=team, workspace=user", "workspace", "app=chat"])
def test_a_wrong_hierarchy_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_SUBJECT"):
        Settings.read({**NEEDED, "HOLDFAST_SUBJECT": text})


def test_the_settings_have_defaults() -> None:
    settings = Settings.read(NEEDED)
    assert (settings.url, settings.orphan_policy, settings.ttl_ms, settings.denied_status) == ("http://holdfast", "estimate", 60_000, 429)
    assert not settings.fails_open
    assert not settings.allows_unpriced


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_URL", ""),
        ("HOLDFAST_API_KEY", " "),
        ("HOLDFAST_ORPHAN_POLICY", "nothing"),
        ("HOLDFAST_OUTPUT_TOKENS", "-1"),
        ("HOLDFAST_TTL_SECONDS", "0"),
        ("HOLDFAST_WHEN_AWAY", "open"),
        ("HOLDFAST_UNPRICED", "free"),
        ("HOLDFAST_DENIED_STATUS", "200"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.read({**NEEDED, name: value})


def test_an_amount_is_rounded_up() -> None:
    assert microcents(1e-8) == 1
    assert microcents(1.01e-8) == 2
    assert microcents(4.5e-06) == 450
    assert microcents(0.0) == 0


PLAIN = Price(1e-6, 2e-6, (), 1000)


@pytest.mark.parametrize(
    ("kind", "request_", "default", "tokens_out"),
    [
        ("acompletion", {}, 0, 1000),
        ("acompletion", {}, 50, 50),
        ("acompletion", {"max_tokens": 7}, 50, 7),
        ("acompletion", {"max_completion_tokens": 9, "max_tokens": 7}, 0, 9),
        ("acompletion", {"max_tokens": 8, "n": 3}, 0, 24),
        # Each prompt of several is answered.
        ("atext_completion", {"max_tokens": 8, "prompt": ["a", "b", "c"], "n": 2}, 0, 48),
        ("atext_completion", {"max_tokens": 8, "prompt": [[1, 2], [3]]}, 0, 16),
        ("atext_completion", {"max_tokens": 8, "prompt": [1, 2, 3]}, 0, 8),
        ("aresponses", {"max_output_tokens": 8}, 0, 8),
        ("anthropic_messages", {"max_tokens": 8}, 0, 8),
        # What is no limit there, or none at all, does not make a call cheap.
        ("aresponses", {"max_tokens": 1}, 0, 1000),
        ("acompletion", {"max_output_tokens": 1}, 0, 1000),
        ("acompletion", {"max_tokens": -5, "n": -1}, 0, 1000),
        ("acompletion", {"max_tokens": True}, 0, 1000),
    ],
)
def test_the_output_is_bounded_by_the_request_the_operator_or_the_model(
    kind: str, request_: dict[str, Any], default: int, tokens_out: int
) -> None:
    found = estimate([PLAIN], 10, kind, request_, default)
    assert found.amount == 100 * 10 + 200 * tokens_out
    assert found.input == 100 * 10
    assert [found.orphan(policy) for policy in ("estimate", "input", "release")] == [found.amount, found.input, 0]


def test_an_embedding_has_no_output() -> None:
    assert estimate([PLAIN], 10, "aembedding", {}, 0).amount == 1000


def test_the_dearest_price_counts() -> None:
    assert estimate([PLAIN, Price(5e-6, 1e-6, (), 10)], 10, "acompletion", {"max_tokens": 1}, 0).amount == 10 * 500 + 100


def test_long_requests_have_their_tier() -> None:
    price = price_from(
        {
            "input_cost_per_token": 1e-6,
            "output_cost_per_token": 2e-6,
            "input_cost_per_token_above_200k_tokens": 2e-6,
            "max_output_tokens": 5,
        }
    )
    assert price.at(200_000) == (1e-6, 2e-6)
    assert price.at(200_001) == (2e-6, 2e-6)


def test_all_texts_of_a_request_are_counted_and_media_at_a_flat_rate() -> None:
    words = "a reasonably long text about nothing at all " * 20
    count = litellm.token_counter(model="", text=words)
    parts = [{"type": "text", "text": words}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}]
    chat = {"messages": [{"role": "system", "content": words}, {"role": "user", "content": parts}]}
    assert 2 * count + 1500 <= input_tokens(chat) <= 2 * count + 1600
    assert input_tokens({"system": words, "messages": []}) >= count
    assert input_tokens({"instructions": words, "input": words}) >= 2 * count
    assert input_tokens({"tools": [{"type": "function", "function": {"name": "f", "description": words}}]}) >= count
    assert input_tokens({"input": [[1, 2, 3], [4]]}) == 4
    # A document may be a text of any length.
    pages = words * 20
    plain = {"type": "text", "media_type": "text/plain", "data": pages}
    whole = {"type": "content", "content": [{"type": "text", "text": pages}]}
    for source in (plain, whole):
        document = {"type": "document", "source": source}
        assert input_tokens({"messages": [{"role": "user", "content": [document]}]}) >= litellm.token_counter(model="", text=pages)


def test_each_model_that_a_call_may_reach_needs_a_price() -> None:
    priced = {"model_name": "cheap", "litellm_params": {"model": "openai/gpt-4o-mini", "api_key": "k"}}
    unknown = {"model_name": "odd", "litellm_params": {"model": "openai/nobody-knows", "api_key": "k"}}
    router = litellm.Router(model_list=[priced, unknown], fallbacks=[{"cheap": ["odd"]}], model_group_alias={"alias": "cheap"})
    with pytest.raises(Unpriced, match="odd"):
        Prices().of_call("cheap", {}, router)
    router.fallbacks = []
    assert [price.input for price in Prices().of_call("alias", {}, router)] == [1.5e-7]
    with pytest.raises(Unpriced, match="odd"):
        Prices().of_call("cheap", {"fallbacks": ["odd"]}, router)


@pytest.mark.parametrize(
    "asked",
    [
        {"fallbacks": ["dear"]},
        {"fallbacks": [{"model": "dear", "temperature": 0}]},
        {"fallbacks": [{"cheap": ["dear"]}]},
        {"context_window_fallbacks": [{"cheap": ["dear"]}]},
        {"content_policy_fallbacks": [{"*": ["dear"]}]},
    ],
)
def test_a_fallback_that_the_client_asks_for_has_its_price(asked: dict[str, Any]) -> None:
    models = {"cheap": "gpt-4o-mini", "dear": "gpt-4o"}
    listed = [{"model_name": name, "litellm_params": {"model": f"openai/{of}", "api_key": "k"}} for name, of in models.items()]
    assert [price.input for price in Prices().of_call("cheap", asked, litellm.Router(model_list=listed))] == [1.5e-7, 2.5e-6]


def test_a_fallback_without_a_price_does_not_make_a_call_uncounted() -> None:
    priced = {"model_name": "cheap", "litellm_params": {"model": "openai/gpt-4o-mini", "api_key": "k"}}
    router = litellm.Router(model_list=[priced])
    prices = Prices(allows_unpriced=True)
    assert [price.input for price in prices.of_call("cheap", {"fallbacks": ["nobody-knows"]}, router)] == [1.5e-7]
    with pytest.raises(Unpriced, match="nobody-knows"):
        prices.of_call("nobody-knows", {}, router)


REQUEST = httpx.Request("POST", "http://provider")
FAILURES: list[tuple[BaseException, bool]] = [
    (openai.InternalServerError("no", response=httpx.Response(500, request=REQUEST), body=None), True),
    (httpx.ConnectError("refused"), True),
    (httpx.ReadError("reset"), False),
    (httpx.ReadTimeout("slow"), False),
    (openai.APITimeoutError(REQUEST), False),
    (litellm.BadRequestError("no", "m", "openai"), True),
    (litellm.Timeout("slow", "m", "openai"), False),
    (RuntimeError("who knows"), False),
]


@pytest.mark.parametrize(("error", "is_free"), FAILURES, ids=[type(error).__name__ for error, _ in FAILURES])
def test_only_a_failure_that_was_refused_or_not_sent_cost_nothing(error: BaseException, is_free: bool) -> None:
    assert cost_nothing(error) is is_free
    wrapped = litellm.InternalServerError("wrapped", "openai", "m")
    wrapped.__cause__ = error
    # LiteLLM turns a request that it refuses itself into no server error.
    assert cost_nothing(wrapped) is (is_free and not isinstance(error, litellm.BadRequestError))


def test_an_attempt_that_passes_through_another_format_counts_once() -> None:
    attempts = Attempts("anthropic_messages")
    for kind in ("anthropic_messages", "aresponses"):
        attempts.start(kind)
    for kind in ("aresponses", "anthropic_messages"):
        attempts.fail(kind, httpx.ReadError("reset"))
    assert (attempts.unheard, attempts.open) == (1, False)


def test_the_text_of_a_part_is_found_in_each_format() -> None:
    delta = SimpleNamespace(
        content="a", reasoning_content="b", refusal=None, tool_calls=[SimpleNamespace(function=SimpleNamespace(name="f", arguments="{}"))]
    )
    assert text_of(SimpleNamespace(choices=[SimpleNamespace(delta=delta)])) == "abf{}"
    assert text_of(SimpleNamespace(type="response.output_text.delta", delta="word")) == "word"
    assert text_of(b'event: x\ndata: {"delta": {"type": "text_delta", "text": "word"}}\n\n') == "word"
    assert text_of(b"data: [DONE]\n\n") == ""
