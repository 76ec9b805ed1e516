//! Secrets: which of the words of a server's command are some, and a text without them.
//!
//! Tokens and keys are given to servers in their arguments as often as in variables: `--api-key=...`,
//! `--header 'Authorization: Bearer ...'`, `https://host/?token=...`. `connect` asks before anything is said of the
//! command; `ui` then hides what was found, wherever it comes from. Words are judged by the names beside them, so one
//! can be missed: variables are the better place for a secret, because all of them are hidden.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;

use crate::visible;

/// The ends of the names that secrets have, in lower case, without dashes, underscores and dots.
const NAMES: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "secretkey",
    "authkey",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "bearer",
];
/// What stands before the secret in the value of a header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// The secrets among these words, as far as their names tell.
pub(crate) fn values(words: &[OsString]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut before = String::new();
    for word in words {
        let word = word.to_string_lossy();
        in_word(&before, &word, &mut found);
        before = word.into_owned();
    }
    // A flag is none.
    found.retain(|value| value != "true" && value != "false");
    found.into_iter().map(OsString::from).collect()
}

/// The secrets in one word, which stands after another.
fn in_word(before: &str, word: &str, found: &mut Vec<String>) {
    let option = before.starts_with('-') && !before.contains('=');
    if option && is_secret(before) && !word.starts_with('-') {
        found.push(word.to_owned());
    }
    // `--name=value` and `NAME=value`, where the name is one.
    if let Some((name, value)) = word.split_once('=')
        && is_name(name.trim_start_matches('-'))
        && is_secret(name)
    {
        found.push(value.to_owned());
    }
    // `Name: value`, which every header of an option for headers is.
    if let Some((name, value)) = word.split_once(':')
        && is_name(name)
        && (is_secret(name) || matches!(before, "-H" | "--header" | "--headers"))
    {
        found.extend(of_value(value));
    }
    found.extend(after_scheme(word));
    let Some((_, rest)) = word.split_once("://") else { return };
    let authority = &rest[..rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len())];
    if let Some((user_info, _)) = authority.rsplit_once('@') {
        found.push(user_info.to_owned());
        found.extend(user_info.split_once(':').map(|(_, password)| password.to_owned()));
    }
    if let Some((_, query)) = rest.split_once('?') {
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let secret = pairs.filter(|(name, _)| is_secret(name) || matches!(*name, "key" | "sig" | "code"));
        found.extend(secret.map(|(_, value)| value.to_owned()));
    }
}

/// The secrets in the value of a header: all of it, and what stands after a scheme.
pub(crate) fn of_header(value: &str) -> Vec<OsString> {
    of_value(value).into_iter().map(OsString::from).collect()
}

fn of_value(value: &str) -> Vec<String> {
    std::iter::once(value.trim().to_owned()).chain(after_scheme(value)).collect()
}

/// `Bearer` and the like, where the value of a header begins with it.
pub(crate) fn scheme(value: &str) -> Option<&str> {
    let (scheme, _) = value.trim().split_once(' ')?;
    SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()).then_some(scheme)
}

/// What stands after `Bearer` and the like.
fn after_scheme(value: &str) -> Option<String> {
    let behind = &value.trim()[scheme(value)?.len()..];
    Some(behind.trim().to_owned())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_secret(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    NAMES.iter().any(|end| letters.ends_with(end))
}

/// Texts that must not be shown.
pub(crate) struct Secrets {
    /// The longest first: one may be a part of another.
    spellings: Box<[String]>,
    /// Every [`PART`] bytes in a row of those that are long and no words.
    parts: HashSet<[u8; PART]>,
}

/// So many bytes in a row of a long secret are hidden, too: an excerpt may have been cut anywhere in it.
const PART: usize = 8;
/// A secret is long from here on.
const LONG: usize = 16;
/// So many of the first bytes of any secret are hidden at the end of an excerpt.
const FIRST: usize = 4;
/// What stands behind an excerpt.
const BEHIND: [char; 6] = ['\n', '…', ';', '`', '"', '\''];

impl Secrets {
    /// Shorter values hide nothing that could not be guessed, and what contains them would become unreadable.
    const SHORTEST: usize = 4;
    /// The same is true of numbers up to so many digits: ports, sizes, times.
    const DIGITS: usize = 5;

    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a OsString>) -> Self {
        let mut spellings: Vec<String> = Vec::new();
        let mut parts = HashSet::new();
        for value in values {
            let value = value.to_string_lossy();
            if value.len() < Self::SHORTEST || Self::is_plain(&value) {
                continue;
            }
            // Parts of a path or of a sentence are words that others use, too.
            if value.len() >= LONG && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
                parts.extend(
                    value.as_bytes().windows(PART).filter_map(|part| <[u8; PART]>::try_from(part).ok()),
                );
            }
            let shown = visible::line(&value).into_owned();
            // As a word of a command is shown.
            let word = shown.replace('\'', r"'\''");
            for spelling in [value.into_owned(), shown, word] {
                let quoted = serde_json::Value::from(spelling.as_str()).to_string();
                spellings.push(quoted[1..quoted.len() - 1].to_owned());
                spellings.push(spelling);
            }
        }
        spellings.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        spellings.dedup();
        Self { spellings: spellings.into(), parts }
    }

    /// What every second document holds, and JSON without quotes: `***` in its place would make it none.
    fn is_plain(value: &str) -> bool {
        let number = value.len() <= Self::DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
        number || matches!(value, "true" | "false" | "null")
    }

    /// The text without them.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = Cow::Borrowed(text);
        for secret in &self.spellings {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "***").into();
            }
        }
        // Only then, because one spelling may begin like another one that is there as a whole.
        for secret in &self.spellings {
            if let Some(without) = without_beginning(&text, secret) {
                text = without.into();
            }
        }
        if self.parts.is_empty() { text.into_owned() } else { self.without_parts(&text) }
    }

    /// A text of which nothing was cut off, without them: what only begins like one stays.
    pub(crate) fn hide_whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.spellings.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "***").into() } else { text }
        })
    }

    /// JSON, or a piece of it that begins and ends between words: without them in the texts that are values. Names and
    /// numbers stay, because `***` in their place would make it something else, or nothing.
    pub(crate) fn hide_in_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        // Up to where it is written, and up to where it is looked at.
        let (mut done, mut at) = (0, 0);
        while let Some(opening) = json[at..].find('"') {
            let begin = at + opening;
            let Some(length) = text_length(&json[begin..]) else { break };
            at = begin + length;
            let is_name = json[at..].trim_start().starts_with(':');
            let text = &json[begin..at];
            if is_name || !self.spellings.iter().any(|secret| text.contains(secret.as_str())) {
                continue;
            }
            let Ok(value) = serde_json::from_str::<String>(text) else { continue };
            if let Cow::Owned(hidden) = self.hide_whole(&value) {
                out.push_str(&json[done..begin]);
                out.push_str(&visible::json(&serde_json::Value::from(hidden).to_string()));
                done = at;
            }
        }
        if done == 0 { Cow::Borrowed(json) } else { (out + &json[done..]).into() }
    }

    /// The text without any bytes in a row that are a part of a long secret.
    fn without_parts(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // Up to where the text has been kept or hidden, and up to where it is a part.
        let (mut done, mut part) = (0, 0);
        for (at, window) in text.as_bytes().windows(PART).enumerate() {
            if !<[u8; PART]>::try_from(window).is_ok_and(|window| self.parts.contains(&window)) {
                continue;
            }
            // Parts are ASCII, so they begin and end between characters.
            if at > part || part == 0 {
                out.push_str(&text[done.max(part)..at]);
                out.push_str("***");
            }
            part = at + PART;
            done = part;
        }
        out.push_str(&text[done..]);
        out
    }
}

/// How long the text in quotes is that this begins with, the quotes included; `None` when it does not end.
fn text_length(json: &str) -> Option<usize> {
    let mut bytes = json.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
    None
}

/// The text without the first bytes of the secret where an excerpt ends with them; `None` when none does.
fn without_beginning(text: &str, secret: &str) -> Option<String> {
    let beginnings = || {
        let ends = secret.char_indices().rev().map(|(end, _)| end).filter(|end| *end >= FIRST);
        ends.map(|end| &secret[..end])
    };
    let mut out = None;
    let mut done = 0;
    let ends = text.match_indices(BEHIND).map(|(at, _)| at).chain([text.len()]);
    for end in ends {
        let piece = &text[done..end];
        if let Some(beginning) = beginnings().find(|beginning| piece.ends_with(beginning)) {
            let out = out.get_or_insert_with(String::new);
            out.push_str(&piece[..piece.len() - beginning.len()]);
            out.push_str("***");
            done = end;
        }
    }
    out.map(|out| out + &text[done..])
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Secrets, values};

    #[test]
    fn i166_secrets_are_hidden_in_every_spelling() {
        let secrets = Secrets::new(&[OsString::from("hunter2"), "hunter2-long".into(), "q\"\u{1b}q".into()]);
        assert_eq!(secrets.hide("a hunter2 hunter2-long b"), "a *** *** b");
        assert_eq!(secrets.hide("q\"\u{1b}q q\"\\u{1b}q q\\\"\\u001bq"), "*** *** ***");
        for plain in ["1", "8080", "10000", "true", "false", "null"] {
            let text = format!("{{\"port\":{plain}}}");
            assert_eq!(Secrets::new(&[OsString::from(plain)]).hide(&text), text);
        }
        assert_eq!(Secrets::new(&[OsString::from("123456")]).hide("pin 123456"), "pin ***");
        // As a word of a command, and that in JSON.
        let odd = Secrets::new(&[OsString::from("pa'ss\u{1b}w")]);
        assert_eq!(odd.hide(r"x 'pa'\''ss\u{1b}w' 'pa'\\''ss\\u{1b}w'"), "x '***' '***'");
    }

    #[test]
    fn i166_json_without_secrets_is_json_still() {
        let secrets = ["600000", "tools", "nabc", "https://x", "q\"qq"].map(OsString::from);
        let hide = |json: &str| Secrets::new(&secrets).hide_in_json(json).into_owned();
        for same in [
            r#"{"default":600000,"tools":[],"tools" : 1}"#,
            r#""line\nabc""#,
            r#"["http","https"]"#,
            r#"{"a":"unfinished"#,
            "",
        ] {
            assert_eq!(hide(same), same);
        }
        assert_eq!(
            hide(r#"{"a":["my tools","q\"qq","\"600000\\"]}, "b": "x""#),
            r#"{"a":["my ***","***","\"***\\"]}, "b": "x""#
        );
    }

    #[test]
    fn i166_a_secret_that_an_excerpt_has_cut_is_hidden_too() {
        let secret = "sk-0123456789-abcdef";
        let secrets =
            Secrets::new(&[OsString::from(secret), "hunter2-and-more".into(), "/usr/local/bin".into()]);
        for start in 0..secret.len() - 8 {
            for end in start + 8..=secret.len() {
                let cut = &secret[start..end];
                assert_eq!(secrets.hide(&format!("é {cut}, {cut}")), "é ***, ***", "{cut}");
            }
        }
        assert_eq!(
            secrets.hide("at byte 3: hunte; it begins `hunter2-a`\nhunt"),
            "at byte 3: ***; it begins `***`\n***"
        );
        assert_eq!(secrets.hide("a hunter; hun"), "a ***; hun");
        // What is no part of an excerpt's end, and what is a word of others.
        assert_eq!(secrets.hide("hunting in /usr/local/lib"), "hunting in /usr/local/lib");
    }

    #[test]
    fn i166_secrets_in_arguments_are_found_by_the_names_beside_them() {
        for (words, secrets) in [
            (&["--api-key=sk-1", "--verbose"][..], &["sk-1"][..]),
            (&["--token", "abc"], &["abc"]),
            (&["--token", "--verbose"], &[]),
            (&["--access_token=a=b"], &["a=b"]),
            (&["GITHUB_TOKEN=ghp", "npx", "server"], &["ghp"]),
            (&["-H", "Authorization: Bearer xyz"], &["Bearer xyz", "xyz"]),
            (&["--header", "X-Tenant: seven"], &["seven"]),
            (&["Authorization:Basic dTpw"], &["Basic dTpw", "dTpw"]),
            (&["bearer xyz"], &["xyz"]),
            (&["https://h/x?api_key=a1&b=2&key=c3#d"], &["a1", "c3"]),
            (&["--clientSecret", "s"], &["s"]),
            (&["--url=postgres://me:p@ss@host/db"], &["me:p@ss", "p@ss"]),
            (&["--use-token=true", "--max-tokens=4096", "--token-file", "/etc/t", "a:b", "x=y"], &[]),
            (&["--key", "/etc/server.pem", "https://h/p?q=1"], &[]),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(values(&words), secrets, "{words:?}");
        }
    }
}
