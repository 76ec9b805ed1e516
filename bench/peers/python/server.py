"""An echo server on the Python SDK: python server.py low|fast [http PORT stateful|stateless], on the low-level Server or
on MCPServer."""

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

    async def list_tools(context, params):
        tool = types.Tool(name="echo", description="Says what it is told", input_schema=SCHEMA)
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context, params):
        return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["message"])])

    server = Server("peer", version="0.0.0", on_list_tools=list_tools, on_call_tool=call_tool)

if len(sys.argv) > 2:
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
