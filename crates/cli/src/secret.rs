//! Finds the secrets in the words of a command, and removes secrets from texts.
//!
//! Users pass tokens and keys to servers in arguments as often as in variables: `--api-key=...`,
//! `--header 'Authorization: Bearer ...'`, `https://host/?token=...`. `connect` collects them before anything is printed, and
//! `ui` then hides them in every text. A word is a secret by the name beside it, so one can be missed. Variables are the better
//! place for a secret, because the values of all variables are hidden.
//!
//! A command that we print ourselves is masked by position ([`masked`]), so that its author cannot choose what else of it is
//! replaced. Texts of servers and of the system are masked by content ([`Secrets`]). That leaves programs and hosts unchanged
//! ([`AlwaysShown`]).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;

use crate::visible;

/// The ends of names of secrets, in lower case, without dashes, underscores and dots.
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
/// The schemes before a secret in the value of a header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// The secrets among these words, as far as the names beside them show.
pub(crate) fn values(words: &[OsString]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut before = String::new();
    for word in words {
        let word = word.to_string_lossy();
        found.extend(places(&before, &word).into_iter().map(|place| OsString::from(&word[place])));
        before = word.into_owned();
    }
    // A flag is no secret.
    found.retain(|value| value != "true" && value != "false");
    found
}

/// These words with `***` in place of their secrets. A reference to a variable stays, and so does a value that [`Secrets`] never
/// hides.
pub(crate) fn masked<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut before = "";
    let mut masked = Vec::new();
    for word in words {
        let mut places = places(before, word);
        places.retain(|place| !is_reference(&word[place.clone()]) && Secrets::hides(&word[place.clone()]));
        places.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
        let mut out = String::with_capacity(word.len());
        let mut done = 0;
        for place in places {
            // A place may be inside another one: the wider one comes first.
            if place.start >= done {
                out.push_str(&word[done..place.start]);
                out.push_str("***");
                done = place.end;
            }
        }
        masked.push(out + &word[done..]);
        before = word;
    }
    masked
}

/// Whether the text is one reference to a variable, without a default.
pub(crate) fn is_reference(text: &str) -> bool {
    let begins = text.starts_with("${") || text.starts_with("{env:");
    begins && text.find('}') == Some(text.len() - 1) && !text.contains(":-")
}

/// The user, the host and the port in the part of a URL behind `://`. As in HTTP clients, a backslash counts as a slash.
pub(crate) fn authority(behind: &str) -> &str {
    &behind[..behind.find(['/', '\\', '?', '#', ' ']).unwrap_or(behind.len())]
}

/// The host in a URL, without its port.
pub(crate) fn host(url: &str) -> Option<&str> {
    let (_, behind) = url.split_once("://")?;
    let authority = authority(behind);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let end = match host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(bracket) => bracket + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    Some(&host[..end]).filter(|host| !host.is_empty())
}

/// The places of the secrets in a word. `before`: the word before it.
fn places(before: &str, word: &str) -> Vec<Range<usize>> {
    let place = |part: &str| {
        let start = part.as_ptr().addr() - word.as_ptr().addr();
        start..start + part.len()
    };
    let mut found = Vec::new();
    let option = before.starts_with('-') && !before.contains('=');
    if option && is_secret(before) && !word.starts_with('-') {
        found.push(0..word.len());
    }
    // `--name=value` and `NAME=value`, where the name is one.
    if let Some((name, value)) = word.split_once('=')
        && is_name(name.trim_start_matches('-'))
        && is_secret(name)
    {
        found.push(place(value));
    }
    // `Name: value`. The value of an option for headers is a secret under every name.
    if let Some((name, value)) = word.split_once(':')
        && is_name(name)
        && (is_secret(name) || matches!(before, "-H" | "--header" | "--headers"))
    {
        found.extend(of_value(value).map(place));
    }
    found.extend(after_scheme(word).map(place));
    let Some((_, behind)) = word.split_once("://") else { return found };
    if let Some((user_info, _)) = authority(behind).rsplit_once('@') {
        found.push(place(user_info));
        found.extend(user_info.split_once(':').map(|(_, password)| place(password)));
    }
    if let Some((_, query)) = behind.split_once('?') {
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let secret = pairs.filter(|(name, _)| is_secret(name) || matches!(*name, "key" | "sig" | "code"));
        found.extend(secret.map(|(_, value)| place(value)));
    }
    found
}

/// The secrets in the value of a header: the whole value, and the part after a scheme.
pub(crate) fn of_header(name: &str, value: &str) -> Vec<OsString> {
    of_value(value).map(OsString::from).filter(|value| is_hidden(name, value)).collect()
}

/// Whether the value of a variable or a header is hidden. A short value is an ordinary word, unless its name says that it is a secret.
pub(crate) fn is_hidden(name: &str, value: &OsStr) -> bool {
    value.len() >= MIN_SECRET_BYTES || is_secret(name)
}

fn of_value(value: &str) -> impl Iterator<Item = &str> {
    std::iter::once(value.trim()).chain(after_scheme(value))
}

/// The scheme at the beginning of a header's value, such as `Bearer`.
pub(crate) fn scheme(value: &str) -> Option<&str> {
    let (scheme, _) = value.trim().split_once(' ')?;
    SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()).then_some(scheme)
}

/// The part of a header's value after its scheme.
fn after_scheme(value: &str) -> Option<&str> {
    Some(value.trim()[scheme(value)?.len()..].trim())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_secret(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    NAMES.iter().any(|end| letters.ends_with(end))
}

/// Whether the value of a variable may be a secret: by the name, or because it looks like a token. To write a secret to a file is worse
/// than to ask for a value that is none, so that more counts as a secret than is hidden.
pub(crate) fn may_be_secret(name: &str, value: &str) -> bool {
    const ENDS: [&str; 6] = ["key", "pass", "pwd", "auth", "pat", "dsn"];
    let lower = name.to_ascii_lowercase();
    let is_token = |value: &str| {
        value.len() >= MIN_LONG_SECRET_BYTES
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=~".contains(&byte))
            && value.bytes().any(|byte| byte.is_ascii_digit())
    };
    is_secret(name)
        || ENDS.iter().any(|end| lower.ends_with(end))
        || !places("", value).is_empty()
        || value.split(|c: char| !c.is_ascii_alphanumeric() && !"_-+=~".contains(c)).any(is_token)
}

/// A secret of this length is long: a part of it is hidden, too, since an excerpt may be truncated anywhere in it.
const MIN_LONG_SECRET_BYTES: usize = 16;
/// The consecutive bytes of a long secret that are hidden.
const PART_BYTES: usize = 8;
/// The bytes at the beginning of any secret that are hidden at the end of an excerpt.
const MIN_BEGINNING_BYTES: usize = 4;
/// The characters that follow an excerpt.
const EXCERPT_ENDS: [char; 6] = ['\n', '…', ';', '`', '"', '\''];
/// Shorter values are hidden only where they stand as a whole word: texts that contain them would become unreadable.
const MIN_SECRET_BYTES: usize = 4;
/// A value of one character is not hidden: it can be guessed, and most texts have it as a word.
const MIN_SHORT_BYTES: usize = 2;
/// Numbers up to this length are not hidden either: ports, sizes, times.
const MAX_PLAIN_DIGITS: usize = 5;

/// Texts that must not be shown.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// The longest first: one may be a part of another.
    spellings: Box<[String]>,
    /// Secrets that are shorter than [`MIN_SECRET_BYTES`].
    short: Box<[String]>,
    /// Every [`PART_BYTES`] consecutive bytes of long secrets that contain no words.
    parts: HashSet<[u8; PART_BYTES]>,
}

impl Secrets {
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a OsString>) -> Self {
        let (mut spellings, mut short): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut parts = HashSet::new();
        for value in values {
            let value = value.to_string_lossy();
            if !Self::hides(&value) {
                continue;
            }
            if value.len() < MIN_SECRET_BYTES {
                short.push(value.into_owned());
                continue;
            }
            // Parts of a path or of a sentence are ordinary words.
            if value.len() >= MIN_LONG_SECRET_BYTES
                && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
            {
                parts.extend(
                    value
                        .as_bytes()
                        .windows(PART_BYTES)
                        .filter_map(|part| <[u8; PART_BYTES]>::try_from(part).ok()),
                );
            }
            let shown = visible::line(&value).into_owned();
            // The spelling of a word of a command.
            let word = visible::word(&value).replace('\'', r"'\''");
            for spelling in [value.into_owned(), shown, word] {
                let quoted = serde_json::Value::from(spelling.as_str()).to_string();
                spellings.push(quoted[1..quoted.len() - 1].to_owned());
                spellings.push(spelling);
            }
        }
        spellings.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        spellings.dedup();
        Self { spellings: spellings.into(), short: short.into(), parts }
    }

    /// Whether the value is hidden at all.
    fn hides(value: &str) -> bool {
        value.len() >= MIN_SHORT_BYTES && !Self::is_plain(value)
    }

    /// Whether most documents contain the value. `***` in place of an unquoted value would make JSON invalid.
    fn is_plain(value: &str) -> bool {
        let number = value.len() <= MAX_PLAIN_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
        number || matches!(value, "true" | "false" | "null" | "yes" | "no" | "on" | "off")
    }

    /// The text with `***` for each secret, and for the beginning of a secret at the end of an excerpt.
    pub(crate) fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = self.hide_whole(text);
        // After that, since a whole secret may begin like another one.
        for secret in &self.spellings {
            if let Some(without) = without_beginning(&text, secret) {
                text = without.into();
            }
        }
        if self.parts.is_empty() { text } else { self.without_parts(&text).into() }
    }

    /// [`hide`](Self::hide) for a text that was not truncated: the beginning of a secret stays.
    pub(crate) fn hide_whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = self.spellings.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "***").into() } else { text }
        });
        self.short.iter().fold(text, |text, secret| match without_word(&text, secret) {
            Some(without) => without.into(),
            None => text,
        })
    }

    /// JSON, or a piece of it that begins and ends between tokens, with `***` for secrets in string values. Names and numbers
    /// stay, since `***` in their place would change the structure or make it invalid.
    pub(crate) fn hide_in_json<'a>(&self, json: &'a str, kept: &AlwaysShown) -> Cow<'a, str> {
        let mut out = String::new();
        // The bytes that are written, and the bytes that were searched.
        let (mut done, mut at) = (0, 0);
        while let Some(opening) = json[at..].find('"') {
            let begin = at + opening;
            let Some(length) = string_length(&json[begin..]) else { break };
            at = begin + length;
            let is_name = json[at..].trim_start().starts_with(':');
            let text = &json[begin..at];
            let mut secrets = self.spellings.iter().chain(&self.short);
            if is_name || !secrets.any(|secret| text.contains(secret.as_str())) {
                continue;
            }
            let Ok(value) = serde_json::from_str::<String>(text) else { continue };
            if let Cow::Owned(hidden) = kept.hide_between(&value, |piece| self.hide_whole(piece)) {
                out.push_str(&json[done..begin]);
                out.push_str(&visible::json(&serde_json::Value::from(hidden).to_string()));
                done = at;
            }
        }
        if done == 0 { Cow::Borrowed(json) } else { (out + &json[done..]).into() }
    }

    /// The text with `***` for the parts of long secrets.
    fn without_parts(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // The bytes that are written, and the end of the last part.
        let (mut done, mut part) = (0, 0);
        for (at, window) in text.as_bytes().windows(PART_BYTES).enumerate() {
            if !<[u8; PART_BYTES]>::try_from(window).is_ok_and(|window| self.parts.contains(&window)) {
                continue;
            }
            // Parts are ASCII, so this slices between characters.
            if at > part || part == 0 {
                out.push_str(&text[done.max(part)..at]);
                out.push_str("***");
            }
            part = at + PART_BYTES;
            done = part;
        }
        out.push_str(&text[done..]);
        out
    }
}

/// Programs and hosts that are always shown, also where a secret has the same text.
#[derive(Debug, Default)]
pub(crate) struct AlwaysShown(BTreeSet<String>);

impl AlwaysShown {
    /// Adds a program or a host in each of its spellings.
    pub(crate) fn add(&mut self, text: &str) {
        if !text.is_empty() {
            self.0.extend([visible::line(text), visible::word(text), text.into()].map(Cow::into_owned));
        }
    }

    /// Applies `hide` to the text between the programs and hosts.
    pub(crate) fn hide_between<'a>(
        &self,
        text: &'a str,
        hide: impl Fn(&'a str) -> Cow<'a, str>,
    ) -> Cow<'a, str> {
        let mut out = String::new();
        let (mut done, mut at) = (0, 0);
        while let Some(place) = self.next(text, at) {
            out.push_str(&hide(&text[done..place.start]));
            out.push_str(&text[place.clone()]);
            done = place.end;
            at = place.end;
        }
        if done == 0 {
            return hide(text);
        }
        out.push_str(&hide(&text[done..]));
        if out == text { Cow::Borrowed(text) } else { out.into() }
    }

    /// The next program or host that is a whole word; of two at one place the longer one.
    fn next(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let first = |kept: &String| {
            let mut places = text[from..].match_indices(kept.as_str());
            let whole = |(at, _): &(usize, &str)| is_word(text, from + at..from + at + kept.len());
            places.find(whole).map(|(at, _)| from + at..from + at + kept.len())
        };
        self.0.iter().filter_map(first).min_by_key(|place| (place.start, std::cmp::Reverse(place.end)))
    }
}

/// Whether the text at that place is no part of a longer word: tokens consist of letters, digits and the characters of Base64,
/// and contain none of these delimiters.
fn is_word(text: &str, place: Range<usize>) -> bool {
    let delimits = |c: char| c.is_whitespace() || "'\"`()[],;:".contains(c);
    let host = text[..place.start].ends_with("://") || text[..place.start].ends_with('@');
    let before = host || text[..place.start].chars().next_back().is_none_or(delimits);
    let ends = |c: char| delimits(c) || host && "/\\?#".contains(c);
    before && text[place.end..].chars().next().is_none_or(ends)
}

/// The text with `***` in place of the secret where that is a whole word; `None` where it is none.
fn without_word(text: &str, secret: &str) -> Option<String> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut out = None;
    let mut done = 0;
    for (at, _) in text.match_indices(secret) {
        let end = at + secret.len();
        let is_whole = !text[..at].ends_with(is_of_word) && !text[end..].starts_with(is_of_word);
        if is_whole {
            let out = out.get_or_insert_with(String::new);
            out.push_str(&text[done..at]);
            out.push_str("***");
            done = end;
        }
    }
    out.map(|out| out + &text[done..])
}

/// The length of the JSON string at the beginning of the text, with its quotes; `None` when it does not end.
pub(crate) fn string_length(json: &str) -> Option<usize> {
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

/// The text with `***` where an excerpt ends with the beginning of the secret; `None` where none does.
fn without_beginning(text: &str, secret: &str) -> Option<String> {
    let beginnings = || {
        let ends = secret.char_indices().rev().map(|(end, _)| end).filter(|end| *end >= MIN_BEGINNING_BYTES);
        ends.map(|end| &secret[..end])
    };
    let mut out = None;
    let mut done = 0;
    let ends = text.match_indices(EXCERPT_ENDS).map(|(at, _)| at).chain([text.len()]);
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

    use super::{AlwaysShown, Secrets, host, is_hidden, masked, may_be_secret, values};

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
        let odd = Secrets::new(&[OsString::from(r"pass\u{1b}w")]);
        assert_eq!(odd.hide(r"x 'pass\u{5c}u{1b}w' pass\u{1b}w"), "x '***' ***");
    }

    #[test]
    fn i166_a_short_secret_is_hidden_where_it_is_a_whole_word() {
        let secrets = Secrets::new(&["abc", "s3", "é!", "x", "on", "42"].map(OsString::from));
        for (text, shown) in [
            ("abc", "***"),
            ("token=abc&b, 'abc' (s3) abc", "token=***&b, '***' (***) ***"),
            ("abcd xabc abc-d a_abc s3cret", "abcd xabc abc-d a_abc s3cret"),
            ("é! é!é", "*** é!é"),
            ("x on 42", "x on 42"),
        ] {
            assert_eq!(secrets.hide(text), shown);
        }
        let json = r#"{"abc":["abc","abcd",{"b":"say abc."}],"n":42}"#;
        let hidden = r#"{"abc":["***","abcd",{"b":"say ***."}],"n":42}"#;
        assert_eq!(secrets.hide_in_json(json, &AlwaysShown::default()), hidden);
        // The name decides whether a short value is a secret.
        for (name, value, hidden) in [
            ("TOKEN", "abc", true),
            ("LANG", "en", false),
            ("LANG", "en_GB", true),
            ("authorization", "abc", true),
        ] {
            assert_eq!(is_hidden(name, value.as_ref()), hidden, "{name}={value}");
        }
    }

    #[test]
    fn i166_json_without_secrets_is_json_still() {
        let secrets = ["600000", "tools", "nabc", "https://x", "q\"qq"].map(OsString::from);
        let hide =
            |json: &str| Secrets::new(&secrets).hide_in_json(json, &AlwaysShown::default()).into_owned();
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
        // Not at the end of an excerpt, and a part of a path.
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

    #[test]
    fn a_variable_may_be_a_secret_by_its_name_or_its_value() {
        for (name, value, is_secret) in [
            ("LOG_LEVEL", "debug", false),
            ("ROOT", "/srv/data-2024/projects", false),
            ("URL", "https://example.com/mcp", false),
            ("PORT", "8080", false),
            ("GREETING", "a sentence with several words", false),
            ("API_KEY", "x", true),
            ("STRIPE_KEY", "x", true),
            ("DB_PASS", "x", true),
            ("GITHUB_TOKEN", "", true),
            ("DATABASE_URL", "postgres://me:pass@host/db", true),
            ("X", "sk-0123456789abcdef", true),
            ("X", "https://h/?sig=a", true),
            ("X", "https://h/0123456789abcdef0123", true),
            ("X", "Bearer abc", true),
        ] {
            assert_eq!(may_be_secret(name, value), is_secret, "{name}={value}");
        }
    }

    #[test]
    fn a_command_is_masked_where_its_secrets_stand_and_nowhere_else() {
        for (words, shown) in [
            // The same text stands in the place of a secret and elsewhere.
            (&["-e", "run it", "--api-key", "run it"][..], &["-e", "run it", "--api-key", "***"][..]),
            (&["x.sh", "--token=x.sh", "x.sh"], &["x.sh", "--token=***", "x.sh"]),
            (&["--header", "Authorization: Bearer xyz1"], &["--header", "Authorization: ***"]),
            (&["Authorization:Bearer xyz1"], &["Authorization:***"]),
            (&["https://me:pass@host/?token=abcd&b=1"], &["https://***@host/?token=***&b=1"]),
            (&["https://host\\@other/x"], &["https://host\\@other/x"]),
            (
                &["--token", "${TOKEN}", "--token={env:TOKEN}"],
                &["--token", "${TOKEN}", "--token={env:TOKEN}"],
            ),
            (&["--token", "true", "--token", "123"], &["--token", "true", "--token", "123"]),
            (&["--token", "abc", "abc"], &["--token", "***", "abc"]),
        ] {
            assert_eq!(masked(words.iter().copied()), shown, "{words:?}");
        }
    }

    #[test]
    fn a_host_is_what_a_url_leads_to() {
        for (url, found) in [
            ("https://evil.example/x@good.example", Some("evil.example")),
            ("https://good.example@evil.example:8/", Some("evil.example")),
            ("https://evil.example\\@good.example/", Some("evil.example")),
            ("http://[::1]:80/mcp", Some("[::1]")),
            ("http://:80/mcp", None),
            ("unix:/x", None),
        ] {
            assert_eq!(host(url), found, "{url}");
        }
    }

    #[test]
    fn programs_and_hosts_are_kept_among_secrets() {
        let mut kept = AlwaysShown::default();
        ["npx", "./x.sh", "evil.example", "my prog"].iter().for_each(|text| kept.add(text));
        let secrets = ["npx", "./x.sh", "evil.example", "npx -y pkg", "sk-npx-1234567890", "my prog"];
        let secrets = Secrets::new(&secrets.map(OsString::from));
        let hide = |text: &str| kept.hide_between(text, |piece| secrets.hide(piece)).into_owned();
        for (text, shown) in [
            ("npx -y pkg", "npx -y pkg"),
            ("cannot start ./x.sh: no such program", "cannot start ./x.sh: no such program"),
            ("https://evil.example/mcp", "https://evil.example/mcp"),
            ("'my prog' x", "'my prog' x"),
            ("with sk-npx-1234567890 in it", "with *** in it"),
            ("sk-npx-1234567890", "***"),
            ("a./x.sh", "a***"),
        ] {
            assert_eq!(hide(text), shown);
        }
        let json = r#"{"a":"npx","b":"sk-npx-1234567890"}"#;
        assert_eq!(secrets.hide_in_json(json, &kept), r#"{"a":"npx","b":"***"}"#);
    }
}
