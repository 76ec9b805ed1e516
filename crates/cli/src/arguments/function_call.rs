//! A call as other programs write it, `add(a: 1, b: 'x y')`, as the words that mean the same here.
//!
//! Used by `target` for the line that it proposes.

/// The tool and the words of its arguments. `None` where the text is something else, or an argument has no name.
pub(crate) fn of_function_call(text: &str) -> Option<(&str, Vec<String>)> {
    let (tool, inner) = text.strip_suffix(')')?.split_once('(')?;
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-./#".contains(c));
    let word = |part: &str| {
        let (name, value) = part.split_once([':', '='])?;
        let (name, value) = (name.trim().trim_matches(['"', '\'']), value.trim());
        let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        is_name(name).then(|| match quoted {
            Some(text) if text.starts_with('@') => format!("{name}=@{text}"),
            Some(text) => format!("{name}={text}"),
            None if value.starts_with(['[', '{']) => format!("{name}:={value}"),
            None => format!("{name}={value}"),
        })
    };
    let words = parts(inner).into_iter().map(word).collect::<Option<Vec<_>>>()?;
    is_name(tool).then_some((tool, words))
}

/// The parts between commas that are in no quotes and no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::of_function_call;

    #[test]
    fn a_call_in_brackets_is_the_same_as_words() {
        for (text, tool, words) in [
            ("add(a: 1, b: 2)", "add", &["a=1", "b=2"][..]),
            ("mem.add(a=1)", "mem.add", &["a=1"]),
            ("now()", "now", &[]),
            ("echo(message: 'a, (b)', \"to\": \"x y\")", "echo", &["message=a, (b)", "to=x y"]),
            ("read(paths: [\"a\", \"b\"], at: '@x')", "read", &["paths:=[\"a\", \"b\"]", "at=@@x"]),
        ] {
            let words = words.iter().map(ToString::to_string).collect();
            assert_eq!(of_function_call(text), Some((tool, words)), "{text}");
        }
        for text in ["add", "add(1, 2)", "add(a: 1", "(a: 1)", "echo hi(a: 1)"] {
            assert_eq!(of_function_call(text), None, "{text}");
        }
    }
}
