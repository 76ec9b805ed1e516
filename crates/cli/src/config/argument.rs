//! Secrets among the arguments of a command: what follows `--api-key`, `TOKEN=` and the like. Such values are never
//! shown when the command of an entry is.

/// What the name of an option or a variable contains when its value is a secret.
const SECRET: [&str; 8] = ["key", "token", "secret", "passw", "credential", "auth", "bearer", "header"];

/// Where in an argument its secret begins, and it goes to the end: `None` when it has none. `before`: the argument
/// before it.
pub(super) fn secret(before: Option<&str>, argument: &str) -> Option<usize> {
    let telling = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRET.iter().any(|word| name.contains(word))
    };
    if let Some((name, _)) = argument.split_once('=') {
        let option = name.starts_with('-');
        let variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if (option || variable) && telling(name) {
            return Some(name.len() + 1);
        }
    }
    let named =
        before.is_some_and(|before| before.starts_with('-') && !before.contains('=') && telling(before));
    if named && !argument.starts_with('-') { Some(0) } else { None }
}

/// The argument without its secret. A variable alone is none: it is not expanded here.
pub(super) fn masked(before: Option<&str>, argument: &str) -> String {
    match secret(before, argument).map(|at| argument.split_at(at)) {
        Some((name, value)) if !is_variable(value) => format!("{name}***"),
        _ => argument.to_owned(),
    }
}

/// One variable, without a default: a default is as good as the value itself.
fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1) && !text.contains(":-")
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn f25_the_secrets_of_a_command_are_not_shown() {
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let before = |place: usize| place.checked_sub(1).map(|before| words[before]);
            let words: Vec<String> =
                words.iter().enumerate().map(|(place, word)| masked(before(place), word)).collect();
            words.join(" ")
        };
        for (given, shown) in [
            ("-y pkg --port 1", "-y pkg --port 1"),
            ("--api-key k1 pkg", "--api-key *** pkg"),
            ("--api-key=k1 pkg", "--api-key=*** pkg"),
            ("run -e API_TOKEN=k1 -e DEBUG=1 image", "run -e API_TOKEN=*** -e DEBUG=1 image"),
            ("--header Authorization:k1", "--header ***"),
            ("--token ${TOKEN}", "--token ${TOKEN}"),
            ("--token ${TOKEN:-k1}", "--token ***"),
            ("--token --verbose", "--token --verbose"),
            ("--password", "--password"),
        ] {
            assert_eq!(line(given), shown);
        }
    }
}
