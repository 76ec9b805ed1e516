// Everything that a server says to a client of the TypeScript SDK, as one account, for tests that hold one connection
// against another: what is in it is the same for the same server, whatever way it came. Used by sdk-1.mjs and sdk-2.mjs,
// and read by interop/src/account.rs; it judges nothing. It knows `server-everything`, as npm publishes it, and
// servers/sdk-2.mjs.

import { setTimeout as pause } from 'node:timers/promises';

// Far above what the slowest takes on a busy machine.
const LIMIT = 80_000;

/** What is called of each server, by the name that it gives itself: the tool, and its arguments. */
const CALLS = {
    'mcp-servers/everything': [
        ['echo', { message: 'a "b" \\ é 😀\n' }],
        ['get-sum', { a: 2, b: 40.5 }],
        ['get-sum', { a: 'two' }],
        ['get-annotated-message', { messageType: 'error', includeImage: true }],
        ['get-structured-content', { location: 'Chicago' }],
        ['get-resource-links', { count: 4 }],
        ['get-resource-reference', { resourceType: 'Text', resourceId: 1 }],
        ['get-tiny-image', {}],
        ['gzip-file-as-resource', { name: 'hello.gz', data: 'data:text/plain;base64,aGVsbG8=' }],
        ['no-such-tool', {}],
        ['trigger-sampling-request', { prompt: 'What is 2 + 2?' }],
        ['trigger-elicitation-request', {}],
        ['get-roots-list', {}],
    ],
    'sdk-2': [
        ['echo', { message: 'a "b" \\ é 😀\n' }],
        ['fail', { message: 'not today' }],
        ['no-such-tool', {}],
        ['asks', { message: 'Who are you?' }],
    ],
};

/** What is read, by the same name. */
const READS = {
    'mcp-servers/everything': [
        'demo://resource/dynamic/text/1',
        'demo://resource/dynamic/blob/2',
        'demo://resource/static/document/features.md',
        'demo://resource/session/hello.gz',
        'demo://resource/absent',
    ],
    'sdk-2': [],
};

/** What a text says, without what is another one each time. */
function lasting(text) {
    return text
        .replaceAll(/\b\d{1,2}:\d{2}:\d{2}\s[AP]M\b/gu, 'TIME')
        .replaceAll(/\b\d{4}-\d{2}-\d{2}T[\d:.]+Z/gu, 'TIME')
        .replaceAll(/\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/gu, 'UUID')
        .replaceAll(/session (?:undefined|UUID)/gu, 'session')
        .replaceAll(/ (?:from session)?$/gu, '')
        .replaceAll(/^(?:Debug|Info|Notice|Warning|Error|Critical|Alert|Emergency)[- ]level[- ]message.*/gu, 'simulated');
}

/** The same of anything: a text in base64 is read, and tokens and members of the envelope are left out. */
function plain(value, era) {
    if (typeof value === 'string') {
        return lasting(value);
    }
    if (Array.isArray(value)) {
        return value.map((entry) => plain(entry, era));
    }
    if (typeof value !== 'object' || value === null) {
        return value;
    }
    const members = Object.entries(value).flatMap(([name, member]) => {
        if (['progressToken', 'taskId', 'statusMessage'].includes(name)) {
            return [[name, name]];
        }
        if (name === 'blob') {
            const text = Buffer.from(member, 'base64').toString();
            return [[name, text.includes('created at') ? lasting(text) : member]];
        }
        if (era === 'modern' && ['resultType', 'ttlMs', 'cacheScope'].includes(name)) {
            return [];
        }
        if (name === '_meta') {
            const kept = Object.entries(member).filter(([key]) => !key.startsWith('io.modelcontextprotocol/'));
            return kept.length === 0 && era === 'modern' ? [] : [[name, plain(Object.fromEntries(kept), era)]];
        }
        return [[name, plain(member, era)]];
    });
    return Object.fromEntries(members);
}

/** Connects, asks for everything, closes, and prints the account. `means` is what `checks` in sdk.mjs is given. */
export async function account(era, client, connection, means) {
    const over = setTimeout(() => {
        console.error(`not done after ${LIMIT / 1000} s, behind ${JSON.stringify(Object.keys(steps).at(-1))}; heard last:`);
        console.error(heard.filter((message) => message.method !== 'notifications/progress').slice(-10).map((message) => JSON.stringify(message)).join('\n'));
        process.exit(1);
    }, LIMIT);
    const { connect, close, call, handle, watch } = means;
    const heard = [];
    const asked = [];
    const steps = {};
    // The client hands on to whoever was there first.
    connection.onmessage = (message) => heard.push(structuredClone(message));
    const answering = (method, answer) =>
        handle(method, (request) => {
            const { _meta, ...params } = request.params ?? {};
            asked.push({ method, params: plain(params, era) });
            return answer;
        });
    answering('sampling/createMessage', {
        role: 'assistant',
        content: { type: 'text', text: '4' },
        model: 'none',
        stopReason: 'endTurn',
    });
    answering('elicitation/create', { action: 'accept', content: { name: 'Ada', check: true, integer: 7 } });
    handle('roots/list', () => ({ roots: [{ uri: 'file:///home/ada', name: 'Ada' }] }));

    /** Waits for a message that is like that. */
    const hear = async (like) => {
        while (!heard.some(like)) {
            await pause(5);
        }
    };
    const noting = (method) => (message) => message.method === method;
    /** What was answered while this was done, and what was asked meanwhile. */
    const step = async (name, does) => {
        const from = heard.length;
        asked.length = 0;
        await does().catch(() => {});
        const said = heard.slice(from);
        const answers = said
            .filter((message) => 'error' in message || ('result' in message && message.result.resultType !== 'input_required'))
            .map(({ result, error }) => (error === undefined ? { result } : { error }));
        steps[name] = { answers: plain(answers, era), asked: [...asked] };
    };
    /** A request that the client has no method for. */
    const own = (name, method, params) =>
        step(name, async () => {
            await connection.send({ jsonrpc: '2.0', id: name, method, params });
            await hear((message) => message.id === name);
        });

    await connect();
    const server = client.getServerVersion();
    const capabilities = client.getServerCapabilities();
    const instructions = client.getInstructions() ?? null;
    const legacy = era === 'legacy';
    const everything = server.name === 'mcp-servers/everything';
    if (legacy && everything) {
        await client.setLoggingLevel('debug');
    }

    const leave = everything ? await watch('demo://resource/dynamic/text/1') : () => {};

    await step('tools/list', () => client.listTools());
    if (everything) {
        await step('prompts/list', () => client.listPrompts());
        await step('resources/list', () => client.listResources());
        await step('resources/templates/list', () => client.listResourceTemplates());
    }
    for (const [name, args] of CALLS[server.name]) {
        await step(`tools/call ${name} ${JSON.stringify(args)}`, () => call({ name, arguments: args }));
    }
    for (const uri of READS[server.name]) {
        await step(`resources/read ${uri}`, () => client.readResource({ uri }));
    }
    const told = everything
        ? { name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 4 } }
        : { name: 'steps', arguments: { message: 'done' } };
    await step('progress', () => call(told, { onprogress: () => {} }));
    const progress = heard.filter(noting('notifications/progress')).map(({ params }) => params);

    if (everything) {
        const ref = { type: 'ref/prompt', name: 'completable-prompt' };
        await step('prompts/get simple-prompt', () => client.getPrompt({ name: 'simple-prompt' }));
        for (const [name, args] of [
            ['args-prompt', { city: 'Zürich' }],
            ['args-prompt', {}],
            ['completable-prompt', { department: 'Sales', name: 'David' }],
            ['resource-prompt', { resourceType: 'Text', resourceId: '3' }],
            ['absent', {}],
        ]) {
            await step(`prompts/get ${name} ${JSON.stringify(args)}`, () => client.getPrompt({ name, arguments: args }));
        }
        await step('completion/complete prompt', () =>
            client.complete({ ref, argument: { name: 'department', value: 'S' } }),
        );
        await step('completion/complete in a context', () =>
            client.complete({
                ref,
                argument: { name: 'name', value: '' },
                context: { arguments: { department: 'Engineering' } },
            }),
        );
        await step('completion/complete template', () =>
            client.complete({
                ref: { type: 'ref/resource', uri: 'demo://resource/dynamic/text/{resourceId}' },
                argument: { name: 'resourceId', value: '12' },
            }),
        );
        await call({ name: 'toggle-subscriber-updates', arguments: {} });
        await hear(noting('notifications/resources/updated'));
        await call({ name: 'toggle-subscriber-updates', arguments: {} });
        // One of the tools above has made a resource.
        await hear(noting('notifications/resources/list_changed'));
        await leave();
        // In the modern era messages belong to the request that asks for them.
        const level = legacy ? {} : { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } };
        await call({ name: 'toggle-simulated-logging', arguments: {}, ...level });
        await hear((message) => /level.message/u.test(message.params?.data));
        await call({ name: 'toggle-simulated-logging', arguments: {} });
    }

    // A call that is given up while it says how far it is, or waits.
    const abandoned = new AbortController();
    const options = { signal: abandoned.signal };
    if (everything) {
        const long = { name: 'trigger-long-running-operation', arguments: { duration: 600, steps: 60_000 } };
        let begun;
        const running = new Promise((resolve) => {
            begun = resolve;
        });
        const given = call(long, { ...options, onprogress: begun }).catch(() => {});
        await running;
        abandoned.abort();
        await given;
    } else {
        const left = async () => (await call({ name: 'left', arguments: { message: '' } })).content[0].text;
        const before = await left();
        const given = call({ name: 'waits', arguments: { message: '' } }, options).catch(() => {});
        // Requests are answered in the order in which they come in, or at least begun.
        await call({ name: 'echo', arguments: { message: '' } });
        abandoned.abort();
        await given;
        while ((await left()) === before) {
            await pause(5);
        }
    }
    await step('a call behind one that was given up', () => call(CALL_AGAIN));

    if (legacy && everything) {
        await own('unknown', 'example/unknown', { whatever: [1, null, { a: 'b' }] });
        await own('ping', 'ping', {});
        const research = { name: 'simulate-research-query', arguments: { topic: 'bridges' } };
        await own('task', 'tools/call', { ...research, task: { ttl: 60_000 } });
        const { taskId } = heard.find((message) => message.id === 'task').result.task;
        await own('tasks/get', 'tasks/get', { taskId });
        const rooted = (message) => /^Roots updated: 1/u.test(message.params?.data);
        await hear(rooted);
        await client.sendRootsListChanged();
        while (heard.filter(rooted).length < 2) {
            await pause(5);
        }
    }
    const logs = heard.filter(noting('notifications/message')).map(({ params }) => params);
    const changed = heard.filter((message) => message.method?.endsWith('/list_changed')).map(({ method }) => method);
    const updates = heard.filter(noting('notifications/resources/updated')).map(({ params }) => params);
    await close();

    const simulated = (log) => (log.data === 'simulated' ? { ...log, level: 'any' } : log);
    const sorted = (entries) => entries.map((entry) => JSON.stringify(entry)).sort();
    const account = {
        server,
        instructions,
        capabilities,
        steps,
        progress: plain(progress, era),
        logs: sorted(plain(logs, era).map(simulated)),
        updates: sorted(plain(updates, era)),
        changed: [...new Set(changed)].sort(),
    };
    clearTimeout(over);
    process.stdout.write(`${JSON.stringify(account)}\n`, () => process.exit(0));
}

const CALL_AGAIN = { name: 'echo', arguments: { message: 'still there' } };
