"""Valid and invalid requests get the responses that the OpenAPI description promises."""

from contextlib import asynccontextmanager

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from macrid.serving.app import create_app
from macrid.settings import ServingSettings

schemathesis.checks.load_all_checks()
LEFT_OUT = ("positive_data_acceptance",)  # valid ids need not exist, and limits are settings


async def _nothing(_):
    yield


@pytest.fixture(scope="module")
def described(shop_run, tmp_path_factory):
    """The app with limits that random requests stay within."""
    events = f"sqlite:///{tmp_path_factory.mktemp('events') / 'events.db'}"
    settings = ServingSettings.make(host="0.0.0.0", open=True, edits="no", timeout=60, events=events)
    app = create_app(shop_run, settings)
    app.router.lifespan_context = asynccontextmanager(_nothing)  # each request would start and stop the app
    yield schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    app.state.service.close()


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.slow
def test_responses_match_the_description_for_valid_and_invalid_requests(described, mode):
    checks = [check for check in CHECKS.get_all() if check.__name__ in LEFT_OUT]
    tried = []
    for result in described.get_all_operations():
        operation = result.ok()

        @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case):
            case.call_and_validate(excluded_checks=checks)

        try:
            try_it()
        except Unsatisfiable:  # an empty request cannot be invalid
            assert mode is GenerationMode.NEGATIVE
            continue
        tried.append(operation.label)
    assert {"POST /v1/recommend", "POST /v1/traverse", "GET /v1/items"} <= set(tried)


def test_everything_is_described_with_examples(described):
    raw = described.raw_schema
    for path, methods in raw["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            if method in ("post", "patch"):
                body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert raw["components"]["schemas"][body]["examples"], body
            problems = [answer for status, answer in operation["responses"].items() if int(status) >= 400]
            assert all(answer["content"].keys() == {"application/problem+json"} for answer in problems)
            assert path == "/healthz" or problems


def test_other_methods_are_refused_with_those_that_an_address_has(client):
    for path, methods in client.get("/v1/openapi.json").json()["paths"].items():
        expected = {method.upper() for method in methods}
        expected |= {"GET", "DELETE"} if path == "/v1/items/lookup" else set()  # "lookup" may be an item, too
        for method in {"GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - expected:
            answer = client.request(method, path.replace("{concept}", "0").replace("{dimension}", "0"))
            assert answer.status_code == 405, (method, path)
            assert {*answer.headers["allow"].split(", ")} - {"HEAD"} == expected
            assert answer.headers["allow"] in answer.json()["detail"]
