// What the scripts beside it have in common: they do the checks that interop/src/client.rs asks for, of the server that
// demo.json describes, and print what became of each. It knows no client.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';

// A check that takes longer has failed: far above what the slowest takes on a busy machine.
const LIMIT = 80_000;

const HERE = import.meta.dirname;

export const DEMO = JSON.parse(readFileSync(process.env.MCPJOIN_INTEROP_DEMO ?? join(HERE, 'demo.json'), 'utf8'));

/** The version of an installed package. */
export function version(name) {
    return JSON.parse(readFileSync(join(HERE, '../node_modules', name, 'package.json'), 'utf8')).version;
}

/**
 * The era, whether an account is asked for instead of the checks (the word `account` behind the era), and where the
 * server is: `command` and `args` from `SCRIPT ERA -- SERVER WORDS...`, or `url` and whether it is one of HTTP+SSE from
 * `SCRIPT ERA URL`.
 */
export function words() {
    const [era, ...behind] = process.argv.slice(2);
    const accounts = behind[0] === 'account';
    const [first, ...rest] = accounts ? behind.slice(1) : behind;
    if (first === '--') {
        const [command, ...args] = rest;
        return { era, accounts, command, args };
    }
    assert.deepEqual(rest, []);
    const sse = first.startsWith('sse+');
    return { era, accounts, url: sse ? first.slice('sse+'.length) : first, sse };
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
            say({ check, outcome, why: [error?.message || inspect(error), ...complaints].join(': ') });
        }
        over.abort();
    }
    // Whatever hangs in a check that was given up hangs no longer.
    process.exit(0);
}

/** The text of a result of one text. */
export function text(result) {
    assert.equal(result.content.length, 1, inspect(result));
    assert.equal(result.content[0].type, 'text');
    return result.content[0].text;
}

/** What a resource of the demonstration server is like, embedded in something. */
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

const STRANGE = 'a "b" \\ é 😀\n';

/** What each tool that gives something gives: the name, the arguments, and the content. */
export const GIVES = [
    ...DEMO.echoes.map((name) => [name, { message: STRANGE }, [{ type: 'text', text: STRANGE }]]),
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

/** Makes fifty calls at once, each of which takes a second: each has its own answer, and none waits for another. */
export async function fifty(call) {
    const labels = Array.from({ length: 50 }, (_, number) => `No. ${number}`);
    const begun = performance.now();
    const results = await Promise.all(labels.map((label) => call('slow_compute', { seconds: 1, label })));
    const took = performance.now() - begun;
    assert.deepEqual(
        results.map(text),
        labels.map((label) => `${label} is there, after 1 s`),
    );
    assert.ok(took < 25_000, `one after the other: it took ${took} ms`);
}
