//! From the definition of an entry to what is started or reached: variables are expanded, secrets collected, and the command or
//! the address is made as it may be shown.
//!
//! Called by `connect` through `config::launch`, and by `survey` to find missing variables.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dialect::{Key, Transport};
use super::dotenv;
use super::entry::{Definition, Setting};
use super::filter::ToolFilter;
use super::question::Untrusted;
use super::source::Problem;
use super::tree::Text;
use super::variables::{Expansion, Names};
use crate::args::{Callback, Pin};
use crate::secret;
use crate::target::{Http, Quic, Socket, command_shown, exact, shown};

/// Variables whose values are no secrets, since every process has them.
const PUBLIC_VARIABLES: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// How the server of an entry is started or reached.
pub(crate) struct Launch {
    pub(crate) destination: Destination,
    pub(crate) timeout: Option<Duration>,
    /// How long the server may take to open the session.
    pub(crate) opening: Option<Duration>,
    pub(crate) tools: ToolFilter,
    /// The texts that must not be shown from now on.
    pub(crate) secrets: Vec<OsString>,
    /// The command or the address as the user would type it, with references unexpanded.
    pub(crate) shown: String,
    /// The place of the entry.
    pub(crate) place: Option<Place>,
    /// The command or the address, and its place, on one line.
    pub(crate) say: String,
    /// The file is in the working directory and was not named: the entry is shown before it is used.
    pub(crate) unasked: bool,
    /// The user has not named the file.
    pub(crate) found: bool,
    /// The definition that the user has to trust first.
    pub(crate) untrusted: Option<Untrusted>,
    /// The program or the host, where the file names it without a variable: it is shown although it may equal a secret.
    pub(crate) kept: Option<String>,
}

/// The place of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// What an entry starts or reaches, with all references expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Program(Program),
    Remote(Remote),
    Socket(Socket),
    Quic(Secured),
    /// Never of an entry.
    Orchestrator(Quic),
}

/// A server that is reached over QUIC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    pub(crate) address: Quic,
    pub(crate) pin: Option<Pin>,
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// A program that is started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// A server that is reached over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) address: Http,
    pub(crate) headers: Vec<(String, String)>,
    /// The file of authorities that are trusted beside the system's.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) oauth: Oauth,
}

/// The settings of an entry for logins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oauth {
    /// The client that is registered with the authorization server.
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    /// The redirect that is registered for the client.
    pub(crate) callback: Option<Callback>,
    pub(crate) scopes: Vec<String>,
    /// No stored login is to be used.
    pub(crate) off: bool,
}

/// Expands the definition.
///
/// # Errors
/// When a value is missing, or an expanded text cannot be used.
pub(super) fn launch(definition: &Definition, names: &Names<'_>) -> Result<Launch, Problem> {
    let key = if definition.transport == Transport::Stdio { Key::Command } else { Key::Url };
    // Every definition has one.
    let Some(target) = definition.text(key) else {
        return Err(Problem::new(0, "needs either \"command\" or \"url\""));
    };
    let expansion = Expansion::new(names);
    if key == Key::Command {
        program(definition, target, names, expansion)
    } else {
        address(definition, target, expansion)
    }
}

/// Each variable that is not set, and each other problem of expanding the texts.
pub(super) fn missing(definition: &Definition, names: &Names<'_>) -> Vec<Problem> {
    let expanded = definition.settings.iter().filter(|setting| setting.is_expanded());
    let (env, others): (Vec<_>, Vec<_>) = expanded.partition(|setting| setting.key == Key::Env);
    let settings = others.into_iter().chain(env);
    settings.filter_map(|setting| Expansion::new(names).expand(&setting.text).err()).collect()
}

/// The problem of a directory that does not exist. Starting the program in it would fail with a worse message.
pub(super) fn without_directory(definition: &Definition, launch: &Launch) -> Option<Problem> {
    let (Some(written), Destination::Program(Program { cwd: Some(cwd), .. })) =
        (definition.text(Key::Cwd), &launch.destination)
    else {
        return None;
    };
    let problem = || {
        let text = format!("cwd is not a directory: {}", shown(written.text.as_ref()));
        Problem::new(written.at, text).hint("create the directory, correct cwd, or use --cwd")
    };
    (!cwd.is_dir()).then(problem)
}

/// The problem of a server over QUIC without a key or an authority to trust.
pub(super) fn without_trust(definition: &Definition) -> Option<Problem> {
    let says_whom = definition.has(Key::Pin) || definition.has(Key::Ca);
    let url = definition.text(Key::Url).filter(|_| definition.transport == Transport::Quic && !says_whom)?;
    Some(Problem::new(url.at, "the server's identity is unknown: pin or ca is missing").hint(
        "pin is the server's key (sha256:HEX, from its output); ca is a file with the authorities that \
             signed its certificate",
    ))
}

/// The variables of the `envFile`; none where there is no such file.
pub(super) fn variables(
    definition: &Definition,
    names: &Names<'_>,
) -> Result<Vec<dotenv::Variable>, Problem> {
    let Some(file) = definition.text(Key::EnvFile) else { return Ok(Vec::new()) };
    let path = names.path(Path::new(&Expansion::new(names).expand(file)?));
    dotenv::read(&path, &names.texts).map_err(|why| {
        Problem::new(file.at, format!("the file of variables cannot be used: {why}"))
            .hint("correct envFile, or fix the file")
    })
}

fn program(
    definition: &Definition,
    command: &Text,
    names: &Names<'_>,
    mut expansion: Expansion<'_>,
) -> Result<Launch, Problem> {
    let program = expansion.expand(command)?;
    if program.is_empty() {
        return Err(Problem::new(command.at, "command is empty"));
    }
    let args = || definition.of(Key::Args).map(|arg| &arg.text);
    let written: Vec<OsString> = args().map(|arg| OsString::from(&arg.text)).collect();
    let mut secrets = written_secrets(&written);
    let words = args().map(|arg| expansion.expand(arg)).collect::<Result<_, _>>()?;
    let display = command_shown(&command.text, args().map(|arg| arg.text.as_str()));
    let mut say = display.clone();
    if let Some(cwd) = definition.text(Key::Cwd) {
        say.push_str(&format!(", in {}", shown(cwd.text.as_ref())));
    }
    say.push_str(&names_of(definition, Key::Env, "set"));
    if let Some(file) = definition.text(Key::EnvFile) {
        say.push_str(&format!(", with the variables of {}", shown(file.text.as_ref())));
    }
    let cwd = definition.text(Key::Cwd).map(|cwd| expansion.expand(cwd).map(PathBuf::from)).transpose()?;
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let is_set = |name: &str| definition.of(Key::Env).any(|variable| variable.name == name);
    for Setting { text: Text { text: name, .. }, .. } in definition.of(Key::EnvVars) {
        let Some(value) = (names.lookup)(name).filter(|_| !is_set(name)) else { continue };
        let is_secret = !PUBLIC_VARIABLES.contains(&name.as_str()) && secret::is_hidden(name, &value);
        secrets.extend(is_secret.then(|| value.clone()));
        env.push((name.into(), value));
    }
    for dotenv::Variable { name, value, .. } in variables(definition, names)? {
        secrets.extend(Some(OsString::from(&value)).filter(|value| secret::is_hidden(&name, value)));
        if !is_set(&name) {
            env.push((name.into(), value.into()));
        }
    }
    for Setting { name, text, .. } in definition.of(Key::Env) {
        let value = expansion.expand(text)?;
        secrets.extend(secret::is_hidden(name, &value).then(|| value.clone()));
        env.push((name.into(), value));
    }
    let kept = (program == *command.text).then(|| command.text.clone());
    let destination = Destination::Program(Program { program, args: words, env, cwd });
    Ok(Launch { kept, say, secrets: all_secrets(secrets, expansion), ..Launch::new(destination, display) })
}

/// A server at an address.
fn address(definition: &Definition, url: &Text, mut expansion: Expansion<'_>) -> Result<Launch, Problem> {
    let mut secrets = written_secrets(&[OsString::from(&url.text)]);
    let display = exact(&secret::masked([url.text.as_str()]).concat());
    let address = unicode(&mut expansion, url, "url")?;
    // The whole value of a variable may be a secret.
    secrets.extend(secret::values(&[OsString::from(&address)]));
    let host = secret::host(&address).filter(|host| secret::host(&url.text) == Some(host));
    let kept = host.map(str::to_owned);
    let wrong = |problem| Problem::new(url.at, format!("url is invalid: {problem}"));
    let destination = match definition.transport {
        Transport::Stdio | Transport::Http | Transport::Sse => {
            let mut address = Http::parse(&address).map_err(wrong)?;
            address.sse |= definition.transport == Transport::Sse;
            let mut headers = Vec::new();
            for Setting { name, text, .. } in definition.of(Key::Headers) {
                let value = unicode(&mut expansion, text, "a header")?;
                secrets.extend(secret::of_header(name, &value));
                headers.push((name.clone(), value));
            }
            let ca = expansion.path(definition.text(Key::Ca))?;
            let oauth = login(definition, &mut expansion)?;
            secrets.extend(oauth.client_secret.iter().map(OsString::from));
            Destination::Remote(Remote { address, headers, ca, oauth })
        }
        Transport::Quic => {
            let mut pin = None;
            if let Some(text) = definition.text(Key::Pin) {
                let wrong = |why| Problem::new(text.at, format!("pin: {why}"));
                pin = Some(crate::args::pin(&unicode(&mut expansion, text, "pin")?).map_err(wrong)?);
            }
            let cert = expansion.path(definition.text(Key::Cert))?;
            let identity = cert.zip(expansion.path(definition.text(Key::IdentityFile))?);
            let ca = expansion.path(definition.text(Key::Ca))?;
            Destination::Quic(Secured { address: Quic::parse(&address).map_err(wrong)?, pin, ca, identity })
        }
        Transport::Tcp | Transport::Unix => Destination::Socket(Socket::parse(&address).map_err(wrong)?),
    };
    let say = format!("{display}{}", names_of(definition, Key::Headers, "sent"));
    Ok(Launch { kept, say, secrets: all_secrets(secrets, expansion), ..Launch::new(destination, display) })
}

fn login(definition: &Definition, expansion: &mut Expansion<'_>) -> Result<Oauth, Problem> {
    let mut expand = |text: &Text| unicode(expansion, text, "oauth");
    let mut callback = None;
    if let Some(text) = definition.text(Key::RedirectUri) {
        let wrong = |why| Problem::new(text.at, format!("oauth.redirectUri: {why}"));
        callback = Some(Callback::parse(&expand(text)?).map_err(wrong)?);
    }
    if let Some(given) = definition.callback {
        let other = || Callback { by_name: given.by_name, ..Callback::default() };
        callback.get_or_insert_with(other).port = Some(given.port);
    }
    let mut scopes = Vec::new();
    for scope in definition.of(Key::Scopes) {
        scopes.extend(expand(&scope.text)?.split_whitespace().map(str::to_owned));
    }
    Ok(Oauth {
        client_id: definition.text(Key::ClientId).map(&mut expand).transpose()?,
        client_secret: definition.text(Key::ClientSecret).map(&mut expand).transpose()?,
        callback,
        scopes,
        off: definition.oauth_off,
    })
}

impl Launch {
    /// A server that is started or reached as it is, without settings.
    pub(crate) fn new(destination: Destination, shown: String) -> Self {
        Self {
            destination,
            timeout: None,
            opening: None,
            tools: ToolFilter::default(),
            secrets: Vec::new(),
            shown,
            place: None,
            say: String::new(),
            unasked: false,
            found: false,
            untrusted: None,
            kept: None,
        }
    }
}

fn unicode(expansion: &mut Expansion<'_>, text: &Text, what: &str) -> Result<String, Problem> {
    let not_unicode = |_| Problem::new(text.at, format!("{what} contains a variable that is not Unicode"));
    expansion.expand(text)?.into_string().map_err(not_unicode)
}

/// The names of the settings of a key, as a part of a sentence.
fn names_of(definition: &Definition, key: Key, done: &str) -> String {
    let names: Vec<String> = definition.of(key).map(|setting| shown(setting.name.as_ref())).collect();
    if names.is_empty() { String::new() } else { format!(", with {} {done}", names.join(", ")) }
}

/// The secrets among words of the file. A reference is no secret, but the value of its variable is.
pub(super) fn written_secrets(words: &[OsString]) -> Vec<OsString> {
    let mut secrets = secret::values(words);
    secrets.retain(|value| !secret::is_reference(&value.to_string_lossy()));
    secrets
}

/// These secrets, and the values of the variables that were used.
fn all_secrets(mut secrets: Vec<OsString>, expansion: Expansion<'_>) -> Vec<OsString> {
    let used = expansion
        .used
        .into_iter()
        .filter(|(name, value)| !PUBLIC_VARIABLES.contains(&name.as_str()) && secret::is_hidden(name, value));
    secrets.extend(used.map(|(_, value)| value));
    // A server may print a secret of several lines, such as a key, line by line.
    let lines: Vec<OsString> = secrets.iter().filter_map(|secret| secret.to_str()).flat_map(lines).collect();
    secrets.extend(lines);
    secrets
}

/// The lines of a text that has more than one.
fn lines(text: &str) -> impl Iterator<Item = OsString> {
    let several = text.contains('\n');
    let lines = text.lines().filter(move |_| several).map(|line| OsString::from(line.trim()));
    // A line has no name.
    lines.filter(|line| secret::is_hidden("", line))
}
