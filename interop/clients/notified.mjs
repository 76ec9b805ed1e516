// A client of the TypeScript SDK that listens to `mcpjoin serve demo --full`: SCRIPT 1|2 legacy|modern -- SERVER WORDS..., or
// SCRIPT 1|2 legacy|modern URL. The first word is the version of the SDK; 1 has the legacy era alone. Prints what it was
// told, in one JSON object: `tools`, whether the tool `test_added_tool` was in the list after each change of it, and `logs`.
// Used by interop/tests/notifications.rs, which judges it.

import { transport } from './sdk.mjs';

// Far above what it takes on a busy machine.
const LIMIT = 60_000;

const [version, era, ...behind] = process.argv.slice(2);
const server = behind[0] === '--' ? { command: behind[1], args: behind.slice(2) } : { url: behind[0] };
const modern = era === 'modern';

/** The parts of version 1. */
async function first() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const schemas = {
        'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
        'notifications/message': types.LoggingMessageNotificationSchema,
    };
    const client = new Client({ name: 'interop', version: '0' });
    const hear = (method, handler) => client.setNotificationHandler(schemas[method], handler);
    return { client, hear, transports: { StdioClientTransport, StreamableHTTPClientTransport } };
}

/** The parts of version 2. */
async function second() {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const versionNegotiation = { mode: modern ? { pin: '2026-07-28' } : 'legacy' };
    const client = new Client({ name: 'interop', version: '0' }, { versionNegotiation });
    const hear = (method, handler) => client.setNotificationHandler(method, handler);
    return { client, hear, transports: { StdioClientTransport, StreamableHTTPClientTransport } };
}

/** The next thing that is told, and what to call when it is. */
function queue(what) {
    const waiting = [];
    let wake = () => {};
    const next = async () => {
        const late = AbortSignal.timeout(LIMIT);
        while (waiting.length === 0) {
            await new Promise((resolve, reject) => {
                wake = resolve;
                late.onabort = () => reject(new Error(`SDK ${version}, ${era}: ${what}: nothing in ${LIMIT / 1000} s`));
            });
        }
        return waiting.shift();
    };
    const push = (one) => {
        waiting.push(one);
        wake();
    };
    return [next, push];
}

const { client, hear, transports } = version === '1' ? await first() : await second();
const connection = transport(server, transports);
const [changed, changes] = queue('list_changed');
const [logged, logs] = queue('log messages');
hear('notifications/tools/list_changed', changes);
hear('notifications/message', ({ params: { level, data, logger } }) => logs({ level, data, logger }));

/** Calls a tool. In the modern era each call says which messages it wants. */
const call = (name) =>
    client.callTool({ name, arguments: {}, ...(modern && { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } }) });

await client.connect(connection);
const subscription = modern ? await client.listen({ toolsListChanged: true }) : undefined;
if (!modern) {
    await client.setLoggingLevel('info');
}

const tools = [];
for (let change = 0; change < 2; change += 1) {
    await call('test_trigger_tool_change');
    await changed();
    const list = await client.listTools();
    tools.push(list.tools.some((tool) => tool.name === 'test_added_tool'));
}
await call('test_logging_tool');
const heard = [await logged(), await logged()];
await subscription?.close();
// Over Streamable HTTP a session goes on until it is ended.
await connection.terminateSession?.();
await client.close();
process.stdout.write(`${JSON.stringify({ tools, logs: heard })}\n`, () => process.exit(0));
