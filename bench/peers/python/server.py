"""An echo server on the Python SDK: python server.py low|fast [http PORT stateful|stateless], on the low-level Server or
on MCPServer; on the former with --tools FILE and --resource FILE as for ours-server."""

import json
import pathlib
import sys

import anyio

if sys.argv[1] == "fast":
    from mcp.server import MCPServer

    server = MCPServer("peer")

    @server.tool(structured_output=False)
    async def echo(message: str) -> str:
        return message

else:
    import mcp_types as types
    from mcp.server.lowlevel import Server

    SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

    ECHO = {"name": "echo", "description": "Says what it is told", "inputSchema": SCHEMA}
    FILES = {option: pathlib.Path(path) for option, path in zip(sys.argv, sys.argv[1:])}
    TOOLS = json.loads(FILES["--tools"].read_text()) if "--tools" in FILES else [ECHO]
    TOOLS = [types.Tool.model_validate(tool) for tool in TOOLS]

    async def list_tools(context, params):
        return types.ListToolsResult(tools=TOOLS)

    async def read_resource(context, params):
        text = FILES["--resource"].read_text(encoding="utf-8")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

    async def call_tool(context, params):
        if params.name == "report":
            await context.session.report_progress(1)
        return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["message"])])

    server = Server(
        "peer",
        version="0.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_read_resource=read_resource,
    )

if "http" in sys.argv:
    import uvicorn

    stateless = sys.argv[4] == "stateless"
    app = server.streamable_http_app(stateless_http=stateless, json_response=stateless)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="error", access_log=False)
elif sys.argv[1] == "fast":
    server.run("stdio")
else:
    from mcp.server.stdio import stdio_server

    async def main():
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(main)
