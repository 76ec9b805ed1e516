//! Words that the grammar does not accept although it is clear what is meant: the failure has the line that works. Nothing is run.
//!
//! Called by `target` before it takes a word for an entry or a program. A word that is one of them is never misplaced.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::spelling::{Word, is_configuration, stands_alone, url_meant};
use super::{
    Known, Target, behind, command_line, dotted, is_argument, is_launcher, is_quoted_line, shown, words_shown,
};
use crate::arguments::of_function_call;
use crate::failure::Failure;

/// What `list` lists, as other programs name it behind their verb.
pub(crate) const LISTED: [&str; 5] = ["tools", "resources", "templates", "prompts", "servers"];
/// The schemes of servers. A resource may have each other one.
const SCHEMES: [&str; 8] = ["http", "https", "sse+http", "sse+https", "tcp", "unix", "quic", "orchestra"];

/// The words of a line behind its verb.
fn line(verb: &str, words: &[&[OsString]]) -> String {
    format!("mcpjoin {verb}{}", behind(&words.concat()))
}

/// Whether a word is an entry, also with a tool, or a program, or a file.
fn is_known(word: &OsStr, known: &Known<'_>) -> Result<bool, Failure> {
    let text = word.to_string_lossy();
    let name = text.split('/').next().unwrap_or_default();
    Ok((known.program)(word)
        || (known.file)(Path::new(word))
        || (known.entry)(name)?
        || dotted(&text, known.entry)?.is_some())
}

/// A port alone, or a host without a scheme. `operands`: the words behind it.
pub(super) fn incomplete_address(
    verb: &str,
    word: &OsStr,
    operands: &[OsString],
    known: &Known<'_>,
) -> Result<Option<Failure>, Failure> {
    let Some(url) = word.to_str().and_then(url_meant) else { return Ok(None) };
    if !matches!(Word::of(word), Word::Bare) || is_known(word, known)? {
        return Ok(None);
    }
    let problem = format!("{} is not a complete address", words_shown(&[word.to_owned()]));
    Ok(Some(Failure::usage(problem, line(verb, &[&[url.into()], operands]))))
}

/// `list tools TARGET`: all lists are shown together.
pub(super) fn listed(
    verb: &str,
    first: &OsStr,
    rest: &[OsString],
    known: &Known<'_>,
) -> Result<Option<Failure>, Failure> {
    if verb != "list" || !LISTED.iter().any(|word| first == *word) || is_known(first, known)? {
        return Ok(None);
    }
    let problem = format!("list needs no word for what it lists: {}", shown(first));
    Ok(Some(Failure::usage(problem, line(verb, &[rest]))))
}

/// The server before `--`, and its operands behind it: `call "npx -y PACKAGE" -- echo a=1` would run `echo`. `words` and `after`: the
/// words on both sides.
pub(super) fn server_in_front(
    verb: &str,
    words: &[OsString],
    after: &[OsString],
    known: &Known<'_>,
) -> Result<Option<Failure>, Failure> {
    let Some((first, rest)) = words.split_first().filter(|_| matches!(verb, "call" | "prompt" | "tool"))
    else {
        return Ok(None);
    };
    let is_arguments = |words: &[OsString]| !words.is_empty() && words.iter().all(|word| is_argument(word));
    let is_server = match (Word::of(first), rest.first()) {
        // No tool has such a name.
        (Word::Demo(_) | Word::Url { .. } | Word::Address, None) => true,
        (_, None) if is_known(first, known)? => is_arguments(&after[1..]),
        _ => false,
    };
    let right = if let Some(command) = quoted_command(verb, first, known)? {
        format!("{} -- {}", line(verb, &[rest, after]), words_shown(&command))
    } else if is_launcher(first) && rest.first().is_some_and(|word| !is_argument(word)) {
        format!("{} -- {}", line(verb, &[after]), words_shown(words))
    } else if is_server || is_arguments(after) && !rest.is_empty() {
        line(verb, &[words, after])
    } else {
        return Ok(None);
    };
    let program = after.first().map_or_else(String::new, |word| words_shown(std::slice::from_ref(word)));
    let problem =
        format!("what follows -- is the server's command: {program} would be started as the server");
    Ok(Some(Failure::usage(problem, right)))
}

/// The words of a quoted command line, where its first word is a program.
fn quoted_command(verb: &str, word: &OsStr, known: &Known<'_>) -> Result<Option<Vec<OsString>>, Failure> {
    if !is_quoted_line(word) {
        return Ok(None);
    }
    Ok(match command_line(verb, "", word, known)? {
        Some(Target::Command { program, args }) if is_launcher(&program) || (known.program)(&program) => {
            Some(std::iter::once(program).chain(args).collect())
        }
        _ => None,
    })
}

/// The target behind the operands: `call TOOL a=1 URL`.
pub(super) fn target_last(
    verb: &str,
    first: &OsString,
    operands: &[OsString],
    known: &Known<'_>,
) -> Result<Option<Failure>, Failure> {
    let Some((last, between)) = operands.split_last() else { return Ok(None) };
    let is_server_scheme = |scheme: &str| SCHEMES.contains(&scheme);
    let may_be_first = match Word::of(first) {
        Word::Bare => !is_launcher(first) && !is_quoted_line(first),
        // A resource.
        Word::Url { scheme } => verb == "read" && !is_server_scheme(&scheme),
        _ => false,
    };
    let is_target = match Word::of(last) {
        Word::Demo(_) | Word::Address => true,
        Word::Url { scheme } => is_server_scheme(&scheme) && (verb != "read" || stands_alone(first)),
        Word::Entry { file, .. } => is_configuration(&file),
        Word::Bare => !is_argument(last) && (known.entry)(&last.to_string_lossy())?,
        _ => false,
    };
    if !may_be_first || !is_target || (known.entry)(&first.to_string_lossy())? {
        return Ok(None);
    }
    let problem = format!("the server comes first, before {}", words_shown(std::slice::from_ref(first)));
    let words = [std::slice::from_ref(last), std::slice::from_ref(first), between];
    let failure = Failure::usage(problem, line(verb, &words));
    // A tool may have the name of a program (`echo`), and that of an entry.
    Ok(Some(match (known.program)(first) && !operands.first().is_some_and(|word| is_argument(word)) {
        true => failure.or(format!("mcpjoin {verb}{} -- {}", behind(operands), shown(first))),
        false => failure,
    }))
}

/// `TARGET 'TOOL(a: 1)'`, also as several words. `after`: the words behind `--`.
pub(crate) fn function_call(words: &[OsString], after: Option<&[OsString]>) -> Option<Failure> {
    let at = words.iter().position(|word| word.to_str().is_some_and(|text| text.contains('(')))?;
    let text = words[at..].iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>()?.join(" ");
    let (tool, arguments) = of_function_call(&text)?;
    let call: Vec<OsString> = std::iter::once(tool.to_owned()).chain(arguments).map(OsString::from).collect();
    let dashes = after.map_or_else(String::new, |after| format!(" --{}", behind(after)));
    let problem = format!("the arguments of {} are words behind its name", shown(tool.as_ref()));
    Some(Failure::usage(problem, format!("{}{dashes}", line("call", &[&words[..at], &call]))))
}
