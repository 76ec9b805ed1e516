//! From what was typed to what is started or reached and how it is talked to: checked, and nothing done yet.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::link::ChildCommand;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{Ask, Limits};

use super::consent::Consent;
use super::environment;
use super::http;
use super::opening::Remembered;
use super::orchestra;
use super::quic;
use super::show;
use super::trace::Trace;
use super::way::{To, Way};
use crate::args::Connect;
use crate::config::{self, Meant, Oauth, Place, Program, Remote, Secured, ToolFilter};
use crate::events;
use crate::failure::{Failure, Phase};
use crate::found;
use crate::secret;
use crate::target::{Quic, Socket, Target, exact, shown, words_shown};
use crate::ui::{Secrets, Ui};
use crate::verdict::Verdict;

/// How to reach a server, understood and checked.
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) client: ClientBuilder,
    /// The command or the address as it would be typed.
    pub(crate) shown: String,
    /// Where its entry stands, where it is one.
    pub(crate) place: Option<Place>,
    /// What is done first once it runs.
    pub(crate) first: Phase,
    /// Which of its tools may be seen and called.
    pub(crate) tools: ToolFilter,
    /// What has to be said or asked before anything of it is used.
    pub(crate) consent: Consent,
    /// What is remembered of the server, where that decides anything.
    pub(crate) remembered: Option<Remembered>,
    /// The bounds that the options, and the entry, ask for.
    pub(crate) limits: Limits,
    /// How long an answer may take, where they say that.
    pub(crate) timeout: Option<Duration>,
}

impl Plan {
    /// The same with a client that takes tasks.
    pub(crate) fn taking_tasks(mut self) -> Self {
        self.client = self.client.tasks(true);
        if let Some(remembered) = &mut self.remembered {
            remembered.legacy = remembered.legacy.take().map(|legacy| legacy.tasks(true));
        }
        self
    }
}

/// The bounds that the options ask for.
pub(crate) fn limits(connect: &Connect) -> Limits {
    let mut limits = Limits::default();
    if let Some(size) = connect.max_message_size {
        limits.message = size;
    }
    if let Some(time) = connect.timeout {
        limits.request = time;
        limits.request_total = limits.request_total.max(time);
    }
    if let Some(time) = connect.connect_timeout {
        limits.initialize = time;
        limits.probe = limits.probe.min(time);
    }
    limits
}

/// The same for a server over HTTP: what is known to answer requests at all is asked for its era and, where it stays
/// silent, in the legacy way, and the time that was asked for is for both together.
fn limits_over_http(connect: &Connect) -> Limits {
    /// A connection that is not made within the time says so itself, which says more.
    const LATER: Duration = Duration::from_millis(50);
    let mut limits = limits(connect);
    if let (Some(time), None) = (connect.connect_timeout, era(connect)) {
        limits.probe = limits.probe.min(time / 2);
        limits.initialize = (time - limits.probe).saturating_add(LATER);
    }
    limits
}

/// From the options to what is started or reached and how it is talked to. Hides the values of variables and headers from
/// then on.
pub(super) fn plan(ui: &Ui, target: &Target, connect: &Connect) -> Result<Plan, Failure> {
    let mut no_entry = None;
    let entry = match config::launch(ui, target, connect)? {
        Meant::Entry(entry) => Some(*entry),
        Meant::Words { no_entry: said } => {
            no_entry = said;
            None
        }
    };
    let (to, about) = match (entry, target) {
        (Some(entry), _) => {
            entry.kept.iter().for_each(|text| ui.keep(text));
            let mut about = About {
                shown: entry.shown,
                place: entry.place,
                tools: entry.tools,
                consent: Consent {
                    say: Some((entry.say, entry.unasked)),
                    untrusted: entry.untrusted.map(Box::new),
                    secrets: Vec::new(),
                },
                no_entry: None,
                named: Some(typed(target)),
                found: entry.found,
            };
            // Whatever is said of it from now on.
            about.hide(ui, &entry.secrets);
            let mut connect = Connect {
                timeout: connect.timeout.or(entry.timeout),
                connect_timeout: connect.connect_timeout.or(entry.opening),
                ..connect.clone()
            };
            return match entry.to {
                config::To::Program(program) => to_child(ui, program, about, connect),
                config::To::Remote(remote) => {
                    if connect.ca.is_none() {
                        connect.ca = remote.ca.as_deref().map(regular).transpose()?;
                    }
                    to_remote(ui, remote, about, &connect)
                }
                config::To::Socket(socket) => to_socket(ui, &socket, about, &connect),
                config::To::Quic(secured) => to_quic(ui, &secured.address, about, &sides(connect, &secured)?),
            };
        }
        (None, Target::Command { program, args }) => {
            let args_shown = words_shown(args);
            let program_shown = exact(&program.to_string_lossy());
            let between = if args.is_empty() { "" } else { " " };
            ui.keep(&program.to_string_lossy());
            let about = About::new(format!("{program_shown}{between}{args_shown}"));
            (command(program.clone(), args.clone()), about)
        }
        (None, Target::Demo) => {
            let ours = std::env::current_exe().map_err(|error| Failure::system(Phase::Spawn, &error))?;
            let args = vec!["serve".into(), "demo".into()];
            (command(ours.into_os_string(), args), About::new("mcpjoin serve demo".into()))
        }
        (None, Target::Orchestrator(address)) => {
            let about = About::new(format!("orchestra://{}", address.0));
            let program = bridge(address, connect)?;
            // The files are the bridge's now.
            let connect = Connect {
                ca: None,
                cert: None,
                key: None,
                certs_dir: None,
                server_name: None,
                ..connect.clone()
            };
            return to_child(ui, program, about, connect);
        }
        // Where there is no such entry it is a program.
        (None, Target::Entry(named)) => {
            let about = About { no_entry, ..About::new(shown(named.name.as_ref())) };
            (command(OsString::from(&named.name), Vec::new()), about)
        }
        (None, Target::Http(address)) => {
            ui.hide(Secrets::new(&secret::values(&[OsString::from(&address.url)])));
            secret::host(&address.url).iter().for_each(|host| ui.keep(host));
            let about = About::new(words_shown(&[address.to_string().into()]));
            let remote =
                Remote { address: address.clone(), headers: Vec::new(), ca: None, oauth: Oauth::default() };
            return to_remote(ui, remote, about, connect);
        }
        (None, Target::Quic(address)) => {
            return to_quic(ui, address, About::new(shown(address.to_string().as_ref())), connect);
        }
        (None, Target::Socket(socket)) => {
            return to_socket(ui, socket, About::new(shown(socket.to_string().as_ref())), connect);
        }
    };
    to_child(ui, to, about, connect.clone())
}

const fn command(program: OsString, args: Vec<OsString>) -> Program {
    Program { program, args, env: Vec::new(), cwd: None }
}

/// Our own bridge to an orchestrator, which is an MCP server on standard input and output.
fn bridge(address: &Quic, connect: &Connect) -> Result<Program, Failure> {
    let ours = std::env::current_exe().map_err(|error| Failure::system(Phase::Spawn, &error))?;
    let mut args: Vec<OsString> =
        vec!["bridge".into(), "--orchestrator-addr".into(), address.0.as_str().into()];
    args.extend(orchestra::words(connect)?);
    Ok(command(ours.into_os_string(), args))
}

/// What a name brings with it.
struct About {
    shown: String,
    place: Option<Place>,
    tools: ToolFilter,
    consent: Consent,
    /// That it is no entry, where it could have been one.
    no_entry: Option<String>,
    /// The entry, as it is to be typed.
    named: Option<String>,
    /// It is an entry of a file that nobody has named.
    found: bool,
}

impl About {
    fn new(shown: String) -> Self {
        let (tools, consent) = (ToolFilter::default(), Consent::default());
        Self { shown, place: None, tools, consent, no_entry: None, named: None, found: false }
    }

    /// None of these texts is shown from now on; what the user has to trust first hides nothing until then.
    fn hide(&mut self, ui: &Ui, values: &[OsString]) {
        let secrets = Secrets::new(values);
        match self.consent.untrusted {
            Some(_) => self.consent.secrets.push(secrets),
            None => ui.hide(secrets),
        }
    }
}

/// A program that is run as a child.
fn to_child(ui: &Ui, program: Program, mut about: About, mut connect: Connect) -> Result<Plan, Failure> {
    about.hide(ui, &secret::values(&program.args));
    refuse(&about.shown, "is run as a child", "over HTTP", &of_http(&connect))?;
    refuse(&about.shown, "is run as a child", "over HTTPS or QUIC", &of_tls(&connect))?;
    refuse(&about.shown, "is run as a child", "over QUIC", &of_quic(&connect))?;
    refuse(&about.shown, "is run as a child", "of Orchestra", &of_orchestra(&connect))?;
    let Program { program, args, env: mut set, cwd } = program;
    let variables = variables(&connect.env)?;
    // What the command line says wins over what the entry says.
    connect.cwd = connect.cwd.or(cwd);
    let hidden: Vec<OsString> = variables.iter().map(|(_, value)| value.clone()).collect();
    set.extend(variables);
    ui.hide(Secrets::new(&hidden));

    let verdict = verdict(&connect, &program, &args, &set);
    let mut command = ChildCommand::new(program).args(args);
    let is_ours = !about.found && !connect.for_others;
    let mut withheld = false;
    if connect.env_clean || !(connect.inherit_env || is_ours) {
        (command, withheld) = environment::limited(command);
    } else {
        command = environment::without_ours(command);
    }
    for (name, value) in set {
        command = command.env(name, value);
    }
    if let Some(path) = &connect.cwd {
        command = command.current_dir(path);
    }
    let (client, first) = client(ui, &connect)?;
    let trace = trace(ui, &connect)?;
    if let Some(trace) = &trace {
        command = command.tapped(trace.tap());
    }
    if ui.verbosity() > 0 || trace.is_some() {
        command = command.stderr(said(ui, trace.clone()));
    }
    let remembered = remembered(ui, &connect, verdict)?;
    let About { shown, place, tools, consent, no_entry, .. } = about;
    let way = Way { to: To::Child(command), trace, no_entry, access: None, withheld };
    let (limits, timeout) = (limits(&connect), connect.timeout);
    Ok(Plan { way, client, shown, place, first, tools, consent, remembered, limits, timeout })
}

/// What is done with each line that a child writes to standard error.
pub(super) fn said(ui: &Ui, trace: Option<Trace>) -> impl Fn(&[u8]) + Send + Sync + 'static {
    let ui = ui.clone();
    move |line| {
        if let Some(trace) = &trace {
            trace.stderr(line);
        }
        if ui.verbosity() > 0 {
            ui.server_line(&String::from_utf8_lossy(line));
        }
    }
}

/// A server that listens on a socket: nothing of its surroundings is ours to choose.
fn to_socket(ui: &Ui, socket: &Socket, about: About, connect: &Connect) -> Result<Plan, Failure> {
    refuse(&about.shown, "runs already", "run as a child", &of_a_child(connect))?;
    refuse(&about.shown, "is a socket", "over HTTP", &of_http(connect))?;
    refuse(&about.shown, "is a socket", "over HTTPS or QUIC", &of_tls(connect))?;
    refuse(&about.shown, "is a socket", "over QUIC", &of_quic(connect))?;
    refuse(&about.shown, "is a socket", "of Orchestra", &of_orchestra(connect))?;
    let mut to = match socket {
        Socket::Tcp(address) => Link::tcp(address),
        Socket::Unix(path) => Link::unix(path),
    };
    if let Some(time) = connect.connect_timeout {
        to = to.timeout(time);
    }
    let (client, first) = client(ui, connect)?;
    let way =
        Way { to: To::Socket(to), trace: trace(ui, connect)?, no_entry: None, access: None, withheld: false };
    let (limits, timeout) = (limits(connect), connect.timeout);
    let About { shown, place, tools, consent, .. } = about;
    Ok(Plan { way, client, shown, place, first, tools, consent, remembered: None, limits, timeout })
}

/// The options with what the entry says of both sides over QUIC, where the command line says nothing.
fn sides(mut connect: Connect, entry: &Secured) -> Result<Connect, Failure> {
    if connect.pin.is_none() && connect.ca.is_none() {
        (connect.pin, connect.ca) = (entry.pin, entry.ca.as_deref().map(regular).transpose()?);
    }
    if connect.cert.is_none()
        && let Some((cert, key)) = &entry.identity
    {
        (connect.cert, connect.key) = (Some(regular(cert)?), Some(regular(key)?));
    }
    Ok(connect)
}

/// Checks a file that an entry names for its connection. Somebody else may have written the entry: without this check, opening
/// a pipe or a terminal would block before the user is asked about the entry.
fn regular(path: &Path) -> Result<PathBuf, Failure> {
    match found::read(path, http::LARGEST) {
        Ok(Some(_)) => Ok(path.to_owned()),
        Ok(None) => Err(format!("it has more than the {} bytes that are read", http::LARGEST)),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| {
        let problem = format!("{}, which the entry names, cannot be read: {why}", shown(path.as_os_str()));
        Failure::usage(problem, "name a file in PEM with `ca`, `cert` and `key` of the entry")
    })
}

/// A server that is reached over QUIC.
fn to_quic(ui: &Ui, address: &Quic, about: About, connect: &Connect) -> Result<Plan, Failure> {
    refuse(&about.shown, "runs already", "run as a child", &of_a_child(connect))?;
    refuse(&about.shown, "speaks over QUIC", "over HTTP", &of_http(connect))?;
    refuse(&about.shown, "speaks MCP over QUIC", "of Orchestra", &of_orchestra(connect))?;
    let to = To::Quic(Box::new(quic::link(address, connect)?));
    let (client, first) = client(ui, connect)?;
    let way = Way { to, trace: trace(ui, connect)?, no_entry: None, access: None, withheld: false };
    let (limits, timeout) = (limits(connect), connect.timeout);
    let About { shown, place, tools, consent, .. } = about;
    Ok(Plan { way, client, shown, place, first, tools, consent, remembered: None, limits, timeout })
}

/// A server that is reached over HTTP.
fn to_remote(ui: &Ui, remote: Remote, mut about: About, connect: &Connect) -> Result<Plan, Failure> {
    refuse(&about.shown, "runs already", "run as a child", &of_a_child(connect))?;
    refuse(&about.shown, "speaks over HTTP", "over QUIC", &of_quic(connect))?;
    refuse(&about.shown, "speaks over HTTP", "of Orchestra", &of_orchestra(connect))?;
    if remote.address.sse && era(connect) == Some(Era::Modern) {
        let problem = format!("{} is HTTP+SSE of 2024-11-05, which has no modern era", about.shown);
        let hint = "leave out --era and --protocol-version, or give the http:// address without sse+";
        return Err(Failure::usage(problem, hint));
    }
    let (to, access, hidden) = http::link(ui, &remote, connect, about.named.as_deref())?;
    about.hide(ui, &hidden);
    let (client, first) = client(ui, connect)?;
    let limits = limits_over_http(connect);
    let client = client.limits(limits.clone());
    let verdict = if asks(connect) { Verdict::of_url(&remote.address.url) } else { None };
    let remembered = remembered(ui, connect, verdict)?;
    let way = Way {
        to: To::Http(to),
        trace: trace(ui, connect)?,
        no_entry: None,
        access: Some(access),
        withheld: false,
    };
    let About { shown, place, tools, consent, .. } = about;
    Ok(Plan {
        way,
        client,
        shown,
        place,
        first,
        tools,
        consent,
        remembered,
        limits,
        timeout: connect.timeout,
    })
}

/// An entry as it is to be typed.
fn typed(target: &Target) -> String {
    match target {
        Target::Entry(named) => match &named.file {
            Some(file) => format!("{}#{}", file.to_string_lossy(), named.name),
            None => named.name.clone(),
        },
        target => target.label(),
    }
}

/// The era that the options ask for, where they do.
fn era(connect: &Connect) -> Option<Era> {
    let of_version = || connect.protocol_version.as_ref().and_then(|version| version.era());
    connect.era.asked().or_else(of_version)
}

/// The options that say how a child is started, and whether they are given.
fn of_a_child(connect: &Connect) -> [(&'static str, bool); 4] {
    [
        ("-e", !connect.env.is_empty()),
        ("--env-clean", connect.env_clean),
        ("--inherit-env", connect.inherit_env),
        ("--cwd", connect.cwd.is_some()),
    ]
}

/// The options that say how HTTP is spoken, and whether they are given.
fn of_http(connect: &Connect) -> [(&'static str, bool); 1] {
    [("--header", !connect.header.is_empty())]
}

/// The option that says whom to trust over HTTPS and QUIC, and whether it is given.
fn of_tls(connect: &Connect) -> [(&'static str, bool); 1] {
    [("--ca", connect.ca.is_some())]
}

/// The options that say who both sides are over QUIC, and whether they are given.
fn of_quic(connect: &Connect) -> [(&'static str, bool); 2] {
    // `--key` does not come without `--cert`.
    [("--pin", connect.pin.is_some()), ("--cert", connect.cert.is_some())]
}

/// The options that say how an orchestrator is reached, and whether they are given.
fn of_orchestra(connect: &Connect) -> [(&'static str, bool); 2] {
    [("--certs-dir", connect.certs_dir.is_some()), ("--server-name", connect.server_name.is_some())]
}

/// Options that can do nothing for this server are refused.
fn refuse(shown: &str, is: &str, meant: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
    let Some((option, _)) = options.iter().find(|(_, given)| *given) else { return Ok(()) };
    let problem = format!("{option} is for a server {meant}, and {shown} {is}");
    Err(Failure::usage(problem, format!("leave out {option}")))
}

/// What an earlier run has found out, and the client that makes use of it.
fn remembered(ui: &Ui, connect: &Connect, verdict: Option<Verdict>) -> Result<Option<Remembered>, Failure> {
    let Some(verdict) = verdict else { return Ok(None) };
    let legacy = match verdict.is_legacy() {
        true => Some(client(ui, connect)?.0.ask(Ask::Only(Era::Legacy))),
        false => None,
    };
    Ok(Some(Remembered { verdict, legacy }))
}

/// Whether nothing says which era to ask for, so that what is remembered decides.
fn asks(connect: &Connect) -> bool {
    !connect.no_cache && connect.era.asked().is_none() && connect.protocol_version.is_none()
}

/// Opens the file that is asked for.
fn trace(ui: &Ui, connect: &Connect) -> Result<Option<Trace>, Failure> {
    let trace = connect.trace.as_ref().map(|path| {
        Trace::to(path, ui).map_err(|error| {
            let problem = format!("the trace {} cannot be written: {error}", shown(path.as_ref()));
            Failure::usage(problem, "--trace FILE, where FILE can be made")
        })
    });
    trace.transpose()
}

/// What is remembered of the command, where nothing else says which era to ask for.
fn verdict(
    connect: &Connect,
    program: &OsStr,
    args: &[OsString],
    set: &[(OsString, OsString)],
) -> Option<Verdict> {
    if !asks(connect) {
        return None;
    }
    let path = set.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let path = path.or_else(|| std::env::var_os("PATH"));
    Verdict::of(program, args.iter().map(OsString::as_os_str), connect.cwd.as_deref(), path.as_deref())
}

fn client(ui: &Ui, connect: &Connect) -> Result<(ClientBuilder, Phase), Failure> {
    let mut client = Client::builder("mcpjoin", env!("CARGO_PKG_VERSION")).limits(limits(connect));
    let era = connect.era.asked();
    let asked = connect.protocol_version.as_ref().and_then(|version| version.era());
    if let (Some(era), Some(asked)) = (era, asked)
        && era != asked
    {
        return Err(Failure::usage(
            "--era and --protocol-version ask for different eras",
            "leave out one of them",
        ));
    }
    if let Some(era) = era {
        client = client.ask(Ask::Only(era));
    }
    if connect.no_cache {
        client = client.no_cache();
    }
    if let Some(version) = &connect.protocol_version {
        client = client.protocol_version(version.clone());
    }
    if ui.verbosity() > 0 {
        let ui = ui.clone();
        client = client.on_notification(move |notification| show(&ui, &notification));
    }
    events::show(ui);
    let first = if era.or(asked) == Some(Era::Legacy) { Phase::Initialize } else { Phase::Probe };
    Ok((client, first))
}

/// The variables of `-e`: `NAME=VALUE`, or `NAME` for the value that we have ourselves.
fn variables(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    words
        .iter()
        .map(|word| {
            let (name, value) = halves(word);
            if name.is_empty() {
                return Err(Failure::usage("-e needs a name before the =", "-e NAME=VALUE, or -e NAME"));
            }
            let value = match value {
                Some(value) => value,
                None => std::env::var_os(&name).ok_or_else(|| {
                    let name = shown(&name);
                    Failure::usage(
                        format!("-e {name}: there is no such variable to pass on"),
                        format!("-e {name}=VALUE"),
                    )
                })?,
            };
            Ok((name, value))
        })
        .collect()
}

/// What stands before and after the first `=`.
#[cfg(unix)]
fn halves(word: &OsStr) -> (OsString, Option<OsString>) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            (OsStr::from_bytes(&bytes[..at]).into(), Some(OsStr::from_bytes(&bytes[at + 1..]).into()))
        }
        None => (word.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::variables;

    #[test]
    fn variables_have_a_name_and_any_value() {
        let odd = OsString::from_vec(b"A=\xff=1".to_vec());
        let read = variables(&[odd, "B=".into(), "PATH".into()]).unwrap();
        assert_eq!(read[0], ("A".into(), OsString::from_vec(b"\xff=1".to_vec())));
        assert_eq!(read[1], ("B".into(), OsString::new()));
        assert_eq!(read[2].1, std::env::var_os("PATH").unwrap());
        assert!(variables(&["=x".into()]).is_err());
        assert!(variables(&["MCPJOIN_NO_SUCH_VARIABLE".into()]).is_err());
    }
}
