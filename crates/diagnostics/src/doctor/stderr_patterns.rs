//! Messages on standard error that do not depend on the program: those of operating systems, runtimes and package managers.
//!
//! Used for servers that are child processes. The rows are in `table`. A line that is not recognised is shown as it is, and
//! changes no finding. Nothing is executed and no file is read because of what a line says.

mod table;
#[cfg(test)]
mod tests;

use self::table::{PATTERNS, Pattern};
use super::findings::fill;
use super::report::Finding;

/// Lines of standard error that a finding shows.
const MAX_STDERR_LINES: usize = 12;
/// Characters of a line that a finding shows.
const MAX_LINE_CHARS: usize = 400;
/// Characters of a value that is taken from a line.
const MAX_VALUE_CHARS: usize = 120;

/// The last lines that a server wrote to standard error.
pub(super) fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(MAX_STDERR_LINES)..].iter().map(|line| truncate_line(line)).collect()
}

/// A line as a finding shows it. Not escaped: whatever prints it does that.
pub(super) fn truncate_line(line: &str) -> String {
    truncated(line, MAX_LINE_CHARS)
}

fn truncated(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Turns a finding into that of the first row of which a line is found in this standard error. Returns whether there is one.
pub(super) fn recognize(finding: &mut Finding, stderr: &[u8]) -> bool {
    let Some((row, values)) = matched(&String::from_utf8_lossy(stderr)) else { return false };
    let values = borrowed(&values);
    finding.seen = fill(row.seen, &values);
    finding.becomes(&row.kind, &values);
    true
}

/// The fault that a program has named on its standard error before it exited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownFault {
    /// The fault in one sentence.
    pub seen: String,
    /// What to do.
    pub advice: String,
}

impl KnownFault {
    /// Reads the standard error of a program that exited by itself. `None` where none of its lines is one of a known runtime,
    /// package manager or system.
    pub fn of_stderr(stderr: &str) -> Option<Self> {
        let (row, values) = matched(stderr)?;
        let values = borrowed(&values);
        let [_, advice] = row.kind.texts(&values);
        Some(Self { seen: fill(row.seen, &values), advice })
    }
}

/// The first row of which a line is found, with the values of its placeholders.
fn matched(stderr: &str) -> Option<(&'static Pattern, Vec<(&'static str, String)>)> {
    let (row, values) = PATTERNS.iter().find_map(|row| {
        let mut found = row.lines.iter().flat_map(|pattern| stderr.lines().map(move |line| (pattern, line)));
        found.find_map(|(pattern, line)| Some((row, values(pattern, line)?)))
    })?;
    let values = values.into_iter().map(|(name, value)| (name, truncated(value, MAX_VALUE_CHARS)));
    Some((row, values.collect()))
}

fn borrowed<'a>(values: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    values.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// The values of the placeholders of a pattern in a line that contains it. The value of a placeholder at the beginning is one
/// word; of one at the end, the rest of the line.
fn values<'l>(pattern: &'static str, line: &'l str) -> Option<Vec<(&'static str, &'l str)>> {
    let mut pieces = pattern.split('{');
    let mut last_literal = pieces.next()?;
    let (_, mut rest) = line.split_once(last_literal)?;
    let mut is_first = last_literal.is_empty();
    let mut values = Vec::new();
    for piece in pieces {
        let (name, literal) = piece.split_once('}')?;
        let (text, after) = match literal {
            "" => (rest, ""),
            literal => rest.split_once(literal)?,
        };
        // The shortest text between the two literals.
        let text = if is_first { text } else { text.rsplit(last_literal).next()? };
        let value = match name {
            "VARIABLE" | "SETTING" => variable(text, is_first, name == "SETTING")?,
            _ if is_first => text.trim_end().rsplit(char::is_whitespace).next()?,
            // The end of the sentence is no part of the value.
            _ if literal.is_empty() => text.trim().trim_end_matches(['.', ',']),
            _ => text.trim(),
        };
        if value.is_empty() {
            return None;
        }
        values.push((if name == "SETTING" { "VARIABLE" } else { name }, value));
        (rest, is_first, last_literal) = (after, false, literal);
    }
    Some(values)
}

/// The name of an environment variable at the end of a text, or at its beginning.
fn variable(text: &str, at_end: bool, with_underscore: bool) -> Option<&str> {
    let text = text.trim_matches(['\'', '"', '`', '$', '(', ')', ':', ' ', '[', ']', '.']);
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let name = match at_end {
        true => &text[text.trim_end_matches(is_part).len()..],
        false => &text[..text.len() - text.trim_start_matches(is_part).len()],
    };
    let is_name = name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && (!with_underscore || name.contains('_'));
    is_name.then_some(name)
}

/// Whether a program that ended without an error code says that it has failed.
pub(super) fn reports_failure(lines: &[String]) -> bool {
    const WORDS: [&str; 6] = ["error", "fatal", "failed", "exception", "traceback", "cannot"];
    lines.iter().any(|line| {
        let small = line.to_ascii_lowercase();
        WORDS.iter().any(|word| small.contains(word))
    })
}

/// The URL at which a program says that it listens, from the first line of its output that says so. One that names a port alone
/// is taken to mean this machine; without a path it is that of most servers.
pub fn listening_url(lines: &[String]) -> Option<String> {
    const WORDS: [&str; 5] = ["listening", "running", "serving", "started", "available"];
    // A server on standard input and output may listen for the browser of a login.
    const LOGIN: [&str; 3] = ["callback", "oauth", "authoriz"];
    lines.iter().find_map(|line| {
        let small = line.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
        if !has(&WORDS) || has(&LOGIN) {
            return None;
        }
        // Brackets, quotes and the control characters of colours are no part of the URL.
        let mut words = line.split(|c: char| c.is_whitespace() || c.is_control() || "()<>\"'`".contains(c));
        let url = words.find(|word| word.starts_with("http://") || word.starts_with("https://"));
        match url {
            Some(url) => Some(with_path(url.trim_end_matches(['.', ',', ';', ':']))),
            None => Some(format!("http://127.0.0.1:{}/mcp", port(&small)?)),
        }
    })
}

/// The URL, with the address of this machine in place of that of every interface, and with a path.
fn with_path(url: &str) -> String {
    let url = url.replacen("://0.0.0.0", "://127.0.0.1", 1);
    let (_, after) = url.split_once("://").unwrap_or_default();
    match after.split_once('/') {
        None => format!("{url}/mcp"),
        Some((_, "")) => format!("{url}mcp"),
        Some(_) => url,
    }
}

/// The port that a line in small letters names: `port 3000`, `port: 3000`, `0.0.0.0:3000`, `:3000`.
fn port(line: &str) -> Option<u16> {
    let number = |text: &str| {
        let text = text.trim_start_matches([':', '=', ' ', '#']);
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u16>().ok().filter(|port| *port > 0)
    };
    let named = line.match_indices("port").find_map(|(at, word)| number(&line[at + word.len()..]));
    let addressed = || {
        let hosts = ["localhost:", "127.0.0.1:", "0.0.0.0:", "[::]:", " :"];
        hosts.iter().find_map(|host| number(line.split_once(host)?.1))
    };
    named.or_else(addressed)
}

/// The meaning of a signal that a program causes itself.
pub(super) fn crash(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    [
        (Signal::SEGV, "it accessed invalid memory (SIGSEGV)"),
        (Signal::BUS, "it accessed missing memory (SIGBUS)"),
        (Signal::ILL, "it used an instruction that this processor does not have (SIGILL)"),
        (Signal::ABORT, "it aborted (SIGABRT), usually after an uncaught error"),
    ]
    .into_iter()
    .find_map(|(known, meaning)| (known.as_raw() == signal).then_some(meaning))
}
