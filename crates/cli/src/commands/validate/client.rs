//! `mcpjoin validate --client`: is this client right? We are the server that it connects to.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;

use mcpjoin::Link;
use mcpjoin::link::{ChildCommand, HttpListener, HttpOptions};
use mcpjoin::proto::session::ProcessExit;
use mcpjoin::proto::types::Members;
use mcpjoin::proto::types::meta::key;
use mcpjoin::proto::{Message, Raw};
use mcpjoin_diagnostics::validate::{ClientValidator, Leaving};
use mcpjoin_rules::{Chapter, Level, Selection, Trace, What, client_rules, judge_client};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::report::{Document, Judged, Seen, Server};
use super::{Format, json, page, rendered};
use crate::args::{ClientLook, Validate};
use crate::commands::{unwritten, written};
use crate::connect::{Signals, limits, without_ours};
use crate::demo;
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase, seconds};
use crate::guard::OrphanGuard;
use crate::target::shown;
use crate::ui::Ui;

/// Clients over HTTP have left when there was no connection for this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL for the client that we have started: it has lost its server.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to exit after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Stands for our address in the words of the client's command.
const URL_PLACEHOLDER: &str = "{url}";
/// Stands for the id of our process in the name of the file.
const PID_PLACEHOLDER: &str = "{pid}";
/// How a shell says that it has not found a program.
const PROGRAM_NOT_FOUND: ProcessExit = ProcessExit::Code(127);

/// How it ended.
struct Looked {
    trace: Trace,
    /// By a signal.
    signal: Option<Signal>,
    /// The client that we have started.
    ours: Option<Ours>,
}

/// What became of the client that we have started.
struct Ours {
    /// How it has ended by itself; `None` when we have ended it.
    exit: Option<ProcessExit>,
    /// The last that it wrote to standard error.
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
            _ => page::book(selected),
        };
        return Ok(written(ui, ui.result(&text)));
    }
    let look = &args.client;
    if look.listen.is_none() && !args.words.is_empty() {
        return Err(Failure::usage(
            "a client that is to be started needs to know where the server is",
            "mcpjoin validate --client --listen http://127.0.0.1:0/mcp -- my-client {url}",
        ));
    }
    if !args.words.is_empty() && !escaped {
        return Err(Failure::usage(
            "the client's command stands after --",
            "mcpjoin validate --client --listen http://127.0.0.1:0/mcp -- my-client {url}",
        ));
    }
    let place = look.report.as_deref().map(ReportFile::new).transpose()?;
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(Phase::Serve, &error))?;
    // Dismissed at the end. It is needed for a client that we start.
    let guarded = (!args.words.is_empty()).then(OrphanGuard::start);
    let looked = runtime.block_on(look_at(ui, args));
    drop(guarded);
    let looked = looked?;
    if looked.trace.runs.is_empty() {
        return match looked.signal {
            Some(signal) => Ok(Exit::Signal(signal)),
            None => Err(nobody(args, looked.ours, began.elapsed())),
        };
    }
    if let Some(exit) =
        looked.ours.as_ref().and_then(|ours| ours.exit).filter(|exit| *exit != ProcessExit::Code(0))
    {
        ui.note(&format!("the client's command has ended with {exit}"));
    }
    let name = ui.hidden(&name(&looked.trace)).into_owned();
    let report = judge_client(&looked.trace, &selection);
    let judged = Judged::new(ui, &looked.trace, report);
    let least = if args.strict { Level::Should } else { Level::Must };
    let failed = judged.has_failed(least);
    let server = Server {
        label: name.clone(),
        shown: name,
        place: None,
        took: began.elapsed(),
        seen: Ok(Seen::Judged(judged)),
    };
    let document = Document { servers: vec![server], several: false, least, baseline: None };
    let text = rendered(ui, args, &document);
    let exit = match place {
        // What crosses goes over standard output; what is printed goes to standard error then.
        None => written(ui, ui.result(&text)),
        Some(place) => place.save(&text)?,
    };
    Ok(match (exit, looked.signal) {
        (Exit::Done, Some(signal)) => Exit::Signal(signal),
        (Exit::Done, None) if failed => Exit::Faults,
        (exit, _) => exit,
    })
}

async fn look_at(ui: &Ui, args: &Validate) -> Result<Looked, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let limits = limits(&args.connect);
    let server = demo::server(limits.clone()).map_err(|error| {
        Failure::new("E_DEMO", Exit::Usage, Phase::Serve, error.to_string())
            .hint("tell the authors of mcpjoin")
    })?;
    let look = &args.client;
    let mut validator = ClientValidator::new(server).limits(limits);
    if let Some(time) = args.connect.timeout {
        validator = validator.answer_within(time);
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

/// The client that has started us.
async fn over_stdio(
    validator: ClientValidator,
    look: &ClientLook,
    signals: &mut Signals,
) -> Result<Looked, Failure> {
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let mut ended = None;
    let end = async {
        tokio::select! {
            signal = signals.next() => {
                ended = Some(signal);
                Leaving::Signal(number(signal))
            }
            () = passed(look.during) => Leaving::Over,
        }
    };
    let trace = validator.serve(link, end).await;
    Ok(Looked { trace, signal: ended, ours: None })
}

/// Why there is no trace of a client.
fn nobody(args: &Validate, ours: Option<Ours>, took: Duration) -> Failure {
    let failure = |message: &str| Failure::new("E_NO_CLIENT", Exit::Connection, Phase::Serve, message);
    let Some((ours, words)) = ours.filter(|_| !args.words.is_empty()).zip(Some(&args.words)) else {
        return failure("no client has said anything")
            .hint("was it told to start this, or to connect to that address?");
    };
    let told = words.iter().any(|word| word.to_str().is_some_and(|word| word.contains(URL_PLACEHOLDER)));
    let mut failure = match ours.exit {
        Some(_) => failure("the client's command has ended, and has said nothing to us"),
        None => failure(&format!(
            "the client's command has said nothing to us in {}",
            seconds(args.client.during.unwrap_or(took))
        )),
    };
    failure = failure.hint(match ours.exit {
        Some(PROGRAM_NOT_FOUND) => "the shell has not found a program: is it installed, and on PATH?",
        _ if !told => "where is it told to connect to? {url} in its command stands for our address",
        Some(_) => "run the command by itself, with the address of a server that works in place of {url}",
        None => "give it more time: --for; does it connect without being asked to?",
    });
    let line: Vec<_> = words.iter().map(|word| shown(word)).collect();
    failure = failure.with(&line.join(" "), took).stderr(&ours.stderr);
    failure.seen.status = ours.exit;
    failure
}

/// Clients that come to an address, one of which may be started by us.
async fn over_http(
    ui: &Ui,
    validator: ClientValidator,
    address: &str,
    args: &Validate,
    signals: &mut Signals,
) -> Result<Looked, Failure> {
    let listener = HttpListener::bind(address).await.map_err(|error| Failure::listen_http(&error))?;
    let url = listener.url();
    if !listener.address().ip().is_loopback() {
        ui.warning("whoever can reach this port can use this server");
    }
    ui.note(&format!("listening on {}", crate::visible::line(&url)));
    let during = args.client.during;
    if let Some(command) = command(ui, &args.words, &url) {
        return over_http_to_ours(ui, validator, listener, command, during, signals).await;
    }
    let idle = if during.is_some() { None } else { Some(IDLE_TIMEOUT) };
    let mut ended = None;
    let end = async {
        tokio::select! {
            signal = signals.next() => ended = Some(signal),
            () = passed(during) => {}
        }
        Leaving::Over
    };
    let trace = validator.serve_http(listener, HttpOptions::new(), idle, end).await;
    Ok(Looked { trace, signal: ended, ours: None })
}

/// The client that we start. Neither it nor anything that it has started outlives the look.
async fn over_http_to_ours(
    ui: &Ui,
    validator: ClientValidator,
    listener: HttpListener,
    command: ChildCommand,
    during: Option<Duration>,
    signals: &mut Signals,
) -> Result<Looked, Failure> {
    let client = command.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let (leave, left) = oneshot::channel::<()>();
    let mut running = Box::pin(command.run(async {
        let _ = stopped.await;
    }));
    let mut ended = None;
    let end = async {
        // Dropped with this, also when enough has been noted: then the client is ended.
        let _stop = stop;
        tokio::select! {
            signal = signals.next() => {
                ended = Some(signal);
                Leaving::Over
            }
            () = passed(during) => Leaving::Over,
            _ = left => Leaving::Gone(None),
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
    // What ends afterwards is ended by us.
    let by_itself = ran.is_some();
    if ran.is_none() {
        tokio::select! {
            biased;
            // A signal ends the wait.
            signal = signals.next() => {
                ended.get_or_insert(signal);
            }
            outcome = &mut running => ran = Some(outcome),
        }
    }
    // What is there yet, is killed.
    drop(running);
    let report = match ran {
        Some(Ok(report)) => Some(report),
        Some(Err(error)) => return Err(Failure::spawn(&error).hint("is it on PATH, and may it be run?")),
        None => timeout(KILL_TIMEOUT, client.ended()).await.ok().flatten(),
    };
    for left in report.iter().flat_map(|report| &report.survivors) {
        let name = crate::visible::line(&left.name);
        ui.warning(&format!("process {} ({name}), which the client has started, is still there", left.pid));
    }
    let exit = report.and_then(|report| report.exit).filter(|_| by_itself);
    Ok(Looked { trace, signal: ended, ours: Some(Ours { exit, stderr: client.stderr() }) })
}

/// How the client is started, where there is one to be started.
fn command(ui: &Ui, words: &[OsString], url: &str) -> Option<ChildCommand> {
    let (program, arguments) = words.split_first()?;
    let filled = |word: &OsString| match word.to_str() {
        Some(word) => OsString::from(word.replace(URL_PLACEHOLDER, url)),
        None => word.clone(),
    };
    let command = without_ours(ChildCommand::new(program).args(arguments.iter().map(filled)));
    // Our own standard output has the report, and nothing else.
    let ui = ui.clone();
    let command = command.stderr(move |line| {
        ui.program_line(&String::from_utf8_lossy(line));
    });
    Some(command.shutdown(Duration::ZERO, TERMINATE_TIMEOUT))
}

/// Ready after that time; never, without one.
async fn passed(during: Option<Duration>) {
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

/// What the client says of itself.
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

/// The file that the report goes to. It is opened before anything is done: a folder that does not exist is not found out after
/// ten minutes of serving a client.
struct ReportFile {
    path: PathBuf,
    /// The file was made by us and has no report yet: it is removed when there is none.
    made: bool,
}

impl ReportFile {
    /// # Errors
    /// When nothing can be written there.
    fn new(path: &Path) -> Result<Self, Failure> {
        let path = match path.to_str() {
            Some(name) => PathBuf::from(name.replace(PID_PLACEHOLDER, &std::process::id().to_string())),
            None => path.to_owned(),
        };
        let known = std::fs::metadata(&path).ok();
        // A pipe waits for its reader, and a terminal is there: they are opened when there is something to say.
        if known.as_ref().is_none_or(|known| known.is_file() || known.is_dir()) {
            let opened = OpenOptions::new().append(true).create(true).open(&path);
            opened.map_err(|error| unwritten(&shown(path.as_os_str()), &error))?;
        }
        Ok(Self { path, made: known.is_none() })
    }

    /// Writes the report, without styles.
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
        if self.made {
            // Where that fails, an empty file stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
