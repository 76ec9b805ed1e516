#!/usr/bin/env node
// A server on the TypeScript SDK 1.x that lets in only who shows a token, as the SDK's own pages have it done: SCRIPT ISSUER.
// Tokens are JWTs of that issuer, for this server, and have the scope `mcp:read`.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import express from 'express';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { z } from 'zod';

const issuer = process.argv[2];
const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();
const keys = createRemoteJWKSet(new URL(oauthMetadata.jwks_uri));

const app = express();
const listening = app.listen(0, '127.0.0.1', () => {
    const url = new URL(`http://127.0.0.1:${listening.address().port}/mcp`);
    app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: url, scopesSupported: ['mcp:read'] }));
    const verifier = {
        verifyAccessToken: async (token) => {
            const { payload } = await jwtVerify(token, keys, { issuer, audience: url.href }).catch((error) => {
                throw new InvalidTokenError(error.message);
            });
            return {
                token,
                clientId: payload.client_id,
                scopes: payload.scope.split(' '),
                expiresAt: payload.exp,
                extra: { subject: payload.sub },
            };
        },
    };
    const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(url);
    app.use(requireBearerAuth({ verifier, requiredScopes: ['mcp:read'], resourceMetadataUrl }));
    app.all('/mcp', express.json(), async (request, response) => {
        const server = new McpServer({ name: 'sdk-1-protected', version: '0' });
        server.registerTool('whoami', { inputSchema: { greeting: z.string() } }, ({ greeting }, { authInfo }) => ({
            content: [{ type: 'text', text: `${greeting}, ${authInfo.extra.subject}` }],
        }));
        server.registerTool('token', { inputSchema: {} }, (_, { authInfo }) => ({
            content: [{ type: 'text', text: authInfo.token }],
        }));
        const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
        response.on('close', () => transport.close());
        await server.connect(transport);
        await transport.handleRequest(request, response, request.body);
    });
    console.log(`listening on ${url}`);
});
