// A client of the TypeScript SDK that gets itself a token: it is let in nowhere without one. Prints what the server's
// tool has answered, and the token.
//
// Usage: authorized.mjs GENERATION URL, with GENERATION 1 or 2
import { randomBytes } from 'node:crypto';

const [generation, url] = process.argv.slice(2);
const sdk = generation === '1'
    ? { ...(await import('@modelcontextprotocol/sdk/client/index.js')), ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')) }
    : await import('@modelcontextprotocol/client');
setTimeout(() => process.exit(1), 60_000).unref();
const callback = 'http://127.0.0.1:1/callback';

// A browser without a person: it follows where it is sent, with cookies, until it is sent back to the client.
async function browse(start) {
    const cookies = new Map();
    let at = new URL(start);
    for (let step = 0; step < 20; step += 1) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
        for (const line of answer.headers.getSetCookie()) {
            const [pair] = line.split(';');
            cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
        }
        if (!answer.headers.has('location')) throw new Error(`${at} answers ${answer.status}: ${await answer.text()}`);
        at = new URL(answer.headers.get('location'), at);
        if (at.href.startsWith(callback)) return at.searchParams;
    }
    throw new Error('it goes round in circles');
}

const kept = { state: randomBytes(16).toString('hex') };
let came;
const provider = {
    redirectUrl: callback,
    clientMetadata: {
        client_name: 'interop', redirect_uris: [callback], application_type: 'native',
        grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none',
    },
    state: () => kept.state,
    clientInformation: () => kept.client,
    saveClientInformation: client => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: tokens => { kept.tokens = tokens; },
    saveCodeVerifier: verifier => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
    discoveryState: () => kept.discovery,
    saveDiscoveryState: discovery => { kept.discovery = discovery; },
    redirectToAuthorization: async where => { came = await browse(where); },
};

const transport = () => new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const client = () => new sdk.Client({ name: 'interop', version: '1' });
const first = transport();
let refused;
try {
    await client().connect(first);
} catch (error) {
    refused = error.constructor.name;
}
if (came.get('state') !== kept.state) throw new Error('another state');
await first.finishAuth(generation === '1' ? came.get('code') : came);
const connected = client();
await connected.connect(transport());
const result = await connected.callTool({ name: 'echo', arguments: { message: 'let in' } });
const claims = JSON.parse(Buffer.from(kept.tokens.access_token.split('.')[1], 'base64url'));
await connected.close();
console.log(JSON.stringify({ refused, text: result.content[0].text, aud: claims.aud, scope: claims.scope, sub: claims.sub, token: kept.tokens.access_token }));
