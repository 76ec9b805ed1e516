"""The official Python SDK's client listening to `mcpjoin serve demo --full`: SCRIPT legacy|modern -- SERVER WORDS..., or SCRIPT
legacy|modern URL.

Prints what it was told, in one JSON object: `tools`, whether the tool `test_added_tool` was in the list after each change of
it, and `logs`. Used by `interop/tests/notifications.rs`, which judges it.
"""

import asyncio
import json
import sys
import warnings

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning

# The legacy era is deprecated to this client's authors.
warnings.simplefilter("ignore", MCPDeprecationWarning)

# How long a wait may take, in seconds: far more than any does on a busy machine.
LIMIT = 60


async def within(what, waited):
    with anyio.move_on_after(LIMIT):
        return await waited
    sys.exit(f"mcp, {era}: {what}: nothing in {LIMIT} s")


async def main():
    changes, logs = asyncio.Queue(), asyncio.Queue()

    async def message(message):
        if isinstance(message, types.ToolListChangedNotification):
            changes.put_nowait(message)

    async def log(params):
        logs.put_nowait({"level": params.level, "data": params.data, "logger": params.logger})

    where = StdioServerParameters(command=words[1], args=words[2:]) if words[0] == "--" else words[0]
    modern = era == "modern"
    client = Client(
        where,
        mode="auto" if modern else "legacy",
        message_handler=message,
        logging_callback=log,
        log_level="info" if modern else None,
    )

    async def changed(next_change):
        told = []
        for _ in range(2):
            await client.call_tool("test_trigger_tool_change")
            await within("list_changed", next_change())
            tools = (await client.list_tools()).tools
            told.append(any(tool.name == "test_added_tool" for tool in tools))
        return told

    async with client:
        if modern:
            async with client.listen(tools_list_changed=True) as subscription:
                tools = await changed(lambda: anext(subscription))
        else:
            await client.set_logging_level("info")
            tools = await changed(changes.get)
        await client.call_tool("test_logging_tool")
        heard = [await within("log messages", logs.get()) for _ in range(2)]
    print(json.dumps({"tools": tools, "logs": heard}))


era, *words = sys.argv[1:]
asyncio.run(main())
