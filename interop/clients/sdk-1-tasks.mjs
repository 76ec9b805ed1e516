// The core tasks of 2025-11-25 through the TypeScript SDK 1.x (`client.experimental.tasks`): SCRIPT -- SERVER WORDS..., or
// SCRIPT URL. Prints a JSON object for each check, `{"check": .., "outcome": ..}`, as the other scripts do; the test is
// interop/tests/core_tasks.rs.

import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CallToolResultSchema,
    CreateTaskResultSchema,
    ElicitRequestSchema,
    TaskStatusNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { run, text, version } from './checks.mjs';
import { transport } from './sdk.mjs';

const RELATED = 'io.modelcontextprotocol/related-task';

const [first, command, ...args] = process.argv.slice(2);
const server = first === '--' ? { command, args } : { url: first };
const connection = transport(server, { StdioClientTransport, StreamableHTTPClientTransport });
const client = new Client({ name: 'interop', version: '0' }, { capabilities: { elicitation: { form: {} } } });
const { tasks } = client.experimental;

const complaints = [];
client.onerror = (error) => complaints.push(error.message);

const asked = [];
client.setRequestHandler(ElicitRequestSchema, (request) => {
    asked.push(request.params);
    return { action: 'accept', content: { confirm: true } };
});
const told = [];
client.setNotificationHandler(TaskStatusNotificationSchema, (notification) => told.push(notification.params));

/** Everything that a call brings which is a task, by kind, and the end. */
async function stream(name, args, options) {
    const seen = [];
    for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options)) {
        seen.push(message);
    }
    const [created, ...rest] = seen;
    assert.equal(created.type, 'taskCreated');
    assert.equal(created.task.status, 'working');
    const end = rest.pop();
    assert.ok(rest.length > 0 && rest.every((message) => message.type === 'taskStatus'));
    return { task: created.task, statuses: rest.map((message) => message.task.status), end };
}

/** The task that a call begins. */
async function begin(name, args, task = {}) {
    const params = { name, arguments: args };
    return (await client.request({ method: 'tools/call', params }, CreateTaskResultSchema, { task })).task;
}

async function code(promise) {
    try {
        await promise;
    } catch (error) {
        return error.code;
    }
    return assert.fail('it was not rejected');
}

await run(
    version('@modelcontextprotocol/sdk'),
    {
        async open() {
            await client.connect(connection);
            assert.deepEqual(client.getServerCapabilities().tasks, {
                list: {},
                cancel: {},
                requests: { tools: { call: {} } },
            });
            const { tools } = await client.listTools();
            const support = (name) => tools.find((tool) => tool.name === name).execution?.taskSupport;
            assert.deepEqual(['greet', 'slow_compute', 'failing_job'].map(support), [undefined, 'optional', 'required']);
        },

        async stream() {
            const steps = [];
            const { task, end } = await stream(
                'slow_compute',
                { seconds: 2, label: 'Sum' },
                { task: { ttl: 60_000 }, onprogress: (event) => steps.push(event.progress) },
            );
            assert.equal(task.ttl, 60_000);
            assert.equal(end.type, 'result');
            assert.equal(text(end.result), 'Sum is there, after 2 s');
            assert.deepEqual(end.result._meta, { [RELATED]: { taskId: task.taskId } });
            assert.ok(steps.length > 1 && steps.every((step, place) => place === 0 || step > steps[place - 1]), `${steps}`);
            const last = told.findLast((status) => status.taskId === task.taskId);
            assert.equal(last?.status, 'completed');
        },

        async input() {
            // A tool whose list entry says that it can be one is called as a task without being told to.
            const params = [{ filename: 'notes.txt' }, { task: {} }];
            const { task, statuses, end } = await stream('confirm_delete', ...params);
            assert.equal(statuses.at(-1), 'input_required');
            assert.equal(text(end.result), 'notes.txt would be gone now');
            assert.equal(asked.length, 1);
            assert.equal(asked[0].message, 'Delete notes.txt?');
            assert.deepEqual(asked[0]._meta[RELATED], { taskId: task.taskId });
        },

        async failure() {
            // The client knows from the list that this one needs a task.
            const failed = await stream('failing_job', {});
            assert.equal(failed.end.type, 'error');
            const result = await tasks.getTaskResult(failed.task.taskId, CallToolResultSchema);
            assert.equal(result.isError, true);
            const shown = await tasks.getTask(failed.task.taskId);
            assert.deepEqual([shown.status, shown.statusMessage], ['failed', 'This job fails, as it always does']);
            const broken = await stream('protocol_error_job', {}, { task: {} });
            assert.equal(broken.end.type, 'error');
            assert.equal(await code(tasks.getTaskResult(broken.task.taskId, CallToolResultSchema)), -32603);
        },

        async cancel() {
            const { taskId } = await begin('slow_compute', { seconds: 600 });
            assert.equal((await tasks.cancelTask(taskId)).status, 'cancelled');
            assert.equal((await tasks.getTask(taskId)).status, 'cancelled');
            assert.equal(await code(tasks.cancelTask(taskId)), -32602);
            assert.equal(await code(tasks.getTask('unknown')), -32602);
            const { structuredContent } = await client.callTool({ name: 'running_computations', arguments: {} });
            assert.equal(structuredContent.running, 0);
        },

        async list() {
            const listed = await tasks.listTasks();
            assert.ok(listed.tasks.length >= 5);
            for (const task of listed.tasks) {
                assert.deepEqual((await tasks.getTask(task.taskId)).status, task.status);
            }
        },

        async misuse() {
            assert.equal(await code(begin('greet', { name: 'Ada' })), -32601);
            const plain = { method: 'tools/call', params: { name: 'failing_job', arguments: {} } };
            assert.equal(await code(client.request(plain, CallToolResultSchema)), -32601);
            const { content } = await client.callTool({ name: 'greet', arguments: { name: 'Ada' } });
            assert.equal(content[0].text, 'Hello, Ada!');
        },

        async end() {
            await connection.terminateSession?.();
            await client.close();
        },
    },
    complaints,
);
