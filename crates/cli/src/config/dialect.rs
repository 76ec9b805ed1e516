//! The dialects of configuration files as tables: what each program calls the members of an entry, and which of them mean
//! nothing here.
//!
//! `entry` reads with the tables, and `convert` writes with them. A new dialect is a new [`Dialect`] with its tables, and its
//! place in `contents`.

/// How a file is written.
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
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// It is started as a child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The HTTP+SSE of 2024-11-05, and nothing else.
    Sse,
    Quic,
    Tcp,
    Unix,
}

/// What a spelling of `type` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Is(Transport),
    /// The scheme of the address says it.
    ByUrl,
}

/// A member of an entry, whatever a dialect calls it.
///
/// The order up to [`Key::DisabledTools`] is the order of the members of a trusted definition, and goes into its digest: it
/// must not change.
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
    /// A member of the program that the dialect is of, without a meaning here.
    Other,
}

/// A member and its spellings.
pub(super) type Row = (Key, &'static [&'static str]);
pub(super) type Rows = &'static [Row];

/// What an entry of a dialect looks like.
pub(super) struct Format {
    /// The members, in groups, in the order in which they are written. The first spelling of each is written.
    pub(super) members: &'static [Rows],
    /// Those of the table [`Key::Transport`], where the members that say how the server is reached stand in one.
    pub(super) transport: Option<&'static [Rows]>,
    /// Members of other programs, which are neither read nor warned about.
    pub(super) ignored: &'static [&'static str],
    /// The spellings of `type`.
    pub(super) types: &'static [(&'static str, Type)],
    /// The same in a message.
    pub(super) types_named: &'static str,
    /// The members that are read and not written.
    pub(super) unwritten: &'static [Key],
    /// The spellings to write that are not the first ones of their rows.
    pub(super) respelled: &'static [(Key, &'static str)],
}

/// How the server is reached, in the words that most dialects share.
const SERVER: Rows = &[
    (Key::Command, &["command"]),
    (Key::Args, &["args"]),
    (Key::Env, &["env"]),
    (Key::Cwd, &["cwd"]),
    (Key::EnvFile, &["envFile", "env_file"]),
    (Key::Url, &["url", "httpUrl", "serverUrl", "baseUrl"]),
    (Key::Headers, &["headers"]),
    // Our own: they are called as our options are.
    (Key::Pin, &["pin"]),
    (Key::Ca, &["ca"]),
    (Key::Cert, &["cert"]),
    (Key::IdentityFile, &["key"]),
    (Key::Oauth, &["oauth"]),
];
/// What stands beside that. Gemini CLI says `includeTools` and `excludeTools`.
const LIMITS: Rows = &[
    (Key::Description, &["description"]),
    (Key::TimeoutMs, &["timeoutMs", "timeout_ms"]),
    (Key::AllowedTools, &["allowedTools", "allowed_tools", "includeTools"]),
    (Key::DisabledTools, &["disabledTools", "disabled_tools", "excludeTools"]),
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
    // Of the first request; in that program's words, of fetching the tools.
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
/// (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>), opencode and Codex. They do not contradict each
/// other, so one table reads all of them.
pub(super) const OAUTH: Rows = &[
    (Key::ClientId, &["clientId", "client_id"]),
    (Key::ClientSecret, &["clientSecret", "client_secret"]),
    (Key::CallbackPort, &["callbackPort", "callback_port"]),
    (Key::RedirectUri, &["redirectUri", "redirect_uri", "callbackUrl", "callback_url"]),
    (Key::Scopes, &["scopes", "scope"]),
    (Key::MetadataUrl, &["authServerMetadataUrl"]),
];
/// The members of a `command` that is an object, as Zed has written it.
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
    // Where an entry comes from, how it is restarted for those who write it, and what its users are not asked about.
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
    ],
    types: TYPES,
    types_named: TYPES_NAMED,
    unwritten: &[Key::Enabled],
    respelled: &[],
};

const VS_CODE: Format = Format {
    unwritten: &[
        Key::Pin,
        Key::Ca,
        Key::Cert,
        Key::IdentityFile,
        Key::OauthOff,
        Key::ClientSecret,
        Key::CallbackPort,
        Key::RedirectUri,
        Key::Scopes,
        Key::Description,
        Key::TimeoutMs,
        Key::AllowedTools,
        Key::DisabledTools,
        Key::Disabled,
        Key::Enabled,
    ],
    ..MCP_SERVERS
};

const SERVERS_TOML: Format = Format {
    members: &[&[(Key::Name, &["name"]), (Key::Transport, &["transport"])], LIMITS],
    transport: Some(&[&[(Key::Type, &["type"])], SERVER]),
    ignored: &[],
    types: TYPES,
    types_named: TYPES_NAMED,
    unwritten: &[Key::Disabled],
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
    unwritten: &[Key::AllowedTools, Key::DisabledTools],
    respelled: &[(Key::Scopes, "scope")],
};

const OF_CODEX: Format = Format {
    members: &[CODEX],
    transport: None,
    ignored: &[],
    types: &[],
    types_named: "",
    unwritten: &[Key::OauthOff, Key::ClientSecret, Key::OpeningMs],
    respelled: &[
        (Key::ClientId, "client_id"),
        (Key::CallbackPort, "callback_port"),
        (Key::RedirectUri, "callback_url"),
    ],
};

impl Dialect {
    /// Every dialect, and what it is called on the command line.
    pub(crate) const NAMES: [(&str, Self); 5] = [
        ("mcp-servers", Self::McpServersJson),
        ("vscode", Self::VsCodeJson),
        ("opencode", Self::OpencodeJson),
        ("servers-toml", Self::ServersToml),
        ("codex", Self::CodexToml),
    ];

    /// What it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map_or("", |(name, _)| name)
    }

    /// What its entries look like.
    pub(super) const fn format(self) -> &'static Format {
        match self {
            Self::McpServersJson => &MCP_SERVERS,
            Self::VsCodeJson => &VS_CODE,
            Self::OpencodeJson => &OF_OPENCODE,
            Self::ServersToml => &SERVERS_TOML,
            Self::CodexToml => &OF_CODEX,
        }
    }

    /// Whether its entries have the members that most programs share: our own among them, and variables as `${NAME}`.
    pub(super) const fn is_common(self) -> bool {
        matches!(self, Self::McpServersJson | Self::VsCodeJson | Self::ServersToml)
    }

    /// Whether it can say everything that an entry can hold, and that variables have defaults.
    pub(super) const fn is_complete(self) -> bool {
        matches!(self, Self::McpServersJson | Self::ServersToml)
    }
}

impl Format {
    /// Whether the dialect has a word for it that is written.
    pub(super) fn writes(&self, key: Key) -> bool {
        let groups = self.members.iter().chain(self.transport.unwrap_or_default()).chain([&OAUTH]);
        let is_known = groups.copied().flatten().any(|(known, _)| *known == key);
        (is_known || key == Key::OauthOff) && !self.unwritten.contains(&key)
    }

    /// The members of `oauth` that do not stand beside it.
    pub(super) fn oauth(&self) -> impl Iterator<Item = &'static Row> {
        OAUTH.iter().filter(|(key, _)| !self.members.iter().copied().flatten().any(|(known, _)| known == key))
    }
}

impl Transport {
    /// The transport without HTTP that the scheme of an address names.
    pub(super) fn of_scheme(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        let listening = [Self::Quic, Self::Tcp, Self::Unix];
        listening.into_iter().find(|transport| scheme.eq_ignore_ascii_case(transport.name()))
    }

    /// As `type` says it and as `servers` shows it.
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

    /// Why members for other transports are not used.
    pub(super) const fn reached(self) -> &'static str {
        match self {
            Self::Stdio => "the server is started as a program",
            Self::Http | Self::Sse => "the server is reached over HTTP",
            Self::Quic => "the server is reached over QUIC",
            Self::Tcp | Self::Unix => "the server is reached over a socket",
        }
    }

    /// Whether MCP is spoken over it without HTTP, at an address.
    pub(super) const fn is_socket(self) -> bool {
        matches!(self, Self::Quic | Self::Tcp | Self::Unix)
    }
}

impl Key {
    /// Whether it is a text of `oauth`.
    pub(super) const fn is_oauth(self) -> bool {
        matches!(self, Self::ClientId | Self::ClientSecret | Self::RedirectUri | Self::Scopes)
    }

    /// What it is called in `servers`, in the question about a definition and in the list of trusted definitions.
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
