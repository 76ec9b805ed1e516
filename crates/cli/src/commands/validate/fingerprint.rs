//! By what a finding is known again in another run: the rule and where it was broken, without what is different each
//! time (ids, times, ports).

use sha2::{Digest, Sha256};

/// So many characters of a word with digits in it make it an id, which is another one each time.
const ID: usize = 8;

/// The fingerprint, in 16 hexadecimal digits. `sent`: what was sent before it was broken.
pub(super) fn of(rule: &str, run: &str, sent: Option<&str>, problem: &str) -> String {
    let mut hash = Sha256::new();
    for part in [rule, run, &sent.map(asked).unwrap_or_default(), &steady(problem)] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What was asked for, and of what: our own words, which are spelled in one way.
fn asked(sent: &str) -> String {
    let after = |name: &str| {
        let (_, rest) = sent.split_once(name)?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let verb = sent.split_once(' ').map(|(verb, _)| verb).filter(|verb| !verb.starts_with('{'));
    let parts = [verb, after(r#""method":""#), after(r#""params":{"name":""#), after(r#""uri":""#)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The text with `#` in place of numbers and of words that are ids.
fn steady(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| part(c) != part(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if !part(first) || !word.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(word);
        } else if word.len() >= ID {
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
    use super::{of, steady};

    #[test]
    fn numbers_and_ids_are_no_part_of_it() {
        for (text, same) in [
            ("the answer to 7 came after 10.3 s", "the answer to 912 came after 11.75 s"),
            ("the session 550e8400-e29b-41d4-a716-446655440000", "the session 66f3ab12cafe"),
            ("port 43211", "port 80"),
        ] {
            assert_eq!(steady(text), steady(same));
        }
        assert_eq!(steady("tool2 of 12: é漢 a-b"), "tool# of #: é漢 a-b");
        assert_ne!(steady("the tool add"), steady("the tool sub"));
        assert_eq!(steady(""), "");
    }

    #[test]
    fn the_rule_the_run_the_method_and_the_problem_are() {
        let sent = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#;
        let known = of("rule", "run", Some(sent), "problem 1");
        assert_eq!(known.len(), 16);
        assert_eq!(known, of("rule", "run", Some(&sent.replace('7', "801")), "problem 22"));
        let http = r#"POST /mcp (mcp-method: tools/call) {"jsonrpc":"2.0","id":7,"method":"tools/call"}"#;
        for other in [
            of("other", "run", Some(sent), "problem 1"),
            of("rule", "other", Some(sent), "problem 1"),
            of("rule", "run", Some(&sent.replace("add", "sub")), "problem 1"),
            of("rule", "run", Some(&sent.replace("call", "list")), "problem 1"),
            of("rule", "run", Some(sent), "fault 1"),
            of("rule", "run", None, "problem 1"),
            of("rule", "run", Some(http), "problem 1"),
        ] {
            assert_ne!(known, other);
        }
    }
}
