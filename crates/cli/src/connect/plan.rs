//! From a target and the options to a plan: what is started or reached, and the client that connects to it.
//!
//! Called by `connect`. Making a plan checks the options. It starts nothing and opens no connection.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{CloseCause, EraChoice, Limits, NegotiationFailure};
use mcpjoin::transport::{ChildCommand, SocketConnect};

use super::consent::Consent;
use super::endpoint::{Endpoint, Kind, SERVER};
use super::orchestra::OrchestraConnect;
use super::trace::Trace;
use super::unmatched::Unmatched;
use super::{environment, network};
use crate::args::Connect;
use crate::config::{
    self, Destination, Launch, Oauth, Place, Program, Remote, Resolved, Secured, ToolFilter,
};
use crate::era_cache::CachedEra;
use crate::events;
use crate::failure::{Failure, Phase};
use crate::found;
use crate::questions::Answering;
use crate::secret;
use crate::target::{Http, Socket, Target, exact, shown, words_shown};
use crate::tool_names::{self, ToolNames};
use crate::ui::{Secrets, Ui};
use crate::visible;

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
    /// Where the names of the tools are stored that the server lists.
    names: Option<Arc<ToolNames>>,
    /// What is said or asked before the server is used.
    pub(super) consent: Consent,
    /// The cached era of the server, where no option selects an era.
    pub(crate) remembered: Option<Remembered>,
    /// The limits from the options and the entry.
    pub(crate) limits: Limits,
    /// The timeout of a request, where the options or the entry set one.
    pub(crate) timeout: Option<Duration>,
    /// The time to open the session over HTTP, where the options or the entry set one. The requests share it.
    pub(super) opening: Option<Duration>,
    /// For a URL that was typed without a path.
    pub(super) fallback: Option<Box<Fallback>>,
    /// The server has been asked in vain for the time of `opening`.
    pub(super) late: Option<Failure>,
}

/// What is tried where a URL without a path leads to no MCP server.
pub(super) struct Fallback {
    /// Tries the URL as it was typed.
    first: ClientBuilder,
    /// Tries the URL of `plan`.
    second: ClientBuilder,
    /// The plan for the usual path of a server.
    plan: Plan,
}

/// The era that an earlier run has found out.
pub(crate) struct Remembered {
    era: CachedEra,
    /// A client of the legacy era, where that is the cached one.
    pub(crate) legacy: Option<ClientBuilder>,
}

impl Plan {
    /// The plan to follow: for a URL without a path that leads to no MCP server, the plan for the usual path, if one is there.
    pub(super) async fn settled(mut self, ui: &Ui) -> Self {
        let Some(fallback) = self.fallback.take() else { return self };
        let Fallback { first, second, mut plan } = *fallback;
        match trial(&self, first).await {
            Trial::LeadsNowhere => {}
            trial => return Self { late: trial.late(), ..self },
        }
        match trial(&plan, second).await {
            Trial::LeadsNowhere => return self,
            trial => plan.late = trial.late(),
        }
        ui.note(&format!("{} is not an MCP server: {} is used", self.shown, plan.shown));
        // The shell completes behind the URL as it is typed.
        Self { names: self.names, ..plan }
    }

    /// The same plan with a client that supports tasks.
    pub(crate) fn taking_tasks(self) -> Self {
        self.with_clients(|client| client.tasks(true))
    }

    /// The same plan with a client that stores the names of the tools that the server lists.
    pub(super) fn remembering(self) -> Self {
        let Some(names) = self.names.clone() else { return self };
        let tools = self.tools.clone();
        self.with_clients(|client| tool_names::remembering(client, &names, &tools))
    }

    fn with_clients(mut self, change: impl Fn(ClientBuilder) -> ClientBuilder) -> Self {
        self.client = change(self.client);
        if let Some(remembered) = &mut self.remembered {
            remembered.legacy = remembered.legacy.take().map(change);
        }
        self
    }

    /// Starts the server, or connects to it, and opens the session: with the cached era first. Where that fails, the client
    /// probes as if no era were cached.
    pub(super) async fn open(self, ui: &Ui) -> Result<Client, Failure> {
        let Self { endpoint, client, first, mut remembered, opening, late, .. } = self.remembering();
        if let Some(late) = late {
            return Err(late);
        }
        events::show_waits(ui);
        if let Some(legacy) = remembered.as_mut().and_then(|remembered| remembered.legacy.take()) {
            match legacy.connect(endpoint.link().await?).await {
                Ok(client) => return Ok(client),
                Err(error) if !may_be_stale(&error.cause) || is_late(&error.cause) && opening.is_some() => {
                    return Err(Failure::closed(&error.cause, Phase::Initialize));
                }
                Err(_) => {
                    ui.detail(
                        "the older protocol (initialize), which the server used the last time, \
                        fails: probing again",
                    );
                }
            }
            // Two processes of one server may disturb each other, and only the later one is watched at the end.
            if let Some(child) = endpoint.child() {
                child.ended().await;
            }
        }
        let connected = client.connect(endpoint.link().await?).await;
        let client = connected.map_err(|error| Failure::closed(&in_all(error.cause, opening), first))?;
        if let Some(mut remembered) = remembered {
            remembered.era.store(client.peer().profile.initialize);
        }
        Ok(client)
    }
}

/// What is at an address.
enum Trial {
    /// Something answers that is no MCP server.
    LeadsNowhere,
    /// Nothing has answered in time.
    Late(Failure),
    /// A server, or a failure that connecting will show.
    Other,
}

impl Trial {
    fn late(self) -> Option<Failure> {
        if let Self::Late(failure) = self { Some(failure) } else { None }
    }
}

async fn trial(plan: &Plan, client: ClientBuilder) -> Trial {
    let begun = Instant::now();
    let Ok(link) = plan.endpoint.link().await else { return Trial::Other };
    match client.connect(link).await {
        Ok(client) => {
            client.close().await;
            Trial::Other
        }
        Err(error) if is_late(&error.cause) && plan.opening.is_some() => {
            let failure = Failure::closed(&in_all(error.cause, plan.opening), plan.first);
            Trial::Late(failure.took(begun.elapsed()))
        }
        Err(error) if Failure::closed(&error.cause, Phase::Probe).id == "E_NO_ENDPOINT" => {
            Trial::LeadsNowhere
        }
        Err(_) => Trial::Other,
    }
}

/// Whether the server has answered nothing in time.
const fn is_late(cause: &CloseCause) -> bool {
    matches!(cause, CloseCause::Opening(NegotiationFailure::TimedOut { .. }))
}

/// The cause, with the whole time of opening in place of that of the last request.
pub(super) fn in_all(cause: CloseCause, opening: Option<Duration>) -> CloseCause {
    match (cause, opening) {
        (CloseCause::Opening(NegotiationFailure::TimedOut { method, garbage, .. }), Some(after)) => {
            CloseCause::Opening(NegotiationFailure::TimedOut { method, after, garbage })
        }
        (cause, _) => cause,
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
    let mut connect = connect.clone();
    let (launch, no_entry) = match config::launch(ui, target, &connect)? {
        Resolved::Entry(entry) => (*entry, None),
        Resolved::AsTyped { no_entry } => (typed(target)?, no_entry),
    };
    let Launch { destination, shown, place, tools, untrusted, secrets, .. } = launch;
    let mut consent = Consent {
        say: place.is_some().then_some((launch.say, launch.unasked)),
        untrusted: untrusted.map(Box::new),
        secrets: Vec::new(),
    };
    launch.kept.iter().for_each(|text| ui.keep(text));
    consent.hide(ui, &secrets);
    refuse(&connect, &destination, &shown)?;
    // The options of the command line win over the entry.
    connect.timeout = connect.timeout.or(launch.timeout);
    connect.connect_timeout = connect.connect_timeout.or(launch.opening);
    let (mut access, mut withheld) = (None, false);
    let (kind, cached) = match destination {
        Destination::Program(program) => {
            consent.hide(ui, &secret::values(&program.args));
            let (command, is_limited, cached) = child(ui, program, &connect, launch.found)?;
            withheld = is_limited;
            (Kind::Child(command), cached)
        }
        Destination::Remote(remote) => {
            if remote.address.sse && era(&connect) == Some(Era::Modern) {
                let problem = format!("{shown} is HTTP+SSE of 2024-11-05, which only has the older protocol");
                let hint = "leave out --era and --protocol-version, or use the http:// address without sse+";
                return Err(Failure::usage(problem, hint));
            }
            if connect.ca.is_none() {
                connect.ca = remote.ca.as_deref().map(regular).transpose()?;
            }
            let named = place.is_some().then(|| named(target));
            let (to, authorization, secrets) = network::http(ui, &remote, &connect, named.as_deref())?;
            consent.hide(ui, &secrets);
            access = Some(authorization);
            let cached = asks_for_era(&connect).then(|| CachedEra::of_url(&remote.address.url));
            (Kind::Http(to), cached.flatten())
        }
        Destination::Socket(socket) => {
            let to = match &socket {
                Socket::Tcp(address) => Link::tcp(address),
                Socket::Unix(path) => Link::unix(path),
            };
            (Kind::Socket(connect.connect_timeout.into_iter().fold(to, SocketConnect::timeout)), None)
        }
        Destination::Quic(secured) => {
            let connect = with_tls(connect.clone(), &secured)?;
            (Kind::Quic(Box::new(network::quic(&secured.address, &connect)?)), None)
        }
        Destination::Orchestrator(address) => {
            (Kind::Orchestra(OrchestraConnect::new(&address, &connect)?), None)
        }
    };
    let entry = place.as_ref().map(|place| place.file.as_path());
    let names = if connect.no_cache { None } else { ToolNames::of(target, entry).map(Arc::new) };
    let (limits, opening) = match &kind {
        Kind::Http(_) => (limits_over_http(&connect), connect.connect_timeout),
        _ => (limits(&connect), None),
    };
    let answering = match &connect.questions {
        Some(questions) => Some(Answering::new(ui, questions, &asking(target, &shown))?),
        None => None,
    };
    let unmatched = Unmatched::default();
    let answering = |client| {
        let client = answering.iter().fold(client, |client, answering| answering.declare(client));
        unmatched.of(ui, client)
    };
    let (client, first) = client(ui, &connect, limits.clone())?;
    let client = answering(client);
    let trace = trace(ui, &connect)?;
    let remembered = match cached {
        Some(era) if era.is_legacy() => {
            let (legacy, _) = self::client(ui, &connect, self::limits(&connect))?;
            Some(Remembered { era, legacy: Some(answering(legacy.era(EraChoice::Only(Era::Legacy)))) })
        }
        era => era.map(|era| Remembered { era, legacy: None }),
    };
    let name: Arc<str> = SERVER.into();
    let kind = kind.observed(ui, trace.as_ref(), name.clone());
    let fallback = match target {
        Target::Http(address) if !connect.exact_url => {
            address.at_mcp().map(|address| fallback(ui, address, &connect, trace.clone())).transpose()?
        }
        _ => None,
    };
    let endpoint = Endpoint { kind, trace, no_entry, access, withheld, unmatched, name };
    let timeout = connect.timeout;
    Ok(Plan {
        endpoint,
        client,
        shown,
        place,
        first,
        tools,
        names,
        consent,
        remembered,
        limits,
        timeout,
        opening,
        fallback,
        late: None,
    })
}

/// The fallback of a URL without a path. Both plans write the same trace.
fn fallback(
    ui: &Ui,
    address: Http,
    connect: &Connect,
    trace: Option<Trace>,
) -> Result<Box<Fallback>, Failure> {
    let mut plan = plan(ui, &Target::Http(address), &Connect { trace: None, ..connect.clone() })?;
    plan.endpoint.trace = trace;
    let trying = || client(ui, connect, limits_over_http(connect)).map(|(client, _)| client);
    Ok(Box::new(Fallback { first: trying()?, second: trying()?, plan }))
}

/// How a server that is typed is started or reached.
fn typed(target: &Target) -> Result<Launch, Failure> {
    let command = |program, args| Destination::Program(Program { program, args, env: Vec::new(), cwd: None });
    Ok(match target {
        Target::Command { program, args } => {
            let name = program.to_string_lossy();
            let mut shown = exact(&name);
            if !args.is_empty() {
                shown.push_str(&format!(" {}", words_shown(args)));
            }
            let kept = Some(name.into_owned());
            Launch { kept, ..Launch::new(command(program.clone(), args.clone()), shown) }
        }
        Target::Demo(demo) => {
            let shown = format!("mcpjoin {}", words_shown(&demo.arguments()));
            Launch::new(command(own_program()?, demo.arguments()), shown)
        }
        Target::Orchestrator(address) => {
            let shown = format!("orchestra://{}", address.0);
            Launch::new(Destination::Orchestrator(address.clone()), shown)
        }
        // Without such an entry the word is a program.
        Target::Entry(named) => {
            let name = OsStr::new(&named.name);
            Launch::new(command(name.to_owned(), Vec::new()), shown(name))
        }
        Target::Http(address) => {
            let remote =
                Remote { address: address.clone(), headers: Vec::new(), ca: None, oauth: Oauth::default() };
            let shown = words_shown(&[address.to_string().into()]);
            let kept = secret::host(&address.url).map(str::to_owned);
            let secrets = secret::values(&[OsString::from(&address.url)]);
            Launch { kept, secrets, ..Launch::new(Destination::Remote(remote), shown) }
        }
        Target::Quic(address) => {
            let secured = Secured { address: address.clone(), pin: None, ca: None, identity: None };
            Launch::new(Destination::Quic(secured), shown(address.to_string().as_ref()))
        }
        Target::Socket(socket) => {
            Launch::new(Destination::Socket(socket.clone()), shown(socket.to_string().as_ref()))
        }
    })
}

fn own_program() -> Result<OsString, Failure> {
    let ours = std::env::current_exe().map_err(|error| Failure::system(Phase::Spawn, &error))?;
    Ok(ours.into_os_string())
}

/// The options that have an effect for some servers alone, and which servers these are.
const LIMITED_OPTIONS: [(&str, &[&str]); 6] = [
    (OF_A_CHILD, &["-e", "--env-clean", "--inherit-env", "--cwd"]),
    (OF_HTTP, &["--header"]),
    (OF_TLS, &["--ca"]),
    // `--key` requires `--cert`.
    (OF_QUIC, &["--cert"]),
    (OF_MCP_OVER_QUIC, &["--pin"]),
    (OF_ORCHESTRA, &["--certs-dir", "--server-name"]),
];
const OF_A_CHILD: &str = "run as a child";
const OF_HTTP: &str = "over HTTP";
const OF_TLS: &str = "over HTTPS or QUIC";
const OF_QUIC: &str = "over QUIC";
const OF_MCP_OVER_QUIC: &str = "of MCP over QUIC";
const OF_ORCHESTRA: &str = "of Orchestra";

/// Refuses options that have no effect for this server.
fn refuse(connect: &Connect, destination: &Destination, shown: &str) -> Result<(), Failure> {
    let (kinds, is): (&[&str], _) = match destination {
        Destination::Program(_) => (&[OF_A_CHILD], "is run as a child"),
        Destination::Remote(_) => (&[OF_HTTP, OF_TLS], "speaks over HTTP"),
        Destination::Socket(_) => (&[], "is a socket"),
        Destination::Quic(_) => (&[OF_TLS, OF_QUIC, OF_MCP_OVER_QUIC], "speaks MCP over QUIC"),
        Destination::Orchestrator(_) => (&[OF_TLS, OF_QUIC, OF_ORCHESTRA], "is an orchestrator"),
    };
    let given: Vec<&str> = connect.given().collect();
    let others = LIMITED_OPTIONS.iter().filter(|(kind, _)| !kinds.contains(kind));
    let mut useless = others.flat_map(|(kind, options)| options.iter().map(move |option| (*kind, *option)));
    let Some((kind, option)) = useless.find(|(_, option)| given.contains(option)) else { return Ok(()) };
    let is = if kind == OF_A_CHILD { "runs already" } else { is };
    let problem = format!("{option} is for a server {kind}, and {shown} {is}");
    Err(Failure::usage(problem, format!("leave out {option}")))
}

/// The command of a child process, whether it does not get all of our variables, and its cached era. `found`: it is an entry of a
/// file that the user has not named.
fn child(
    ui: &Ui,
    program: Program,
    connect: &Connect,
    found: bool,
) -> Result<(ChildCommand, bool, Option<CachedEra>), Failure> {
    let Program { program, args, env: mut set, cwd } = program;
    let cwd = connect.cwd.clone().or(cwd);
    let variables = variables(&connect.env)?;
    let is_hidden = |(name, value): &&(OsString, OsString)| secret::is_hidden(&name.to_string_lossy(), value);
    let hidden: Vec<OsString> = variables.iter().filter(is_hidden).map(|(_, value)| value.clone()).collect();
    set.extend(variables);
    ui.hide(Secrets::new(&hidden));

    let command = ChildCommand::new(program).args(args);
    let all_variables = !connect.env_clean && (connect.inherit_env || !found && !connect.for_others);
    let (command, withheld) = match all_variables {
        true => (environment::without_ours(command), false),
        false => environment::limited(command),
    };
    let command = set.into_iter().fold(command, |command, (name, value)| command.env(name, value));
    let command = cwd.into_iter().fold(command, ChildCommand::current_dir);
    let cached = asks_for_era(connect).then(|| CachedEra::of_command(&command));
    Ok((command, withheld, cached.flatten()))
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
        Ok(None) => Err(format!("it exceeds the limit of {max_bytes} bytes")),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| {
        let problem = format!("the entry's file {} cannot be read: {why}", shown(path.as_os_str()));
        Failure::usage(problem, "set `ca`, `cert` and `key` of the entry to PEM files")
    })
}

/// The server that asks something, in words that the user has typed.
fn asking(target: &Target, shown: &str) -> String {
    /// A line of a terminal.
    const MAX_CHARS: usize = 70;
    let shown = match target {
        Target::Entry(named) if named.name != shown => format!("{} ({shown})", named.name),
        Target::Demo(demo) => demo.word().into(),
        _ => shown.to_owned(),
    };
    visible::cut_chars(&shown, MAX_CHARS)
}

/// An entry as the user would type it.
fn named(target: &Target) -> String {
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

/// Opens the file of `--trace`.
fn trace(ui: &Ui, connect: &Connect) -> Result<Option<Trace>, Failure> {
    let open = |path: &PathBuf| {
        Trace::to(path, ui).map_err(|error| {
            let problem = format!("the trace {} cannot be written: {error}", shown(path.as_ref()));
            Failure::usage(problem, "--trace FILE, where FILE can be created")
        })
    };
    connect.trace.as_ref().map(open).transpose()
}

/// The client, and the phase that begins with its first request.
fn client(ui: &Ui, connect: &Connect, limits: Limits) -> Result<(ClientBuilder, Phase), Failure> {
    let mut client = Client::builder("mcpjoin", env!("CARGO_PKG_VERSION")).limits(limits);
    let era = connect.era.asked();
    let asked = connect.protocol_version.as_ref().and_then(|version| version.era());
    if let (Some(era), Some(asked)) = (era, asked)
        && era != asked
    {
        return Err(Failure::usage(
            "--era and --protocol-version contradict each other",
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
    if ui.shows_logs() {
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
            let problem = format!("-e {name}: this variable does not exist");
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
