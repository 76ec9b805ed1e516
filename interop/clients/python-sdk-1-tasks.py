"""The core tasks of 2025-11-25 through the official Python SDK 1 (`session.experimental`), whose version is not in the
environment beside the newest one but in a folder of its own: SCRIPT -- SERVER WORDS..., or SCRIPT URL. Prints a JSON
object for each check, as the other scripts do; the test is interop/tests/core_tasks.rs.
"""

import asyncio
import json
import sys
import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "venv/mcp-1"))

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

# That the next version has no core tasks is why this is version 1.
warnings.simplefilter("ignore", DeprecationWarning)

RELATED = "io.modelcontextprotocol/related-task"

# How long a check may take, in seconds: far more than any does on a busy machine.
LIMIT = 80


def say(line):
    print(json.dumps(line), flush=True)


def equal(seen, expected):
    assert seen == expected, f"{seen!r} instead of {expected!r}"


def transport():
    first, *words = sys.argv[1:]
    if first == "--":
        return stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    return streamable_http_client(first)


class Checks:
    def __init__(self, session, opened, asked):
        self.session, self.opened, self.asked = session, opened, asked
        self.tasks = session.experimental

    async def begin(self, name, arguments=None, ttl=60_000):
        return (await self.tasks.call_tool_as_task(name, arguments or {}, ttl=ttl)).task

    async def ended(self, task):
        return [status async for status in self.tasks.poll_task(task.taskId)]

    async def result(self, task):
        return await self.tasks.get_task_result(task.taskId, types.CallToolResult)

    async def code(self, answer):
        try:
            raise AssertionError(f"no error, but {await answer}")
        except McpError as error:
            return error.error.code

    async def check_open(self):
        equal(self.opened.protocolVersion, "2025-11-25")
        declared = self.opened.capabilities.tasks
        assert declared.list is not None and declared.cancel is not None, declared
        assert declared.requests.tools.call is not None, declared
        tools = {tool.name: tool for tool in (await self.session.list_tools()).tools}
        equal(tools["slow_compute"].execution.taskSupport, "optional")
        equal(tools["failing_job"].execution.taskSupport, "required")

    async def check_poll(self):
        task = await self.begin("slow_compute", {"seconds": 2, "label": "Sum"})
        equal((task.status, task.ttl, task.pollInterval), ("working", 60_000, 1000))
        equal((await self.ended(task))[-1].status, "completed")
        result = await self.result(task)
        equal(result.content[0].text, "Sum is there, after 2 s")
        equal(result.meta, {RELATED: {"taskId": task.taskId}})

    async def check_wait(self):
        task = await self.begin("slow_compute", {"seconds": 1})
        equal((await self.result(task)).content[0].text, "The result is there, after 1 s")

    async def check_input(self):
        task = await self.begin("confirm_delete", {"filename": "notes.txt"})
        async for status in self.tasks.poll_task(task.taskId):
            if status.status == "input_required":
                break
        equal((await self.result(task)).content[0].text, "notes.txt would be gone now")
        [asked] = self.asked
        equal(asked.message, "Delete notes.txt?")
        equal(asked.meta.model_extra, {RELATED: {"taskId": task.taskId}})

    async def check_failure(self):
        failing = await self.begin("failing_job")
        last = (await self.ended(failing))[-1]
        equal((last.status, last.statusMessage), ("failed", "This job fails, as it always does"))
        equal((await self.result(failing)).isError, True)
        breaking = await self.begin("protocol_error_job")
        equal((await self.ended(breaking))[-1].status, "failed")
        equal(await self.code(self.result(breaking)), -32603)

    async def check_cancel(self):
        task = await self.begin("slow_compute", {"seconds": 600})
        equal((await self.tasks.cancel_task(task.taskId)).status, "cancelled")
        equal((await self.tasks.get_task(task.taskId)).status, "cancelled")
        equal(await self.code(self.tasks.cancel_task(task.taskId)), -32602)
        equal(await self.code(self.tasks.get_task("unknown")), -32602)

    async def check_list(self):
        listed = (await self.tasks.list_tasks()).tasks
        assert len(listed) >= 6, listed
        for task in listed:
            equal((await self.tasks.get_task(task.taskId)).status, task.status)

    async def check_misuse(self):
        equal(await self.code(self.begin("greet", {"name": "Ada"})), -32601)
        equal(await self.code(self.session.call_tool("failing_job", {})), -32601)


@asynccontextmanager
async def opened():
    asked = []

    async def elicit(_, params):
        asked.append(params)
        return types.ElicitResult(action="accept", content={"confirm": True})

    async with transport() as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=elicit) as session:
            yield Checks(session, await session.initialize(), asked)


async def main():
    say({"version": version("mcp")})
    async with opened() as checks:
        for name in [name for name in vars(Checks) if name.startswith("check_")]:
            check = name.removeprefix("check_")
            try:
                await asyncio.wait_for(getattr(checks, name)(), LIMIT)
                say({"check": check, "outcome": "right"})
            except Exception as error:
                say({"check": check, "outcome": "fault", "why": f"{type(error).__name__}: {error}"})
    say({"check": "end", "outcome": "right"})


asyncio.run(main())
