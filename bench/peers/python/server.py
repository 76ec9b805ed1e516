"""An echo server on the Python SDK: python server.py low|fast (the low-level Server, or MCPServer)."""

import sys

import anyio

if sys.argv[1] == "fast":
    from mcp.server import MCPServer

    server = MCPServer("peer")

    @server.tool(structured_output=False)
    async def echo(message: str) -> str:
        return message

    server.run("stdio")
else:
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

    async def list_tools(context, params):
        tool = types.Tool(name="echo", description="Says what it is told", input_schema=SCHEMA)
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context, params):
        return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["message"])])

    server = Server("peer", version="0.0.0", on_list_tools=list_tools, on_call_tool=call_tool)

    async def main():
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(main)
