// The checks of a client of the TypeScript SDK, whichever version. Used by sdk-1.mjs and sdk-2.mjs, each of which says
// how its client does what has changed between the two.

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';

import { DEMO, FAILS, GIVES, PROMPTS, READS, WATCHED, fifty, text } from './checks.mjs';

/** What a client connects through, of the transports of its SDK. */
export function transport(server, { StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport }) {
    const { command, args, url, sse } = server;
    if (url === undefined) {
        return new StdioClientTransport({ command, args });
    }
    return new (sse ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(url));
}

// What the SDKs report of a response that arrives after its call was cancelled.
const late = /^Received a response for an unknown message ID: .*"error":/;

/**
 * The errors that the client reports beside those of its calls. A call may be answered after it was cancelled, and its client ignores the
 * response; both SDKs report it, too. The checks cancel one call, so one such report is left out.
 */
export function complaintsOf(client) {
    const complaints = [];
    let ignored = 0;
    client.onerror = ({ message }) => {
        if (!late.test(message) || ++ignored > 1) complaints.push(message);
    };
    return complaints;
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

/** What a user of the client would write into a field: what is there already, the first choice, or something. */
function filledIn(field) {
    const choices = (field) => field.enum ?? (field.oneOf ?? field.anyOf)?.map((choice) => choice.const);
    if (field.default !== undefined) {
        return field.default;
    }
    if (field.type === 'array') {
        return choices(field.items).slice(0, 2);
    }
    return choices(field)?.[0] ?? { boolean: true, string: field.format === 'email' ? 'ada@example.org' : 'Ada' }[field.type];
}

/** What a user of the client would answer to a form, by its message. */
function answer(form) {
    if (form.message === `${DEMO.question}No, thank you?`) {
        return { action: 'decline' };
    }
    const fields = Object.entries(form.requestedSchema.properties);
    return { action: 'accept', content: Object.fromEntries(fields.map(([name, field]) => [name, filledIn(field)])) };
}

/**
 * The checks.
 *
 * `client` is one that has not connected yet. What differs between its versions and eras: `connect()`,
 * `close()`, `call(params, options)`, `handle(method, handler)` and `hear(method, handler)` for requests and notifications of the
 * server, and `watch(uri)`.
 */
export function checks(client, { connect, close, call, handle, hear, watch }) {
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
            assert.equal(client.getServerVersion().name, DEMO.name);
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
            const sent = [
                { progress: 0, total: 100, message: 'Begun' },
                { progress: 50, total: 100, message: 'Half done' },
                { progress: 100, total: 100, message: 'Done' },
            ];
            // Those are lost that come with the result in one read: the last, and on a busy machine those before it, too.
            assert.deepEqual(told, sent.slice(0, told.length));
            assert.ok(told.length === sent.length, 'the last of three was not handed on');
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
            assert.equal(asked[0].message, `${DEMO.question}Who are you?`);
            assert.deepEqual(asked[0].requestedSchema.required, ['username', 'email']);
            const declined = await tool('test_elicitation', { message: 'No, thank you?' });
            assert.equal(text(declined), 'User response: action: decline, content: {}');
            const unchanged = await tool('test_elicitation_sep1034_defaults');
            const defaults = '{"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}';
            assert.equal(text(unchanged), `Elicitation completed: action=accept, content=${defaults}`);
            const chosen = await tool('test_elicitation_sep1330_enums');
            const choices = {
                untitledSingle: 'option1',
                titledSingle: 'value1',
                legacyEnum: 'opt1',
                untitledMulti: ['option1', 'option2'],
                titledMulti: ['value1', 'value2'],
            };
            assert.equal(text(chosen), `Elicitation completed: action=accept, content=${JSON.stringify(choices)}`);
            // Twice in one call, which remembers the first answer while it asks for the second.
            assert.equal(text(await tool('test_input_required_result_multi_round')), 'Ada likes Ada');
            const state = await tool('test_input_required_result_request_state');
            assert.equal(text(state), "state-ok, and the user's answer is accept");
        },

        async roots() {
            assert.equal(text(await tool('test_input_required_result_list_roots')), 'Roots: file:///home/ada');
            // The user, the model and the client at once.
            const three = await tool('test_input_required_result_multiple_inputs');
            assert.equal(text(three), 'Ada: You said: Generate a greeting. Roots: file:///home/ada');
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
            // Behind two processes with a state each, the change happens in one of them.
            if (DEMO.isOneState) {
                const leave = await watch(WATCHED);
                await tool('test_trigger_resource_update');
                assert.equal(await updated, WATCHED);
                await leave();
            }
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

        fifty: () => fifty(tool),

        async end() {
            await close();
        },
    };
}
