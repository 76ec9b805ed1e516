// An echo server on the TypeScript SDK: node server.mjs v1|v2 [http PORT stateful|stateless]

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const [version, transport, port, mode] = process.argv.slice(2);
const tool = {
  name: 'echo',
  description: 'Says what it is told',
  inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
};
const list = async () => ({ tools: [tool] });
const call = async (request) => ({ content: [{ type: 'text', text: request.params.arguments.message }] });
const about = [{ name: 'peer', version: '0.0.0' }, { capabilities: { tools: {} } }];

let make, Stdio, Http;
if (version === 'v2') {
  const { Server } = await import('@modelcontextprotocol/server');
  if (transport === 'http') {
    ({ NodeStreamableHTTPServerTransport: Http } = await import('@modelcontextprotocol/node'));
  } else {
    ({ StdioServerTransport: Stdio } = await import('@modelcontextprotocol/server/stdio'));
  }
  make = () => {
    const server = new Server(...about);
    server.setRequestHandler('tools/list', list);
    server.setRequestHandler('tools/call', call);
    return server;
  };
} else {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  if (transport === 'http') {
    ({ StreamableHTTPServerTransport: Http } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js'));
  } else {
    ({ StdioServerTransport: Stdio } = await import('@modelcontextprotocol/sdk/server/stdio.js'));
  }
  make = () => {
    const server = new Server(...about);
    server.setRequestHandler(ListToolsRequestSchema, list);
    server.setRequestHandler(CallToolRequestSchema, call);
    return server;
  };
}

// Without sessions the SDK's documentation makes a server and a transport for each request.
const stateless = async (request, response) => {
  const http = new Http({ sessionIdGenerator: undefined, enableJsonResponse: true });
  await make().connect(http);
  await http.handleRequest(request, response);
};

const sessions = new Map();
const stateful = async (request, response) => {
  let http = sessions.get(request.headers['mcp-session-id']);
  if (!http) {
    http = new Http({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, http) });
    await make().connect(http);
  }
  await http.handleRequest(request, response);
};

if (transport === 'http') {
  const handle = mode === 'stateful' ? stateful : stateless;
  const server = createServer((request, response) => {
    handle(request, response).catch((error) => response.headersSent || response.writeHead(500).end(String(error)));
  });
  server.keepAliveTimeout = 60_000;
  server.listen(Number(port), '127.0.0.1');
} else {
  await make().connect(new Stdio());
}
