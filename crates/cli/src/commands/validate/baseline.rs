//! `--baseline FILE`: known findings, which are reported and do not fail.
//!
//! The file is JSON for reviews: one object for each finding, with the fingerprint that identifies it. An entry with
//! the name of a server is for that server alone.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::report::{Comparison, Document, Examination, Finding, RuleOutcome, RuleResults, Server, Stale};
use crate::commands::document_of;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::replacement::replace;
use crate::target::shown;
use crate::visible::cut_chars;

/// The maximum size of the file.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The member that identifies the format, and its version.
const FORMAT: (&str, u64) = ("mcpjoinBaseline", 1);
/// The longest problem in the file.
const MAX_PROBLEM_CHARS: usize = 300;
/// A word with digits that is at least this long is an id, which differs in each run.
const MIN_ID_BYTES: usize = 8;

/// The file in the form in which it is written.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "mcpjoinBaseline")]
    version: u64,
    findings: &'a BTreeSet<Entry>,
}

/// A known finding. The order of the members is that of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    rule: String,
    run: String,
    problem: String,
    fingerprint: String,
}

/// Known findings.
pub(super) struct Baseline {
    entries: Vec<Entry>,
}

/// Reads the file up to its limit: a device or a pipe may have no end.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("larger than the limit of 16 MiB"));
    }
    Ok(text)
}

/// Writes the file. A file that exists is replaced at once, so that a full disk does not cost the findings in it.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let Some(known) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else {
        return std::fs::write(path, text);
    };
    // A link stays a link.
    let replaced = replace(&path.canonicalize()?, text, |file| file.set_permissions(known.permissions()));
    match replaced {
        // The folder takes no new file, or the file is mounted.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy) =>
        {
            std::fs::write(path, text)
        }
        replaced => replaced,
    }
}

impl Baseline {
    /// Reads the file. `or_new`: a missing file has no findings.
    pub(super) fn read(path: &Path, or_new: bool) -> Result<Self, Failure> {
        let name = shown(path.as_os_str());
        let unusable = |what: String, hint: String| {
            Failure::usage(format!("the baseline {name} cannot be used: {what}"), hint)
        };
        let file = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && or_new => {
                return Ok(Self { entries: Vec::new() });
            }
            Err(error) => Err(error),
            Ok(_) => text_of(path),
        };
        let text = file.map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::NotFound {
                format!("--baseline {name} --update-baseline writes it")
            } else {
                "name another file".to_owned()
            };
            unusable(error.to_string(), hint)
        })?;
        let read = serde_json::from_str(&text).map_err(|error| error.to_string());
        let entries = read.and_then(|value| Self::entries(&value));
        let hint = "use a file written by --update-baseline";
        Ok(Self { entries: entries.map_err(|what| unusable(what, hint.to_owned()))? })
    }

    fn entries(file: &Value) -> Result<Vec<Entry>, String> {
        let (member, version) = FORMAT;
        match file.get(member).and_then(Value::as_u64) {
            Some(known) if known == version => {}
            Some(other) => {
                return Err(format!("it was written by a newer version of mcpjoin ({other})"));
            }
            None => return Err(format!("it has no {member}")),
        }
        let findings =
            file.get("findings").and_then(Value::as_array).ok_or("it has no array \"findings\"")?;
        let entries = findings.iter().enumerate().map(|(place, finding)| {
            let text = |name: &str| finding.get(name).and_then(Value::as_str).map(str::to_owned);
            let needed =
                |name: &str| text(name).ok_or_else(|| format!("finding {} has no {name}", place + 1));
            Ok(Entry {
                server: text("server"),
                rule: needed("rule")?,
                run: text("run").unwrap_or_default(),
                problem: text("problem").unwrap_or_default(),
                fingerprint: needed("fingerprint")?,
            })
        });
        entries.collect()
    }

    /// Marks known findings, and collects entries that were not found again.
    pub(super) fn compare(&self, path: &Path, document: &mut Document) {
        let mut seen = BTreeSet::new();
        let alone = document.servers.len() == 1;
        for server in &mut document.servers {
            let label = server.label.clone();
            let Ok(Examination::Rules(checked)) = &mut server.outcome else { continue };
            for result in &mut checked.results {
                let rule = result.rule.slug;
                let RuleOutcome::Failed(places) = &mut result.outcome else { continue };
                for found in &mut places.found {
                    let known = self.entries.iter().enumerate().filter(|(_, entry)| {
                        entry.rule == rule
                            && entry.fingerprint == found.fingerprint
                            && entry.is_for(&label, alone)
                    });
                    for (place, _) in known {
                        found.known = true;
                        seen.insert(place);
                    }
                }
            }
        }
        let stale = self.entries.iter().enumerate().filter(|(place, entry)| {
            !seen.contains(place) && document.servers.iter().any(|server| entry.was_checked(server, alone))
        });
        let stale = stale.map(|(_, entry)| Stale {
            rule: entry.rule.clone(),
            server: entry.server.clone(),
            run: cut_chars(&entry.run, MAX_PROBLEM_CHARS),
            problem: cut_chars(&entry.problem, MAX_PROBLEM_CHARS),
        });
        document.baseline = Some(Comparison { file: shown(path.as_os_str()), stale: stale.collect() });
    }

    /// Writes all findings, and the entries that were not checked in this run. Returns the number of entries.
    pub(super) fn update(self, path: &Path, document: &Document) -> Result<usize, Failure> {
        let alone = document.servers.len() == 1;
        let mut entries: BTreeSet<Entry> = self
            .entries
            .into_iter()
            .filter(|entry| !document.servers.iter().any(|server| entry.was_checked(server, alone)))
            .collect();
        for server in &document.servers {
            let Ok(Examination::Rules(checked)) = &server.outcome else { continue };
            // An entry of a configuration has a name of its own. A single command may be typed in another way
            // elsewhere.
            let named = document.several || server.place.is_some();
            let name = named.then(|| server.label.clone());
            for result in &checked.results {
                let of = |found: &Finding| Entry {
                    server: name.clone(),
                    rule: result.rule.slug.to_owned(),
                    run: found.run.clone(),
                    problem: cut_chars(&found.problem, MAX_PROBLEM_CHARS),
                    fingerprint: found.fingerprint.clone(),
                };
                entries.extend(result.found().iter().map(of));
            }
        }
        // One entry for each fingerprint is enough.
        let mut written = BTreeSet::new();
        entries.retain(|entry| written.insert((entry.server.clone(), entry.fingerprint.clone())));
        let text = document_of(&Written { version: FORMAT.1, findings: &entries }) + "\n";
        write(path, text.as_bytes()).map_err(|error| {
            let problem = format!("the baseline {} cannot be written: {error}", shown(path.as_os_str()));
            Failure::new("E_OUTPUT", Exit::Usage, Phase::Output, problem)
                .hint("free some space, or name another file")
        })?;
        Ok(entries.len())
    }
}

impl Entry {
    /// Whether the entry is for this server. `alone`: there is only one server. Otherwise an entry without a name is
    /// for none.
    fn is_for(&self, label: &str, alone: bool) -> bool {
        self.server.as_ref().map_or(alone, |server| server == label)
    }

    /// Whether its rule was applied to its run on its server.
    fn was_checked(&self, server: &Server, alone: bool) -> bool {
        let Ok(Examination::Rules(RuleResults { runs, results, .. })) = &server.outcome else { return false };
        let result = results.iter().find(|result| result.rule.slug == self.rule);
        self.is_for(&server.label, alone)
            && result.is_some_and(|result| !matches!(result.outcome, RuleOutcome::Skipped(_)))
            && runs.iter().any(|run| run.name == self.run)
    }
}

/// Identifies a finding in later runs, by 16 hexadecimal digits of a hash: the rule and the place, without values that
/// differ in each run (ids, times, ports). `sent`: the message before the finding.
pub(super) fn fingerprint(rule: &str, run: &str, sent: Option<&str>, problem: &str) -> String {
    let mut hash = Sha256::new();
    for part in [rule, run, &sent.map(subject).unwrap_or_default(), &without_numbers(problem)] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The method and the name in a message. Our own messages are always written in the same way.
fn subject(sent: &str) -> String {
    let after = |name: &str| {
        let (_, rest) = sent.split_once(name)?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let verb = sent.split_once(' ').map(|(verb, _)| verb).filter(|verb| !verb.starts_with('{'));
    let parts = [verb, after(r#""method":""#), after(r#""params":{"name":""#), after(r#""uri":""#)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The text with `#` in place of numbers and ids.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| part(c) != part(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !part(first) || !word.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(word);
        } else if word.len() >= MIN_ID_BYTES {
            out.push('#');
        } else {
            let mut digits = false;
            for c in word.chars() {
                if !c.is_ascii_digit() {
                    out.push(c);
                } else if !digits {
                    out.push('#');
                }
                digits = c.is_ascii_digit();
            }
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{fingerprint, text_of, without_numbers};
    use crate::found::Zeros;

    #[test]
    fn a_baseline_has_16_mib_at_most() {
        assert_eq!(text_of(&Zeros::new("baseline", 16_777_216).0).unwrap().len(), 16_777_216);
        let error = text_of(&Zeros::new("baseline", 16_777_217).0).unwrap_err();
        assert_eq!(error.to_string(), "larger than the limit of 16 MiB");
    }

    #[test]
    fn numbers_and_ids_are_no_part_of_a_fingerprint() {
        for (text, same) in [
            ("the answer to 7 came after 10.3 s", "the answer to 912 came after 11.75 s"),
            ("the session 550e8400-e29b-41d4-a716-446655440000", "the session 66f3ab12cafe"),
            ("port 43211", "port 80"),
        ] {
            assert_eq!(without_numbers(text), without_numbers(same));
        }
        assert_eq!(without_numbers("tool2 of 12: é漢 a-b"), "tool# of #: é漢 a-b");
        assert_ne!(without_numbers("the tool add"), without_numbers("the tool sub"));
        assert_eq!(without_numbers(""), "");
    }

    #[test]
    fn the_rule_the_run_the_method_and_the_problem_are_part_of_a_fingerprint() {
        let sent = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#;
        let known = fingerprint("rule", "run", Some(sent), "problem 1");
        assert_eq!(known.len(), 16);
        assert_eq!(known, fingerprint("rule", "run", Some(&sent.replace('7', "801")), "problem 22"));
        let http = r#"POST /mcp (mcp-method: tools/call) {"jsonrpc":"2.0","id":7,"method":"tools/call"}"#;
        for other in [
            fingerprint("other", "run", Some(sent), "problem 1"),
            fingerprint("rule", "other", Some(sent), "problem 1"),
            fingerprint("rule", "run", Some(&sent.replace("add", "sub")), "problem 1"),
            fingerprint("rule", "run", Some(&sent.replace("call", "list")), "problem 1"),
            fingerprint("rule", "run", Some(sent), "fault 1"),
            fingerprint("rule", "run", None, "problem 1"),
            fingerprint("rule", "run", Some(http), "problem 1"),
        ] {
            assert_ne!(known, other);
        }
    }
}
