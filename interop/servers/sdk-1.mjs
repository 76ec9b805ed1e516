#!/usr/bin/env node
// A server on the TypeScript SDK 1.x, as its users write one: SCRIPT sessions|json|stateless|resumes|restarts. `json`
// answers with one JSON body and no stream, `resumes` keeps events for those who come back, `restarts` answers 404 for the
// sessions of another process of this server.

import { randomUUID } from 'node:crypto';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

import { Events, listen, tools } from './listen.mjs';

const mode = process.argv[2];

function server() {
    const server = new McpServer({ name: 'sdk-1', version: '0' });
    for (const [name, does] of Object.entries(tools(mode === 'resumes'))) {
        server.registerTool(name, { inputSchema: { message: z.string() } }, (args, extra) =>
            does(args, {
                notify: extra.sendNotification,
                progressToken: extra._meta?.progressToken,
                leave: extra.closeSSEStream,
                signal: extra.signal,
            }),
        );
    }
    return server;
}

const transports = new Map();

/** The transport for this request: that of its session, or a new one. */
async function transport(request) {
    const known = transports.get(request.headers['mcp-session-id']);
    if (known !== undefined) {
        return known;
    }
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: mode === 'stateless' ? undefined : randomUUID,
        enableJsonResponse: mode === 'json',
        eventStore: mode === 'resumes' ? new Events() : undefined,
        retryInterval: 20,
        onsessioninitialized: (id) => transports.set(id, transport),
        onsessionclosed: (id) => transports.delete(id),
    });
    await server().connect(transport);
    return transport;
}

listen(async (request, response) => {
    const session = request.headers['mcp-session-id'];
    const isUnknown = mode === 'restarts' && session !== undefined && !transports.has(session);
    if (request.url !== '/mcp' || isUnknown) {
        response.writeHead(404).end();
        return;
    }
    await (await transport(request)).handleRequest(request, response);
});
