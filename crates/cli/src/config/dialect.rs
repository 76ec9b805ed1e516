//! The dialects of configuration files as tables: the names of members in each program, and the members without an effect here.
//!
//! `entry` reads with the tables, and `convert` writes with them. A new dialect is a new [`Dialect`] with its tables, and its
//! place in `parsed_file`.

use std::path::Path;

/// A dialect of configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `mcpServers`: of most programs.
    McpServersJson,
    /// `servers` and `inputs`: of VS Code.
    VsCodeJson,
    /// `mcp`: of opencode.
    OpencodeJson,
    /// `[[servers]]`: of mcp_servers.toml.
    ServersToml,
    /// `[mcp_servers.NAME]`: of Codex.
    CodexToml,
    /// `mcpServers`: of Cursor (<https://cursor.com/docs/context/mcp>).
    CursorJson,
    /// `mcpServers`: of Gemini CLI (<https://geminicli.com/docs/tools/mcp-server>).
    GeminiJson,
    /// `context_servers`: of Zed (<https://zed.dev/docs/ai/mcp>).
    ZedJson,
    /// `mcpServers`: of Windsurf (<https://docs.windsurf.com/windsurf/cascade/mcp>).
    WindsurfJson,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transport {
    /// As a child process.
    #[default]
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The HTTP+SSE of 2024-11-05, and nothing else.
    Sse,
    Quic,
    Tcp,
    Unix,
}

/// The meaning of a spelling of `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Is(Transport),
    /// The scheme of the address decides.
    ByUrl,
}

/// A member of an entry in any dialect.
///
/// The order up to [`Key::DisabledTools`] is the order of the members in the digest of a trusted definition, and must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Command,
    Args,
    Cwd,
    /// Variables that are set.
    Env,
    /// The names of variables of ours that are passed on.
    EnvVars,
    /// A file with more variables; those of `env` win.
    EnvFile,
    Url,
    Headers,
    /// The server's key, over QUIC.
    Pin,
    /// A file with authorities that are trusted beside the system's.
    Ca,
    /// Our certificate, over QUIC.
    Cert,
    /// The file with the key of our certificate.
    IdentityFile,
    ClientId,
    ClientSecret,
    RedirectUri,
    Scopes,
    AllowedTools,
    DisabledTools,
    /// Copilot CLI: the tools that are allowed; an empty list allows none.
    Tools,
    Type,
    /// Headers whose values are in variables.
    HeaderVars,
    /// The variable with the bearer token.
    BearerVar,
    /// The bearer token.
    Bearer,
    /// The id of the client for logins, and so on: what most dialects have in `oauth`, as a member of the entry.
    FlatClientId,
    FlatClientSecret,
    /// The variable with the secret of the client.
    ClientSecretVar,
    FlatRedirectUri,
    FlatScopes,
    Oauth,
    OauthOff,
    CallbackPort,
    /// Of OAuth: not used.
    MetadataUrl,
    Description,
    /// The timeout of a request in milliseconds.
    TimeoutMs,
    TimeoutSec,
    /// The timeout of opening the session in milliseconds.
    OpeningMs,
    OpeningSec,
    Disabled,
    Enabled,
    Name,
    Transport,
    /// A member that the program of the dialect uses, without an effect here.
    Other,
}

/// A member and its spellings.
pub(super) type Row = (Key, &'static [&'static str]);
pub(super) type Rows = &'static [Row];

/// The form of an entry in a dialect.
pub(super) struct Format {
    /// The members, in groups, in the order in which they are written. The first spelling of each is written.
    pub(super) members: &'static [Rows],
    /// The members of the table [`Key::Transport`], where the dialect has one.
    pub(super) transport: Option<&'static [Rows]>,
    /// Members of other programs, which are ignored without a warning.
    pub(super) ignored: &'static [&'static str],
    /// The spellings of `type`.
    pub(super) types: &'static [(&'static str, Type)],
    /// The spellings of `type` in a message.
    pub(super) types_named: &'static str,
    /// The members that are read and not written, in groups.
    pub(super) unwritten: &'static [&'static [Key]],
    /// The spellings to write that are not the first ones of their rows.
    pub(super) respelled: &'static [(Key, &'static str)],
}

/// The members for reaching the server, in the spelling of most dialects.
const SERVER: Rows = &[
    (Key::Command, &["command", "executable"]),
    (Key::Args, &["args"]),
    (Key::Env, &["env"]),
    (Key::Cwd, &["cwd"]),
    (Key::EnvFile, &["envFile", "env_file"]),
    (Key::Url, &["url", "httpUrl", "serverUrl", "baseUrl", "server_url", "base_url"]),
    (Key::Headers, &["headers"]),
    // Of mcporter, like `executable` above (<https://github.com/steipete/mcporter>).
    (Key::BearerVar, &["bearerTokenEnv", "bearer_token_env"]),
    (Key::Bearer, &["bearerToken", "bearer_token"]),
    (Key::FlatClientId, &["oauthClientId", "oauth_client_id"]),
    (Key::FlatClientSecret, &["oauthClientSecret", "oauth_client_secret"]),
    (Key::ClientSecretVar, &["oauthClientSecretEnv", "oauth_client_secret_env"]),
    (Key::FlatRedirectUri, &["oauthRedirectUrl", "oauth_redirect_url"]),
    (Key::FlatScopes, &["oauthScope", "oauth_scope"]),
    // Our own, named like our options.
    (Key::Pin, &["pin"]),
    (Key::Ca, &["ca"]),
    (Key::Cert, &["cert"]),
    (Key::IdentityFile, &["key"]),
    (Key::Oauth, &["oauth"]),
];
/// The other members. Gemini CLI has `includeTools` and `excludeTools`, mcporter `blockedTools`.
const LIMITS: Rows = &[
    (Key::Description, &["description"]),
    (Key::TimeoutMs, &["timeoutMs", "timeout_ms"]),
    (Key::AllowedTools, &["allowedTools", "allowed_tools", "includeTools"]),
    (
        Key::DisabledTools,
        &["disabledTools", "disabled_tools", "excludeTools", "blockedTools", "blocked_tools"],
    ),
    (Key::Tools, &["tools"]),
    (Key::Disabled, &["disabled"]),
    (Key::Enabled, &["enabled"]),
];
/// Opencode: a member of `mcp` (<https://opencode.ai/docs/mcp-servers/>).
const OPENCODE: Rows = &[
    (Key::Type, &["type"]),
    (Key::Command, &["command"]),
    (Key::Env, &["environment"]),
    (Key::Cwd, &["cwd"]),
    (Key::Url, &["url"]),
    (Key::Headers, &["headers"]),
    (Key::Oauth, &["oauth"]),
    // For the first request. In opencode, for fetching the tools.
    (Key::OpeningMs, &["timeout"]),
    (Key::AllowedTools, &["allowed_tools", "allowedTools"]),
    (Key::DisabledTools, &["disabled_tools", "disabledTools"]),
    (Key::Enabled, &["enabled"]),
];
/// Codex: `[mcp_servers.NAME]` of its config.toml (<https://developers.openai.com/codex/mcp>).
const CODEX: Rows = &[
    (Key::Command, &["command"]),
    (Key::Args, &["args"]),
    (Key::Cwd, &["cwd"]),
    (Key::Env, &["env"]),
    (Key::EnvVars, &["env_vars"]),
    (Key::Url, &["url"]),
    (Key::BearerVar, &["bearer_token_env_var"]),
    (Key::Headers, &["http_headers"]),
    (Key::HeaderVars, &["env_http_headers"]),
    (Key::Oauth, &["oauth"]),
    (Key::Scopes, &["scopes"]),
    (Key::OpeningSec, &["startup_timeout_sec"]),
    (Key::TimeoutSec, &["tool_timeout_sec"]),
    (Key::OpeningMs, &["startup_timeout_ms"]),
    (Key::AllowedTools, &["enabled_tools"]),
    (Key::DisabledTools, &["disabled_tools"]),
    (Key::Enabled, &["enabled"]),
    (Key::Other, &["default_tools_approval_mode"]),
    (Key::Other, &["environment_id"]),
    (Key::Other, &["oauth_resource"]),
    (Key::Other, &["required"]),
    (Key::Other, &["supports_parallel_tool_calls"]),
    (Key::Other, &["tools"]),
];
/// The members of `oauth`: of Claude Code (<https://code.claude.com/docs/en/mcp>), VS Code
/// (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>), opencode and Codex. They do not conflict, so one
/// table serves all of them.
pub(super) const OAUTH: Rows = &[
    (Key::ClientId, &["clientId", "client_id"]),
    (Key::ClientSecret, &["clientSecret", "client_secret"]),
    (Key::CallbackPort, &["callbackPort", "callback_port"]),
    (Key::RedirectUri, &["redirectUri", "redirect_uri", "callbackUrl", "callback_url"]),
    (Key::Scopes, &["scopes", "scope"]),
    (Key::MetadataUrl, &["authServerMetadataUrl"]),
];
/// The members of a `command` that is an object, as Zed used to write it.
pub(super) const COMMAND: Rows = &[(Key::Command, &["path"]), (Key::Args, &["args"]), (Key::Env, &["env"])];

const TYPES: &[(&str, Type)] = &[
    ("stdio", Type::Is(Transport::Stdio)),
    ("local", Type::Is(Transport::Stdio)),
    ("http", Type::Is(Transport::Http)),
    ("streamable-http", Type::Is(Transport::Http)),
    ("streamable_http", Type::Is(Transport::Http)),
    ("streamableHttp", Type::Is(Transport::Http)),
    ("streamablehttp", Type::Is(Transport::Http)),
    ("remote", Type::ByUrl),
    ("sse", Type::Is(Transport::Sse)),
    ("quic", Type::Is(Transport::Quic)),
    ("tcp", Type::Is(Transport::Tcp)),
    ("unix", Type::Is(Transport::Unix)),
];
const TYPES_NAMED: &str = "stdio, http, sse, quic, tcp or unix";

const MCP_SERVERS: Format = Format {
    members: &[&[(Key::Type, &["type", "transport"])], SERVER, LIMITS],
    transport: None,
    // The origin of an entry, restarts during development, and tools that need no confirmation.
    ignored: &[
        "gallery",
        "version",
        "dev",
        "source",
        "settings",
        "trust",
        "alwaysAllow",
        "autoApprove",
        "watchPaths",
        // How long mcporter keeps a server running, its log, its HTTP client and its folder of tokens.
        "lifecycle",
        "logging",
        "clientName",
        "client_name",
        "tokenCacheDir",
        "token_cache_dir",
        "httpFetch",
        "http_fetch",
        "auth",
    ],
    types: TYPES,
    types_named: TYPES_NAMED,
    unwritten: &[&[Key::Enabled], OF_MCPORTER],
    respelled: &[],
};

/// The members that are of mcpjoin, or of other programs than the one of the dialect.
const OF_OTHERS: &[Key] = &[
    Key::Pin,
    Key::Ca,
    Key::Cert,
    Key::IdentityFile,
    Key::OauthOff,
    Key::ClientSecret,
    Key::CallbackPort,
    Key::RedirectUri,
    Key::Scopes,
];
/// The members of mcporter, which `headers` and `oauth` express for every program.
const OF_MCPORTER: &[Key] = &[
    Key::BearerVar,
    Key::Bearer,
    Key::FlatClientId,
    Key::FlatClientSecret,
    Key::ClientSecretVar,
    Key::FlatRedirectUri,
    Key::FlatScopes,
];
/// The members that are no settings of the connection.
const OF_LIMITS: &[Key] = &[Key::Description, Key::TimeoutMs, Key::AllowedTools];

const VS_CODE: Format = Format {
    unwritten: &[OF_OTHERS, OF_MCPORTER, OF_LIMITS, &[Key::DisabledTools, Key::Disabled, Key::Enabled]],
    ..MCP_SERVERS
};

const CURSOR: Format = Format { unwritten: VS_CODE.unwritten, ..MCP_SERVERS };

/// A server over Streamable HTTP is `httpUrl`, one over HTTP+SSE is `url`: `convert` chooses. The timeout is in milliseconds.
const GEMINI: Format = Format {
    members: &[
        &[(Key::Type, &["type", "transport"])],
        SERVER,
        &[
            (Key::Description, &["description"]),
            (Key::TimeoutMs, &["timeout", "timeoutMs", "timeout_ms"]),
            (Key::AllowedTools, &["includeTools", "allowedTools", "allowed_tools"]),
            (Key::DisabledTools, &["excludeTools", "disabledTools", "disabled_tools"]),
            (Key::Tools, &["tools"]),
            (Key::Disabled, &["disabled"]),
            (Key::Enabled, &["enabled"]),
        ],
    ],
    unwritten: &[OF_OTHERS, OF_MCPORTER, &[Key::Type, Key::EnvFile, Key::Disabled, Key::Enabled]],
    ..MCP_SERVERS
};

const ZED: Format = Format {
    unwritten: &[
        OF_OTHERS,
        OF_MCPORTER,
        OF_LIMITS,
        &[Key::Type, Key::EnvFile, Key::DisabledTools, Key::Disabled],
    ],
    ..MCP_SERVERS
};

const WINDSURF: Format = Format {
    unwritten: &[OF_OTHERS, OF_MCPORTER, OF_LIMITS, &[Key::Type, Key::EnvFile, Key::Enabled]],
    respelled: &[(Key::Url, "serverUrl")],
    ..MCP_SERVERS
};

const SERVERS_TOML: Format = Format {
    members: &[&[(Key::Name, &["name"]), (Key::Transport, &["transport"])], LIMITS],
    transport: Some(&[&[(Key::Type, &["type"])], SERVER]),
    ignored: &[],
    types: TYPES,
    types_named: TYPES_NAMED,
    unwritten: &[&[Key::Disabled], OF_MCPORTER],
    respelled: &[
        (Key::EnvFile, "env_file"),
        (Key::TimeoutMs, "timeout_ms"),
        (Key::AllowedTools, "allowed_tools"),
        (Key::DisabledTools, "disabled_tools"),
    ],
};

const OF_OPENCODE: Format = Format {
    members: &[OPENCODE],
    transport: None,
    ignored: &[],
    types: &[("local", Type::Is(Transport::Stdio)), ("remote", Type::Is(Transport::Http))],
    types_named: "local or remote",
    unwritten: &[&[Key::AllowedTools, Key::DisabledTools]],
    respelled: &[(Key::Scopes, "scope")],
};

const OF_CODEX: Format = Format {
    members: &[CODEX],
    transport: None,
    ignored: &[],
    types: &[],
    types_named: "",
    unwritten: &[&[Key::OauthOff, Key::ClientSecret, Key::OpeningMs]],
    respelled: &[
        (Key::ClientId, "client_id"),
        (Key::CallbackPort, "callback_port"),
        (Key::RedirectUri, "callback_url"),
    ],
};

impl Dialect {
    /// Every dialect with its name on the command line.
    pub(crate) const NAMES: [(&str, Self); 9] = [
        ("mcp-servers", Self::McpServersJson),
        ("vscode", Self::VsCodeJson),
        ("opencode", Self::OpencodeJson),
        ("servers-toml", Self::ServersToml),
        ("codex", Self::CodexToml),
        ("cursor", Self::CursorJson),
        ("gemini", Self::GeminiJson),
        ("zed", Self::ZedJson),
        ("windsurf", Self::WindsurfJson),
    ];

    /// The member that holds the entries, and whether the file is TOML.
    pub(super) const fn holder(self) -> (&'static str, bool) {
        match self {
            Self::McpServersJson | Self::CursorJson | Self::GeminiJson | Self::WindsurfJson => {
                ("mcpServers", false)
            }
            Self::VsCodeJson => ("servers", false),
            Self::OpencodeJson => ("mcp", false),
            Self::ZedJson => ("context_servers", false),
            Self::ServersToml => ("servers", true),
            Self::CodexToml => ("mcp_servers", true),
        }
    }

    /// The dialect of a file with `mcpServers`, by its path.
    pub(super) fn of_path(path: &Path) -> Self {
        let is = |end: &str| path.ends_with(end);
        if is(".gemini/settings.json") {
            Self::GeminiJson
        } else if is(".cursor/mcp.json") {
            Self::CursorJson
        } else if is("windsurf/mcp_config.json") {
            Self::WindsurfJson
        } else {
            Self::McpServersJson
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map_or("", |(name, _)| name)
    }

    /// The form of its entries.
    pub(super) const fn format(self) -> &'static Format {
        match self {
            Self::McpServersJson => &MCP_SERVERS,
            Self::VsCodeJson => &VS_CODE,
            Self::OpencodeJson => &OF_OPENCODE,
            Self::ServersToml => &SERVERS_TOML,
            Self::CodexToml => &OF_CODEX,
            Self::CursorJson => &CURSOR,
            Self::GeminiJson => &GEMINI,
            Self::ZedJson => &ZED,
            Self::WindsurfJson => &WINDSURF,
        }
    }

    /// Whether its entries have the members that most programs share, our own members, and variables as `${NAME}`.
    pub(super) const fn is_common(self) -> bool {
        !matches!(self, Self::OpencodeJson | Self::CodexToml)
    }

    /// Whether it can express every setting, and defaults of variables.
    pub(super) const fn is_complete(self) -> bool {
        matches!(self, Self::McpServersJson | Self::ServersToml)
    }
}

impl Format {
    /// Whether the dialect can express the key.
    pub(super) fn writes(&self, key: Key) -> bool {
        let groups = self.members.iter().chain(self.transport.unwrap_or_default()).chain([&OAUTH]);
        let is_known = groups.copied().flatten().any(|(known, _)| *known == key);
        (is_known || key == Key::OauthOff) && !self.leaves_out(key)
    }

    /// Whether the key is read and not written.
    pub(super) fn leaves_out(&self, key: Key) -> bool {
        self.unwritten.iter().copied().flatten().any(|known| *known == key)
    }

    /// The members of `oauth` that are not members of the entry.
    pub(super) fn oauth(&self) -> impl Iterator<Item = &'static Row> {
        OAUTH.iter().filter(|(key, _)| !self.members.iter().copied().flatten().any(|(known, _)| known == key))
    }
}

impl Transport {
    /// The transport of an address without HTTP, by its scheme.
    pub(super) fn of_scheme(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        let listening = [Self::Quic, Self::Tcp, Self::Unix];
        listening.into_iter().find(|transport| scheme.eq_ignore_ascii_case(transport.name()))
    }

    /// Its name in `type` and in `servers`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Quic => "quic",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }

    /// The reason why members for other transports are not used.
    pub(super) const fn reached(self) -> &'static str {
        match self {
            Self::Stdio => "the server is started as a program",
            Self::Http | Self::Sse => "the server is reached over HTTP",
            Self::Quic => "the server is reached over QUIC",
            Self::Tcp | Self::Unix => "the server is reached over a socket",
        }
    }

    /// Whether it is an address without HTTP.
    pub(super) const fn is_socket(self) -> bool {
        matches!(self, Self::Quic | Self::Tcp | Self::Unix)
    }
}

impl Key {
    /// Whether it is a text of `oauth`.
    pub(super) const fn is_oauth(self) -> bool {
        matches!(self, Self::ClientId | Self::ClientSecret | Self::RedirectUri | Self::Scopes)
    }

    /// Its name in `servers`, in the question about a definition and in the list of trusted definitions.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Args => "args",
            Self::Cwd => "cwd",
            Self::Env => "env",
            Self::EnvVars => "env_vars",
            Self::EnvFile => "envFile",
            Self::Url => "url",
            Self::Headers => "headers",
            Self::Pin => "pin",
            Self::Ca => "ca",
            Self::Cert => "cert",
            Self::IdentityFile => "key",
            Self::AllowedTools => "allowed_tools",
            Self::DisabledTools => "disabled_tools",
            _ => "oauth",
        }
    }
}
