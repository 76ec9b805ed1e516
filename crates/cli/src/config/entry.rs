//! An entry of any dialect: how the server is started or reached, and what limits its use.
//!
//! `launch`, `members`, `survey` and `convert` work on the [`Definition`] that is read here with the tables of `dialect`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::called;
use super::dialect::{COMMAND, Dialect, Format, Key, OAUTH, Rows, Transport, Type};
use super::filter::ToolFilter;
use super::parsed_file::TOP_LEVEL;
use super::source::Problem;
use super::tree::{Member, Node, Text, Value, find, similar, unknown};
use super::variables::is_name;

/// The content of an entry, with references unexpanded.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Definition {
    pub(super) transport: Transport,
    /// Its texts, in the order of their keys.
    pub(super) settings: Vec<Setting>,
    pub(super) callback: Option<CallbackPort>,
    /// No stored login is used.
    pub(super) oauth_off: bool,
    pub(super) description: Option<String>,
    pub(super) tools: ToolFilter,
    /// How long a request may take.
    pub(super) timeout: Option<Duration>,
    /// How long the server may take to open the session.
    pub(super) opening: Option<Duration>,
    /// The place of the member that disables it for other programs.
    pub(super) disabled: Option<usize>,
    /// Members that are unknown or not used.
    pub(super) warnings: Vec<Problem>,
}

/// A text of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: Key,
    /// The name of a variable, a header or a member of `oauth`. Otherwise empty.
    pub(super) name: String,
    pub(super) text: Text,
}

impl Setting {
    /// Whether references in it are expanded.
    pub(super) fn is_expanded(&self) -> bool {
        self.key <= Key::Scopes && self.key != Key::EnvVars
    }

    /// Writes a text that is the reference `$env:NAME` of mcporter as `${NAME}`.
    fn with_braces(&mut self) {
        let name = self.text.text.strip_prefix("$env:").filter(|name| is_name(name));
        if let Some(name) = name.filter(|_| self.is_expanded()) {
            self.text.text = format!("${{{name}}}");
        }
    }
}

/// The port that is registered for the redirect of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallbackPort {
    pub(super) port: u16,
    /// It is spelled `callbackPort`: programs with this spelling redirect to the name `localhost`.
    pub(super) by_name: bool,
}

impl Definition {
    /// Reads an entry.
    ///
    /// # Errors
    /// When it cannot be used as it is: the first fault.
    pub(super) fn read(dialect: Dialect, entry: &Node) -> Result<Self, Problem> {
        let format = dialect.format();
        let given = KnownMembers::read(entry.members("an entry")?, format.members)?;
        let server = match format.transport {
            None => None,
            Some(spellings) => {
                let transport = given.get(Key::Transport).ok_or_else(|| {
                    let text = "transport is missing: transport = { type = \"stdio\", command = ... }";
                    Problem::new(entry.at, text)
                })?;
                Some((KnownMembers::read(transport.node.members("transport")?, spellings)?, transport.at))
            }
        };
        let mut reader = Reader { dialect, format, read: Self::default() };
        match &server {
            None => reader.server(&given, entry.at)?,
            Some((server, at)) => {
                reader.server(server, *at)?;
                reader.read.warnings.extend(server.unknown(&[]));
            }
        }
        reader.rest(&given)?;
        Ok(reader.read)
    }

    /// The texts of that key.
    pub(super) fn of(&self, key: Key) -> impl Iterator<Item = &Setting> + Clone {
        self.settings.iter().filter(move |setting| setting.key == key)
    }

    /// The first text of that key.
    pub(super) fn text(&self, key: Key) -> Option<&Text> {
        self.of(key).next().map(|setting| &setting.text)
    }

    /// Whether it has a text of that key.
    pub(super) fn has(&self, key: Key) -> bool {
        self.of(key).next().is_some()
    }
}

/// The members of a table by their keys.
struct KnownMembers<'a> {
    members: &'a [Member],
    spellings: &'static [Rows],
    found: Vec<(Key, &'a Member)>,
}

impl<'a> KnownMembers<'a> {
    fn read(members: &'a [Member], spellings: &'static [Rows]) -> Result<Self, Problem> {
        let mut found = Vec::new();
        for (key, spellings) in spellings.iter().copied().flatten() {
            found.extend(find(members, spellings)?.map(|member| (*key, member)));
        }
        Ok(Self { members, spellings, found })
    }

    fn get(&self, key: Key) -> Option<&'a Member> {
        self.found.iter().find(|(known, _)| *known == key).map(|(_, member)| *member)
    }

    /// The problem of an entry without a command and a URL, or that of the member that was probably meant to be one of them.
    fn meant(&self, problem: Problem) -> Problem {
        let of_member = |member: &Member| {
            let meant = similar(&member.name, ["command", "url"])?;
            let text = format!("did you mean \"{meant}\" instead of {}?", called(&member.name));
            Some(Problem::new(member.at, text))
        };
        self.members.iter().find_map(of_member).unwrap_or(problem)
    }

    /// A warning for each member that is not in the tables.
    fn unknown(&self, ignored: &'static [&'static str]) -> Vec<Problem> {
        let known: Vec<&str> =
            self.spellings.iter().copied().flatten().flat_map(|(_, spellings)| *spellings).copied().collect();
        unknown(self.members, &known, ignored).collect()
    }
}

/// The keys without an effect for a program.
const NOT_OF_A_PROGRAM: &[Key] = &[Key::Url, Key::Pin, Key::Ca, Key::Cert, Key::IdentityFile];

/// The keys with an effect over HTTP alone.
const OF_HTTP: &[Key] = &[
    Key::Headers,
    Key::HeaderVars,
    Key::BearerVar,
    Key::Bearer,
    Key::Oauth,
    Key::Scopes,
    Key::FlatClientId,
    Key::FlatClientSecret,
    Key::ClientSecretVar,
    Key::FlatRedirectUri,
    Key::FlatScopes,
];

/// Members of mcporter that are not used, and what to do or why.
const NOT_USED: [(&str, &str); 5] = [
    ("oauthCommand", LOGIN_COMMAND),
    ("oauth_command", LOGIN_COMMAND),
    ("oauthTokenEndpointAuthMethod", AUTH_METHOD),
    ("oauth_token_endpoint_auth_method", AUTH_METHOD),
    ("refresh", "mcpjoin refreshes the tokens of the logins that it stores (mcpjoin auth login)"),
];
const LOGIN_COMMAND: &str = "log in with that command of the server, before you use the entry";
const AUTH_METHOD: &str = "the metadata of the authorization server decides how the client authenticates";

/// The state of reading an entry.
struct Reader {
    dialect: Dialect,
    format: &'static Format,
    /// The definition so far.
    read: Definition,
}

impl Reader {
    /// Reads how the server is reached. `at`: the place for the problem of a missing member.
    fn server(&mut self, given: &KnownMembers<'_>, at: usize) -> Result<(), Problem> {
        let mut command = given.get(Key::Command);
        let (mut args, mut env) = (given.get(Key::Args), given.get(Key::Env));
        // Zed used to write all three as one object.
        if self.dialect.is_common()
            && let Some(Member { node: Node { at, value: Value::Table(members) }, .. }) = command
        {
            let program = KnownMembers::read(members, &[COMMAND])?;
            command = program.get(Key::Command);
            if command.is_none() {
                return Err(Problem::new(*at, "command must be a string, or an object with path"));
            }
            (args, env) = (program.get(Key::Args).or(args), program.get(Key::Env).or(env));
            self.read.warnings.extend(program.unknown(&[]));
        }
        let url = given.get(Key::Url);
        let kind = self
            .kind(given.get(Key::Type), command, url, at)
            .map_err(|problem| if command.or(url).is_none() { given.meant(problem) } else { problem })?;
        if kind == Type::Is(Transport::Stdio) {
            self.unused(given, NOT_OF_A_PROGRAM);
            self.unused(given, OF_HTTP);
            return self.program(given, command, args, env, at);
        }
        let url = url.ok_or_else(|| Problem::new(at, "needs \"url\""))?;
        let transport = match kind {
            Type::Is(transport) => transport,
            Type::ByUrl => Transport::of_scheme(&url.text()?.text).unwrap_or(Transport::Http),
        };
        self.read.transport = transport;
        if !transport.is_socket() {
            self.push(Key::Url, http_address(url, kind == Type::ByUrl)?);
        }
        self.warn_unused([command, args, env]);
        self.unused(given, &[Key::EnvFile, Key::Cwd]);
        if transport.is_socket() {
            self.unused(given, OF_HTTP);
            self.socket(given, url, transport)
        } else {
            self.unused(given, &[Key::EnvVars, Key::Pin, Key::Cert, Key::IdentityFile]);
            self.http(given)
        }
    }

    /// The type that is given, or else the type by the members.
    fn kind(
        &self,
        kind: Option<&Member>,
        command: Option<&Member>,
        url: Option<&Member>,
        at: usize,
    ) -> Result<Type, Problem> {
        let Format { types, types_named, .. } = self.format;
        match (kind, command, url) {
            (Some(member), ..) => {
                let word = member.text()?.text;
                let known = types.iter().find(|(spelling, _)| *spelling == word);
                known.map(|(_, kind)| *kind).ok_or_else(|| {
                    Problem::new(member.node.at, format!("{} must be {types_named}", member.name))
                })
            }
            _ if self.dialect == Dialect::OpencodeJson => {
                Err(Problem::new(at, format!("type is missing: {types_named}")))
            }
            (None, Some(_), Some(url)) => {
                Err(Problem::new(url.at, "both command and url are set: leave out one of them"))
            }
            (None, Some(_), None) => Ok(Type::Is(Transport::Stdio)),
            (None, None, Some(_)) if self.dialect.is_common() => Ok(Type::ByUrl),
            (None, None, Some(_)) => Ok(Type::Is(Transport::Http)),
            (None, None, None) => Err(Problem::new(at, "needs either \"command\" or \"url\"")),
        }
    }

    fn program(
        &mut self,
        given: &KnownMembers<'_>,
        command: Option<&Member>,
        args: Option<&Member>,
        env: Option<&Member>,
        at: usize,
    ) -> Result<(), Problem> {
        let command = command.ok_or_else(|| Problem::new(at, "needs \"command\""))?;
        let empty = || Problem::new(command.node.at, "command is empty");
        let mut words = if self.dialect == Dialect::OpencodeJson {
            command.node.texts("command")?
        } else {
            vec![command.node.text("command").map_err(|mut problem| {
                if self.dialect.is_common() {
                    problem.text.push_str("; its arguments belong in args");
                }
                problem
            })?]
        }
        .into_iter();
        let program = words.next().filter(|program| !program.text.is_empty());
        self.push(Key::Command, program.ok_or_else(empty)?);
        words.for_each(|word| self.push(Key::Args, word));
        self.text(Key::Cwd, given)?;
        if let Some(file) = self.text(Key::EnvFile, given)?.filter(|file| file.text.is_empty()) {
            return Err(Problem::new(file.at, "envFile is empty"));
        }
        self.texts(Key::Args, args)?;
        // The case of the name of a variable counts.
        let is_variable = |name: &str| !name.contains(['=', '\0']);
        for (name, text) in pairs(env, is_variable, str::to_owned)? {
            self.read.settings.push(Setting { key: Key::Env, name, text });
        }
        for name in passed(given.get(Key::EnvVars))? {
            self.push(Key::EnvVars, name);
        }
        Ok(())
    }

    fn http(&mut self, given: &KnownMembers<'_>) -> Result<(), Problem> {
        self.text(Key::Ca, given)?;
        for (name, text) in headers(given.get(Key::Headers))? {
            self.read.settings.push(Setting { key: Key::Headers, name, text });
        }
        for (name, variable) in headers(given.get(Key::HeaderVars))? {
            self.header(name, of_variable("", variable)?)?;
        }
        if let Some(bearer) = given.get(Key::BearerVar) {
            self.header("Authorization".into(), of_variable("Bearer ", bearer.text()?)?)?;
        }
        if let Some(bearer) = given.get(Key::Bearer) {
            let token = bearer.text()?;
            self.header(
                "Authorization".into(),
                Text { text: format!("Bearer {}", token.text), at: token.at },
            )?;
        }
        self.scopes(given.get(Key::Scopes))?;
        self.login(given.get(Key::Oauth))?;
        self.flat_login(given)
    }

    /// Adds a header. Two of one name are a fault.
    fn header(&mut self, name: String, text: Text) -> Result<(), Problem> {
        let is_same = |known: &Setting| known.key == Key::Headers && known.name.eq_ignore_ascii_case(&name);
        if self.read.settings.iter().any(is_same) {
            return Err(Problem::new(text.at, format!("{} is given twice", called(&name))));
        }
        self.read.settings.push(Setting { key: Key::Headers, name, text });
        Ok(())
    }

    /// Reads the settings for logins: a table, or whether a stored login is used.
    fn login(&mut self, member: Option<&Member>) -> Result<(), Problem> {
        let Some(member) = member else { return Ok(()) };
        if let Value::Bool(on) = member.node.value {
            self.read.oauth_off = !on;
            return Ok(());
        }
        let given = KnownMembers::read(member.node.members(&member.name)?, &[OAUTH])?;
        for (key, name) in [(Key::ClientId, "clientId"), (Key::ClientSecret, "clientSecret")] {
            self.oauth_text(key, name, given.get(key))?;
        }
        if let Some(port) = given.get(Key::CallbackPort) {
            let number = u16::try_from(port.node.whole("oauth.callbackPort")?).ok().filter(|port| *port > 0);
            let wrong = || Problem::new(port.node.at, "oauth.callbackPort must be a port: from 1 to 65535");
            let by_name = port.name == "callbackPort";
            self.read.callback = Some(CallbackPort { port: number.ok_or_else(wrong)?, by_name });
        }
        self.scopes(given.get(Key::Scopes))?;
        self.oauth_text(Key::RedirectUri, "redirectUri", given.get(Key::RedirectUri))?;
        self.read.warnings.extend(given.get(Key::MetadataUrl).map(|member| {
            let text = "oauth.authServerMetadataUrl is not used: mcpjoin asks the server for its \
                authorization server (mcpjoin auth explain shows how)";
            Problem::new(member.at, text)
        }));
        self.read.warnings.extend(given.unknown(&[]).into_iter().map(|problem| {
            let text = format!("oauth: {}", problem.text);
            Problem { text, ..problem }
        }));
        Ok(())
    }

    /// Reads the settings for logins that are members of the entry itself.
    fn flat_login(&mut self, given: &KnownMembers<'_>) -> Result<(), Problem> {
        for (flat, key, name) in [
            (Key::FlatClientId, Key::ClientId, "clientId"),
            (Key::FlatClientSecret, Key::ClientSecret, "clientSecret"),
            (Key::ClientSecretVar, Key::ClientSecret, "clientSecret"),
            (Key::FlatRedirectUri, Key::RedirectUri, "redirectUri"),
        ] {
            let Some(member) = given.get(flat) else { continue };
            let text = member.text()?;
            if self.read.has(key) {
                return Err(Problem::new(member.at, format!("{name} of oauth is given twice")));
            }
            let text = if flat == Key::ClientSecretVar { of_variable("", text)? } else { text };
            self.read.settings.push(Setting { key, name: name.into(), text });
        }
        self.scopes(given.get(Key::FlatScopes))
    }

    fn oauth_text(&mut self, key: Key, name: &str, member: Option<&Member>) -> Result<(), Problem> {
        if let Some(member) = member {
            let text = member.node.text(&format!("oauth.{name}"))?;
            self.read.settings.push(Setting { key, name: name.into(), text });
        }
        Ok(())
    }

    /// Reads scopes: one text with blanks between them, or a list.
    fn scopes(&mut self, member: Option<&Member>) -> Result<(), Problem> {
        let Some(member) = member else { return Ok(()) };
        let texts = match member.node.value {
            Value::List(_) => member.node.texts(&member.name)?,
            _ => vec![member.text()?],
        };
        let setting = |text| Setting { key: Key::Scopes, name: "scopes".into(), text };
        self.read.settings.extend(texts.into_iter().map(setting));
        Ok(())
    }

    /// Reads an address without HTTP, and for QUIC the certificates of both sides.
    fn socket(
        &mut self,
        given: &KnownMembers<'_>,
        url: &Member,
        transport: Transport,
    ) -> Result<(), Problem> {
        let text = url.text()?;
        // A variable may hold the whole address.
        if Transport::of_scheme(&text.text) != Some(transport) && !text.text.starts_with("${") {
            let slashes = if transport == Transport::Unix { "" } else { "//" };
            let problem = format!("{} must begin with {}:{slashes}", url.name, transport.name());
            return Err(Problem::new(text.at, problem));
        }
        self.push(Key::Url, text);
        let sides = [Key::Pin, Key::Ca, Key::Cert, Key::IdentityFile];
        if transport != Transport::Quic {
            self.unused(given, &sides);
            return Ok(());
        }
        let [pin, ca, cert, key] = sides.map(|key| given.get(key));
        if let (Some(_), Some(ca)) = (pin, ca) {
            return Err(Problem::new(ca.at, "both pin and ca are set: leave out one of them"));
        }
        if let (Some(one), None) | (None, Some(one)) = (cert, key) {
            return Err(Problem::new(one.at, "cert and key belong together, and one of them is missing"));
        }
        sides.into_iter().try_for_each(|key| self.text(key, given).map(drop))
    }

    /// Reads what limits the use of the server, and makes the definition.
    fn rest(&mut self, given: &KnownMembers<'_>) -> Result<(), Problem> {
        let description = given.get(Key::Description).map(Member::text).transpose()?;
        self.read.description = description.map(|text| text.text);
        self.texts(Key::AllowedTools, given.get(Key::AllowedTools))?;
        self.texts(Key::DisabledTools, given.get(Key::DisabledTools))?;
        match given.get(Key::Tools) {
            Some(Member { at, node: Node { value: Value::List(names), .. }, .. }) if names.is_empty() => {
                self.push(Key::DisabledTools, Text { text: "*".into(), at: *at });
            }
            Some(member) if matches!(member.node.value, Value::List(_)) => {
                self.texts(Key::AllowedTools, Some(member))?;
            }
            Some(member) => {
                let text = "tools is not used: it is not a list of names";
                self.read.warnings.push(Problem::new(member.at, text));
            }
            None => {}
        }
        if self.dialect.is_common() && !self.read.transport.is_socket() {
            self.bare_names();
        }
        let time = |in_ms, in_sec| {
            let seconds = given.get(in_sec).map(|member| member.node.seconds(&member.name)).transpose()?;
            let time = given.get(in_ms).map(|member| member.node.time(&member.name, 1)).transpose()?;
            Ok::<_, Problem>(time.or(seconds))
        };
        self.read.opening = time(Key::OpeningMs, Key::OpeningSec)?;
        self.read.timeout = time(Key::TimeoutMs, Key::TimeoutSec)?;
        let says = |key, value| match given.get(key) {
            Some(member) => Ok((member.node.bool(&member.name)? == value).then_some(member.at)),
            None => Ok::<_, Problem>(None),
        };
        let off = says(Key::Disabled, true)?;
        self.read.disabled = says(Key::Enabled, false)?.or(off);
        let unknown = given.unknown(self.format.ignored);
        self.read.warnings.extend(unknown.into_iter().map(|problem| explained(self.dialect, problem)));
        if self.dialect.is_common() {
            self.read.settings.iter_mut().for_each(Setting::with_braces);
        }
        self.read.settings.sort_by_key(|setting| setting.key);
        let patterns = |key| self.read.of(key).map(|setting| &setting.text);
        self.read.tools = ToolFilter::new(patterns(Key::AllowedTools), patterns(Key::DisabledTools))?;
        Ok(())
    }

    /// Warns of `$NAME` without braces, which Gemini CLI expands and which is passed on here. In arguments it may be for a shell. The
    /// message quotes nothing, since a secret may begin like that.
    fn bare_names(&mut self) {
        let found = self.read.settings.iter().filter(|setting| {
            matches!(setting.key, Key::Env | Key::Url | Key::Headers) && has_bare_name(&setting.text.text)
        });
        let text = "a $NAME in it is passed on unchanged: ${NAME} is replaced by the variable";
        self.read.warnings.extend(found.map(|setting| Problem::new(setting.text.at, text)));
    }

    fn push(&mut self, key: Key, text: Text) {
        self.read.settings.push(Setting { key, name: String::new(), text });
    }

    /// Reads a text, where it is given.
    fn text(&mut self, key: Key, given: &KnownMembers<'_>) -> Result<Option<Text>, Problem> {
        let text = given.get(key).map(Member::text).transpose()?;
        text.iter().for_each(|text| self.push(key, text.clone()));
        Ok(text)
    }

    /// Reads a list of texts, where it is given.
    fn texts(&mut self, key: Key, member: Option<&Member>) -> Result<(), Problem> {
        let texts = member.map_or(Ok(Vec::new()), |member| member.node.texts(&member.name))?;
        texts.into_iter().for_each(|text| self.push(key, text));
        Ok(())
    }

    /// Warns of members of these keys, which have no effect for the transport.
    fn unused(&mut self, given: &KnownMembers<'_>, keys: &[Key]) {
        self.warn_unused(keys.iter().map(|key| given.get(*key)));
    }

    /// Warns of members that have no effect for the transport, unless they are empty.
    fn warn_unused<'a>(&mut self, members: impl IntoIterator<Item = Option<&'a Member>>) {
        let is_empty = |value: &Value| match value {
            Value::List(items) => items.is_empty(),
            Value::Table(members) => members.is_empty(),
            Value::Text(text) => text.is_empty(),
            _ => false,
        };
        let given = members.into_iter().flatten().filter(|member| !is_empty(&member.node.value));
        let why = self.read.transport.reached();
        let problem =
            |member: &Member| Problem::new(member.at, format!("{} is not used: {why}", member.name));
        self.read.warnings.extend(given.map(problem));
    }
}

/// The warning about an unknown member, with advice for common ones.
fn explained(dialect: Dialect, mut unknown: Problem) -> Problem {
    let not_used = NOT_USED.iter().find(|(name, _)| unknown.text.starts_with(&format!("{name} ")));
    if let Some((name, why)) = not_used.filter(|_| dialect.is_common()) {
        unknown.text = format!("{name} is not used: {why}");
        return unknown;
    }
    let is_top_level = || TOP_LEVEL.iter().any(|name| unknown.text.starts_with(&format!("{name} ")));
    if dialect == Dialect::ServersToml && is_top_level() {
        unknown.text.push_str(": it belongs above the first [[servers]]");
    } else if dialect.is_common() && unknown.text.starts_with("timeout ") {
        unknown.text =
            "timeout is not used, because its unit differs between programs: use --timeout, or timeoutMs \
             in a file that only mcpjoin reads"
                .into();
    }
    unknown
}

/// Whether a word of the text is `$NAME` in capitals, as names of variables are.
fn has_bare_name(text: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$".contains(c)));
    words.any(|word| {
        let name = word.strip_prefix('$').unwrap_or_default();
        name.len() > 1 && is_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
    })
}

/// The address of a server over HTTP. `any`: the entry allows other transports, too.
fn http_address(url: &Member, any: bool) -> Result<Text, Problem> {
    let text = url.text()?;
    let scheme = text.text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if let Some("sse+http" | "sse+https") = scheme.as_deref() {
        let problem =
            format!("{} must begin with http:// or https://; for HTTP+SSE set type to sse", url.name);
        return Err(Problem::new(text.at, problem));
    }
    // A variable may hold the whole address.
    if !matches!(scheme.as_deref(), Some("http" | "https")) && !text.text.starts_with("${") {
        let schemes = if any { "http://, https://, quic://, tcp:// or unix:" } else { "http:// or https://" };
        return Err(Problem::new(text.at, format!("{} must begin with {schemes}", url.name)));
    }
    Ok(text)
}

/// Headers: their names are [tokens](https://www.rfc-editor.org/rfc/rfc9110#section-5.1) without regard to case.
fn headers(member: Option<&Member>) -> Result<Vec<(String, Text)>, Problem> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    pairs(member, |name| name.chars().all(token), str::to_ascii_lowercase)
}

/// Names and texts. `key`: the part of a name that must be unique.
fn pairs(
    member: Option<&Member>,
    is_name: impl Fn(&str) -> bool,
    key: impl Fn(&str) -> String,
) -> Result<Vec<(String, Text)>, Problem> {
    let Some(member) = member else {
        return Ok(Vec::new());
    };
    let mut known = BTreeSet::new();
    let mut pairs = Vec::new();
    for pair in member.node.members(&member.name)? {
        let name = &pair.name;
        if name.is_empty() || !is_name(name) {
            return Err(Problem::new(pair.at, format!("{} has an invalid name", member.name)));
        }
        if !known.insert(key(name)) {
            return Err(Problem::new(pair.at, format!("{} is given twice", called(name))));
        }
        pairs.push((name.clone(), pair.node.text(&format!("{}.{}", member.name, called(name)))?));
    }
    Ok(pairs)
}

/// The names of our variables that are passed on: each is a name, or a table with its source. Variables from another machine are
/// left out.
fn passed(member: Option<&Member>) -> Result<Vec<Text>, Problem> {
    let mut names = Vec::new();
    for item in member.map_or(Ok(&[][..]), |member| member.node.items("env_vars"))? {
        let name = match &item.value {
            Value::Table(members) => {
                let source = find(members, &["source"])?.map(Member::text).transpose()?;
                let missing = || Problem::new(item.at, "each of env_vars must have a name");
                let name = find(members, &["name"])?.ok_or_else(missing)?.text()?;
                if source.is_some_and(|source| source.text != "local") {
                    continue;
                }
                name
            }
            _ => item.text("each of env_vars")?,
        };
        names.push(variable_name(name)?);
    }
    Ok(names)
}

/// A reference to the variable of that name, with a prefix.
fn of_variable(before: &str, name: Text) -> Result<Text, Problem> {
    let Text { at, text } = variable_name(name)?;
    Ok(Text { at, text: format!("{before}${{{text}}}") })
}

fn variable_name(name: Text) -> Result<Text, Problem> {
    if is_name(&name.text) {
        Ok(name)
    } else {
        Err(Problem::new(
            name.at,
            "this is not a valid name of a \
        variable",
        ))
    }
}
