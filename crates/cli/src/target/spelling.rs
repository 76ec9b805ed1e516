//! What a word of the command line is by its spelling. It reads nothing but the word.

use std::ffi::OsStr;
use std::net::Ipv4Addr;

use crate::demo::Demo;

/// The kind of a word, by its spelling.
pub(super) enum Word {
    /// It has a scheme.
    Url {
        scheme: String,
    },
    Demo(Demo),
    Path,
    /// `host:port`, with a path or without.
    Address,
    /// `@scope/name`: a package of npm.
    Package,
    /// `FILE#NAME`
    Entry {
        file: String,
        name: String,
    },
    Bare,
}

impl Word {
    pub(super) fn of(word: &OsStr) -> Self {
        let text = &*word.to_string_lossy();
        // A word that is not Unicode and has no scheme is the name of a file.
        if word.to_str().is_none() && !text.contains("://") {
            return Self::Path;
        }
        let bytes = text.as_bytes();
        let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && !bytes.get(2).is_some_and(u8::is_ascii_digit);
        if text.starts_with(['.', '/', '\\']) || drive {
            return Self::entry(text).unwrap_or(Self::Path);
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            let scheme = scheme.to_ascii_lowercase();
            let spelled_so = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
            let demo = Demo::ALL.into_iter().find(|demo| demo.word().eq_ignore_ascii_case(text));
            if let Some(demo) = demo {
                return Self::Demo(demo);
            }
            // One slash is a slip.
            let is_url =
                rest.starts_with("//") || rest.starts_with('/') && matches!(&*scheme, "http" | "https");
            if spelled_so && (is_url || matches!(&*scheme, "unix" | "tcp" | "demo")) {
                return Self::Url { scheme };
            }
        }
        if is_package(text) {
            return Self::Package;
        }
        if is_host_and_port(text) {
            return Self::Address;
        }
        Self::entry(text).unwrap_or(Self::Bare)
    }

    /// `FILE#NAME`: a name with a `/` or a `#` needs `--server`, so that files may have such names.
    fn entry(text: &str) -> Option<Self> {
        let (file, name) = text.rsplit_once('#')?;
        let named = !file.is_empty() && !name.is_empty() && !name.contains('/');
        named.then(|| Self::Entry { file: file.to_owned(), name: name.to_owned() })
    }
}

/// `host:port`, also with a path: an IPv6 address stands in brackets.
fn is_host_and_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((host, port)) = authority.rsplit_once(':') else { return false };
    let is_name = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let is_v6 = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.contains(':'))
    };
    !host.is_empty()
        && (is_name(host) || is_v6(host))
        && (1..=5).contains(&port.len())
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is an address apart from its port, as in `localhost:abc`. Another `host:word` may be the name of an entry or a program.
pub(super) fn has_wrong_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((host, _)) = authority.rsplit_once(':') else { return false };
    let is_host = host.eq_ignore_ascii_case("localhost") || host.starts_with('[') || host.contains('.');
    is_host && is_host_and_port(&format!("{host}:1")) && !is_host_and_port(text)
}

/// The URL that a word may mean which is a part of an address: a port, or a host without a port.
pub(crate) fn url_meant(word: &str) -> Option<String> {
    let port = word.strip_prefix(':').unwrap_or(word);
    if port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Some(format!("http://localhost:{port}/mcp"));
    }
    let (host, path) = word.split_once('/').filter(|(_, path)| !path.is_empty()).unwrap_or((word, "mcp"));
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok() {
        return Some(format!("http://{host}:PORT/{path}"));
    }
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = labels.last()?;
    let is_domain =
        labels.iter().all(is_label) && last.len() > 1 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    // `server.js` and `server.min.js` are files, and `NAME.TOOL` is a tool of an entry.
    let is_file = EXTENSIONS.contains(last) || is_configuration(host);
    let is_whole = labels.len() > 2 || labels.len() == 2 && host.len() < word.len();
    (is_domain && is_whole && !is_file).then(|| format!("https://{host}/{path}"))
}

/// Extensions of files that people type in the place of a program.
const EXTENSIONS: [&str; 10] = ["cjs", "exe", "jar", "js", "mjs", "php", "py", "rb", "sh", "ts"];

/// `@scope/name`, also with a version.
fn is_package(text: &str) -> bool {
    let Some((scope, name)) = text.strip_prefix('@').and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_part = |part: &str| {
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        !part.is_empty() && part.chars().all(is_of_names)
    };
    let (name, version) = name.split_once('@').unwrap_or((name, "latest"));
    is_part(scope) && is_part(name) && is_part(version)
}

/// Whether a word is a complete target by its spelling, so that words behind it are no arguments of it.
pub(crate) fn stands_alone(word: &OsStr) -> bool {
    matches!(Word::of(word), Word::Demo(_) | Word::Url { .. } | Word::Address | Word::Entry { .. })
}

/// Whether a word is several words in one: a command line that was quoted, or the name of an entry with spaces.
pub(crate) fn is_quoted_line(word: &OsStr) -> bool {
    word.to_str().is_some_and(|text| text.trim().contains(char::is_whitespace))
}

/// Whether a word may be the name of an entry.
pub(crate) fn is_bare(word: &OsStr) -> bool {
    matches!(Word::of(word), Word::Bare)
}

/// Whether a file has the extension of a configuration.
pub(super) fn is_configuration(file: &str) -> bool {
    let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| matches!(&*extension, "json" | "jsonc" | "json5" | "toml"))
}

/// `FILE#NAME/TOOL`. A path may look like that, so the file must have the extension of a configuration.
pub(super) fn tool_of_entry(word: &str) -> Option<(&str, &str, &str)> {
    let (at, _) = word.match_indices('#').find(|(at, _)| is_configuration(&word[..*at]))?;
    let (name, tool) = word[at + 1..].split_once('/')?;
    let spelled_so = !name.is_empty() && !tool.is_empty() && !word[..at].contains("://");
    spelled_so.then_some((&word[..at], name, tool))
}
