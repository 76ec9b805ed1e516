// The Inspector's command line: SCRIPT ERA -- SERVER WORDS..., or SCRIPT ERA URL. Each run of it opens the server, asks
// one thing and ends.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import { Cannot, DEMO, FAILS, GIVES, PROMPTS, READS, run as checks, text, version, words } from './checks.mjs';
import { configuration, holdsResources, holdsTools, run } from './commands.mjs';

const { era, command, args, url, sse } = words();
const roots = [{ uri: 'file:///home/ada', name: 'Ada' }];
const server = url === undefined ? { command, args } : { type: sse ? 'sse' : 'streamable-http', url };
const config = configuration({ mcpServers: { demo: { ...server, roots } } });

/** One run. */
function ask(method, ...options) {
    return run(
        '@modelcontextprotocol/inspector/clients/launcher/build/index.js',
        ['--cli', '--quiet', '--format', 'json', '--config', config, '--server', 'demo', '--protocol-era', era]
            .concat(['--method', method])
            .concat(options),
    );
}

/** The result of a run that has succeeded, and has nothing to complain about. */
async function result(method, ...options) {
    const { code, stdout, stderr } = await ask(method, ...options);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' }, stdout);
    return JSON.parse(stdout).result;
}

/** The error of a run that has failed. */
async function error(method, ...options) {
    const { code, stderr } = await ask(method, ...options);
    assert.notEqual(code, 0);
    return JSON.parse(stderr).error;
}

const call = (name, args = {}) => ['tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args)];

/** What it is told by the server when it is to answer what it has not declared. */
async function undeclared(capability, ...words) {
    const { code, stdout, stderr } = await ask(...words);
    assert.notEqual(code, 0);
    const said = era === 'modern' ? JSON.parse(stderr).error.message : text(JSON.parse(stdout).result);
    assert.ok(said.includes('not declare') && said.includes(capability), said);
    throw new Cannot(said);
}

await checks(version('@modelcontextprotocol/inspector'), {
    async open() {
        const opened = await result('initialize');
        assert.equal(opened.protocolVersion, era === 'modern' ? '2026-07-28' : '2025-11-25');
        assert.equal(opened.serverInfo.name, DEMO.name);
        assert.ok(opened.capabilities.resources.subscribe);
        assert.match(opened.instructions, /one feature of the protocol/u);
    },

    async list() {
        // What it finds wrong with a schema would be on stderr.
        holdsTools((await result('tools/list', '--strict')).tools);
    },

    async content() {
        for (const [name, args, content] of GIVES) {
            assert.deepEqual((await result(...call(name, args))).content, content, name);
        }
        const sum = await result(...call('add', { a: 1, b: 0.5 }));
        assert.deepEqual(sum.structuredContent, { sum: 1.5 });
        const { code, stdout } = await ask(...call(FAILS[0]));
        assert.equal(code, 5);
        const failed = JSON.parse(stdout).result;
        assert.equal(failed.isError, true);
        assert.equal(text(failed), FAILS[1]);
    },

    async progress() {
        assert.equal(text(await result(...call('test_tool_with_progress'))), 'Tool with progress executed successfully');
        assert.doesNotMatch((await ask('initialize', '--help')).stdout, /progress/iu);
        throw new Cannot('no option of --cli asks for progress, and no output of it has any');
    },

    async cancel() {
        throw new Cannot('--cli ends with the one call that it makes');
    },

    sampling: () => undeclared('sampling', ...call('test_sampling', { prompt: 'What is 2 + 2?' })),

    elicitation: () => undeclared('elicitation', ...call('test_elicitation', { message: 'Who are you?' })),

    async roots() {
        const asked = await result(...call('test_input_required_result_list_roots'));
        assert.equal(text(asked), 'Roots: file:///home/ada');
    },

    async resources() {
        holdsResources((await result('resources/list')).resources);
        for (const contents of READS) {
            assert.deepEqual((await result('resources/read', '--uri', contents.uri)).contents, [contents]);
        }
        const { resourceTemplates } = await result('resources/templates/list');
        assert.deepEqual(
            resourceTemplates.map((template) => template.uriTemplate),
            DEMO.resourceTemplates,
        );
    },

    async prompts() {
        const { prompts } = await result('prompts/list');
        assert.deepEqual(
            prompts.map((prompt) => prompt.name),
            DEMO.prompts,
        );
        for (const [name, args = {}, content] of PROMPTS) {
            const pairs = Object.entries(args).map(([name, value]) => `${name}=${value}`);
            const options = pairs.length > 0 ? ['--prompt-args', ...pairs] : [];
            const { messages } = await result('prompts/get', '--prompt-name', name, ...options);
            assert.deepEqual(
                messages,
                content.map((content) => ({ role: 'user', content })),
            );
        }
    },

    async completion() {
        const { message } = await error('completion/complete');
        assert.match(message, /^Unsupported method: completion\/complete/u);
        throw new Cannot(message);
    },

    async fifty() {
        const load = ['--load', '--load-concurrency', '50', '--load-requests', '50'];
        const summary = await result(...call('slow_compute', { seconds: 1 }), ...load);
        assert.deepEqual([summary.requests, summary.ok], [50, 50], inspect(summary));
        // One after the other they would take 50 s.
        assert.ok(summary.elapsedMs < 25_000, inspect(summary));
        throw new Cannot('--load prints a summary of the calls, and no answer to any');
    },

    // That every server has ended well is seen from outside.
    async end() {
        assert.equal((await ask('initialize')).code, 0);
    },
});
