#!/usr/bin/env node
// Starts the binary that npm has installed for this platform, and is nothing but a way to it: the same words, the same
// streams, the same signals, the same exit code.
'use strict';

const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const { basename, join, sep } = require('node:path');

const platform = `${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`@mcpjoin/${platform}/bin/mcpjoin`);
  } catch {
    // In the folder in which the packages were made (npm/mcpjoin and npm/linux-x64) they lie side by side. Where packages
    // are installed, a folder of that name is a package that anybody may have published.
    const packages = join(__dirname, '..', '..');
    const built = basename(packages) === 'npm' && !packages.split(sep).includes('node_modules');
    const beside = join(packages, platform, 'bin', 'mcpjoin');
    return built && existsSync(beside) ? beside : undefined;
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
