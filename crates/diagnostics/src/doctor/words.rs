//! What programs say on standard error, as far as everybody's say the same: the words of systems and runtimes.
//!
//! Called by `diagnosis`, for servers that are children. What is not recognised is shown as it is, and means nothing here.

/// What is meant by the last words of a program that has failed: an id, what it means, and one thing to do.
pub(super) fn last(lines: &[String]) -> Option<(&'static str, &'static str, &'static str)> {
    let says = |words: &[&str]| lines.iter().any(|line| words.iter().any(|word| line.contains(word)));
    if says(&["EADDRINUSE", "Address already in use", "address already in use"]) {
        return Some((
            "port-in-use",
            "another program has the port that it wants, mostly an earlier run of its own; and a server on standard input \
             and output needs no port",
            "look for its option that serves MCP over stdio; `ss -ltnp` shows which program has the port",
        ));
    }
    if says(&["ModuleNotFoundError: "]) {
        return Some((
            "module-missing",
            "this python has not the module that it names: it was installed for another one, or not at all",
            "run it with the python of the environment in which it is installed (.venv/bin/python, uv run, uvx)",
        ));
    }
    if says(&["Cannot find module '", "ERR_MODULE_NOT_FOUND"]) {
        return Some((
            "module-missing",
            "node finds no file or package of the name that it gives: it is not installed, not built, or the path is wrong",
            "check the path; then install and build it (npm install, npm run build)",
        ));
    }
    None
}

/// Where a program says that it listens, the first time that it does.
pub(super) fn listening(lines: &[String]) -> Option<&str> {
    const WORDS: [&str; 5] = ["listening", "running", "serving", "started", "available"];
    lines.iter().find_map(|line| {
        let small = line.to_ascii_lowercase();
        if !WORDS.iter().any(|word| small.contains(word)) {
            return None;
        }
        // Brackets and quotes around it do not belong to it, and nor does what colours it.
        let mut words = line.split(|c: char| c.is_whitespace() || c.is_control() || "()<>\"'`".contains(c));
        let word = words.find(|word| word.starts_with("http://") || word.starts_with("https://"))?;
        Some(word.trim_end_matches(['.', ',', ';', ':']))
    })
}

/// What a signal means that a program brings upon itself.
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
    use super::listening;

    #[test]
    fn an_address_is_read_without_what_stands_around_it() {
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
            assert_eq!(listening(&["first".to_owned(), line.to_owned()]), url, "{line}");
        }
    }
}
