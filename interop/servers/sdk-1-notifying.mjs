#!/usr/bin/env node
// A server on the TypeScript SDK 1.x that notifies its client and asks it, as its users write one: SCRIPT stdio|sessions. It
// has the legacy era alone. Each of the notifying servers has the same tools.

import { randomUUID } from 'node:crypto';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { listen } from './listen.mjs';

const RESOURCE = 'test://counter';

const text = (words) => ({ content: [{ type: 'text', text: words }] });

function server() {
    const server = new McpServer(
        { name: 'sdk-1-notifying', version: '0' },
        { capabilities: { logging: {}, resources: { subscribe: true } } },
    );
    const subscribed = new Set();
    let version = 0;
    let added;
    server.registerTool('change_tools', {}, () => {
        // Both say that the list has changed.
        if (added === undefined) {
            added = server.registerTool('added', {}, () => text('here'));
        } else {
            added.remove();
            added = undefined;
        }
        return text('done');
    });
    server.registerTool('update_resource', {}, async () => {
        version += 1;
        if (subscribed.has(RESOURCE)) {
            await server.server.sendResourceUpdated({ uri: RESOURCE });
        }
        return text('done');
    });
    server.registerTool('log', {}, async ({ sessionId }) => {
        await server.sendLoggingMessage({ level: 'warning', data: 'It is hot' }, sessionId);
        return text('done');
    });
    const ask = async () => {
        const { content } = await server.server.elicitInput({
            message: 'Who are you?',
            requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        });
        return text(`Hello, ${content.name}`);
    };
    // There is one way to ask in this version.
    server.registerTool('ask', {}, ask);
    server.registerTool('elicit', {}, ask);
    server.registerResource('counter', RESOURCE, {}, ({ href }) => ({
        contents: [{ uri: href, text: `version ${version}` }],
    }));
    // The SDK leaves it to its users to keep who has subscribed to what.
    server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        subscribed.add(params.uri);
        return {};
    });
    server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
        subscribed.delete(params.uri);
        return {};
    });
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
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => transports.set(id, transport),
        onsessionclosed: (id) => transports.delete(id),
    });
    await server().connect(transport);
    return transport;
}

if (process.argv[2] === 'stdio') {
    await server().connect(new StdioServerTransport());
} else {
    listen(async (request, response) => (await transport(request)).handleRequest(request, response));
}
