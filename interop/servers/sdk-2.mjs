#!/usr/bin/env node
// A server on the TypeScript SDK 2.x, as its users write one: SCRIPT both|modern|sse|sessions|resumes. `both` has the
// modern era and the legacy one without sessions, `modern` refuses the legacy one, `sse` always streams; `sessions` and
// `resumes` have the legacy era with sessions alone, and `resumes` keeps events for those who come back.

import { randomUUID } from 'node:crypto';

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { z } from 'zod';

import { Events, listen, tools } from './listen.mjs';

const mode = process.argv[2];

function server() {
    const server = new McpServer({ name: 'sdk-2', version: '0' });
    for (const [name, does] of Object.entries(tools(mode === 'resumes'))) {
        server.registerTool(name, { inputSchema: z.object({ message: z.string() }) }, (args, context) =>
            does(args, {
                notify: (notification) => context.mcpReq.notify(notification),
                progressToken: context.mcpReq._meta?.progressToken,
                leave: context.http?.closeSSE,
                signal: context.mcpReq.signal,
            }),
        );
    }
    // Asks the user and the model in one round, and remembers what it was called with in a second.
    server.registerTool('asks', { inputSchema: z.object({ message: z.string() }) }, ({ message }, context) => {
        const { inputResponses, requestState } = context.mcpReq;
        const said = inputResponse(inputResponses, 'model');
        if (said.kind === 'sampling') {
            return { content: [{ type: 'text', text: `${requestState()} ${said.result.content.text}` }] };
        }
        const user = inputResponse(inputResponses, 'user');
        if (user.kind === 'elicit') {
            return inputRequired({
                inputRequests: {
                    model: inputRequired.createMessage({
                        messages: [{ role: 'user', content: { type: 'text', text: message } }],
                        maxTokens: 10,
                    }),
                },
                requestState: `${user.action} ${JSON.stringify(user.content)}`,
            });
        }
        const requestedSchema = z.object({ name: z.string(), check: z.boolean(), integer: z.number() });
        return inputRequired({ inputRequests: { user: inputRequired.elicit({ message, requestedSchema }) } });
    });
    return server;
}

const transports = new Map();

/** The transport for this request in the legacy era: that of its session, or a new one. */
async function transport(request) {
    const known = transports.get(request.headers['mcp-session-id']);
    if (known !== undefined) {
        return known;
    }
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: mode === 'resumes' ? new Events() : undefined,
        retryInterval: 20,
        onsessioninitialized: (id) => transports.set(id, transport),
        onsessionclosed: (id) => transports.delete(id),
    });
    await server().connect(transport);
    return transport;
}

const handler = toNodeHandler(
    createMcpHandler(server, {
        legacy: mode === 'modern' ? 'reject' : 'stateless',
        responseMode: mode === 'sse' ? 'sse' : 'auto',
    }),
);

listen(async (request, response) => {
    if (request.url !== '/mcp') {
        response.writeHead(404).end();
    } else if (mode === 'sessions' || mode === 'resumes') {
        await (await transport(request)).handleRequest(request, response);
    } else {
        await handler(request, response);
    }
});
