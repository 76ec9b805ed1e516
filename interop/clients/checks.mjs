// The checks of a client that is a library, the same for every one: what interop/src/client.rs asks for, of the server
// that demo.json describes. Used by the scripts beside it, each of which says how its client does what is asked.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';

// A check that takes longer has failed: far above what the slowest takes on a busy machine.
const LIMIT = 40_000;

const HERE = import.meta.dirname;

export const DEMO = JSON.parse(readFileSync(join(HERE, 'demo.json'), 'utf8'));

/** The version of an installed package. */
export function version(name) {
    return JSON.parse(readFileSync(join(HERE, '../node_modules', name, 'package.json'), 'utf8')).version;
}

/** The era and the server's words, from `SCRIPT ERA -- SERVER WORDS...`. */
export function words() {
    const [era, dashes, command, ...args] = process.argv.slice(2);
    assert.equal(dashes, '--');
    return { era, command, args };
}

/** What a client has no means for, and why. */
export class Cannot extends Error {}

function say(line) {
    process.stdout.write(`${JSON.stringify(line)}\n`);
}

/**
 * Does the named checks one after the other, and prints what became of each. `complaints` are what the client has said
 * of its own besides.
 */
export async function run(version, checks, complaints = []) {
    say({ version });
    for (const [check, does] of Object.entries(checks)) {
        const over = new AbortController();
        const late = pause(LIMIT, undefined, { signal: over.signal }).then(
            () => assert.fail(`not done after ${LIMIT / 1000} s`),
            () => {},
        );
        complaints.length = 0;
        try {
            await Promise.race([does(), late]);
            assert.deepEqual(complaints, []);
            say({ check, outcome: 'right' });
        } catch (error) {
            const outcome = error instanceof Cannot ? 'cannot' : 'fault';
            say({ check, outcome, why: [error?.message || inspect(error), ...complaints].join('\n') });
        }
        over.abort();
    }
    // Whatever hangs in a check that was given up hangs no longer.
    process.exit(0);
}

/** What a promise is rejected with. */
async function rejection(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    return assert.fail('it was not rejected');
}

/** The text of a result of one text. */
export function text(result) {
    assert.equal(result.content.length, 1, inspect(result));
    assert.equal(result.content[0].type, 'text');
    return result.content[0].text;
}

/** What a resource of the demonstration server is like, embedded in something. */
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

/** What each tool that gives something gives: the name, the arguments, and the content. */
export const GIVES = [
    ['echo', { message: 'a "b" \\ é 😀\n' }, [{ type: 'text', text: 'a "b" \\ é 😀\n' }]],
    ['test_image_content', {}, [{ type: 'image', data: DEMO.picture, mimeType: 'image/png' }]],
    ['test_audio_content', {}, [{ type: 'audio', data: DEMO.sound, mimeType: 'audio/wav' }]],
    [
        'test_resource_link',
        {},
        [{ type: 'resource_link', uri: 'test://static-text', name: 'static-text', mimeType: 'text/plain' }],
    ],
    [
        'test_embedded_resource',
        {},
        [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
    ],
    [
        'test_multiple_content_types',
        {},
        [
            { type: 'text', text: 'Multiple content types test:' },
            { type: 'image', data: DEMO.picture, mimeType: 'image/png' },
            embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
        ],
    ],
];

/** What a tool that fails says. */
export const FAILS = ['test_error_handling', 'This tool intentionally returns an error for testing'];

/** What each resource has in it. */
export const READS = [
    {
        uri: 'test://static-text',
        mimeType: 'text/plain',
        text: 'This is the content of the static text resource.',
    },
    { uri: 'test://static-binary', mimeType: 'image/png', blob: DEMO.picture },
    {
        uri: 'test://template/7/data',
        mimeType: 'application/json',
        text: '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    },
];

/** What each prompt says: its name, the arguments, and the content of its messages. */
export const PROMPTS = [
    ['test_simple_prompt', undefined, [{ type: 'text', text: 'This is a simple prompt for testing.' }]],
    [
        'test_prompt_with_arguments',
        { arg1: 'hello', arg2: 'wörld' },
        [{ type: 'text', text: "Prompt with arguments: arg1='hello', arg2='wörld'" }],
    ],
    [
        'test_prompt_with_image',
        undefined,
        [
            { type: 'image', data: DEMO.picture, mimeType: 'image/png' },
            { type: 'text', text: 'Please analyze the image above.' },
        ],
    ],
];

/** The address that the demonstration server's changing resource has. */
export const WATCHED = 'test://watched-resource';

/** What a user of the client would answer to a form, by its message. */
function answer(form) {
    if (form.message === 'No, thank you?') {
        return { action: 'decline' };
    }
    const content = {};
    for (const [name, field] of Object.entries(form.requestedSchema.properties)) {
        content[name] = field.default ?? (field.format === 'email' ? 'ada@example.org' : 'Ada');
    }
    return { action: 'accept', content };
}

/**
 * The checks of a client of the TypeScript SDK.
 *
 * `client` is one that has not connected yet. What differs between its versions and eras: `connect()`,
 * `call(params, options)`, `handle(method, handler)` and `hear(method, handler)` for requests and notifications of the
 * server, and `watch(uri)`.
 */
export function ofSdk(client, { connect, call, handle, hear, watch }) {
    const tool = (name, args = {}, options = undefined) => call({ name, arguments: args }, options);
    const asked = [];
    handle('sampling/createMessage', (request) => {
        asked.push(request.params);
        const said = request.params.messages[0].content;
        const content = { type: 'text', text: `You said: ${said.text}` };
        return { role: 'assistant', content, model: 'none', stopReason: 'endTurn' };
    });
    handle('elicitation/create', (request) => {
        asked.push(request.params);
        return answer(request.params);
    });
    handle('roots/list', () => ({ roots: [{ uri: 'file:///home/ada', name: 'Ada' }] }));
    const updated = new Promise((resolve) => {
        hear('notifications/resources/updated', (notification) => resolve(notification.params.uri));
    });

    /** The running computations are as many as they should be, sooner or later. */
    const running = async (wanted) => {
        while ((await tool('running_computations')).structuredContent.running !== wanted) {
            await pause(20);
        }
    };

    /** Every page of a list. */
    const all = async (list, member) => {
        const entries = [];
        let cursor;
        do {
            const page = await list(cursor === undefined ? {} : { cursor });
            entries.push(...page[member]);
            cursor = page.nextCursor;
        } while (cursor !== undefined);
        return entries;
    };

    return {
        async open() {
            await connect();
            assert.equal(client.getServerVersion().name, 'mcpjoin-demo');
            assert.ok(client.getServerCapabilities().resources.subscribe);
            assert.match(client.getInstructions(), /one feature of the protocol/u);
        },

        async list() {
            const tools = await all((params) => client.listTools(params), 'tools');
            assert.deepEqual(
                tools.map((tool) => tool.name),
                DEMO.tools,
            );
            const described = tools.find((tool) => tool.name === DEMO.schema.of);
            assert.deepEqual(described.inputSchema, DEMO.schema.is);
            assert.deepEqual(described.annotations, { readOnlyHint: true });
        },

        async content() {
            for (const [name, args, content] of GIVES) {
                const result = await tool(name, args);
                assert.deepEqual(result.content, content, name);
                assert.ok(!result.isError);
            }
            const sum = await tool('add', { a: 1, b: 0.5 });
            assert.deepEqual(sum.structuredContent, { sum: 1.5 });
            assert.deepEqual(JSON.parse(text(sum)), { sum: 1.5 });
            const failed = await tool(FAILS[0]);
            assert.equal(failed.isError, true);
            assert.equal(text(failed), FAILS[1]);
            const unknown = await rejection(tool('absent'));
            assert.equal(unknown.code, -32602, inspect(unknown));
        },

        async progress() {
            const told = [];
            const result = await tool('test_tool_with_progress', {}, { onprogress: (event) => told.push(event) });
            assert.equal(text(result), 'Tool with progress executed successfully');
            assert.deepEqual(told, [
                { progress: 0, total: 100, message: 'Begun' },
                { progress: 50, total: 100, message: 'Half done' },
                { progress: 100, total: 100, message: 'Done' },
            ]);
        },

        async cancel() {
            const leave = new AbortController();
            const call = rejection(tool('slow_compute', { seconds: 600 }, { signal: leave.signal }));
            await running(1);
            leave.abort('no longer wanted');
            await call;
            await running(0);
        },

        async sampling() {
            asked.length = 0;
            const result = await tool('test_sampling', { prompt: 'What is 2 + 2?' });
            assert.equal(text(result), 'LLM response: You said: What is 2 + 2?');
            assert.equal(asked.length, 1);
            assert.equal(asked[0].maxTokens, 100);
        },

        async elicitation() {
            asked.length = 0;
            const accepted = await tool('test_elicitation', { message: 'Who are you?' });
            const content = '{"username":"Ada","email":"ada@example.org"}';
            assert.equal(text(accepted), `User response: action: accept, content: ${content}`);
            assert.equal(asked[0].message, 'Who are you?');
            assert.deepEqual(asked[0].requestedSchema.required, ['username', 'email']);
            const declined = await tool('test_elicitation', { message: 'No, thank you?' });
            assert.equal(text(declined), 'User response: action: decline, content: {}');
            const filledIn = await tool('test_elicitation_sep1034_defaults');
            const defaults = '{"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}';
            assert.equal(text(filledIn), `Elicitation completed: action=accept, content=${defaults}`);
        },

        async roots() {
            assert.equal(text(await tool('test_input_required_result_list_roots')), 'Roots: file:///home/ada');
        },

        async resources() {
            const resources = await all((params) => client.listResources(params), 'resources');
            assert.deepEqual(
                resources.map((resource) => resource.uri),
                DEMO.resources,
            );
            const templates = await all((params) => client.listResourceTemplates(params), 'resourceTemplates');
            assert.deepEqual(
                templates.map((template) => template.uriTemplate),
                DEMO.resourceTemplates,
            );
            for (const contents of READS) {
                assert.deepEqual((await client.readResource({ uri: contents.uri })).contents, [contents]);
            }
            await rejection(client.readResource({ uri: 'test://absent' }));
            const leave = await watch(WATCHED);
            await tool('test_trigger_resource_update');
            assert.equal(await updated, WATCHED);
            await leave();
        },

        async prompts() {
            const prompts = await all((params) => client.listPrompts(params), 'prompts');
            assert.deepEqual(
                prompts.map((prompt) => prompt.name),
                DEMO.prompts,
            );
            for (const [name, args, content] of PROMPTS) {
                const { messages } = await client.getPrompt({ name, arguments: args });
                assert.deepEqual(
                    messages,
                    content.map((content) => ({ role: 'user', content })),
                );
            }
            const asking = await client.getPrompt({ name: 'test_input_required_result_prompt' });
            assert.equal(asking.messages[0].content.text, 'A prompt for this context: Ada');
        },

        async completion() {
            const ofPrompt = await client.complete({
                ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
                argument: { name: 'arg1', value: 'he' },
            });
            assert.deepEqual(ofPrompt.completion.values, ['hello', 'help']);
            const ofTemplate = await client.complete({
                ref: { type: 'ref/resource', uri: 'test://template/{id}/data' },
                argument: { name: 'id', value: '9' },
            });
            const nineties = Array.from({ length: 10 }, (_, last) => `9${last}`);
            assert.deepEqual(ofTemplate.completion.values, ['9', ...nineties]);
        },

        async fifty() {
            const labels = Array.from({ length: 50 }, (_, number) => `No. ${number}`);
            // One after the other they would take longer than a check has.
            const calls = labels.map((label) => tool('slow_compute', { seconds: 1, label }));
            const texts = (await Promise.all(calls)).map(text);
            assert.deepEqual(
                texts,
                labels.map((label) => `${label} is there, after 1 s`),
            );
        },

        async end() {
            await client.close();
        },
    };
}
