//! Reads the value of a name and the fields of a struct from Rust source, for the forms in which limits are written.

/// The value that a source gives a name: that of the constant, or else of the first field whose value is not a type.
pub(super) fn value(source: &str, name: &str) -> Option<String> {
    let source = without_comments(source);
    let label = format!("{name}:");
    let mut field = None;
    for (at, _) in source.match_indices(&label) {
        let (before, after) = (&source[..at], &source[at + label.len()..]);
        // The match is the end of a longer name, or a path such as `name::other`.
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || after.starts_with(':') {
            continue;
        }
        let text = expression(after);
        if before.ends_with("const ") || before.ends_with("static ") {
            return text.split_once('=').map(|(_, value)| joined(value));
        }
        if is_value(&text) {
            field = field.or(Some(text));
        }
    }
    field
}

/// The public fields of a struct.
pub(super) fn fields(source: &str, name: &str) -> Option<Vec<String>> {
    let source = without_comments(source);
    let (_, body) = source.split_once(&format!("pub struct {name} {{"))?;
    let (body, _) = body.split_once("\n}")?;
    let field = |line: &str| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0.to_owned());
    Some(body.lines().filter_map(field).collect())
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The text up to the comma, semicolon or bracket that ends the expression.
fn expression(text: &str) -> String {
    let mut depth = 0_usize;
    let end = text.find(|c: char| match c {
        '(' | '[' | '{' => {
            depth += 1;
            false
        }
        ')' | ']' | '}' if depth == 0 => true,
        ')' | ']' | '}' => {
            depth -= 1;
            false
        }
        ',' | ';' => depth == 0,
        _ => false,
    });
    joined(&text[..end.unwrap_or(text.len())])
}

/// Joins the text to one line.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the text is a number, a constant or a duration, and not a type.
fn is_value(text: &str) -> bool {
    let last = text.rsplit("::").next().unwrap_or(text);
    let is_constant = last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let is_made = text.contains("::from_") || text.ends_with("::default()");
    is_constant || is_number || is_made || text.contains(" * ")
}

#[cfg(test)]
mod tests {
    use super::{fields, value};

    const SOURCE: &str = "
        /// LONGEST: 7 in a comment
        const LONGEST: usize = 64 * 1024; // bytes
        pub(super) const SPREAD: Duration =
            Duration::from_secs(5);
        const ALSO_LONGEST: usize = 1;
        pub struct Limits {
            /// The bytes.
            pub message: usize,
            pub few: u64,
            hidden: Option<u32>,
            pub request: Duration,
        \n}
        fn read(few: u64, message: usize) {}
        fn new() -> Limits {
            Limits { message: 10 * MIB, few: scan::MAX_DEPTH, hidden: None, request: Duration::from_secs(60) }
        }
    ";

    #[test]
    fn constants_and_fields_have_their_values() {
        for (name, text) in [
            ("LONGEST", "64 * 1024"),
            ("SPREAD", "Duration::from_secs(5)"),
            ("message", "10 * MIB"),
            ("few", "scan::MAX_DEPTH"),
            ("request", "Duration::from_secs(60)"),
        ] {
            assert_eq!(value(SOURCE, name).as_deref(), Some(text), "{name}");
        }
        for name in ["hidden", "Limits", "GEST", "none"] {
            assert_eq!(value(SOURCE, name), None, "{name}");
        }
    }

    #[test]
    fn fields_are_those_that_others_can_set() {
        assert_eq!(fields(SOURCE, "Limits").unwrap(), ["message", "few", "request"]);
        assert_eq!(fields(SOURCE, "Others"), None);
    }
}
