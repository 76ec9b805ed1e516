//! From a target and the options to a plan: what is started or reached, and the client that connects to it.
//!
//! Called by `connect`. Making a plan checks the options. It starts nothing and opens no connection.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{CloseCause, EraChoice, Limits, NegotiationFailure};
use mcpjoin::transport::ChildCommand;

use super::consent::Consent;
use super::endpoint::{Endpoint, Kind};
use super::trace::Trace;
use super::{environment, network};
use crate::args::Connect;
use crate::config::{
    self, Destination, Launch, Oauth, Place, Program, Remote, Resolved, Secured, ToolFilter,
};
use crate::era_cache::CachedEra;
use crate::events;
use crate::failure::{Failure, Phase};
use crate::found;
use crate::secret;
use crate::target::{Quic, Socket, Target, exact, shown, words_shown};
use crate::ui::{Secrets, Ui};

/// How to reach a server, and the client for it.
pub(crate) struct Plan {
    pub(crate) endpoint: Endpoint,
    pub(crate) client: ClientBuilder,
    /// The command or the address as the user would type it.
    pub(crate) shown: String,
    /// The place of its entry, where it is an entry.
    pub(crate) place: Option<Place>,
    /// The phase that begins when the server runs.
    pub(crate) first: Phase,
    /// The tools that may be listed and called.
    pub(crate) tools: ToolFilter,
    /// What is said or asked before the server is used.
    pub(super) consent: Consent,
    /// The cached era of the server, where no option selects an era.
    pub(crate) remembered: Option<Remembered>,
    /// The limits from the options and the entry.
    pub(crate) limits: Limits,
    /// The timeout of a request, where the options or the entry set one.
    pub(crate) timeout: Option<Duration>,
}

/// The era that an earlier run has found out.
pub(crate) struct Remembered {
    era: CachedEra,
    /// A client of the legacy era, where that is the cached one.
    pub(crate) legacy: Option<ClientBuilder>,
}

impl Plan {
    /// The same plan with a client that supports tasks.
    pub(crate) fn taking_tasks(mut self) -> Self {
        self.client = self.client.tasks(true);
        if let Some(remembered) = &mut self.remembered {
            remembered.legacy = remembered.legacy.take().map(|legacy| legacy.tasks(true));
        }
        self
    }

    /// Starts the server, or connects to it, and opens the session: with the cached era first. Where that fails, the client
    /// probes as if no era were cached.
    pub(super) async fn open(self, ui: &Ui) -> Result<Client, Failure> {
        let Self { endpoint, client, first, mut remembered, .. } = self;
        if let Some(legacy) = remembered.as_mut().and_then(|remembered| remembered.legacy.take()) {
            match legacy.connect(endpoint.link().await?).await {
                Ok(client) => return Ok(client),
                Err(error) if !may_be_stale(&error.cause) => {
                    return Err(Failure::closed(&error.cause, Phase::Initialize));
                }
                Err(_) => {
                    ui.detail("the legacy era, which it spoke the last time, does not work: asking again");
                }
            }
            // Two processes of one server may disturb each other, and only the later one is watched at the end.
            if let Some(child) = endpoint.child() {
                child.ended().await;
            }
        }
        let connected = client.connect(endpoint.link().await?).await;
        let client = connected.map_err(|error| Failure::closed(&error.cause, first))?;
        if let Some(mut remembered) = remembered {
            remembered.era.store(client.peer().profile.initialize);
        }
        Ok(client)
    }
}

/// Whether the session may open in another era.
const fn may_be_stale(cause: &CloseCause) -> bool {
    matches!(cause, CloseCause::Opening(failure)
        if !matches!(failure, NegotiationFailure::Garbage { .. } | NegotiationFailure::Unsent { .. }))
}

/// The limits that the options set.
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

/// [`limits`] over HTTP. A server that accepts requests is probed for its era. When it does not respond to the probe,
/// `initialize` follows. The timeout that was given is for both together.
fn limits_over_http(connect: &Connect) -> Limits {
    /// A connection that is not made in time reports that itself, which says more than the timeout of the session.
    const MARGIN: Duration = Duration::from_millis(50);
    let mut limits = limits(connect);
    if let (Some(time), None) = (connect.connect_timeout, era(connect)) {
        limits.probe = limits.probe.min(time / 2);
        limits.initialize = (time - limits.probe).saturating_add(MARGIN);
    }
    limits
}

/// Makes the plan for a target. From then on the values of its variables and headers are not shown.
pub(super) fn plan(ui: &Ui, target: &Target, connect: &Connect) -> Result<Plan, Failure> {
    let no_entry = match config::launch(ui, target, connect)? {
        Resolved::Entry(entry) => return of_entry(ui, *entry, target, connect),
        Resolved::AsTyped { no_entry } => no_entry,
    };
    match target {
        Target::Command { program, args } => {
            let mut shown = exact(&program.to_string_lossy());
            if !args.is_empty() {
                shown.push_str(&format!(" {}", words_shown(args)));
            }
            ui.keep(&program.to_string_lossy());
            to_child(ui, command(program.clone(), args.clone()), About::new(shown), connect.clone())
        }
        Target::Demo => {
            let program = command(own_program()?, vec!["serve".into(), "demo".into()]);
            to_child(ui, program, About::new("mcpjoin serve demo".into()), connect.clone())
        }
        // Our own bridge to an orchestrator, which is an MCP server on standard input and output.
        Target::Orchestrator(address) => {
            let mut args: Vec<OsString> =
                vec!["bridge".into(), "--orchestrator-addr".into(), address.0.as_str().into()];
            let program = own_program()?;
            args.extend(network::certificate_options(connect)?);
            // The bridge reads the files.
            let connect = Connect {
                ca: None,
                cert: None,
                key: None,
                certs_dir: None,
                server_name: None,
                ..connect.clone()
            };
            let about = About::new(format!("orchestra://{}", address.0));
            to_child(ui, command(program, args), about, connect)
        }
        // Without such an entry the word is a program.
        Target::Entry(named) => {
            let about = About { no_entry, ..About::new(shown(named.name.as_ref())) };
            to_child(ui, command(OsString::from(&named.name), Vec::new()), about, connect.clone())
        }
        Target::Http(address) => {
            ui.hide(Secrets::new(&secret::values(&[OsString::from(&address.url)])));
            secret::host(&address.url).iter().for_each(|host| ui.keep(host));
            let about = About::new(words_shown(&[address.to_string().into()]));
            let remote =
                Remote { address: address.clone(), headers: Vec::new(), ca: None, oauth: Oauth::default() };
            to_http(ui, &remote, about, connect)
        }
        Target::Quic(address) => {
            to_quic(ui, address, About::new(shown(address.to_string().as_ref())), connect)
        }
        Target::Socket(socket) => {
            to_socket(ui, socket, About::new(shown(socket.to_string().as_ref())), connect)
        }
    }
}

/// The plan for an entry of a configuration. The options of the command line win over the entry.
fn of_entry(ui: &Ui, entry: Launch, target: &Target, connect: &Connect) -> Result<Plan, Failure> {
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
    about.hide(ui, &entry.secrets);
    let mut connect = Connect {
        timeout: connect.timeout.or(entry.timeout),
        connect_timeout: connect.connect_timeout.or(entry.opening),
        ..connect.clone()
    };
    match entry.destination {
        Destination::Program(program) => to_child(ui, program, about, connect),
        Destination::Remote(remote) => {
            if connect.ca.is_none() {
                connect.ca = remote.ca.as_deref().map(regular).transpose()?;
            }
            to_http(ui, &remote, about, &connect)
        }
        Destination::Socket(socket) => to_socket(ui, &socket, about, &connect),
        Destination::Quic(secured) => to_quic(ui, &secured.address, about, &with_tls(connect, &secured)?),
    }
}

const fn command(program: OsString, args: Vec<OsString>) -> Program {
    Program { program, args, env: Vec::new(), cwd: None }
}

fn own_program() -> Result<OsString, Failure> {
    let ours = std::env::current_exe().map_err(|error| Failure::system(Phase::Spawn, &error))?;
    Ok(ours.into_os_string())
}

/// What is known of a target beside how it is reached.
struct About {
    shown: String,
    place: Option<Place>,
    tools: ToolFilter,
    consent: Consent,
    /// Says that it is no entry, where it could have been one.
    no_entry: Option<String>,
    /// The entry as the user would type it.
    named: Option<String>,
    /// It is an entry of a file that the user has not named.
    found: bool,
}

impl About {
    fn new(shown: String) -> Self {
        let (tools, consent) = (ToolFilter::default(), Consent::default());
        Self { shown, place: None, tools, consent, no_entry: None, named: None, found: false }
    }

    /// None of these texts is shown from now on. Secrets of an untrusted entry are hidden once the user has trusted it.
    fn hide(&mut self, ui: &Ui, values: &[OsString]) {
        let secrets = Secrets::new(values);
        match self.consent.untrusted {
            Some(_) => self.consent.secrets.push(secrets),
            None => ui.hide(secrets),
        }
    }

    /// Refuses options that have no effect for this server. `is`: how it is reached.
    fn refuse(&self, is: &str, meant: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
        let Some((option, _)) = options.iter().find(|(_, given)| *given) else { return Ok(()) };
        let problem = format!("{option} is for a server {meant}, and {} {is}", self.shown);
        Err(Failure::usage(problem, format!("leave out {option}")))
    }
}

/// The plan for a child process.
fn to_child(ui: &Ui, program: Program, mut about: About, mut connect: Connect) -> Result<Plan, Failure> {
    about.hide(ui, &secret::values(&program.args));
    let is = "is run as a child";
    about.refuse(is, "over HTTP", &of_http(&connect))?;
    about.refuse(is, "over HTTPS or QUIC", &of_tls(&connect))?;
    about.refuse(is, "over QUIC", &of_quic(&connect))?;
    about.refuse(is, "of Orchestra", &of_orchestra(&connect))?;
    let Program { program, args, env: mut set, cwd } = program;
    let variables = variables(&connect.env)?;
    connect.cwd = connect.cwd.or(cwd);
    let hidden: Vec<OsString> = variables.iter().map(|(_, value)| value.clone()).collect();
    set.extend(variables);
    ui.hide(Secrets::new(&hidden));

    let cached = asks_for_era(&connect).then(|| {
        let path = set.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = path.or_else(|| std::env::var_os("PATH"));
        let args = args.iter().map(OsString::as_os_str);
        CachedEra::of_command(&program, args, connect.cwd.as_deref(), path.as_deref())
    });
    let command = ChildCommand::new(program).args(args);
    let all_variables = !connect.env_clean && (connect.inherit_env || !about.found && !connect.for_others);
    let (command, withheld) = match all_variables {
        true => (environment::without_ours(command), false),
        false => environment::limited(command),
    };
    let mut command = set.into_iter().fold(command, |command, (name, value)| command.env(name, value));
    if let Some(path) = &connect.cwd {
        command = command.current_dir(path);
    }
    let mut plan = finish(ui, Kind::Child(command), about, &connect, cached.flatten())?;
    plan.endpoint.withheld = withheld;
    Ok(plan)
}

/// The plan for a server that listens on a socket.
fn to_socket(ui: &Ui, socket: &Socket, about: About, connect: &Connect) -> Result<Plan, Failure> {
    let is = "is a socket";
    about.refuse("runs already", "run as a child", &of_a_child(connect))?;
    about.refuse(is, "over HTTP", &of_http(connect))?;
    about.refuse(is, "over HTTPS or QUIC", &of_tls(connect))?;
    about.refuse(is, "over QUIC", &of_quic(connect))?;
    about.refuse(is, "of Orchestra", &of_orchestra(connect))?;
    let mut to = match socket {
        Socket::Tcp(address) => Link::tcp(address),
        Socket::Unix(path) => Link::unix(path),
    };
    if let Some(time) = connect.connect_timeout {
        to = to.timeout(time);
    }
    finish(ui, Kind::Socket(to), about, connect, None)
}

/// The plan for a server over QUIC.
fn to_quic(ui: &Ui, address: &Quic, about: About, connect: &Connect) -> Result<Plan, Failure> {
    about.refuse("runs already", "run as a child", &of_a_child(connect))?;
    about.refuse("speaks over QUIC", "over HTTP", &of_http(connect))?;
    about.refuse("speaks MCP over QUIC", "of Orchestra", &of_orchestra(connect))?;
    let to = Kind::Quic(Box::new(network::quic(address, connect)?));
    finish(ui, to, about, connect, None)
}

/// The plan for a server over HTTP.
fn to_http(ui: &Ui, remote: &Remote, mut about: About, connect: &Connect) -> Result<Plan, Failure> {
    let is = "speaks over HTTP";
    about.refuse("runs already", "run as a child", &of_a_child(connect))?;
    about.refuse(is, "over QUIC", &of_quic(connect))?;
    about.refuse(is, "of Orchestra", &of_orchestra(connect))?;
    if remote.address.sse && era(connect) == Some(Era::Modern) {
        let problem = format!("{} is HTTP+SSE of 2024-11-05, which has no modern era", about.shown);
        let hint = "leave out --era and --protocol-version, or give the http:// address without sse+";
        return Err(Failure::usage(problem, hint));
    }
    let (to, access, secrets) = network::http(ui, remote, connect, about.named.as_deref())?;
    about.hide(ui, &secrets);
    let cached = asks_for_era(connect).then(|| CachedEra::of_url(&remote.address.url));
    let mut plan = finish(ui, Kind::Http(to), about, connect, cached.flatten())?;
    plan.limits = limits_over_http(connect);
    plan.client = plan.client.limits(plan.limits.clone());
    plan.endpoint.access = Some(access);
    Ok(plan)
}

/// What every plan has: the client, the trace, and the era that is cached.
fn finish(
    ui: &Ui,
    kind: Kind,
    about: About,
    connect: &Connect,
    cached: Option<CachedEra>,
) -> Result<Plan, Failure> {
    let (client, first) = client(ui, connect)?;
    let trace = trace(ui, connect)?;
    let legacy = match &cached {
        Some(era) if era.is_legacy() => Some(self::client(ui, connect)?.0.era(EraChoice::Only(Era::Legacy))),
        _ => None,
    };
    let About { shown, place, tools, consent, no_entry, .. } = about;
    let kind = kind.observed(ui, trace.as_ref());
    let endpoint = Endpoint { kind, trace, no_entry, access: None, withheld: false };
    let remembered = cached.map(|era| Remembered { era, legacy });
    let (limits, timeout) = (limits(connect), connect.timeout);
    Ok(Plan { endpoint, client, shown, place, first, tools, consent, remembered, limits, timeout })
}

/// The options, with the keys and certificates of the entry where the command line has none.
fn with_tls(mut connect: Connect, entry: &Secured) -> Result<Connect, Failure> {
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

/// Checks a file that an entry names for its connection. Another person may have written the entry: without this check, opening
/// a pipe or a terminal would block before the user is asked about the entry.
fn regular(path: &Path) -> Result<PathBuf, Failure> {
    let max_bytes = network::MAX_CERTIFICATES_BYTES;
    match found::read(path, max_bytes) {
        Ok(Some(_)) => Ok(path.to_owned()),
        Ok(None) => Err(format!("it has more than the {max_bytes} bytes that are read")),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| {
        let problem = format!("{}, which the entry names, cannot be read: {why}", shown(path.as_os_str()));
        Failure::usage(problem, "name a file in PEM with `ca`, `cert` and `key` of the entry")
    })
}

/// An entry as the user would type it.
fn typed(target: &Target) -> String {
    match target {
        Target::Entry(named) => match &named.file {
            Some(file) => format!("{}#{}", file.to_string_lossy(), named.name),
            None => named.name.clone(),
        },
        target => target.label(),
    }
}

/// The era that the options select.
fn era(connect: &Connect) -> Option<Era> {
    let of_version = || connect.protocol_version.as_ref().and_then(|version| version.era());
    connect.era.asked().or_else(of_version)
}

/// Whether no option selects an era, so that the cached one decides.
fn asks_for_era(connect: &Connect) -> bool {
    !connect.no_cache && connect.era.asked().is_none() && connect.protocol_version.is_none()
}

/// The options for a child process, and whether they are given.
fn of_a_child(connect: &Connect) -> [(&'static str, bool); 4] {
    [
        ("-e", !connect.env.is_empty()),
        ("--env-clean", connect.env_clean),
        ("--inherit-env", connect.inherit_env),
        ("--cwd", connect.cwd.is_some()),
    ]
}

fn of_http(connect: &Connect) -> [(&'static str, bool); 1] {
    [("--header", !connect.header.is_empty())]
}

/// The option for HTTPS and QUIC.
fn of_tls(connect: &Connect) -> [(&'static str, bool); 1] {
    [("--ca", connect.ca.is_some())]
}

fn of_quic(connect: &Connect) -> [(&'static str, bool); 2] {
    // `--key` requires `--cert`.
    [("--pin", connect.pin.is_some()), ("--cert", connect.cert.is_some())]
}

fn of_orchestra(connect: &Connect) -> [(&'static str, bool); 2] {
    [("--certs-dir", connect.certs_dir.is_some()), ("--server-name", connect.server_name.is_some())]
}

/// Opens the file of `--trace`.
fn trace(ui: &Ui, connect: &Connect) -> Result<Option<Trace>, Failure> {
    let open = |path: &PathBuf| {
        Trace::to(path, ui).map_err(|error| {
            let problem = format!("the trace {} cannot be written: {error}", shown(path.as_ref()));
            Failure::usage(problem, "--trace FILE, where FILE can be made")
        })
    };
    connect.trace.as_ref().map(open).transpose()
}

/// The client, and the phase that begins with its first request.
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
        client = client.era(EraChoice::Only(era));
    }
    if connect.no_cache {
        client = client.no_cache();
    }
    if let Some(version) = &connect.protocol_version {
        client = client.protocol_version(version.clone());
    }
    if ui.verbosity() > 0 {
        let ui = ui.clone();
        client = client.on_notification(move |notification| events::show_log_message(&ui, &notification));
    }
    events::show(ui);
    let first = if era.or(asked) == Some(Era::Legacy) { Phase::Initialize } else { Phase::Probe };
    Ok((client, first))
}

/// The variables of `-e`: `NAME=VALUE`, or `NAME` for the value in our own environment.
fn variables(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    let variable = |word: &OsString| {
        let (name, value) = halves(word);
        if name.is_empty() {
            return Err(Failure::usage("-e needs a name before the =", "-e NAME=VALUE, or -e NAME"));
        }
        let missing = || {
            let name = shown(&name);
            let problem = format!("-e {name}: there is no such variable to pass on");
            Failure::usage(problem, format!("-e {name}=VALUE"))
        };
        let value = value.or_else(|| std::env::var_os(&name)).ok_or_else(missing)?;
        Ok((name, value))
    };
    words.iter().map(variable).collect()
}

/// The texts before and after the first `=`.
#[cfg(unix)]
fn halves(word: &OsStr) -> (OsString, Option<OsString>) {
    use std::os::unix::ffi::OsStrExt;
    let mut halves =
        word.as_bytes().splitn(2, |byte| *byte == b'=').map(|half| OsStr::from_bytes(half).to_owned());
    (halves.next().unwrap_or_default(), halves.next())
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
