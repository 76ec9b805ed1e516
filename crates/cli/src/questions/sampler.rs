//! `--sampler`: a command of the user that answers for a language model.
//!
//! Used by the parent for `sampling/createMessage`. The user's shell interprets the command, as the user has typed all of it; nothing
//! of the server is part of it. Its processes are ended with it.
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/sampling>

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::internal::ProgramOutput;
use mcpjoin::proto::session::ProcessExit;
use mcpjoin::proto::types::{CreateMessageParams, CreateMessageResult, SamplingContent};
use mcpjoin::proto::{Kind, Raw};
use mcpjoin::transport::ChildCommand;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::connect::without_ours;
use crate::visible;

/// How long the command may take: as long as a request may take in all.
const SAMPLER_TIMEOUT: Duration = Duration::from_secs(600);
/// How much the command may print. The rest of the program keeps so much of what a program prints.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// The last characters of standard error that an error contains.
const MAX_STDERR_CHARS: usize = 400;
/// The model of a result that names none.
const MODEL: &str = "sampler";

/// Runs the command with the request on its standard input. The error is a sentence.
pub(super) async fn sample(
    command: &str,
    params: &CreateMessageParams,
) -> Result<CreateMessageResult, String> {
    let request = Raw::from_value(params).map_err(|error| error.to_string())?;
    let shell = ChildCommand::new("/bin/sh").args(["-c", command]);
    let shell = without_ours(shell).shutdown(Duration::ZERO, Duration::from_secs(1));
    let (printed, full) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, is_full) = (printed.clone(), full.clone());
    let shell = shell.stderr(move |line| {
        if counted.fetch_add(line.len() + 1, Ordering::Relaxed) > 2 * MAX_OUTPUT_BYTES {
            is_full.notify_one();
        }
    });
    let end = async {
        // What is longer than both of its outputs may be is too long for one of them.
        let _ = timeout(SAMPLER_TIMEOUT, full.notified()).await;
    };
    let output = shell.output_for(format!("{request}\n").into(), end).await;
    let output = output.map_err(|error| error.to_string())?;
    if output.timed_out && printed.load(Ordering::Relaxed) > 2 * MAX_OUTPUT_BYTES {
        return Err(format!("it printed more than {} KiB", MAX_OUTPUT_BYTES >> 10));
    }
    result(&output)
}

/// The result that the command has printed.
fn result(output: &ProgramOutput) -> Result<CreateMessageResult, String> {
    if output.timed_out {
        return Err(format!("it did not end within {} s", SAMPLER_TIMEOUT.as_secs()));
    }
    match output.report.exit {
        Some(ProcessExit::Code(0)) => {}
        Some(exit) => return Err(format!("it ended with {exit}{}", stderr(output))),
        None => return Err(format!("its exit status is unknown{}", stderr(output))),
    }
    if output.stdout.len() >= MAX_OUTPUT_BYTES {
        return Err(format!("it printed more than {} KiB", MAX_OUTPUT_BYTES >> 10));
    }
    let text = std::str::from_utf8(&output.stdout).map_err(|_| "it printed text that is not UTF-8")?;
    let text = text.trim_end();
    if text.is_empty() {
        return Err(format!("it printed nothing{}", stderr(output)));
    }
    let object = Raw::parse(text.to_owned()).ok().filter(|json| json.kind() == Kind::Object);
    let Some(content) = object.as_ref().and_then(|object| object.member("content")) else {
        return Ok(CreateMessageResult::text(text, MODEL));
    };
    let object = object.as_ref();
    let member = |name: &str, default: &str| {
        object.and_then(|object| object.member(name)).unwrap_or_else(|| Raw::string(default))
    };
    let mut members = vec![("role", member("role", "assistant")), ("model", member("model", MODEL))];
    members
        .extend(object.and_then(|object| object.member("stopReason")).map(|reason| ("stopReason", reason)));
    // A text in place of a content is what most models return.
    let content = match content.to_string_value() {
        Some(text) => Raw::from_value(&SamplingContent::text(text)).map_err(|error| error.to_string())?,
        None => content,
    };
    members.push(("content", content));
    let result = Raw::parse(crate::object::write(members)).map_err(|error| error.to_string())?;
    result.decode().map_err(|error| format!("its output is not a sampling result: {error}"))
}

/// The end of its standard error.
fn stderr(output: &ProgramOutput) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let skipped = text.chars().count().saturating_sub(MAX_STDERR_CHARS);
    let end: String = text.chars().skip(skipped).collect();
    format!(": {}{}", if skipped > 0 { "…" } else { "" }, visible::line(&end))
}
