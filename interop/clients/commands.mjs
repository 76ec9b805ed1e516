// A client that is a command: a run of it for each thing asked. Used by inspector.mjs and mcporter.mjs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as all } from 'node:stream/consumers';

import { DEMO } from './checks.mjs';

/** A file with this configuration, gone when the script ends. */
export function configuration(content) {
    const folder = mkdtempSync(join(tmpdir(), 'mcpjoin-interop-'));
    process.on('exit', () => rmSync(folder, { recursive: true }));
    const file = join(folder, 'config.json');
    writeFileSync(file, JSON.stringify(content));
    return file;
}

/** Runs a script of an installed package, and gives what it printed and its exit code. */
export async function run(script, words) {
    const child = spawn(process.execPath, [join(import.meta.dirname, '../node_modules', script), ...words], {
        stdio: ['ignore', 'pipe', 'pipe'],
    });
    const code = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => resolve(code ?? signal));
    });
    const [stdout, stderr] = await Promise.all([all(child.stdout), all(child.stderr)]);
    return { code: await code, stdout, stderr };
}

/** The tools are all there, in their order, one schema just as it is written. */
export function holdsTools(tools) {
    assert.deepEqual(
        tools.map((tool) => tool.name),
        DEMO.tools,
    );
    assert.deepEqual(tools.find((tool) => tool.name === DEMO.schema.of).inputSchema, DEMO.schema.is);
}

/** The resources are all there. */
export function holdsResources(resources) {
    assert.deepEqual(
        resources.map((resource) => resource.uri),
        DEMO.resources,
    );
}
