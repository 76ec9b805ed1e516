// The TypeScript SDK 1.x: SCRIPT ERA -- SERVER WORDS... It knows the legacy era alone.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { run, version, words } from './checks.mjs';
import { checks } from './sdk.mjs';

const SCHEMAS = {
    'sampling/createMessage': CreateMessageRequestSchema,
    'elicitation/create': ElicitRequestSchema,
    'roots/list': ListRootsRequestSchema,
    'notifications/resources/updated': ResourceUpdatedNotificationSchema,
};

const { command, args } = words();
const client = new Client(
    { name: 'interop', version: '0' },
    { capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} } },
);

const complaints = [];
client.onerror = (error) => complaints.push(error.message);

await run(
    version('@modelcontextprotocol/sdk'),
    checks(client, {
        connect: () => client.connect(new StdioClientTransport({ command, args })),
        call: (params, options) => client.callTool(params, undefined, options),
        handle: (method, handler) => client.setRequestHandler(SCHEMAS[method], handler),
        hear: (method, handler) => client.setNotificationHandler(SCHEMAS[method], handler),
        watch: async (uri) => {
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
    }),
    complaints,
);
