// An echo server on the TypeScript SDK: node server.mjs v1|v2 [http PORT stateful|stateless], with --tools FILE and
// --resource FILE as for ours-server.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [version, transport, port, mode] = process.argv.slice(2);
const tool = {
  name: 'echo',
  description: 'Says what it is told',
  inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
};
const file = (option) => process.argv.includes(option) && process.argv[process.argv.indexOf(option) + 1];
const tools = file('--tools') ? JSON.parse(readFileSync(file('--tools'), 'utf8')) : [tool];
const list = async () => ({ tools });
const call = async (request, context) => {
  if (request.params.name === 'report') {
    const { _meta, notify } = context.mcpReq ?? { _meta: context._meta, notify: context.sendNotification };
    const params = { progressToken: _meta.progressToken, progress: 1 };
    await notify({ method: 'notifications/progress', params });
  }
  return { content: [{ type: 'text', text: request.params.arguments.message }] };
};
const read = async ({ params: { uri } }) => ({ contents: [{ uri, text: readFileSync(file('--resource'), 'utf8') }] });
const about = [{ name: 'peer', version: '0.0.0' }, { capabilities: { tools: {}, resources: {} } }];

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
    server.setRequestHandler('resources/read', read);
    return server;
  };
} else {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { CallToolRequestSchema, ListToolsRequestSchema, ReadResourceRequestSchema } = await import(
    '@modelcontextprotocol/sdk/types.js'
  );
  if (transport === 'http') {
    ({ StreamableHTTPServerTransport: Http } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js'));
  } else {
    ({ StdioServerTransport: Stdio } = await import('@modelcontextprotocol/sdk/server/stdio.js'));
  }
  make = () => {
    const server = new Server(...about);
    server.setRequestHandler(ListToolsRequestSchema, list);
    server.setRequestHandler(CallToolRequestSchema, call);
    server.setRequestHandler(ReadResourceRequestSchema, read);
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
