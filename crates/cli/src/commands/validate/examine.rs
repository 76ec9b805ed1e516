//! Examines several servers at once, and makes the report on each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::StatusCode;
use mcpjoin::internal::kind_of_status;
use mcpjoin::proto::session::{CloseCause, TransportError, TransportErrorKind};
use mcpjoin_diagnostics::validate::{ValidateError, Validator};
use mcpjoin_rules::{Selection, check_server};

use super::compatibility::Clients;
use super::report::{Examination, RuleResults, Server};
use super::{calls, openers};
use crate::args::{Connect, ToolCall, Validate};
use crate::config::ToolFilter;
use crate::connect::{Plan, Work, limits, refused, with_each};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::bar;
use crate::target::Target;
use crate::ui::Ui;
use crate::visible::cut_chars;

/// The maximum number of servers that are examined at once. Each may be a program with processes below it.
const MAX_CONCURRENT_SERVERS: usize = 4;
/// The longest text of a response that is no message.
const MAX_GARBAGE_CHARS: usize = 200;

/// The options of the examination, for all servers.
#[derive(Clone)]
pub(super) struct Options {
    selection: Selection,
    openers: bool,
    resilience: bool,
    compatibility: bool,
    calls: Vec<ToolCall>,
    read_only_tools: bool,
    connect: Connect,
}

impl Options {
    pub(super) fn new(args: &Validate, selection: Selection) -> Self {
        Self {
            selection,
            openers: args.eras,
            resilience: args.resilience,
            compatibility: args.compatibility,
            calls: args.call.clone(),
            read_only_tools: args.read_only_tools,
            connect: args.connect.clone(),
        }
    }

    /// Adds the calls of tools. The configuration has to allow the tools.
    fn with_calls(&self, mut validator: Validator, tools: &ToolFilter) -> Result<Validator, Failure> {
        for call in &self.calls {
            tools.permit(&call.tool)?;
            validator = validator.call(call.tool.as_str(), call.arguments.clone());
        }
        if !self.read_only_tools {
            return Ok(validator);
        }
        if !tools.allows_all() {
            // The tools are known only during the run, so they cannot be checked here.
            let problem = "--read-only-tools would call tools that the configuration may not allow";
            return Err(Failure::usage(problem, "list the tools to call: --call TOOL"));
        }
        Ok(validator.read_only_tools())
    }
}

/// Examines all servers, and passes the results in their order to `report`. A signal ends all of it.
pub(super) fn all(
    ui: &Ui,
    targets: &[Target],
    options: Options,
    report: impl AsyncFnOnce(Vec<Server>) -> Exit,
) -> Exit {
    let progress = Progress::new(ui, targets.len());
    let (connect, shared) = (options.connect.clone(), progress.clone());
    let work = move |ui: Ui, name: String, plan: Plan| -> Work<Server> {
        let (options, progress) = (options.clone(), shared.clone());
        Box::pin(async move {
            // The name of an entry, or the command or address.
            let label = if plan.place.is_some() { name } else { plan.shown.clone() };
            let server = one(&ui, ui.hidden(&label).into_owned(), plan, &options, &progress).await;
            progress.done();
            Ok(server)
        })
    };
    with_each(ui, targets, &connect, Some(MAX_CONCURRENT_SERVERS), work, async |servers| {
        let mut examined = Vec::new();
        for server in servers {
            let label = ui.hidden(&server.name).into_owned();
            let result = server.quiet_result().await;
            examined.push(result.unwrap_or_else(|failure| {
                progress.done();
                not_examined(label, failure)
            }));
        }
        ui.line_over();
        report(examined).await
    })
}

fn not_examined(label: String, failure: Failure) -> Server {
    Server {
        shown: label.clone(),
        label,
        place: None,
        took: std::time::Duration::ZERO,
        outcome: Err(failure),
    }
}

async fn one(ui: &Ui, label: String, plan: Plan, options: &Options, progress: &Progress) -> Server {
    let began = Instant::now();
    let endpoint = plan.endpoint.clone();
    let (name, typed, place) = (label.clone(), plan.shown.clone(), plan.place.clone());
    let outcome = examine(ui, name, plan, options, progress).await;
    let took = began.elapsed();
    let complete = |failure: Failure| {
        // Standard error of a child has been read by its own examination.
        let failure = if endpoint.child().is_some() { failure } else { endpoint.explain(failure) };
        failure.and_no_entry(endpoint.no_entry()).with(&typed, took)
    };
    let outcome = match outcome {
        Ok(Examination::Rules(mut checked)) => {
            checked.unauthorized = checked.unauthorized.map(|failure| Box::new(complete(*failure)));
            Ok(Examination::Rules(checked))
        }
        Ok(outcome) => Ok(outcome),
        Err(failure) => Err(complete(failure)),
    };
    Server { label, shown: ui.hidden(&typed).into_owned(), place, took, outcome }
}

async fn examine(
    ui: &Ui,
    label: String,
    plan: Plan,
    options: &Options,
    progress: &Progress,
) -> Result<Examination, Failure> {
    let progress = progress.clone();
    // The name that a user gives the server in the configuration of a client.
    let entry = plan.place.is_some().then(|| label.clone());
    if options.openers {
        let on_opener = |number, opener: &str| progress.show(&label, number, opener, "");
        return openers::examine(ui, &plan, &options.connect, on_opener).await.map(Examination::Openers);
    }
    let mut number = 0;
    let validator = options.with_calls(plan.endpoint.validator()?, &plan.tools)?;
    let validator = with_options(&options.connect, validator, plan.first).on_progress(move |now| {
        let probe = if progress.has_line() { now.probe.as_str() } else { "" };
        if progress.has_line() || number != now.number {
            progress.show(&label, now.number, now.run, probe);
        }
        number = now.number;
    });
    let validator = if options.resilience { validator.resilience() } else { validator };
    let (trace, unauthorized) = match validator.run().await {
        Ok(trace) => (trace, None),
        Err(ValidateError::Unauthorized { status, reason, mut seen }) => {
            let trace = std::mem::take(&mut *seen);
            let failure = failure(ValidateError::Unauthorized { status, reason, seen }, &plan.shown);
            if trace.authorization.is_none() {
                return Err(failure);
            }
            (trace, Some(failure))
        }
        Err(error) => return Err(failure(error, &plan.shown)),
    };
    let mut checked = RuleResults::new(ui, &trace, check_server(&trace, &options.selection));
    checked.unauthorized = unauthorized.map(Box::new);
    checked.calls = calls::notes(ui, &trace, &options.calls);
    if options.compatibility {
        checked.clients = Clients::new(ui, entry.as_deref(), &trace);
    }
    Ok(Examination::Rules(checked))
}

/// The failure if there is no trace. `typed`: the address of the server as it is shown.
fn failure(error: ValidateError, typed: &str) -> Failure {
    match error {
        ValidateError::Spawn(error) => Failure::spawn(&error),
        ValidateError::Socket(error) => Failure::connect(&error),
        ValidateError::Quic(error) => Failure::quic(&error),
        ValidateError::NoSession(failure) => {
            Failure::closed(&CloseCause::Opening(failure), Phase::Initialize)
        }
        ValidateError::Setup(error) => refused(&error),
        ValidateError::Unreachable(error) => Failure::broken(&error, Phase::Connect),
        ValidateError::Unauthorized { status, reason, .. } => {
            let said = reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
            let error = TransportError::new(format!("status {status}{said}"), false);
            let error = error.of(TransportErrorKind::Unauthorized).with_http_status(status);
            let mut failure = Failure::broken(&error, Phase::Probe);
            // A challenge says more than the status.
            failure.seen.http_status = failure.seen.http_status.filter(|_| reason.is_none());
            failure
        }
        ValidateError::Redirected { ref location, .. } => {
            let hint = match location {
                // The server redirects to itself.
                Some(location) if without_query(location) == without_query(typed) => {
                    "the server redirects to the same address: check the server, and a proxy in front of it"
                }
                Some(_) => "nothing was sent there: use that address if it is the right one",
                None => "see the server's own log",
            };
            Failure::new("E_NO_ENDPOINT", Exit::Connection, Phase::Probe, error.to_string()).hint(hint)
        }
        ValidateError::NotMcp { status, content_type, head } => {
            let kind = StatusCode::from_u16(status).map(kind_of_status).unwrap_or_default();
            let page = content_type.as_deref().unwrap_or("no content type");
            let error = TransportError::new(format!("status {status}, {page}"), true).of(kind);
            let mut failure = Failure::broken(&error.with_http_status(status), Phase::Probe);
            if !head.is_empty() {
                failure.seen.garbage = Some(cut_chars(&String::from_utf8_lossy(&head), MAX_GARBAGE_CHARS));
            }
            failure
        }
        error => Failure::new("E_VALIDATE", Exit::Connection, Phase::Initialize, error.to_string()),
    }
}

/// The address without its query, which may contain secrets.
fn without_query(address: &str) -> &str {
    address.split(['?', '#']).next().unwrap_or(address)
}

/// Applies the options for eras, limits and timeouts.
fn with_options(connect: &Connect, validator: Validator, first: Phase) -> Validator {
    let mut validator = validator.limits(limits(connect));
    if let Some(time) = connect.timeout {
        validator = validator.respond_within(time);
    }
    let (mut legacy, mut modern) = (connect.era.has_legacy(), connect.era.has_modern());
    if let Some(version) = &connect.protocol_version {
        if first == Phase::Initialize {
            validator = validator.legacy_version(version.clone());
            modern = false;
        } else {
            legacy = false;
        }
    }
    if !legacy {
        validator = validator.without_legacy();
    }
    if !modern {
        validator = validator.without_modern();
    }
    validator
}

/// Shows the progress: on a line of the terminal, or with `-v` in lines.
#[derive(Clone)]
struct Progress {
    ui: Ui,
    count: usize,
    done: Arc<AtomicUsize>,
}

impl Progress {
    fn new(ui: &Ui, count: usize) -> Self {
        Self { ui: ui.clone(), count, done: Arc::default() }
    }

    fn has_line(&self) -> bool {
        self.ui.has_line()
    }

    /// Shows the current run of a server.
    fn show(&self, label: &str, number: usize, run: &str, probe: &str) {
        if !self.has_line() {
            let whose = if self.count > 1 { format!("{label}: ") } else { String::new() };
            return self.ui.detail(&format!("{whose}run {number}: {run}"));
        }
        let whose = if self.count > 1 { format!("{} {label}: ", self.bar()) } else { String::new() };
        let what = if probe.is_empty() { String::new() } else { format!(": {probe}") };
        self.ui.line(&format!("{whose}run {number}, {run}{what}"));
    }

    /// Counts a server that was examined.
    fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.has_line() && self.count > 1 {
            self.ui.line(&self.bar());
        }
    }

    fn bar(&self) -> String {
        let done = self.done.load(Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss, reason = "a command names fewer servers")]
        let share = done as f64 / self.count as f64;
        format!("{} {done} of {}", bar(share), self.count)
    }
}
