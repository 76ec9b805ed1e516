//! The rules that discovery checks, each with its source.

use super::steps::Rule;

macro_rules! rules {
    ($($name:ident: $text:literal, $source:literal;)*) => {
        $(pub(super) const $name: Rule = Rule { text: $text, source: $source };)*
    };
}

rules! {
    TLS: "all authorization requests use https, except on this machine",
        "MCP 2026-07-28, Communication Security: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#communication-security";
    UNAUTHORIZED: "a server that requires authorization answers a request without it with 401",
        "MCP 2026-07-28, Error Handling: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling";
    CHALLENGE: "a 401 has a WWW-Authenticate header with a challenge",
        "RFC 9110, 15.5.2: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.2";
    NAMED: "the challenge may name the metadata in `resource_metadata`, which then takes precedence",
        "RFC 9728, 5.1: https://www.rfc-editor.org/rfc/rfc9728#section-5.1";
    RESOURCE_METADATA: "a server that requires authorization has protected resource metadata",
        "MCP 2026-07-28, Protected Resource Metadata Discovery Requirements: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements";
    RESOURCE: "the `resource` of the metadata is the server's URL",
        "RFC 9728, 3.3: https://www.rfc-editor.org/rfc/rfc9728#section-3.3";
    SERVERS: "the metadata names at least one authorization server",
        "MCP 2026-07-28, Authorization Server Location: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location";
    SERVER_METADATA: "an authorization server has metadata at a well-known URL of its issuer",
        "RFC 8414, 3, and MCP 2026-07-28, Authorization Server Metadata Discovery: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery";
    ISSUER_URL: "an issuer is an https URL without query and fragment",
        "RFC 8414, 2: https://www.rfc-editor.org/rfc/rfc8414#section-2";
    ISSUER: "the `issuer` of the metadata equals the requested issuer, byte for byte",
        "RFC 8414, 3.3: https://www.rfc-editor.org/rfc/rfc8414#section-3.3";
    ENDPOINTS: "the endpoints exist, use https, and are not at internal addresses",
        "RFC 8414, 2, and MCP 2026-07-28, Communication Security: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#communication-security";
    PUSHED: "a server that requires pushed authorization requests names their endpoint",
        "RFC 9126, 5: https://www.rfc-editor.org/rfc/rfc9126#section-5";
    PKCE: "`code_challenge_methods_supported` has `S256`",
        "MCP 2026-07-28, Authorization Code Protection: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#authorization-code-protection";
    LEGACY: "a server of 2025-03-26 is its own authorization server: metadata at the root of its origin, else `/authorize`, `/token` and `/register` there",
        "MCP 2025-03-26, Server Metadata Discovery: https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery";
    REGISTRATION: "a client has an id: given, the URL of a metadata document, or by registration",
        "MCP 2026-07-28, Client Registration: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration";
    TOKEN: "the token endpoint issues a token in a known format",
        "RFC 6749, 5.1: https://www.rfc-editor.org/rfc/rfc6749#section-5.1";
    SCOPES: "requested are the scopes of the challenge, otherwise those of the metadata, otherwise none",
        "MCP 2026-07-28, Scope Selection Strategy: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy";
}
