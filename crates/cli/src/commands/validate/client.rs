//! `mcpjoin validate --client`: validates a client, which connects to this program as its server.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;

use mcpjoin::Link;
use mcpjoin::proto::session::ProcessExit;
use mcpjoin::proto::types::Members;
use mcpjoin::proto::types::meta::key;
use mcpjoin::proto::{Message, Raw};
use mcpjoin::transport::{ChildCommand, HttpListener, HttpOptions};
use mcpjoin_diagnostics::validate::{ClientValidator, StopReason};
use mcpjoin_rules::{Chapter, Level, Selection, Trace, What, check_client, client_rules};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::report::{Document, Examination, RuleResults, Server};
use super::{Format, json, render, text};
use crate::args::{ClientLook, Validate};
use crate::commands::serve::demo_server;
use crate::commands::{listen_for_signals, runtime, unwritten, written};
use crate::connect::{Signals, limits, without_ours};
use crate::demo::Demo;
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase, seconds};
use crate::guard::OrphanGuard;
use crate::target::shown;
use crate::ui::Ui;

/// Clients over HTTP have left after this time without a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time from SIGTERM to SIGKILL for a client that we have started.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the client may take to exit after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Is replaced by our address in the command of the client.
const URL_PLACEHOLDER: &str = "{url}";
/// Is replaced by the id of our process in the name of the report.
const PID_PLACEHOLDER: &str = "{pid}";
/// The exit code of a shell that has not found a program.
const PROGRAM_NOT_FOUND: ProcessExit = ProcessExit::Code(127);

/// The trace of a client and how it ended.
struct ClientRun {
    trace: Trace,
    /// The signal that ended it.
    signal: Option<Signal>,
    /// The client that we have started.
    started: Option<StartedClient>,
}

/// The end of the client that we have started.
struct StartedClient {
    /// How it exited by itself; `None` if we have ended it.
    exit: Option<ProcessExit>,
    /// The end of its standard error.
    stderr: Bytes,
}

/// Serves clients, and applies the rules to them. `escaped`: `--` stood before the first word.
pub(super) fn run(ui: &Ui, args: &Validate, escaped: bool) -> Result<Exit, Failure> {
    let only = args.rule.iter().map(String::as_str);
    let selection = Selection::for_clients(only, args.skip.iter().map(String::as_str)).map_err(|error| {
        let used = |chapter: &Chapter| client_rules().any(|rule| rule.chapter == *chapter);
        let chapters: Vec<&str> =
            Chapter::ALL.iter().filter(|chapter| used(chapter)).map(|chapter| chapter.as_str()).collect();
        let hint = format!(
            "mcpjoin validate --client --rules shows the rules; the chapters are {}",
            chapters.join(", ")
        );
        Failure::usage(error.to_string(), hint)
    })?;
    if args.rules {
        let selected = client_rules().filter(|rule| selection.has(rule));
        let text = match args.form() {
            Format::Json => json::book(selected),
            _ => text::book(selected),
        };
        return Ok(written(ui, ui.result(&text)));
    }
    let look = &args.client;
    if look.listen.is_none() && !args.words.is_empty() {
        return Err(Failure::usage(
            "the client's command needs --listen",
            "mcpjoin validate --client --listen http://127.0.0.1:0/mcp -- my-client {url}",
        ));
    }
    if !args.words.is_empty() && !escaped {
        return Err(Failure::usage(
            "the client's command must follow --",
            "mcpjoin validate --client --listen http://127.0.0.1:0/mcp -- my-client {url}",
        ));
    }
    let place = look.report.as_deref().map(ReportFile::new).transpose()?;
    let began = Instant::now();
    let runtime = runtime(Phase::Serve)?;
    // Guards the client that we start. Dropped when it has ended.
    let guarded = (!args.words.is_empty()).then(OrphanGuard::start);
    let run = runtime.block_on(serve(ui, args));
    drop(guarded);
    let run = run?;
    if run.trace.runs.is_empty() {
        return match run.signal {
            Some(signal) => Ok(Exit::Signal(signal)),
            None => Err(no_client(args, run.started, began.elapsed())),
        };
    }
    if let Some(exit) =
        run.started.as_ref().and_then(|started| started.exit).filter(|exit| *exit != ProcessExit::Code(0))
    {
        ui.note(&format!("the client's command exited with {exit}"));
    }
    let name = ui.hidden(&name(&run.trace)).into_owned();
    let report = check_client(&run.trace, &selection);
    let checked = RuleResults::new(ui, &run.trace, report);
    let least = if args.strict { Level::Should } else { Level::Must };
    let failed = checked.has_failed(least);
    let server = Server {
        label: name.clone(),
        shown: name,
        place: None,
        took: began.elapsed(),
        outcome: Ok(Examination::Rules(checked)),
    };
    let document = Document { servers: vec![server], several: false, least, baseline: None };
    let text = render(ui, args, &document);
    let exit = match place {
        // Standard output carries messages, so the report goes to standard error.
        None => written(ui, ui.result(&text)),
        Some(place) => place.save(&text)?,
    };
    Ok(match (exit, run.signal) {
        (Exit::Done, Some(signal)) => Exit::Signal(signal),
        (Exit::Done, None) if failed => Exit::Faults,
        (exit, _) => exit,
    })
}

async fn serve(ui: &Ui, args: &Validate) -> Result<ClientRun, Failure> {
    let mut signals = listen_for_signals(Phase::Serve)?;
    let limits = limits(&args.connect);
    let server = demo_server(Demo::Full.builder(limits.clone()))?;
    let look = &args.client;
    let mut validator = ClientValidator::new(server).limits(limits);
    if let Some(time) = args.connect.timeout {
        validator = validator.respond_within(time);
    }
    if look.refuse_version {
        validator = validator.refusing();
    }
    if look.disturb {
        validator = validator.disturbing();
    }
    match &look.listen {
        None => over_stdio(validator, look, &mut signals).await,
        Some(address) => over_http(ui, validator, address, args, &mut signals).await,
    }
}

/// Serves the client that has started us.
async fn over_stdio(
    validator: ClientValidator,
    look: &ClientLook,
    signals: &mut Signals,
) -> Result<ClientRun, Failure> {
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let mut ended = None;
    let end = async {
        ended = signals.until(elapsed(look.during)).await.err();
        ended.map_or(StopReason::Over, |signal| StopReason::Signal(number(signal)))
    };
    let trace = validator.serve(link, end).await;
    Ok(ClientRun { trace, signal: ended, started: None })
}

/// The failure if no client has sent anything.
fn no_client(args: &Validate, started: Option<StartedClient>, took: Duration) -> Failure {
    let failure = |message: &str| Failure::new("E_NO_CLIENT", Exit::Connection, Phase::Serve, message);
    let Some((started, words)) = started.filter(|_| !args.words.is_empty()).zip(Some(&args.words)) else {
        return failure("no client connected")
            .hint("configure the client to start this command, or to connect to this address");
    };
    let has_url = words.iter().any(|word| word.to_str().is_some_and(|word| word.contains(URL_PLACEHOLDER)));
    let mut failure = match started.exit {
        Some(_) => failure("the client's command exited without connecting"),
        None => failure(&format!(
            "the client's command did not connect within {}",
            seconds(args.client.during.unwrap_or(took))
        )),
    };
    failure = failure.hint(match started.exit {
        Some(PROGRAM_NOT_FOUND) => "the shell did not find a program: install it, or add it to PATH",
        _ if !has_url => "give it the address: {url} in its command is replaced by it",
        Some(_) => "run the command by itself, with the address of a working server instead of {url}",
        None => "allow more time with --for; check that it connects without a user's action",
    });
    let line: Vec<_> = words.iter().map(|word| shown(word)).collect();
    failure = failure.with(&line.join(" "), took).stderr(&started.stderr);
    failure.seen.status = started.exit;
    failure
}

/// Serves clients at an address. One of them may be started by us.
async fn over_http(
    ui: &Ui,
    validator: ClientValidator,
    address: &str,
    args: &Validate,
    signals: &mut Signals,
) -> Result<ClientRun, Failure> {
    let listener = HttpListener::bind(address).await.map_err(|error| Failure::listen_http(&error))?;
    let url = listener.url();
    if !listener.address().ip().is_loopback() {
        ui.warning("everyone who can reach this port can use this server");
    }
    ui.note(&format!("listening on {}", crate::visible::line(&url)));
    let during = args.client.during;
    if let Some(command) = command(ui, &args.words, &url) {
        return over_http_to_started(ui, validator, listener, command, during, signals).await;
    }
    let idle = if during.is_some() { None } else { Some(IDLE_TIMEOUT) };
    let mut ended = None;
    let end = async {
        ended = signals.until(elapsed(during)).await.err();
        StopReason::Over
    };
    let trace = validator.serve_http(listener, HttpOptions::new(), idle, end).await;
    Ok(ClientRun { trace, signal: ended, started: None })
}

/// Serves the client that we start. It does not outlive the run, and neither do its processes.
async fn over_http_to_started(
    ui: &Ui,
    validator: ClientValidator,
    listener: HttpListener,
    command: ChildCommand,
    during: Option<Duration>,
    signals: &mut Signals,
) -> Result<ClientRun, Failure> {
    let client = command.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let (leave, left) = oneshot::channel::<()>();
    let mut running = Box::pin(command.run(async {
        let _ = stopped.await;
    }));
    let mut ended = None;
    let end = async {
        // Dropped when serving ends, also at its limits: then the client is ended.
        let _stop = stop;
        tokio::select! {
            signal = signals.next() => {
                ended = Some(signal);
                StopReason::Over
            }
            () = elapsed(during) => StopReason::Over,
            _ = left => StopReason::Gone(None),
        }
    };
    let (mut leave, mut ran) = (Some(leave), None);
    let trace = {
        let mut serving = pin!(validator.serve_http(listener, HttpOptions::new(), None, end));
        loop {
            tokio::select! {
                trace = &mut serving => break trace,
                outcome = &mut running, if ran.is_none() => {
                    ran = Some(outcome);
                    drop(leave.take());
                }
            }
        }
    };
    // A later exit is caused by us.
    let by_itself = ran.is_some();
    if ran.is_none() {
        // A signal ends the wait.
        match signals.until(&mut running).await {
            Ok(outcome) => ran = Some(outcome),
            Err(signal) => _ = ended.get_or_insert(signal),
        }
    }
    // Kills the processes that are left.
    drop(running);
    let report = match ran {
        Some(Ok(report)) => Some(report),
        Some(Err(error)) => {
            return Err(Failure::spawn(&error).hint("check that it is on PATH and executable"));
        }
        None => timeout(KILL_TIMEOUT, client.ended()).await.ok().flatten(),
    };
    for left in report.iter().flat_map(|report| &report.survivors) {
        let name = crate::visible::line(&left.name);
        ui.warning(&format!("process {} ({name}), which the client started, is still running", left.pid));
    }
    let exit = report.and_then(|report| report.exit).filter(|_| by_itself);
    Ok(ClientRun { trace, signal: ended, started: Some(StartedClient { exit, stderr: client.stderr() }) })
}

/// The command of the client, if there is one.
fn command(ui: &Ui, words: &[OsString], url: &str) -> Option<ChildCommand> {
    let (program, arguments) = words.split_first()?;
    let filled = |word: &OsString| match word.to_str() {
        Some(word) => OsString::from(word.replace(URL_PLACEHOLDER, url)),
        None => word.clone(),
    };
    let command = without_ours(ChildCommand::new(program).args(arguments.iter().map(filled)));
    // Our standard output contains only the report.
    let ui = ui.clone();
    let command = command.stderr(move |line| {
        ui.program_line(&String::from_utf8_lossy(line));
    });
    Some(command.shutdown(Duration::ZERO, TERMINATE_TIMEOUT))
}

/// Ready after this time; without a time, never.
async fn elapsed(during: Option<Duration>) {
    match during {
        Some(during) => tokio::time::sleep(during).await,
        None => pending().await,
    }
}

const fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Hangup => 1,
        Signal::Interrupt => 2,
        Signal::Terminate => 15,
    }
}

/// The name and the version of the client.
fn name(trace: &Trace) -> String {
    let lines = trace.runs.iter().flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    let mut infos = lines.flat_map(|line| line.parts()).filter_map(|part| {
        let Ok(Message::Request(request)) = part else { return None };
        let params = request.params.as_ref()?;
        let of = |raw: &Raw, name: &str| raw.decode::<Members<Raw>>().ok()?.get(name).cloned();
        of(params.raw(), "clientInfo").or_else(|| of(&params.meta()?, key::CLIENT_INFO))
    });
    let Some(info) = infos.next().and_then(|info| info.decode::<Members<Raw>>().ok()) else {
        return "a client without a name".into();
    };
    let said = |name| info.get(name).and_then(|value| value.to_string_value()).unwrap_or_default();
    format!("{} {}", said("name"), said("version")).trim().to_owned()
}

/// The file for the report. It is opened first, so that a missing folder is reported at the start and not after minutes
/// of serving a client.
struct ReportFile {
    path: PathBuf,
    /// We have created the file and not written it: it is removed on drop.
    made: bool,
}

impl ReportFile {
    /// # Errors
    /// The file cannot be written.
    fn new(path: &Path) -> Result<Self, Failure> {
        let path = match path.to_str() {
            Some(name) => PathBuf::from(name.replace(PID_PLACEHOLDER, &std::process::id().to_string())),
            None => path.to_owned(),
        };
        let known = std::fs::metadata(&path).ok();
        // Opening a pipe waits for its reader. Pipes and terminals are opened when the report is written.
        if known.as_ref().is_none_or(|known| known.is_file() || known.is_dir()) {
            let opened = OpenOptions::new().append(true).create(true).open(&path);
            opened.map_err(|error| unwritten(&shown(path.as_os_str()), &error))?;
        }
        Ok(Self { path, made: known.is_none() })
    }

    /// Writes the report without styles.
    fn save(mut self, text: &str) -> Result<Exit, Failure> {
        let plain = anstream::adapter::strip_str(text).to_string();
        self.made = false;
        std::fs::write(&self.path, plain.trim_end().to_owned() + "\n")
            .map(|()| Exit::Done)
            .map_err(|error| unwritten(&shown(self.path.as_os_str()), &error))
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        // Another process may have written its report there.
        if self.made && std::fs::metadata(&self.path).is_ok_and(|known| known.len() == 0) {
            // An empty file stays if that fails.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
