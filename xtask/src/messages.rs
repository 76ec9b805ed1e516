//! `cargo xtask messages`: prints the texts that the binary can show to people, by crate, file and line, so that all of them
//! can be read in one go.
//!
//! A message is a string literal of the sources that contains a letter and a space outside `{...}`. Not listed: tests,
//! attributes except `#[error(...)]`, and the texts of panics, which state invariants. The list also contains some texts for
//! programs (HTTP headers, patterns of error messages), because a rule that removes them could hide a message. The help comes
//! from the reference file of the tests.

use std::iter::Peekable;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::steps;

/// The help of every verb, as the tests of the command line keep it.
const HELP: &str = "crates/cli/tests/reference.txt";

/// The crates that are not part of the binary.
const NOT_IN_THE_BINARY: [&str; 2] = ["crates/macros/", "crates/test-support/"];

/// Functions and macros whose texts state invariants.
const INVARIANTS: [&str; 8] = [
    "expect",
    "expect_err",
    "panic",
    "unreachable",
    "assert",
    "assert_eq",
    "debug_assert",
    "debug_assert_eq",
];

/// A text and the place where it is written.
#[derive(Debug, PartialEq)]
struct Message {
    line: usize,
    text: String,
}

/// Prints the list.
pub(crate) fn print(root: &Path) -> Result<()> {
    let mut count = 0;
    for (file, messages) in list(root)? {
        println!("{file}");
        for Message { line, text } in &messages {
            println!("{line:>6}  {}", text.replace('\n', "\n        "));
        }
        println!();
        count += messages.len();
    }
    println!("{count} messages");
    Ok(())
}

/// The messages of each file, in the order of the files.
fn list(root: &Path) -> Result<Vec<(String, Vec<Message>)>> {
    let files = steps::stdout(std::process::Command::new("git").current_dir(root).args([
        "ls-files",
        "--",
        "crates/*/src/*.rs",
    ]))?;
    let mut all = Vec::new();
    for file in files.lines().filter(|file| is_source(file)) {
        let text = read(root, file)?;
        let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
        let mut messages = Vec::new();
        collect(tokens, &mut messages);
        if !messages.is_empty() {
            all.push((file.to_owned(), messages));
        }
    }
    let help = read(root, HELP)?;
    let lines =
        help.lines().enumerate().map(|(line, text)| Message { line: line + 1, text: text.to_owned() });
    all.push((HELP.to_owned(), lines.filter(|message| is_message(&message.text)).collect()));
    Ok(all)
}

fn read(root: &Path, file: &str) -> Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

fn is_source(file: &str) -> bool {
    !file.contains("/tests/")
        && !file.ends_with("/tests.rs")
        && !NOT_IN_THE_BINARY.iter().any(|outside| file.starts_with(outside))
}

/// Whether a literal is a text for people: a letter and a space remain when `{...}` is left out.
fn is_message(text: &str) -> bool {
    let mut depth = 0_usize;
    let outside = |c: &char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let rest: String = text.chars().filter(outside).collect();
    text.trim().contains(' ') && rest.contains(char::is_alphabetic)
}

/// Collects the messages of an item, an expression or a macro call.
fn collect(tokens: TokenStream, messages: &mut Vec<Message>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(group) = attribute(&mut tokens) {
                    collect_attribute(group, &mut tokens, messages);
                }
            }
            TokenTree::Ident(name) if INVARIANTS.iter().any(|invariant| name == invariant) => {
                tokens.next_if(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == '!'));
                tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
            }
            TokenTree::Group(group) => collect(group.stream(), messages),
            TokenTree::Literal(literal) => {
                // Other literals (numbers, bytes) are no texts.
                if let Ok(string) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    let (line, text) = (literal.span().start().line, string.value());
                    if is_message(&text) {
                        messages.push(Message { line, text });
                    }
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) => {}
        }
    }
}

/// The brackets of an attribute, after its `#` and perhaps a `!`.
fn attribute(tokens: &mut Peekable<IntoIter>) -> Option<Group> {
    tokens.next_if(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == '!'));
    match tokens
        .next_if(|token| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket))
    {
        Some(TokenTree::Group(group)) => Some(group),
        _ => None,
    }
}

/// Collects from `#[error(...)]`, and skips the item after `#[cfg(test)]`.
fn collect_attribute(group: Group, tokens: &mut Peekable<IntoIter>, messages: &mut Vec<Message>) {
    match group.stream().to_string().replace(' ', "").as_str() {
        "cfg(test)" => {
            for token in tokens.by_ref() {
                match token {
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
                    TokenTree::Punct(mark) if mark.as_char() == ';' => break,
                    _ => {}
                }
            }
        }
        text if text.starts_with("error(") => collect(group.stream(), messages),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> Vec<(usize, String)> {
        let mut messages = Vec::new();
        collect(source.parse().expect("Rust"), &mut messages);
        messages.into_iter().map(|Message { line, text }| (line, text)).collect()
    }

    #[test]
    fn texts_for_people_are_found_wherever_they_are_written() {
        let source = "/// A comment.\n#[derive(Error)]\nenum E {\n    #[error(\"no such file: {0}\")]\n    A,\n}\n\
                      fn f() {\n    g(\"one\");\n    h!(format!(\"two \\\n        words\"), r#\"three \"words\" here\"#);\n}\n";
        let found = of(source);
        let expected = [(4, "no such file: {0}"), (9, "two words"), (10, "three \"words\" here")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn names_invariants_attributes_and_tests_are_left_out() {
        let source = "const A: &str = \"name\";\nconst B: &str = \"{one} {two}\";\nconst C: &[u8] = b\"two words\";\n\
                      #[allow(x, reason = \"two words\")]\nfn f() { g().expect(\"it is there\"); panic!(\"two words\"); }\n\
                      #[cfg(test)]\nmod tests { const D: &str = \"two words\"; }\n#[cfg(test)]\nuse a::b;\n\
                      const E: &str = \"kept here\";\n";
        assert_eq!(of(source), [(10, "kept here".to_owned())]);
    }

    #[test]
    fn the_list_of_the_sources_has_messages_of_each_kind() {
        let listed = list(&crate::root()).expect("the list");
        let all: Vec<&str> =
            listed.iter().flat_map(|(_, messages)| messages).map(|message| message.text.as_str()).collect();
        // One of a failure, a hint, a rule, a finding of `doctor`, an error of a library, and the help.
        for known in [
            "this file is not text in UTF-8",
            "add its folder to PATH",
            "No two tools of a server have the same name",
            "npx and uvx",
            "connection refused: nothing listens there",
            "Checks a server, or a client, against the MCP specification",
        ] {
            assert!(all.iter().any(|text| text.contains(known)), "{known}");
        }
        assert!(
            listed.iter().all(|(file, messages)| is_source(file) && !messages.is_empty() || file == HELP)
        );
    }
}
