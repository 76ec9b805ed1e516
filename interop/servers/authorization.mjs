#!/usr/bin/env node
// An authorization server on the npm package oidc-provider (certified for OpenID Connect), as a company runs one:
// SCRIPT [RESOURCE]. Whoever comes is let in as alice at once, without a page. Its tokens are JWTs for RESOURCE alone, or
// for whatever is named. Access tokens last 60 s, or as many as TOKEN_SECONDS says; refresh tokens are good once.

import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';

import { Provider } from 'oidc-provider';

const resource = process.argv[2];
const seconds = Number(process.env.TOKEN_SECONDS ?? '60');

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = { ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: 'one' };

const server = http.createServer((request, response) => answer(request, response));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
    jwks: { keys: [key] },
    cookies: { keys: ['interop'] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    scopes: ['openid', 'offline_access', 'mcp:read', 'mcp:write'],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
    ttl: { AccessToken: seconds, ClientCredentials: seconds, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
    clients: [
        {
            client_id: 'machine',
            client_secret: 'the-secret-of-the-machine',
            grant_types: ['client_credentials'],
            redirect_uris: [],
            response_types: [],
        },
    ],
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        revocation: { enabled: true },
        introspection: { enabled: true },
        clientCredentials: { enabled: true },
        dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => false },
        resourceIndicators: {
            enabled: true,
            defaultResource: () => undefined,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, indicator) => {
                if (resource && indicator !== resource) {
                    throw new Error(`a resource that nobody has here: ${indicator}`);
                }
                return {
                    scope: 'mcp:read mcp:write',
                    audience: indicator,
                    accessTokenTTL: seconds,
                    accessTokenFormat: 'jwt',
                    jwt: { sign: { alg: 'ES256' } },
                };
            },
        },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});

const callback = provider.callback();

/** Lets in whoever comes. */
async function interact(request, response) {
    const { params, grantId, prompt } = await provider.interactionDetails(request, response);
    if (prompt.name === 'login') {
        return provider.interactionFinished(request, response, { login: { accountId: 'alice' } });
    }
    const known = grantId && (await provider.Grant.find(grantId));
    const grant = known || new provider.Grant({ accountId: 'alice', clientId: params.client_id });
    const { missingOIDCScope, missingResourceScopes } = prompt.details;
    if (missingOIDCScope) {
        grant.addOIDCScope(missingOIDCScope.join(' '));
    }
    for (const [indicator, scopes] of Object.entries(missingResourceScopes ?? {})) {
        grant.addResourceScope(indicator, scopes.join(' '));
    }
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

async function answer(request, response) {
    console.error(`${request.method} ${request.url.split('?')[0]}`);
    if (request.url.startsWith('/interaction/')) {
        await interact(request, response).catch((error) => {
            response.writeHead(500).end(String(error));
        });
        return;
    }
    callback(request, response);
}

provider.on('server_error', (_, error) => console.error(error));
console.log(`listening on ${issuer}/`);
