#!/usr/bin/env node
// Starts the binary that npm has installed for this platform, and is nothing but a way to it: the same words, the same
// streams, the same signals, the same exit code.
'use strict';

const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const platform = `${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`@mcpjoin/${platform}/bin/mcpjoin`);
  } catch {
    // Run from the folder in which the packages were made, they lie side by side.
    const beside = join(__dirname, '..', '..', platform, 'bin', 'mcpjoin');
    return existsSync(beside) ? beside : undefined;
  }
}

const path = program();
if (!path) {
  console.error(`error: mcpjoin has no binary for ${platform}, or npm was told to leave out optional dependencies`);
  process.exit(4);
}
const child = spawn(path, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends Ctrl-C to both of us; whoever signals this process alone means the binary.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(`error: ${path} cannot be started: ${error.message}`);
  process.exit(4);
});
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
