//! The options of every verb with a server: how it is started, and how the connection is made.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use mcpjoin::proto::{Era, Version};

use crate::config::Readings;

use super::Questions;
use super::values::{Pin, duration, pin, size, version};

// The configuration to read. No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Configured {
    /// The configuration file in which the server is an entry
    ///
    /// `mcpServers` in JSON (with comments, too), `servers` of VS Code, `mcp` of opencode, `[[servers]]` in TOML, or
    /// `[mcp_servers.NAME]` of Codex. Without it: the file that MCP_CONFIG_PATH names; otherwise the first one with such
    /// an entry in the working directory (.mcp.json, mcp_servers.json, mcp_servers.toml, .vscode/mcp.json,
    /// .cursor/mcp.json, opencode.json, .codex/config.toml, .gemini/settings.json, .roo/mcp.json, .zed/settings.json,
    /// config/mcporter.json)
    /// and among the user's own (mcp/mcp_servers.toml, those of Claude, VS Code, Cursor, Codex, opencode, Windsurf, Gemini,
    /// LM Studio, Copilot CLI, Inspector, mcporter and Zed). `mcpjoin servers` shows which there are
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A configuration as JSON on the command line, or a file with one. Repeatable
    #[arg(long, value_name = "JSON or FILE")]
    pub(crate) mcp_config: Vec<OsString>,
    /// The files that were read, shared by all clones.
    #[arg(skip)]
    pub(crate) readings: Readings,
}

impl Configured {
    /// Whether a configuration is named, so that no other is searched.
    pub(crate) const fn is_named(&self) -> bool {
        self.config.is_some() || !self.mcp_config.is_empty()
    }
}

// The start of the server, and the connection to it. No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(crate) configured: Configured,
    /// The server as an entry of a configuration, instead of TARGET: for names with `/`, `#` or spaces
    #[arg(id = "server", long = "server", value_name = "NAME", action = ArgAction::Set)]
    pub(crate) servers: Vec<String>,
    /// Sends a header with every HTTP request: 'Name: value', or @FILE with one header per line, which keeps secrets off
    /// the command line. Values are never shown
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<OsString>,
    /// Ignores the tokens that `auth login` has stored
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Trusts the authorities in this file: over HTTPS in addition to those of the system, over QUIC only these.
    /// Certificates in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Over QUIC, trusts only the server whose key has this hash: sha256: and 64 hexadecimal digits, as the server prints
    /// it
    #[arg(long, value_name = "HASH", value_parser = pin, conflicts_with = "ca")]
    pub(crate) pin: Option<Pin>,
    /// Over QUIC, shows this certificate to a server that requires one: PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate: PEM; must be readable only by you (chmod 600)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// The folder of certificates for an orchestrator (orchestra://host:port). --cert, --key and --ca override its files.
    /// A leading ~ is your home folder [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR", help_heading = "Orchestra")]
    pub(crate) certs_dir: Option<String>,
    /// The name in the certificate of an orchestrator if it is not the host of the address: usually `orchestrator`
    #[arg(long, value_name = "NAME", help_heading = "Orchestra")]
    pub(crate) server_name: Option<String>,
    /// Sets a variable for the server; NAME without a value passes on the variable of this process. Values are never
    /// shown
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Passes on only the variables that programs need to run: HOME, LANG, LANGUAGE, LC_*, LOGNAME, PATH, SHELL, TEMP,
    /// TERM, TMP, TMPDIR, TZ, USER, XDG_*, SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, and HTTP_PROXY, HTTPS_PROXY,
    /// ALL_PROXY and NO_PROXY without a password. The default for entries of files that are not named with --config, and
    /// for `bridge --listen`. Variables of the entry and of -e are added
    #[arg(long)]
    pub(crate) env_clean: bool,
    /// Passes on all variables of this process. Secrets for mcpjoin itself (`MCPJOIN_CLIENT_SECRET`, `MCPJOIN_STATE_URL`, `MCPJOIN_INPUT_*`)
    /// are passed on only if they are named
    #[arg(long, conflicts_with = "env_clean")]
    pub(crate) inherit_env: bool,
    /// The server answers clients that come over a network or a socket.
    #[arg(skip)]
    pub(crate) for_others: bool,
    /// A URL without a path is not tried at `/mcp`: the verb looks for paths itself.
    #[arg(skip)]
    pub(crate) exact_url: bool,
    /// How the server's questions are answered; `None`: it may ask none.
    #[arg(skip)]
    pub(crate) questions: Option<Questions>,
    /// The server's working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The era of the protocol: with `initialize` (legacy, up to 2025-11-25), without (modern, 2026-07-28), or whichever
    /// the server speaks
    #[arg(long, value_name = "ERA", default_value = "auto")]
    pub(crate) era: EraChoice,
    /// Neither uses nor stores anything from earlier requests: the era of a server, the names of its tools, and results
    /// that the server marks as fresh
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Speaks only this version of the protocol
    #[arg(long, value_name = "DATE", value_parser = version)]
    pub(crate) protocol_version: Option<Version>,
    /// The timeout of a request; progress restarts it. Seconds, or with ms, s, m, h [default: 60s]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// The timeout of connecting to a socket or URL, and then of the opening request [default: 10s, 30s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// The largest message, each way: bytes, or with KiB, MiB, GiB [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_message_size: Option<usize>,
    /// Writes all messages, and the server's standard error, to a file: one JSON object per line. The values of -e, of an
    /// entry's variables and of headers are replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

impl Connect {
    /// Without any option but those of the configuration.
    pub(crate) fn to(configured: Configured, server: Option<String>) -> Self {
        Self { configured, servers: server.into_iter().collect(), ..Self::default() }
    }

    /// The entry that is named. Only `bridge` takes several, which it joins.
    pub(crate) fn server(&self) -> Option<&str> {
        self.servers.first().map(String::as_str)
    }

    /// With answers to the server's questions.
    pub(crate) fn answering(mut self, questions: Questions) -> Self {
        self.questions = Some(questions);
        self
    }

    /// The options that are given, in their order in the help.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self { configured, servers, header, no_auth, ca, pin, cert, key, certs_dir, server_name, .. } =
            self;
        let Self {
            env,
            env_clean,
            inherit_env,
            for_others: _,
            questions: _,
            cwd,
            era,
            no_cache,
            protocol_version,
            ..
        } = self;
        let Self { timeout, connect_timeout, max_message_size, trace, .. } = self;
        let options = [
            ("--config", configured.config.is_some()),
            ("--mcp-config", !configured.mcp_config.is_empty()),
            ("--server", !servers.is_empty()),
            ("--header", !header.is_empty()),
            ("--no-auth", *no_auth),
            ("--ca", ca.is_some()),
            ("--pin", pin.is_some()),
            ("--cert", cert.is_some()),
            ("--key", key.is_some()),
            ("--certs-dir", certs_dir.is_some()),
            ("--server-name", server_name.is_some()),
            ("-e", !env.is_empty()),
            ("--env-clean", *env_clean),
            ("--inherit-env", *inherit_env),
            ("--cwd", cwd.is_some()),
            ("--era", *era != EraChoice::Auto),
            ("--no-cache", *no_cache),
            ("--protocol-version", protocol_version.is_some()),
            ("--timeout", timeout.is_some()),
            ("--connect-timeout", connect_timeout.is_some()),
            ("--max-message-size", max_message_size.is_some()),
            ("--trace", trace.is_some()),
        ];
        options.into_iter().filter_map(|(option, is_given)| is_given.then_some(option))
    }
}

/// The era of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    #[default]
    Auto,
    Legacy,
    Modern,
}

impl EraChoice {
    /// The only selected era.
    pub(crate) const fn asked(self) -> Option<Era> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some(Era::Legacy),
            Self::Modern => Some(Era::Modern),
        }
    }

    /// Whether the legacy era is selected.
    pub(crate) const fn has_legacy(self) -> bool {
        !matches!(self, Self::Modern)
    }

    /// Whether the modern era is selected.
    pub(crate) const fn has_modern(self) -> bool {
        !matches!(self, Self::Legacy)
    }
}
