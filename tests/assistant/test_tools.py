"""The tools as a client of the protocol sees them: in process, and over the pipes of a real process."""

import asyncio
import os
import sys

import pytest

from macrid.assistant.tools import server_of

mcp_client = pytest.importorskip("mcp.client.client")
NAMES = {"search", "recommend", "steer_in_words", "explain", "similar", "variations", "concepts"}


@pytest.fixture(scope="module")
def server(shop_model):
    return server_of(shop_model, "shop")


def called(server, name, **arguments):
    async def call():
        async with mcp_client.Client(server) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(call())


def test_every_tool_and_argument_is_described(server):
    async def listed():
        async with mcp_client.Client(server) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(listed())
    assert {tool.name for tool in tools} == NAMES
    for tool in tools:
        assert len(tool.description) > 30, tool.name
        assert tool.annotations.read_only_hint
        assert tool.output_schema["properties"]["question"]["description"]
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), (tool.name, name)


def test_answers_are_text_and_data(server):
    answer = called(server, "steer_in_words", wish="cheaper, no blue", n=3)
    assert not answer.is_error
    assert len(answer.structured_content["items"]) == 3
    assert answer.structured_content["items"][0]["title"] in answer.content[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("recommend", {"likes": ["Zzyzx"]}, "no item is called 'Zzyzx'"),
        ("recommend", {"likes": [], "where": "price <\n 'a'"}, "is a number"),
        ("recommend", {"likes": [], "n": 0}, "n: "),
        ("recommend", {"likes": 3}, "likes: "),
        ("recommend", {}, "likes: "),
        ("variations", {"item": "bag-0001", "along": "flurb"}, "no dimension 'flurb'"),
        ("steer_in_words", {"wish": ""}, "empty"),
        ("nonsense", {}, "nonsense"),
    ],
)
def test_errors_are_one_line_and_no_traceback(server, name, arguments, problem):
    answer = called(server, name, **arguments)
    assert answer.is_error
    (content,) = answer.content
    assert problem in content.text
    assert "\n" not in content.text
    assert "Traceback" not in content.text


@pytest.mark.slow
def test_a_process_speaks_only_the_protocol_on_its_output(shop_run, capfd):
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "macrid", "mcp", str(shop_run)],
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )

    async def talk():
        async with mcp_client.Client(stdio_client(command)) as client:
            tools = (await client.list_tools()).tools
            wish = await client.call_tool("steer_in_words", {"wish": "like bag-0001, but cheaper", "n": 2})
            wrong = await client.call_tool("similar", {"item": "Zzyzx"})
            return tools, wish, wrong

    tools, wish, wrong = asyncio.run(talk())
    assert {tool.name for tool in tools} == NAMES
    assert len(wish.structured_content["items"]) == 2
    assert wrong.is_error
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
