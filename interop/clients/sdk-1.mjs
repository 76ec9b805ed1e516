// The TypeScript SDK 1.x: SCRIPT ERA [account] -- SERVER WORDS..., or SCRIPT ERA [account] URL. It knows the legacy era
// alone.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { account } from './account.mjs';
import { run, version, words } from './checks.mjs';
import { checks, complaintsOf, transport } from './sdk.mjs';

const SCHEMAS = {
    'sampling/createMessage': CreateMessageRequestSchema,
    'elicitation/create': ElicitRequestSchema,
    'roots/list': ListRootsRequestSchema,
    'notifications/resources/updated': ResourceUpdatedNotificationSchema,
};

const { era, accounts, ...server } = words();
const connection = transport(server, { StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport });
const client = new Client(
    { name: 'interop', version: '0' },
    { capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } } },
);

const complaints = complaintsOf(client);

const means = {
    connect: () => client.connect(connection),
    close: async () => {
        // Over Streamable HTTP a session goes on until it is ended.
        await connection.terminateSession?.();
        await client.close();
    },
    call: (params, options) => client.callTool(params, undefined, options),
    handle: (method, handler) => client.setRequestHandler(SCHEMAS[method], handler),
    hear: (method, handler) => client.setNotificationHandler(SCHEMAS[method], handler),
    watch: async (uri) => {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
};

if (accounts) {
    await account(era, client, connection, means);
} else {
    await run(version('@modelcontextprotocol/sdk'), checks(client, means), complaints);
}
