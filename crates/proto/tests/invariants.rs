//! Tests of the rules of ARCHITECTURE.md that can be checked in the sources of all crates of the project.
//!
//! A rule is a function from text to complaints. A test shows for each rule that it complains, because a rule that
//! cannot fail checks nothing. Exceptions are listed here with their reason, and an exception that is no longer needed
//! is a complaint itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

// ---------------------------------------------------------------------------------------------------------------------
// The exceptions.

/// The two modules that decide the era, and the tables: no other code compares versions or eras.
const DECIDERS: [&str; 6] = [
    "crates/proto/src/session/client_negotiation.rs",
    "crates/proto/src/http/classify.rs",
    "crates/proto/src/version.rs",
    "crates/proto/src/profile.rs",
    "crates/proto/src/method.rs",
    // Which revisions have a rule of `validate`: ranges, used through `Revisions::contains`.
    "crates/rules/src/revisions.rs",
];

/// Which crates of the project each crate may depend on. Its own tests may use any.
const CRATES: [(&str, &[&str]); 12] = [
    ("proto", &[]),
    ("macros", &[]),
    ("schema", &["mcpjoin-proto"]),
    ("rules", &["mcpjoin-proto", "mcpjoin-schema"]),
    ("mcpjoin", &["mcpjoin-macros", "mcpjoin-proto", "mcpjoin-schema"]),
    ("auth", &["mcpjoin", "mcpjoin-proto"]),
    ("quic", &["mcpjoin", "mcpjoin-proto"]),
    ("redis", &["mcpjoin", "mcpjoin-proto"]),
    ("orchestra", &["mcpjoin", "mcpjoin-proto", "mcpjoin-quic"]),
    ("gateway", &["mcpjoin", "mcpjoin-auth", "mcpjoin-proto", "mcpjoin-rules"]),
    (
        "diagnostics",
        &["mcpjoin", "mcpjoin-auth", "mcpjoin-orchestra", "mcpjoin-proto", "mcpjoin-quic", "mcpjoin-rules"],
    ),
    (
        "cli",
        &[
            "mcpjoin",
            "mcpjoin-auth",
            "mcpjoin-diagnostics",
            "mcpjoin-gateway",
            "mcpjoin-orchestra",
            "mcpjoin-proto",
            "mcpjoin-quic",
            "mcpjoin-redis",
            "mcpjoin-rules",
            "mcpjoin-schema",
        ],
    ),
];

/// The modules of the library, each above what it may import. Modules in one row may import each other.
const LAYERS: [&[&str]; 6] = [
    &["der", "http", "known_tools", "process", "seal", "warning_rate"],
    &["transport"],
    &["connection", "handler"],
    &["otel"],
    &["client", "server"],
    &["testing"],
];

/// A part of a line that a rule ignores in one file, and why.
struct Exception {
    file: &'static str,
    part: &'static str,
    #[allow(dead_code, reason = "read by people: no exception without a reason")]
    reason: &'static str,
}

/// Other places that may name a version or an era.
const VERSION_EXCEPTIONS: [Exception; 3] = [
    Exception {
        file: "crates/orchestra/src/client/compat.rs",
        part: r#""protocolVersion":"2024-11-05""#,
        reason: "the constant reply of a document to the letter: nothing is decided by it",
    },
    Exception {
        file: "crates/auth/src/discovery.rs",
        part: "const OWN_AUTHORIZATION: Version = Version::V2025_03_26;",
        reason: "a header of a request for what only that revision has: nothing is decided by it",
    },
    Exception {
        file: "crates/cli/src/schema/example.rs",
        part: r#"const DATE: &str = "2026-01-31";"#,
        reason: "the example of a date in the arguments of a tool: no revision has this date",
    },
];

/// Tests that may sleep, because they do not use it for synchronisation.
const SLEEP_EXCEPTIONS: [Exception; 0] = [];

// ---------------------------------------------------------------------------------------------------------------------
// The rules over the project.

#[test]
fn versions_are_compared_by_the_deciders_and_the_tables_alone() {
    let sources: Vec<Source> = sources()
        .into_iter()
        .filter(|source| source.is_shipped() && !DECIDERS.contains(&&*source.path))
        .collect();
    hold(&sources, &VERSION_EXCEPTIONS, |source| version_comparisons(&source.text));
}

#[test]
fn nothing_on_the_wire_path_is_untagged_or_flattened() {
    let sources: Vec<Source> = sources().into_iter().filter(Source::is_shipped).collect();
    hold(&sources, &[], |source| untagged_or_flattened(&source.text));
}

#[test]
fn unsafe_stands_in_the_process_room_and_on_one_line_of_raw() {
    let sources: Vec<Source> = sources()
        .into_iter()
        .filter(|source| !source.path.starts_with("crates/mcpjoin/src/process/"))
        .collect();
    let (raw, others): (Vec<Source>, Vec<Source>) =
        sources.into_iter().partition(|source| source.path == "crates/proto/src/raw.rs");
    hold(&others, &[], |source| unsafe_lines(&source.text));
    let [raw] = raw.as_slice() else { panic!("crates/proto/src/raw.rs is gone") };
    let lines = unsafe_lines(&raw.text);
    assert_eq!(lines.len(), 1, "raw.rs has one line of unsafe: {lines:#?}");
}

#[test]
fn every_relaxed_lint_says_why() {
    hold(&sources(), &[], |source| allowed_without_reason(&source.text));
}

#[test]
fn tests_wait_for_what_they_test_and_never_sleep() {
    hold(&sources(), &SLEEP_EXCEPTIONS, |source| sleeps_in_tests(&source.path, &source.text));
}

#[test]
fn what_a_crate_includes_lies_in_its_package() {
    let sources: Vec<Source> = sources().into_iter().filter(Source::is_shipped).collect();
    hold(&sources, &[], |source| included_from_outside(&source.path, &source.text));
}

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let mut complaints = Vec::new();
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"));
        let manifest = manifest.unwrap_or_else(|error| panic!("crates/{name}/Cargo.toml: {error}"));
        complaints.extend(
            dependencies_not_in(&manifest, allowed).map(|crate_| format!("{name} depends on {crate_}")),
        );
    }
    let listed: BTreeSet<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    for entry in fs::read_dir(root().join("crates")).expect("the project has crates") {
        let name = entry.expect("the folder can be listed").file_name();
        let name = name.to_str().expect("names are UTF-8");
        if name != "test-support" && !listed.contains(name) {
            complaints.push(format!("crates/{name} is not in the table of crates"));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn the_modules_of_the_library_import_in_one_direction() {
    let sources: Vec<Source> = sources().into_iter().filter(Source::is_shipped).collect();
    hold(&sources, &[], |source| imported_upwards(&source.path, &source.text));
}

#[test]
fn no_test_is_ignored() {
    hold(&sources(), &[], |source| ignored(&source.text));
}

#[test]
fn every_path_that_the_architecture_names_exists() {
    for page in ["ARCHITECTURE.md", "crates/gateway/ARCHITECTURE.md"] {
        let text = fs::read_to_string(root().join(page)).expect("the project has this page");
        let named = paths_in(&text);
        assert!(named.len() >= 20, "{page} has a code map, and it names {} paths", named.len());
        let gone: Vec<&String> = named.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(gone.is_empty(), "{page} names what does not exist: {gone:#?}");
    }
}

#[test]
fn the_example_of_the_readme_is_the_one_that_is_tested() {
    let documentation = fs::read_to_string(root().join("crates/mcpjoin/src/lib.rs")).expect("the library");
    let tested: Vec<&str> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .skip_while(|line| !line.starts_with("```"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .filter(|line| !line.starts_with("# "))
        .collect();
    assert!((10..=15).contains(&tested.len()), "the example has {} lines", tested.len());
    let readme = fs::read_to_string(root().join("README.md")).expect("the project has a README.md");
    assert!(
        readme.contains(&format!("```rust\n{}\n```", tested.join("\n"))),
        "the README has another example"
    );
}

// ---------------------------------------------------------------------------------------------------------------------
// The project's sources.

/// A source file, with its path from the project's root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Whether the file is part of the released crates, and not a test.
    fn is_shipped(&self) -> bool {
        self.path.starts_with("crates/")
            && !self.path.starts_with("crates/test-support/")
            && self.path.contains("/src/")
            && !self.path.ends_with("/tests.rs")
            && !self.path.contains("/tests/")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask", "interop", "bench", "conformance", "fuzz"] {
        collect(&root().join(folder), folder, &mut found);
    }
    // This file contains the violations that its tests need.
    found.retain(|source| source.path != "crates/proto/tests/invariants.rs");
    assert!(found.len() >= 20, "only {} sources were found", found.len());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(folder: &Path, shown: &str, found: &mut Vec<Source>) {
    // A planned folder that does not exist yet.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8").to_owned();
        let shown = format!("{shown}/{name}");
        if path.is_dir() {
            // Build output and installed files.
            if !["target", "node_modules", "venv"].contains(&&*name) {
                collect(&path, &shown, found);
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            found.push(Source { path: shown, text });
        }
    }
}

/// Applies a rule to sources. A complaint contains the line of the violation.
fn hold(sources: &[Source], exceptions: &[Exception], rule: impl Fn(&Source) -> Vec<String>) {
    let mut complaints = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources {
        for complaint in rule(source) {
            let exception = exceptions
                .iter()
                .position(|exception| exception.file == source.path && complaint.contains(exception.part));
            match exception {
                Some(index) => _ = used.insert(index),
                None => complaints.push(format!("{}: {complaint}", source.path)),
            }
        }
    }
    for (index, exception) in exceptions.iter().enumerate() {
        if !used.contains(&index) {
            complaints.push(format!("{}: the exception `{}` is not needed", exception.file, exception.part));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

// ---------------------------------------------------------------------------------------------------------------------
// The rules.

/// Lines that decide by version or era: a known revision by name, its rank, its date as a literal, or a match on the
/// era. A fact about revisions belongs in a row of `profile.rs` or `method.rs`.
fn version_comparisons(text: &str) -> Vec<String> {
    let code = without_tests(&blank(text, Blank::CommentsAndStrings));
    let literals = without_tests(&blank(text, Blank::Comments));
    let mut lines = BTreeSet::new();
    for part in ["Version::V2", ".rank()"] {
        lines.extend(positions(&code, part).map(|at| line_of(&code, at)));
    }
    for era in ["Era::Legacy", "Era::Modern"] {
        lines.extend(
            positions(&code, era)
                .filter(|at| is_compared(&code, *at, era.len()))
                .map(|at| line_of(&code, at)),
        );
    }
    // `== Version` and `== Era` also catch constants, and calls such as `Version::newest(..)`.
    for name in ["Version::", "Era::"] {
        for at in positions(&code, name) {
            if before(&code, at).ends_with("==") || before(&code, at).ends_with("!=") {
                lines.insert(line_of(&code, at));
            }
        }
    }
    // `session.profile().version == offered`, `era() == other`
    for name in [".version", ".era", ".era()", ".version()"] {
        for at in positions(&code, name) {
            let after = code[at + name.len()..].trim_start();
            if ["==", "!=", "<", ">"].iter().any(|operator| after.starts_with(operator)) {
                lines.insert(line_of(&code, at));
            }
        }
    }
    lines.extend(
        positions(&literals, "\"20").filter(|at| is_date(&literals[*at..])).map(|at| line_of(&literals, at)),
    );
    lines.into_iter().map(|line| shown(text, line)).collect()
}

/// Whether the text at this place is a pattern or one side of a comparison, and not a new value.
fn is_compared(code: &str, at: usize, length: usize) -> bool {
    let after = code[at + length..].trim_start();
    let before = before(code, at);
    // The end of a pattern: `Some(Era::Legacy) =>`, `if let Reopen { era: Era::Legacy } = event`. An equals sign never
    // follows a new value.
    after.trim_start_matches([')', '}', ',', '.', ' ', '\n']).starts_with('=')
        || after.starts_with("!=")
        || (after.starts_with('|') && !after.starts_with("||"))
        || before.ends_with("==")
        || before.ends_with("!=")
        || (before.ends_with('|') && !before.ends_with("||"))
        || statement_before(code, at).contains("matches!")
}

/// Attributes of serde that lose bytes, order or errors: see the architecture.
fn untagged_or_flattened(text: &str) -> Vec<String> {
    let code = blank(text, Blank::CommentsAndStrings);
    let mut lines = BTreeSet::new();
    for at in positions(&code, "serde(") {
        let attribute = bracketed(&code[at..]);
        if has_word(attribute, "untagged") || has_word(attribute, "flatten") {
            lines.insert(line_of(&code, at));
        }
    }
    lines.into_iter().map(|line| shown(text, line)).collect()
}

fn unsafe_lines(text: &str) -> Vec<String> {
    let code = blank(text, Blank::CommentsAndStrings);
    let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    lines.map(|(line, _)| shown(text, line)).collect()
}

fn allowed_without_reason(text: &str) -> Vec<String> {
    let code = blank(text, Blank::CommentsAndStrings);
    let mut lines = BTreeSet::new();
    for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for at in positions(&code, opening) {
            if !has_word(bracketed(&code[at..]), "reason") {
                lines.insert(line_of(&code, at));
            }
        }
    }
    lines.into_iter().map(|line| shown(text, line)).collect()
}

/// Calls of `sleep` in tests: in a `tests` folder or file, or inside `#[cfg(test)]`.
fn sleeps_in_tests(path: &str, text: &str) -> Vec<String> {
    let code = blank(text, Blank::CommentsAndStrings);
    let shipped = without_tests(&code);
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let mut lines = BTreeSet::new();
    for name in ["sleep(", "sleep_ms(", "sleep_until("] {
        for at in positions(&code, name) {
            let in_test = is_test || shipped[at..].starts_with(' ');
            let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if in_test && is_word && !before(&code, at).ends_with("fn") {
                lines.insert(line_of(&code, at));
            }
        }
    }
    lines.into_iter().map(|line| shown(text, line)).collect()
}

/// The crates of the project among the dependencies of a manifest that are not in `allowed`.
fn dependencies_not_in<'a>(manifest: &'a str, allowed: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let mut is_dependencies = false;
    manifest.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            is_dependencies = table.starts_with("dependencies") || table.ends_with(".dependencies]");
        }
        let name = line.split(['.', ' ', '=']).next().filter(|name| name.starts_with("mcpjoin"))?;
        (is_dependencies && !allowed.contains(&name)).then_some(name)
    })
}

/// Imports in the library of a module that lies in a higher layer.
fn imported_upwards(path: &str, text: &str) -> Vec<String> {
    let Some(inside) = path.strip_prefix("crates/mcpjoin/src/") else { return Vec::new() };
    let own = inside.split(['/', '.']).next().unwrap_or_default();
    let layer_of = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    // `lib.rs` and `internal.rs` list the public items.
    let Some(own) = layer_of(own) else { return Vec::new() };
    let code = without_tests(&blank(text, Blank::CommentsAndStrings));
    let mut lines = BTreeSet::new();
    for at in positions(&code, "crate::") {
        let rest = &code[at + "crate::".len()..];
        let module = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        if layer_of(module).is_some_and(|layer| layer > own) {
            lines.insert(line_of(&code, at));
        }
    }
    lines.into_iter().map(|line| shown(text, line)).collect()
}

/// Files that are included from outside of the crate's own folder: its package has only the files inside.
fn included_from_outside(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""] {
        for (at, _) in text.match_indices(part) {
            let Some((included, _)) = text[at + part.len()..].split_once('"') else { continue };
            let mut place: Vec<&str> = path.split('/').collect();
            place.pop();
            for step in included.split('/') {
                match step {
                    ".." => drop(place.pop()),
                    step => place.push(step),
                }
            }
            let crate_folder: Vec<&str> = path.split('/').take(2).collect();
            if !place.starts_with(&crate_folder) {
                found.push(shown(text, line_of(text, at)));
            }
        }
    }
    found
}

fn ignored(text: &str) -> Vec<String> {
    let code = blank(text, Blank::CommentsAndStrings);
    let found = ["#[ignore", ", ignore)", ", ignore ="].into_iter().flat_map(|part| positions(&code, part));
    let lines: BTreeSet<usize> = found.map(|at| line_of(&code, at)).collect();
    lines.into_iter().map(|line| shown(text, line)).collect()
}

/// The paths in backticks that begin with a folder of the project. A path such as `crates/proto/src/{a,b}.rs` is not
/// parsed: write both.
fn paths_in(text: &str) -> Vec<String> {
    let folders = ["crates/", "xtask/", "fuzz/", "interop/", "bench/", "conformance/"];
    let quoted = text.split('`').skip(1).step_by(2);
    let words =
        quoted.flat_map(str::split_whitespace).map(|word| word.trim_end_matches([',', '.', ':', ';']));
    words.filter(|word| folders.iter().any(|folder| word.starts_with(folder))).map(str::to_owned).collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading Rust, as far as the rules need it.

#[derive(Clone, Copy, PartialEq)]
enum Blank {
    Comments,
    CommentsAndStrings,
}

/// Replaces comments, and optionally the content of strings, by spaces. Every other byte and every line break keeps its
/// position.
fn blank(text: &str, what: Blank) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut wipe = |from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            wipe(at, end);
            at = end;
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment(rest);
            wipe(at, end);
            at = end;
        } else if let Some((open, length, close)) =
            (!in_word || rest[0] == b'"').then(|| string(rest)).flatten()
        {
            if what == Blank::CommentsAndStrings {
                wipe(at + open, at + length - close);
            }
            at += length;
        } else if rest[0] == b'\'' {
            at += character(rest);
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("only whole strings and comments were wiped")
}

/// The length of a block comment; they nest.
fn block_comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The lengths of a string literal's opening, of the whole literal, and of its closing.
fn string(bytes: &[u8]) -> Option<(usize, usize, usize)> {
    let prefix = bytes.iter().take(2).take_while(|byte| b"brc".contains(byte)).count();
    let raw = bytes[..prefix].contains(&b'r');
    let hashes = bytes[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if (hashes > 0 && !raw) || bytes.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let open = prefix + hashes + 1;
    let mut at = open;
    while at < bytes.len() {
        if bytes[at] == b'\\' && !raw {
            at += 2;
            continue;
        }
        let closes = bytes[at] == b'"'
            && bytes[at + 1..].len() >= hashes
            && bytes[at + 1..].iter().take(hashes).all(|byte| *byte == b'#');
        if closes {
            return Some((open, at + 1 + hashes, 1 + hashes));
        }
        at += 1;
    }
    Some((open, bytes.len(), 0))
}

/// The length of a character literal, or 1 for the tick of a lifetime.
fn character(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'\\') {
        let close = bytes.iter().skip(3).position(|byte| *byte == b'\'');
        return close.map_or(1, |close| close + 4);
    }
    let text = std::str::from_utf8(&bytes[1..bytes.len().min(6)]).unwrap_or_else(|error| {
        std::str::from_utf8(&bytes[1..1 + error.valid_up_to()]).expect("valid up to there")
    });
    let Some(first) = text.chars().next() else { return 1 };
    if text[first.len_utf8()..].starts_with('\'') { first.len_utf8() + 2 } else { 1 }
}

/// Blanks the code under `#[cfg(test)]` too.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    while let Some(at) = out.find("#[cfg(test)]") {
        let rest = &out[at..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let semicolon = rest.find(';').map_or(rest.len(), |semicolon| semicolon + 1);
        let length = if semicolon < brace { semicolon } else { brace + braced(&rest[brace..]) };
        let blanked: String = rest[..length]
            .chars()
            .flat_map(|c| if c == '\n' { vec![c] } else { vec![' '; c.len_utf8()] })
            .collect();
        out.replace_range(at..at + length, &blanked);
    }
    out
}

/// The length of a block, from its `{` to its `}`.
fn braced(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// The text up to the end of the first pair of parentheses.
fn bracketed(code: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &code[..=at],
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code
}

fn positions<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(part).map(|(at, _)| at)
}

fn before(code: &str, at: usize) -> &str {
    code[..at].trim_end()
}

/// The text of the same statement before a place.
fn statement_before(code: &str, at: usize) -> &str {
    let from = code[..at].rfind([';', '{', '}']).map_or(0, |from| from + 1);
    &code[from..at]
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).any(|found| found == word)
}

/// `"2025-11-25"`, with its quotes.
fn is_date(literal: &str) -> bool {
    let form = b"\"0000-00-00\"";
    literal.len() >= form.len()
        && literal
            .bytes()
            .zip(form)
            .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form })
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

fn shown(text: &str, line: usize) -> String {
    format!("line {}: {}", line + 1, text.lines().nth(line).unwrap_or_default().trim())
}

// ---------------------------------------------------------------------------------------------------------------------
// Each rule, complaining.

#[test]
fn the_version_rule_complains() {
    for code in [
        "if version == Version::V2025_06_18 {}",
        "let newer = a.rank() > b.rank();",
        "match era { Era::Legacy => 1, _ => 2 }",
        "match era { Some(Era::Modern) => 1, _ => 2 }",
        "if era == Era::Modern {}",
        "if Era::Modern != era {}",
        "if let Some(Era::Modern) = era {}",
        "if let Event::Reopen { era: Era::Legacy } = event {}",
        "match event { Event::Reopen { era: Era::Legacy, .. } => 1 }",
        "let legacy = matches!(profile.era, Era::Legacy);",
        "if version == Version::newest(era) {}",
        "if profile.version == *offered {}",
        "if session.era() != era {}",
        "if name == \"2025-11-25\" {}",
        "match name { \"2024-11-05\" => 1, _ => 2 }",
        "const SINCE: &str = \"2025-03-26\";",
        "let s = \"/*\"; if era == Era::Modern {} let t = \"*/\";",
        "#[cfg(test)] mod tests { } fn f(e: Era) -> bool { e == Era::Modern }",
    ] {
        assert_eq!(version_comparisons(code).len(), 1, "{code}");
    }
}

#[test]
fn the_version_rule_leaves_alone_what_decides_nothing() {
    for code in [
        "// Version::V2025_06_18 brought elicitation",
        "/// `\"2025-11-25\"` is the last of the legacy era\nfn f() {}",
        "let text = \"Version::V2025_06_18 and Era::Modern => nothing\";",
        "let text = \"since 2025-06-18 batches are gone\";",
        "Event::Reopen { era: Era::Legacy }",
        "connect(Era::Modern, limits)",
        "match word { \"legacy\" => Some(Era::Legacy), \"modern\" => Some(Era::Modern), _ => None }",
        "let event = Event::Reopen { era: Era::Legacy };",
        "let version = Version::newest(Era::Legacy);",
        "if profile.batching {}",
        "#[cfg(test)]\nmod tests { fn f() { assert!(v == Version::V2025_06_18); } }",
        "#[cfg(test)]\nmod tests;\n",
    ] {
        assert_eq!(version_comparisons(code), Vec::<String>::new(), "{code}");
    }
}

#[test]
fn the_other_rules_complain() {
    assert_eq!(untagged_or_flattened("#[serde(untagged)]\nenum A {}").len(), 1);
    assert_eq!(untagged_or_flattened("#[serde(default, flatten)]\na: B,").len(), 1);
    assert_eq!(untagged_or_flattened("#[cfg_attr(feature = \"x\", serde(\n    flatten\n))]\na: B,").len(), 1);
    assert!(untagged_or_flattened("// #[serde(untagged)]\nlet a = list.iter().flatten();").is_empty());

    assert_eq!(unsafe_lines("fn f() {\n    unsafe { g() }\n}\nunsafe fn g() {}").len(), 2);
    assert!(unsafe_lines("#![deny(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";").is_empty());

    assert_eq!(allowed_without_reason("#[allow(dead_code)]\nfn f() {}").len(), 1);
    assert_eq!(allowed_without_reason("#![allow(dead_code)] // reason = \"none\"\n").len(), 1);
    assert_eq!(allowed_without_reason("#[expect(clippy::panic)]\nfn f() {}").len(), 1);
    assert!(allowed_without_reason("#[allow(\n    dead_code,\n    reason = \"because (so)\"\n)]").is_empty());

    let sleeping = "fn wait() { std::thread::sleep(A_WHILE); }";
    assert_eq!(sleeps_in_tests("crates/a/tests/b.rs", sleeping).len(), 1);
    assert_eq!(sleeps_in_tests("crates/a/src/b/tests.rs", sleeping).len(), 1);
    assert!(sleeps_in_tests("crates/a/src/b.rs", sleeping).is_empty());
    let inner = format!("#[cfg(test)]\nmod tests {{ {sleeping} }}");
    assert_eq!(sleeps_in_tests("crates/a/src/b.rs", &inner).len(), 1);
    assert!(
        sleeps_in_tests("crates/a/tests/b.rs", "fn sleep(n: u8) {}\n// sleep(3)\nrun(\"sleep(3)\");")
            .is_empty()
    );

    assert_eq!(ignored("#[test]\n#[ignore]\nfn f() {}").len(), 1);
    assert_eq!(ignored("#[ignore = \"slow\"]\nfn f() {}").len(), 1);
    assert_eq!(ignored("#[cfg_attr(windows, ignore)]\nfn f() {}").len(), 1);
    assert!(ignored("// #[ignore]\nlet ignored = 1;").is_empty());
}

#[test]
fn the_rules_on_directions_complain() {
    let manifest = "[features]\nmcpjoin-a = []\n[dependencies]\nmcpjoin.workspace = true\nmcpjoin-b = { path = \"b\" }\n\
                    [target.'cfg(unix)'.dependencies]\nmcpjoin-c = \"1\"\n[dev-dependencies]\nmcpjoin-d = \"1\"\n";
    let found: Vec<&str> = dependencies_not_in(manifest, &["mcpjoin"]).collect();
    assert_eq!(found, ["mcpjoin-b", "mcpjoin-c"]);
    let upwards = "use crate::client::Client;\nuse crate::process::Child;\n// crate::server\n";
    assert_eq!(imported_upwards("crates/mcpjoin/src/connection/mod.rs", upwards).len(), 1);
    assert!(imported_upwards("crates/mcpjoin/src/server/mod.rs", upwards).is_empty());
    assert!(imported_upwards("crates/cli/src/lib.rs", upwards).is_empty());
}

#[test]
fn the_rule_on_included_files_complains() {
    let outside = |text: &str| included_from_outside("crates/x/src/a/b.rs", text).len();
    assert_eq!(outside(r#"include_str!("../../../../docs/a.md"); include_bytes!("../../../y/c")"#), 2);
    assert_eq!(outside(r#"include_str!("../../docs/a.md"); include_bytes!("c")"#), 0);
}

#[test]
fn the_paths_of_a_code_map_are_found() {
    let text = "| `crates/proto/src/raw.rs` | the `Raw`, `crates/mcpjoin/src/transport/`.\nSee `cargo xtask test` and `xtask/`.";
    assert_eq!(paths_in(text), ["crates/proto/src/raw.rs", "crates/mcpjoin/src/transport/", "xtask/"]);
}

#[test]
#[should_panic(expected = "is not needed")]
fn an_exception_that_is_not_needed_is_a_complaint() {
    let source = Source { path: "crates/a/src/b.rs".to_owned(), text: "fn f() {}".to_owned() };
    let exception = Exception { file: "crates/a/src/b.rs", part: "unsafe", reason: "none" };
    hold(&[source], &[exception], |source| unsafe_lines(&source.text));
}

#[test]
fn blanking_keeps_places_and_finds_the_ends_of_strings() {
    for (text, blanked) in [
        (r#"a("x\"y", 'b')"#, r#"a("    ", 'b')"#),
        ("r#\"a\"b\"#;c", "r#\"   \"#;c"),
        ("b\"ab\" // c", "b\"  \"     "),
        ("x<'a>('\"', '\\'', \"é\")", "x<'a>('\"', '\\'', \"  \")"),
        ("/* a /* b */ c */d", "                 d"),
        ("'\\u{e9}' \"a\"", "'\\u{e9}' \" \""),
    ] {
        assert_eq!(blank(text, Blank::CommentsAndStrings), blanked, "{text}");
    }
}
