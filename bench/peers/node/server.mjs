// An echo server on the TypeScript SDK: node server.mjs v1|v2

const tool = {
  name: 'echo',
  description: 'Says what it is told',
  inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
};
const list = async () => ({ tools: [tool] });
const call = async (request) => ({ content: [{ type: 'text', text: request.params.arguments.message }] });
const about = [{ name: 'peer', version: '0.0.0' }, { capabilities: { tools: {} } }];

if (process.argv[2] === 'v2') {
  const { Server } = await import('@modelcontextprotocol/server');
  const { StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const server = new Server(...about);
  server.setRequestHandler('tools/list', list);
  server.setRequestHandler('tools/call', call);
  await server.connect(new StdioServerTransport());
} else {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const server = new Server(...about);
  server.setRequestHandler(ListToolsRequestSchema, list);
  server.setRequestHandler(CallToolRequestSchema, call);
  await server.connect(new StdioServerTransport());
}
