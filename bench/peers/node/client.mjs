// A client on the TypeScript SDK, with the words and figures of ours-client:
// node client.mjs v1|v2 DEPTH SECONDS PAYLOAD SERVER...
import { readFileSync } from 'node:fs';

const [version, depth, seconds, payload, command, ...args] = process.argv.slice(2);
const message = readFileSync(payload, 'utf8');
const [{ Client }, { StdioClientTransport }] =
  version === 'v2'
    ? await Promise.all([import('@modelcontextprotocol/client'), import('@modelcontextprotocol/client/stdio')])
    : await Promise.all([
        import('@modelcontextprotocol/sdk/client/index.js'),
        import('@modelcontextprotocol/sdk/client/stdio.js'),
      ]);

const started = performance.now();
const client = new Client({ name: 'bench', version: '0.0.0' });
await client.connect(new StdioClientTransport({ command, args }));
const opened_ms = performance.now() - started;

// Calls until the time is over; how long each took, in milliseconds.
async function calls(end) {
  const times = [];
  const caller = async () => {
    while (performance.now() < end) {
      const called = performance.now();
      const result = await client.callTool({ name: 'echo', arguments: { message } });
      if (result.content[0].text.length !== message.length) throw new Error('not the whole text');
      times.push(performance.now() - called);
    }
  };
  await Promise.all(Array.from({ length: Number(depth) }, caller));
  return times;
}

await calls(performance.now() + 500);
const used = process.cpuUsage();
const began = performance.now();
const times = await calls(began + Number(seconds) * 1000);
const wall = (performance.now() - began) / 1000;
const { user, system } = process.cpuUsage(used);
times.sort((a, b) => a - b);
const below = (share) => times[Math.floor(times.length * share)] * 1000;
const [, peak] = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'));
console.log(
  JSON.stringify({
    calls: times.length,
    per_second: times.length / wall,
    p50_us: below(0.5),
    p99_us: below(0.99),
    cpu_us: (user + system) / times.length,
    peak_kib: Number(peak),
    opened_ms,
  }),
);
await client.close();
process.exit(0);
