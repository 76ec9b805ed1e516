//! What programs write to standard error that is the same for all programs: messages of systems and runtimes.
//!
//! Used for servers that are child processes. A line that is not recognised is shown as it is, and changes no finding.

use super::findings::*;
use super::report::Check;

/// Lines of standard error that a finding shows.
const MAX_STDERR_LINES: usize = 12;
/// Characters of a line that a finding shows.
const MAX_LINE_CHARS: usize = 400;

/// The last lines that a server wrote to standard error.
pub(super) fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(MAX_STDERR_LINES)..].iter().map(|line| truncate_line(line)).collect()
}

/// A line as a finding shows it. Not escaped: whatever prints it does that.
pub(super) fn truncate_line(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The kind of failure that the last lines of a program name.
pub(super) fn known_failure(lines: &[String]) -> Option<&'static Kind<Check>> {
    const PATTERNS: [(&[&str], &Kind<Check>); 3] = [
        (&["EADDRINUSE", "Address already in use", "address already in use"], &PORT_IN_USE),
        (&["ModuleNotFoundError: "], &PYTHON_MODULE_MISSING),
        (&["Cannot find module '", "ERR_MODULE_NOT_FOUND"], &NODE_MODULE_MISSING),
    ];
    let says = |words: &[&str]| lines.iter().any(|line| words.iter().any(|word| line.contains(word)));
    PATTERNS.into_iter().find_map(|(words, kind)| says(words).then_some(kind))
}

/// The URL at which a program says that it listens, from the first line that says so.
pub(super) fn listening_url(lines: &[String]) -> Option<&str> {
    const WORDS: [&str; 5] = ["listening", "running", "serving", "started", "available"];
    lines.iter().find_map(|line| {
        let small = line.to_ascii_lowercase();
        if !WORDS.iter().any(|word| small.contains(word)) {
            return None;
        }
        // Brackets, quotes and the control characters of colours are no part of the URL.
        let mut words = line.split(|c: char| c.is_whitespace() || c.is_control() || "()<>\"'`".contains(c));
        let word = words.find(|word| word.starts_with("http://") || word.starts_with("https://"))?;
        Some(word.trim_end_matches(['.', ',', ';', ':']))
    })
}

/// The meaning of a signal that a program causes itself.
pub(super) fn crash(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    [
        (Signal::SEGV, "it touched memory that it does not have (SIGSEGV)"),
        (Signal::BUS, "it touched memory that is not there (SIGBUS)"),
        (Signal::ILL, "it came to an instruction that this processor does not have (SIGILL)"),
        (Signal::ABORT, "it gave itself up (SIGABRT), mostly at an error that nobody caught"),
    ]
    .into_iter()
    .find_map(|(known, meaning)| (known.as_raw() == signal).then_some(meaning))
}

#[cfg(test)]
mod tests {
    use super::listening_url;

    #[test]
    fn a_url_is_read_without_the_characters_around_it() {
        for (line, url) in [
            (
                "INFO:  Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
                Some("http://127.0.0.1:8000"),
            ),
            ("Server started (http://localhost:3000/mcp).", Some("http://localhost:3000/mcp")),
            ("\u{1b}[32mlistening at http://[::1]:80\u{1b}[0m", Some("http://[::1]:80")),
            ("fetching http://example.com", None),
            ("Listening on port 3000", None),
        ] {
            assert_eq!(listening_url(&["first".to_owned(), line.to_owned()]), url, "{line}");
        }
    }
}
