//! `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `{env:VAR}` in the texts of an entry, as the programs that share its
//! file spell them. Expanded only for the entry that is used; what is missing is an error and is never sent as it is
//! written. `$${` stands for `${`.

use std::ffi::OsString;

use super::source::Problem;
use super::tree::Text;

/// The texts of an entry have at most so many bytes together once they are expanded.
const ROOM: usize = 16 << 20;

/// Expands the texts of one entry.
pub(super) struct Expansion<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
    room: usize,
    /// The values that came from the environment, by the names of their variables.
    pub(super) used: Vec<(String, OsString)>,
}

impl<'a> Expansion<'a> {
    pub(super) const fn new(lookup: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { lookup, room: ROOM, used: Vec::new() }
    }

    pub(super) fn expand(&mut self, text: &Text) -> Result<OsString, Problem> {
        let mut out = OsString::new();
        let mut rest = text.text.as_str();
        while let Some((at, form)) = next(rest) {
            self.push(&mut out, rest[..at].into(), text)?;
            rest = &rest[at..];
            let opening = match form {
                Form::Escaped => {
                    self.push(&mut out, "${".into(), text)?;
                    rest = &rest[3..];
                    continue;
                }
                Form::Dollar => "${",
                Form::Brace => "{env:",
            };
            let inner = &rest[opening.len()..];
            let Some((inner, after)) = inner.split_once('}') else {
                return Err(Problem::new(text.at, format!("after {opening} a }} is missing"))
                    .hint("write $${ for a ${ that is meant as it is"));
            };
            rest = after;
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) if form == Form::Dollar => (name, Some(default)),
                _ => (inner, None),
            };
            let name = name.strip_prefix("env:").filter(|_| form == Form::Dollar).unwrap_or(name);
            if !is_name(name) || default.is_some_and(|default| default.contains("${")) {
                return Err(Problem::new(
                    text.at,
                    "this is no variable: ${NAME}, ${NAME:-default}, ${env:NAME} and {env:NAME} are",
                )
                .hint("write $${ for a ${ that is meant as it is"));
            }
            let value = match ((self.lookup)(name), default) {
                (Some(value), None) => value,
                // As in a shell: what is empty counts as missing where there is a default.
                (Some(value), Some(_)) if !value.is_empty() => value,
                (_, Some(default)) => {
                    self.push(&mut out, default.into(), text)?;
                    continue;
                }
                (None, None) => {
                    return Err(Problem::new(text.at, format!("the variable {name} is not set"))
                        .hint(format!("set {name}, or write ${{{name}:-default}}")));
                }
            };
            self.push(&mut out, value.clone(), text)?;
            if !self.used.iter().any(|(known, _)| known == name) {
                self.used.push((name.to_owned(), value));
            }
        }
        self.push(&mut out, rest.into(), text)?;
        Ok(out)
    }

    fn push(&mut self, out: &mut OsString, part: OsString, text: &Text) -> Result<(), Problem> {
        self.room = self.room.checked_sub(part.len()).ok_or_else(|| {
            Problem::new(text.at, "with its variables this entry is above the limit of 16 MiB")
        })?;
        out.push(part);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `$${`
    Escaped,
    /// `${`
    Dollar,
    /// `{env:`
    Brace,
}

/// The first form in a text, and where it begins.
fn next(text: &str) -> Option<(usize, Form)> {
    let dollar = text
        .find("${")
        .map(|at| if text[..at].ends_with('$') { (at - 1, Form::Escaped) } else { (at, Form::Dollar) });
    let brace = text.find("{env:").map(|at| (at, Form::Brace));
    match (dollar, brace) {
        // The brace of `${env:` is the dollar's.
        (Some(dollar), Some(brace)) => Some(if dollar.0 < brace.0 { dollar } else { brace }),
        (dollar, brace) => dollar.or(brace),
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Expansion, Text};

    fn expand(text: &str) -> Result<OsString, String> {
        let lookup = |name: &str| match name {
            "A" => Some("one".into()),
            "EMPTY" => Some(OsString::new()),
            "BIG" => Some("x".repeat(1 << 20).into()),
            _ => None,
        };
        Expansion::new(&lookup).expand(&Text { at: 7, text: text.to_owned() }).map_err(|problem| problem.text)
    }

    #[test]
    fn every_spelling_of_a_variable_is_expanded() {
        for (text, expanded) in [
            ("", ""),
            ("plain $A {A} $ { }", "plain $A {A} $ { }"),
            ("${A}", "one"),
            ("<${A}|${env:A}|{env:A}>", "<one|one|one>"),
            ("${B:-two}${A:-two}${EMPTY:-two}${EMPTY}${B:-}", "twoonetwo"),
            ("${env:B:-two}", "two"),
            ("$${A} $${", "${A} ${"),
            ("$$${A}", "$${A}"),
            ("${B:-http://h:1/{x}", "http://h:1/{x"),
            ("é${A}é", "éoneé"),
        ] {
            assert_eq!(expand(text), Ok(expanded.into()), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_never_passed_on_as_it_is_written() {
        for (text, told) in [
            ("${B}", "the variable B is not set"),
            ("{env:B}", "the variable B is not set"),
            ("${env:B}", "the variable B is not set"),
            ("${", "after ${ a } is missing"),
            ("{env:A", "after {env: a } is missing"),
            ("${}", "this is no variable"),
            ("${input:key}", "this is no variable"),
            ("${A%x}", "this is no variable"),
            ("{env:A:-x}", "this is no variable"),
            ("${B:-${A}}", "this is no variable"),
        ] {
            assert!(expand(text).unwrap_err().starts_with(told), "{text}: {:?}", expand(text));
        }
    }

    #[test]
    fn what_expands_beyond_all_bounds_is_refused() {
        assert!(expand(&"${BIG}".repeat(17)).unwrap_err().contains("limit of 16 MiB"));
    }

    #[test]
    fn values_from_the_environment_are_remembered_once() {
        let lookup = |_: &str| Some(OsString::from("secret"));
        let mut expansion = Expansion::new(&lookup);
        expansion.expand(&Text { at: 0, text: "${A}${A}{env:B}".into() }).unwrap();
        assert_eq!(expansion.used, [("A".into(), "secret".into()), ("B".into(), "secret".into())]);
    }
}
