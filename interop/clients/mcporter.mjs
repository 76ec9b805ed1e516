// mcporter: SCRIPT ERA -- SERVER WORDS..., or SCRIPT ERA URL. Its command line, each run of which opens the server, asks
// one thing and ends; and for calls that have to do with one another its runtime. It knows the legacy era alone.

import assert from 'node:assert/strict';

import { createRuntime } from 'mcporter';

import { Cannot, DEMO, FAILS, GIVES, READS, fifty, run as checks, text, version, words } from './checks.mjs';
import { configuration, holdsResources, holdsTools, run } from './commands.mjs';

const { command, args, url } = words();
// It finds out by itself whether an address is one of Streamable HTTP or of HTTP+SSE.
const server = url === undefined ? { command, args } : { url };
const config = configuration({ mcpServers: { demo: server }, imports: [] });

/** How many sessions its runtime has opened over HTTP. */
let sessions = 0;
const { fetch } = globalThis;
globalThis.fetch = (address, request) => {
    sessions += request?.body?.includes?.('"initialize"') ? 1 : 0;
    return fetch(address, request);
};

/** One run. */
const ask = (...words) => run('mcporter/dist/cli.js', ['--config', config, ...words]);

/** The JSON of a run that has succeeded, and has nothing to complain about. */
async function result(...words) {
    const { code, stdout, stderr } = await ask(...words);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' }, stdout);
    return JSON.parse(stdout);
}

const call = (name, args = {}) => ['call', `demo.${name}`, '--args', JSON.stringify(args), '--output', 'json'];

/** What it is told by the server when it is to answer what it has not declared. */
async function undeclared(capability, ...words) {
    const { code, stdout } = await ask(...words);
    assert.equal(code, 1);
    const said = text(JSON.parse(stdout));
    assert.ok(said.includes('not declare') && said.includes(capability), said);
    throw new Cannot(said);
}

/** Does something with its runtime, which has one connection for all calls. */
async function connected(does) {
    const runtime = await createRuntime({ configPath: config });
    try {
        await does((name, args, timeoutMs) => runtime.callTool('demo', name, { args, timeoutMs }), runtime);
    } finally {
        await runtime.close();
    }
}

/** Neither its command line nor its runtime knows anything of this. */
const knowsNothing = (of) =>
    connected(async (_, runtime) => {
        const { code, stdout, stderr } = await ask('--help');
        assert.equal(code, 0);
        const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(runtime));
        assert.doesNotMatch([stdout, stderr, ...methods].join(' '), of);
        throw new Cannot('nothing in its help, and no method of its runtime, is about it');
    });

await checks(version('mcporter'), {
    async open() {
        const { servers } = await result('list', 'demo', '--status', '--json');
        assert.deepEqual(
            servers.map((server) => [server.name, server.status]),
            [['demo', 'ok']],
        );
    },

    async list() {
        holdsTools((await result('list', 'demo', '--schema', '--json')).tools);
    },

    async content() {
        for (const [name, args, content] of GIVES) {
            const printed = await result(...call(name, args));
            // Of several contents its command line prints the one that is JSON; its runtime gives all of them.
            const json = content.find((part) => part.resource?.mimeType === 'application/json');
            const written = DEMO.saysNoError.includes(name) ? { content, isError: false } : { content };
            assert.deepEqual(printed, json ? JSON.parse(json.resource.text) : written, name);
        }
        await connected(async (call) => {
            for (const [name, args, content] of GIVES) {
                assert.deepEqual((await call(name, args)).content, content, name);
            }
        });
        assert.deepEqual(await result(...call('add', { a: 1, b: 0.5 })), { sum: 1.5 });
        const { code, stdout } = await ask(...call(FAILS[0]));
        assert.equal(code, 1);
        const failed = JSON.parse(stdout);
        assert.equal(failed.isError, true);
        assert.equal(text(failed), FAILS[1]);
    },

    progress: () => knowsNothing(/progress/iu),

    // It gives a call up when its time is over, and has no other way to.
    cancel: () =>
        connected(async (call) => {
            // Each time that one server is asked to, it counts one further.
            const changed = async () => text(await call('test_trigger_resource_update'));
            assert.match(await changed(), /has version 2$/u);
            const opened = sessions;
            await assert.rejects(call('slow_compute', { seconds: 600 }, 1_000));
            const version = url === undefined || !DEMO.isOneProcess ? /has version 2$/u : /has version 3$/u;
            assert.match(await changed(), version, 'the same server: then cancelling can be checked');
            if (url !== undefined) {
                assert.notEqual(sessions, opened, 'the same session: then cancelling can be checked');
            }
            const other = url === undefined ? 'starts another server' : 'opens another session';
            throw new Cannot(`a call whose time is over ends the connection, and the next call ${other}`);
        }),

    sampling: () => undeclared('sampling', ...call('test_sampling', { prompt: 'What is 2 + 2?' })),

    elicitation: () => undeclared('elicitation', ...call('test_elicitation', { message: 'Who are you?' })),

    roots: () => undeclared('roots', ...call('test_input_required_result_list_roots')),

    async resources() {
        holdsResources((await result('resource', 'demo', '--json')).resources);
        for (const contents of READS) {
            const printed = await result('resource', 'demo', contents.uri, '--json');
            const json = contents.mimeType === 'application/json';
            assert.deepEqual(printed, json ? JSON.parse(contents.text) : { contents: [contents] });
        }
        // All that it can was right.
        await knowsNothing(/template/iu);
    },

    prompts: () => knowsNothing(/prompt/iu),

    completion: () => knowsNothing(/completion/iu),

    fifty: () => connected(fifty),

    // That every server has ended well is seen from outside.
    async end() {
        assert.equal((await ask('list', 'demo', '--status')).code, 0);
    },
});
