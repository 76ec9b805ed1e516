#!/usr/bin/env node
// A server on the TypeScript SDK 1.x that runs tools as tasks of 2025-11-25, over HTTP without sessions, so that whoever
// comes back finds them. `required` and `optional` give their message back after a moment, `fails` fails, and `waits` until it
// is called off.

import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

import { listen } from './listen.mjs';

const taskStore = new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();

const text = (words, isError = false) => ({ content: [{ type: 'text', text: words }], isError });

/** What each tool does once its task is there. */
const tools = {
    required: ['required', async ({ message }, end) => setTimeout(() => end('completed', text(message)), 50)],
    optional: ['optional', async ({ message }, end) => setTimeout(() => end('completed', text(message)), 50)],
    fails: ['required', async ({ message }, end) => end('failed', text(message, true))],
    waits: ['required', async () => {}],
};

function server() {
    const server = new McpServer(
        { name: 'sdk-1-tasks', version: '0' },
        {
            capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
            taskStore,
            taskMessageQueue,
        },
    );
    for (const [name, [taskSupport, work]] of Object.entries(tools)) {
        server.experimental.tasks.registerToolTask(
            name,
            { inputSchema: { message: z.string() }, execution: { taskSupport } },
            {
                async createTask(args, { taskStore, taskRequestedTtl }) {
                    const task = await taskStore.createTask({ ttl: taskRequestedTtl, pollInterval: 20 });
                    await work(args, (status, result) => taskStore.storeTaskResult(task.taskId, status, result));
                    return { task };
                },
                getTask: (_, { taskStore, taskId }) => taskStore.getTask(taskId),
                getTaskResult: (_, { taskStore, taskId }) => taskStore.getTaskResult(taskId),
            },
        );
    }
    return server;
}

listen(async (request, response) => {
    if (request.url !== '/mcp') {
        response.writeHead(404).end();
        return;
    }
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server().connect(transport);
    await transport.handleRequest(request, response);
});
