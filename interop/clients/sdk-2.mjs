// The TypeScript SDK 2.x: SCRIPT ERA -- SERVER WORDS... It is told which era to speak.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { run, version, words } from './checks.mjs';
import { checks } from './sdk.mjs';

const { era, command, args } = words();
const client = new Client(
    { name: 'interop', version: '0' },
    {
        capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
        versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
    },
);

const complaints = [];
client.onerror = (error) => complaints.push(error.message);

await run(
    version('@modelcontextprotocol/client'),
    checks(client, {
        connect: () => client.connect(new StdioClientTransport({ command, args })),
        call: (params, options) => client.callTool(params, options),
        handle: (method, handler) => client.setRequestHandler(method, handler),
        hear: (method, handler) => client.setNotificationHandler(method, handler),
        watch: async (uri) => {
            if (era === 'modern') {
                const subscription = await client.listen({ resourceSubscriptions: [uri] });
                return () => subscription.close();
            }
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
    }),
    complaints,
);
