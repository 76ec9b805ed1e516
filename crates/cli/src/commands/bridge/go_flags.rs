//! The flags of Orchestra's `transport-stdio` in the syntax of Go: `-x v`, `--x v`, `-x=v` or `--x=v`, up to the first
//! word that is no flag.
//!
//! Called before clap, if the program is started under that name, and for the verb `bridge`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use mcpjoin_orchestra::CLIENT_ADDRESS;

/// The name under which the program behaves like the original.
const NAME: &str = "transport-stdio";

/// The flags with a value, and their meaning.
const FLAGS: [(&str, &str); 12] = [
    ("ca", "authorities that are trusted instead of the folder's own: a file in PEM"),
    ("cert", "certificate to show instead of the folder's own: a file in PEM"),
    ("certs-dir", "folder of certificates (default \"~/.orchestra/certs\")"),
    ("compat", "version of the Go program whose replies are imitated exactly: 1.0"),
    ("key", "key of the certificate: a file in PEM"),
    (
        "listen-addr",
        "accepted for compatibility with other Orchestra programs, and ignored: this program does not listen",
    ),
    ("orchestrator-addr", "host:port of the orchestrator (default \"localhost:9100\")"),
    ("poll", "how often to check whether the tools have changed; 0 is never (default 30s)"),
    ("server-name", "name in the orchestrator's certificate, where that is not its host"),
    ("stream", "tool whose result is streamed; repeatable"),
    ("tcp-addr", "host:port of the orchestrator's plain TCP port, instead of QUIC"),
    ("timeout", "how long a call may take (default 10m)"),
];
/// The flags without a value.
const SWITCHES: [(&str, &str); 2] = [
    ("lossy-numbers", "round numbers that Orchestra cannot carry instead of refusing them"),
    ("strict", "answer the call of a tool that does not exist with an error"),
];

/// The words for clap, or the usage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The words of our own verb.
    Words(Vec<OsString>),
    /// The requested help.
    Help(String),
    /// A problem, and the help.
    Wrong(String),
}

/// Translates the words of `transport-stdio`, and words of `bridge` in the syntax of Go. All other words stay as they
/// are.
pub(crate) fn read(argv: Vec<OsString>) -> Typed {
    let called = argv.first().and_then(|word| Path::new(word).file_name());
    if called == Some(OsStr::new(NAME)) {
        return as_the_original(argv.into_iter().skip(1));
    }
    if argv.get(1).is_none_or(|verb| verb != "bridge") {
        return Typed::Words(argv);
    }
    let mut ours = true;
    Typed::Words(
        argv.into_iter()
            .map(|word| {
                ours &= word != "--";
                match word.to_str() {
                    Some(text) if ours && is_of_go(text) => format!("-{text}").into(),
                    _ => word,
                }
            })
            .collect(),
    )
}

/// `-orchestrator-addr` or `-orchestrator-addr=...`: one dash before a name that no other option of ours has.
fn is_of_go(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { return false };
    let name = rest.split_once('=').map_or(rest, |(name, _)| name);
    FLAGS.iter().chain(&SWITCHES).any(|(known, _)| *known == name)
}

fn as_the_original(mut words: impl Iterator<Item = OsString>) -> Typed {
    let mut read: Vec<OsString> = vec!["mcpjoin".into(), "bridge".into()];
    let mut addressed = false;
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            return wrong(&format!("{word:?} is not Unicode"));
        };
        // The original ignores all words behind the first one that is no flag.
        let Some(flag) = text.strip_prefix('-').filter(|flag| !flag.is_empty() && *flag != "-") else {
            break;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if matches!(name, "h" | "help") {
            return Typed::Help(usage());
        }
        if SWITCHES.iter().any(|(known, _)| *known == name) {
            match value.as_deref() {
                None | Some("true") => read.push(format!("--{name}").into()),
                Some("false") => {}
                Some(value) => {
                    return wrong(&format!("invalid value {value:?} for flag -{name}: not a bool"));
                }
            }
            continue;
        }
        if !FLAGS.iter().any(|(known, _)| *known == name) {
            return wrong(&format!("flag provided but not defined: -{name}"));
        }
        let value = match value {
            Some(value) => OsString::from(value),
            None => match words.next() {
                Some(value) => value,
                None => return wrong(&format!("flag needs an argument: -{name}")),
            },
        };
        addressed |= matches!(name, "orchestrator-addr" | "tcp-addr");
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        read.push(flag);
    }
    if !addressed {
        read.push(format!("--orchestrator-addr={CLIENT_ADDRESS}").into());
    }
    Typed::Words(read)
}

fn wrong(problem: &str) -> Typed {
    Typed::Wrong(format!("{problem}\n{}", usage()))
}

fn usage() -> String {
    let mut usage = format!("Usage of {NAME}:\n");
    for (name, meaning) in FLAGS {
        usage.push_str(&format!("  -{name} string\n    \t{meaning}\n"));
    }
    for (name, meaning) in SWITCHES {
        usage.push_str(&format!("  -{name}\n    \t{meaning}\n"));
    }
    usage
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Typed, read};

    fn typed(line: &str) -> Typed {
        read(line.split(' ').map(OsString::from).collect())
    }

    fn words(line: &str) -> Typed {
        Typed::Words(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn called_by_its_name_it_reads_flags_as_the_original() {
        let ours = words("mcpjoin bridge --orchestrator-addr=h:1 --certs-dir=/c");
        for line in [
            "transport-stdio -orchestrator-addr h:1 -certs-dir /c",
            "/usr/bin/transport-stdio --orchestrator-addr=h:1 --certs-dir=/c",
            "./transport-stdio -orchestrator-addr=h:1 --certs-dir /c ignored -x",
            "transport-stdio -orchestrator-addr=h:1 -certs-dir=/c -- -x",
        ] {
            assert_eq!(typed(line), ours, "{line}");
        }
        assert_eq!(typed("transport-stdio"), words("mcpjoin bridge --orchestrator-addr=localhost:9100"));
        assert_eq!(
            typed("transport-stdio -tcp-addr h:2 -lossy-numbers"),
            words("mcpjoin bridge --tcp-addr=h:2 --lossy-numbers")
        );
        // As an orchestrator starts its plugins.
        assert_eq!(
            typed("transport-stdio --orchestrator-addr=h:1 --listen-addr=localhost:0 -stream t -strict=true"),
            words("mcpjoin bridge --orchestrator-addr=h:1 --listen-addr=localhost:0 --stream=t --strict")
        );
        for line in ["transport-stdio -h", "transport-stdio --help"] {
            assert!(matches!(typed(line), Typed::Help(text) if text.contains("localhost:9100")), "{line}");
        }
        for (line, says) in [
            ("transport-stdio -listen-port x", "flag provided but not defined: -listen-port"),
            ("transport-stdio -certs-dir", "flag needs an argument: -certs-dir"),
            ("transport-stdio -lossy-numbers=7", "not a bool"),
        ] {
            assert!(matches!(typed(line), Typed::Wrong(text) if text.contains(says)), "{line}");
        }
    }

    #[test]
    fn the_verb_takes_them_in_that_spelling_too_and_nothing_else_changes() {
        assert_eq!(
            typed("mcpjoin bridge -orchestrator-addr h:1 -certs-dir=/c -v"),
            words("mcpjoin bridge --orchestrator-addr h:1 --certs-dir=/c -v")
        );
        for line in ["mcpjoin list -ca x", "mcpjoin bridge --listen a -- server -certs-dir", "mcpjoin", ""] {
            assert_eq!(typed(line), words(line), "{line}");
        }
    }
}
