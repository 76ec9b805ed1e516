//! From what an entry says to what is started or reached: variables expanded, secrets known, the command or the address
//! as it may be shown.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dotenv;
use super::entry::{self, Child, Way};
use super::filter::ToolFilter;
use super::question::Untrusted;
use super::source::Problem;
use super::tree::Text;
use super::variables::{Expansion, Names};
use crate::args::{Callback, Pin};
use crate::secret;
use crate::target::{Http, Quic, Socket, command_shown, exact, shown};

/// Variables whose values everybody knows: where they were expanded, nothing is hidden.
const KNOWN: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// How the server of an entry is come by.
pub(crate) struct Launch {
    pub(crate) to: To,
    pub(crate) timeout: Option<Duration>,
    /// How long the server may take to open.
    pub(crate) opening: Option<Duration>,
    pub(crate) tools: ToolFilter,
    /// What must not be shown from now on.
    pub(crate) secrets: Vec<OsString>,
    /// The command or the address as it would be typed, with its variables as they are written.
    pub(crate) shown: String,
    /// Where the entry stands.
    pub(crate) place: Option<Place>,
    /// What is run or reached, from which place, in one line.
    pub(crate) say: String,
    /// Nobody chose the file: what it names is said before it is used.
    pub(crate) unasked: bool,
    /// Nobody named the file, wherever it lies.
    pub(crate) found: bool,
    /// What the user has to trust first.
    pub(crate) untrusted: Option<Untrusted>,
    /// The program or the host, as far as the file names it: it is shown whatever else is a secret.
    pub(crate) kept: Option<String>,
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// What an entry leads to, everything expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum To {
    Program(Program),
    Remote(Remote),
    Socket(Socket),
    Quic(Secured),
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
    /// The authorities that are trusted beside the system's.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) oauth: Oauth,
}

/// How a server is logged in to, as far as its entry says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oauth {
    /// The client that was registered with the authorization server before.
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    /// What is registered for the way back from the browser.
    pub(crate) callback: Option<Callback>,
    pub(crate) scopes: Vec<String>,
    /// Nothing that is stored is to be used.
    pub(crate) off: bool,
}

pub(super) fn launch(way: &Way, names: Names<'_>) -> Result<Launch, Problem> {
    match way {
        Way::Child(child) => of_child(child, names),
        Way::Http(remote) => of_remote(remote, names),
        Way::Listening(listening) => of_listening(listening, names),
    }
}

/// What keeps its texts from being expanded: the variables that are not set, one by one.
pub(super) fn missing(way: &Way, names: Names<'_>) -> Vec<Problem> {
    let texts: Vec<&Text> = match way {
        Way::Child(Child { command, args, env, cwd, env_file, passed: _ }) => {
            let env = env.iter().map(|(_, text)| text);
            std::iter::once(command).chain(args).chain(cwd).chain(env_file).chain(env).collect()
        }
        Way::Http(remote) => {
            let headers = remote.headers.iter().map(|(_, text)| text);
            let oauth = remote.oauth.iter().flat_map(entry::Oauth::texts);
            std::iter::once(&remote.url).chain(headers).chain(&remote.ca).chain(oauth).collect()
        }
        Way::Listening(listening) => listening.texts().collect(),
    };
    texts.into_iter().filter_map(|text| Expansion::new(names).expand(text).err()).collect()
}

/// A directory that is not there: what is started in it could only say that something is missing.
pub(super) fn without_directory(way: &Way, launch: &Launch) -> Option<Problem> {
    let (Way::Child(Child { cwd: Some(written), .. }), To::Program(Program { cwd: Some(cwd), .. })) =
        (way, &launch.to)
    else {
        return None;
    };
    let problem = || {
        let text = format!("cwd is no directory: {}", shown(written.text.as_ref()));
        Problem::new(written.at, text).hint("make the directory, mend cwd, or name another one with --cwd")
    };
    (!cwd.is_dir()).then(problem)
}

/// A server over QUIC of which nothing says whom to take for it.
pub(super) fn without_trust(way: &Way) -> Option<Problem> {
    let Way::Listening(entry::Listening { url, scheme: entry::Scheme::Quic, sides }) = way else {
        return None;
    };
    let problem = || {
        Problem::new(url.at, "nothing says whom to take for this server: pin or ca is missing").hint(
            "pin is the server's key as it prints it (sha256:HEX), ca a file whose authorities have signed its certificate",
        )
    };
    (sides.pin.is_none() && sides.ca.is_none()).then(problem)
}

/// The variables of the file that an entry names; none where it names none.
pub(super) fn variables(child: &Child, names: Names<'_>) -> Result<Vec<dotenv::Variable>, Problem> {
    let Some(file) = &child.env_file else { return Ok(Vec::new()) };
    let path = names.path(Path::new(&Expansion::new(names).expand(file)?));
    dotenv::read(&path, names.texts).map_err(|why| {
        Problem::new(file.at, format!("the file of variables cannot be used: {why}"))
            .hint("mend envFile, or that file")
    })
}

fn of_child(child: &Child, names: Names<'_>) -> Result<Launch, Problem> {
    let mut expansion = Expansion::new(names);
    let Child { command, args, env, cwd, env_file, passed } = child;
    let program = expansion.expand(command)?;
    if program.is_empty() {
        return Err(Problem::new(command.at, "command is empty"));
    }
    let written: Vec<OsString> = args.iter().map(|arg| OsString::from(&arg.text)).collect();
    let mut secrets = written_secrets(&written);
    let mut words = Vec::new();
    for arg in args {
        words.push(expansion.expand(arg)?);
    }
    let display = command_shown(&command.text, args.iter().map(|arg| arg.text.as_str()));
    let mut say = display.clone();
    if let Some(cwd) = cwd {
        say.push_str(&format!(", in {}", shown(cwd.text.as_ref())));
    }
    say.push_str(&set(env, "set"));
    if let Some(file) = env_file {
        say.push_str(&format!(", with the variables of {}", shown(file.text.as_ref())));
    }
    let cwd = match cwd {
        Some(text) => Some(PathBuf::from(expansion.expand(text)?)),
        None => None,
    };
    let mut set: Vec<(OsString, OsString)> = Vec::new();
    let by_env = |name: &str| env.iter().any(|(other, _)| other == name);
    for Text { text: name, .. } in passed.iter().filter(|name| !by_env(&name.text)) {
        let Some(value) = (names.lookup)(name) else { continue };
        secrets.extend((!KNOWN.contains(&name.as_str())).then(|| value.clone()));
        set.push((name.into(), value));
    }
    for dotenv::Variable { name, value, .. } in variables(child, names)? {
        secrets.push(OsString::from(&value));
        if !by_env(&name) {
            set.push((name.into(), value.into()));
        }
    }
    for (name, text) in env {
        let value = expansion.expand(text)?;
        secrets.push(value.clone());
        set.push((name.into(), value));
    }
    let kept = (program == *command.text).then(|| command.text.clone());
    Ok(Launch {
        to: To::Program(Program { program, args: words, env: set, cwd }),
        timeout: None,
        opening: None,
        tools: ToolFilter::default(),
        secrets: all_secrets(secrets, expansion),
        shown: display,
        place: None,
        say,
        unasked: false,
        found: false,
        untrusted: None,
        kept,
    })
}

fn of_remote(remote: &entry::Remote, names: Names<'_>) -> Result<Launch, Problem> {
    let mut expansion = Expansion::new(names);
    let entry::Remote { url, headers, sse, ca, oauth } = remote;
    let mut secrets = written_secrets(&[OsString::from(&url.text)]);
    let display = exact(&secret::masked([url.text.as_str()]).concat());
    let address = unicode(expansion.expand(url)?, url.at, "url")?;
    // What the variables of an address hold may be one as a whole.
    secrets.extend(secret::values(&[OsString::from(&address)]));
    let kept = kept_host(url, &address);
    let mut address = Http::parse(&address)
        .map_err(|problem| Problem::new(url.at, format!("url is none that can be used: {problem}")))?;
    address.sse |= sse;
    let mut values = Vec::new();
    for (name, text) in headers {
        let value = unicode(expansion.expand(text)?, text.at, "a header")?;
        secrets.extend(secret::of_header(&value));
        values.push((name.clone(), value));
    }
    let ca = expansion.path(ca.as_ref())?;
    let oauth = match oauth {
        Some(oauth) => login(oauth, &mut expansion)?,
        None => Oauth::default(),
    };
    secrets.extend(oauth.client_secret.iter().map(OsString::from));
    Ok(Launch {
        to: To::Remote(Remote { address, headers: values, ca, oauth }),
        timeout: None,
        opening: None,
        tools: ToolFilter::default(),
        secrets: all_secrets(secrets, expansion),
        say: format!("{display}{}", set(headers, "sent")),
        shown: display,
        place: None,
        unasked: false,
        found: false,
        untrusted: None,
        kept,
    })
}

fn login(oauth: &entry::Oauth, expansion: &mut Expansion<'_>) -> Result<Oauth, Problem> {
    let mut expand = |text: &Text| unicode(expansion.expand(text)?, text.at, "oauth");
    let mut callback = match &oauth.redirect {
        Some(text) => {
            let wrong = |why| Problem::new(text.at, format!("oauth.redirectUri: {why}"));
            Some(Callback::parse(&expand(text)?).map_err(wrong)?)
        }
        None => None,
    };
    if let Some(port) = oauth.callback_port {
        let other = || Callback { by_name: oauth.by_name, ..Callback::default() };
        callback.get_or_insert_with(other).port = Some(port);
    }
    let mut scopes = Vec::new();
    for text in &oauth.scopes {
        scopes.extend(expand(text)?.split_whitespace().map(str::to_owned));
    }
    Ok(Oauth {
        client_id: oauth.client_id.as_ref().map(&mut expand).transpose()?,
        client_secret: oauth.client_secret.as_ref().map(&mut expand).transpose()?,
        callback,
        scopes,
        off: oauth.off,
    })
}

fn of_listening(listening: &entry::Listening, names: Names<'_>) -> Result<Launch, Problem> {
    let mut expansion = Expansion::new(names);
    let entry::Listening { url, scheme, sides } = listening;
    let mut secrets = written_secrets(&[OsString::from(&url.text)]);
    let display = exact(&secret::masked([url.text.as_str()]).concat());
    let address = unicode(expansion.expand(url)?, url.at, "url")?;
    secrets.extend(secret::values(&[OsString::from(&address)]));
    let kept = kept_host(url, &address);
    let wrong = |problem| Problem::new(url.at, format!("url is none that can be used: {problem}"));
    let to = if *scheme == entry::Scheme::Quic {
        let pin = match &sides.pin {
            Some(text) => {
                let pin = unicode(expansion.expand(text)?, text.at, "pin")?;
                Some(crate::args::pin(&pin).map_err(|why| Problem::new(text.at, format!("pin: {why}")))?)
            }
            None => None,
        };
        let identity = match &sides.identity {
            Some((cert, key)) => expansion.path(Some(cert))?.zip(expansion.path(Some(key))?),
            None => None,
        };
        let ca = expansion.path(sides.ca.as_ref())?;
        To::Quic(Secured { address: Quic::parse(&address).map_err(wrong)?, pin, ca, identity })
    } else {
        To::Socket(Socket::parse(&address).map_err(wrong)?)
    };
    Ok(Launch {
        to,
        timeout: None,
        opening: None,
        tools: ToolFilter::default(),
        secrets: all_secrets(secrets, expansion),
        say: display.clone(),
        shown: display,
        place: None,
        unasked: false,
        found: false,
        untrusted: None,
        kept,
    })
}

fn unicode(text: OsString, at: usize, what: &str) -> Result<String, Problem> {
    text.into_string().map_err(|_| Problem::new(at, format!("{what} holds a variable that is not Unicode")))
}

/// The names beside which values stand, for a person.
fn set(pairs: &[(String, Text)], done: &str) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let names: Vec<String> = pairs.iter().map(|(name, _)| shown(name.as_ref())).collect();
    format!(", with {} {done}", names.join(", "))
}

/// The secrets among words as they are written. What stands in the place of one is one, too, unless it is a variable:
/// of that the value is.
pub(super) fn written_secrets(words: &[OsString]) -> Vec<OsString> {
    let mut secrets = secret::values(words);
    secrets.retain(|value| !secret::is_reference(&value.to_string_lossy()));
    secrets
}

/// These, and the values of the variables that were used.
fn all_secrets(mut secrets: Vec<OsString>, expansion: Expansion<'_>) -> Vec<OsString> {
    let used = expansion.used.into_iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    secrets.extend(used.map(|(_, value)| value));
    // What has several lines, a key for example, is shown by others line by line.
    let lines: Vec<OsString> = secrets.iter().filter_map(|secret| secret.to_str()).flat_map(lines).collect();
    secrets.extend(lines);
    secrets
}

/// The lines of a text that has more than one.
fn lines(text: &str) -> impl Iterator<Item = OsString> {
    let several = text.contains('\n');
    text.lines().filter(move |_| several).map(|line| line.trim().into())
}

/// The host of an address, where the file has it and no variable of ours.
fn kept_host(written: &Text, address: &str) -> Option<String> {
    let host = secret::host(address).filter(|host| secret::host(&written.text) == Some(host))?;
    Some(host.to_owned())
}
