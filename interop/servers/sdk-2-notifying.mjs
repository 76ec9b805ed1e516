#!/usr/bin/env node
// A server on the TypeScript SDK 2.x that notifies its client and asks it, as its users write one: SCRIPT
// stdio|modern|sessions. `stdio` has both eras; over HTTP, `modern` has the modern one alone, and `sessions` the legacy one
// alone. Each of the notifying servers has the same tools.

import { randomUUID } from 'node:crypto';

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

import { listen } from './listen.mjs';

const mode = process.argv[2];

const RESOURCE = 'test://counter';

const text = (words) => ({ content: [{ type: 'text', text: words }] });
const greeting = (content) => text(`Hello, ${content.name}`);
const form = { message: 'Who are you?', requestedSchema: z.object({ name: z.string() }) };

// What lasts longer than a server: in the modern era over HTTP each request has its own.
let added = false;
let version = 0;

/** Publishes changes in `modern`, where the server of one request has no streams. */
let notifier;

function server({ era }) {
    const server = new McpServer(
        { name: 'sdk-2-notifying', version: '0' },
        { capabilities: { logging: {}, resources: { subscribe: true }, tools: { listChanged: true } } },
    );
    // The SDK leaves it to its users to keep who has subscribed to what in the legacy era.
    const subscribed = new Set();
    server.server.setRequestHandler('resources/subscribe', ({ params }) => {
        subscribed.add(params.uri);
        return {};
    });
    server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
        subscribed.delete(params.uri);
        return {};
    });
    let tool;
    const addTool = () => {
        tool = server.registerTool('added', {}, () => text('here'));
    };
    server.registerTool('change_tools', {}, () => {
        added = !added;
        // Both say that the list has changed, to those who listen to this server.
        if (added) {
            addTool();
        } else {
            tool.remove();
        }
        notifier?.toolsChanged();
        return text('done');
    });
    server.registerTool('update_resource', {}, async () => {
        version += 1;
        if (notifier !== undefined) {
            notifier.resourceUpdated(RESOURCE);
        } else if (era === 'modern' || subscribed.has(RESOURCE)) {
            // In the modern era the SDK sends it on the streams that want it.
            await server.server.sendResourceUpdated({ uri: RESOURCE });
        }
        return text('done');
    });
    server.registerTool('log', {}, async (context) => {
        await context.mcpReq.log('warning', 'It is hot');
        return text('done');
    });
    // Asks with the result; in the legacy era the SDK makes a request of it.
    server.registerTool('ask', {}, (context) => {
        const user = inputResponse(context.mcpReq.inputResponses, 'user');
        return user.kind === 'elicit'
            ? greeting(user.content)
            : inputRequired({ inputRequests: { user: inputRequired.elicit(form) } });
    });
    // Asks with a request, which the SDK refuses in the modern era.
    server.registerTool('elicit', {}, async (context) => {
        const { content } = await context.mcpReq.elicitInput({
            message: form.message,
            requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        });
        return greeting(content);
    });
    if (added) {
        addTool();
    }
    server.registerResource('counter', RESOURCE, {}, ({ href }) => ({
        contents: [{ uri: href, text: `version ${version}` }],
    }));
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
        onsessioninitialized: (id) => transports.set(id, transport),
        onsessionclosed: (id) => transports.delete(id),
    });
    await server({ era: 'legacy' }).connect(transport);
    return transport;
}

if (mode === 'stdio') {
    serveStdio(server);
} else if (mode === 'modern') {
    const handler = createMcpHandler(server, { legacy: 'reject' });
    notifier = handler.notify;
    listen(toNodeHandler(handler));
} else {
    listen(async (request, response) => (await transport(request)).handleRequest(request, response));
}
