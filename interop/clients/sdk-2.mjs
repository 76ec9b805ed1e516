// The TypeScript SDK 2.x: SCRIPT ERA [account] -- SERVER WORDS..., or SCRIPT ERA [account] URL. It is told which era to
// speak.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { account } from './account.mjs';
import { run, version, words } from './checks.mjs';
import { checks, complaintsOf, transport } from './sdk.mjs';

const { era, accounts, ...server } = words();
const connection = transport(server, { StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport });
const client = new Client(
    { name: 'interop', version: '0' },
    {
        capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } },
        versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
    },
);

const complaints = complaintsOf(client);

const means = {
    connect: () => client.connect(connection),
    close: async () => {
        // Over Streamable HTTP a session goes on until it is ended.
        await connection.terminateSession?.();
        await client.close();
    },
    call: (params, options) => client.callTool(params, options),
    handle: (method, handler) => client.setRequestHandler(method, handler),
    hear: (method, handler) => client.setNotificationHandler(method, handler),
    watch: async (uri) => {
        if (era === 'modern') {
            const subscription = await client.listen({ resourceSubscriptions: [uri], resourcesListChanged: true });
            return () => subscription.close();
        }
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
};

if (accounts) {
    await account(era, client, connection, means);
} else {
    await run(version('@modelcontextprotocol/client'), checks(client, means), complaints);
}
