//! Commands that are typed before the operands of a verb: `call npx -y PACKAGE TOOL name=value`. Where such a command ends is not
//! certain, so nothing is run: the failure has the line that works, with the command behind `--`.
//!
//! Used by `command_line` before clap parses the words, and by `target`. It reads nothing but the words.

use std::ffi::{OsStr, OsString};

use super::words_shown;
use crate::failure::Failure;

/// A program that starts another one.
struct Launcher {
    names: &'static [&'static str],
    /// Words that select what it does, and how many words behind them name what is started.
    verbs: &'static [(&'static [&'static str], usize)],
    /// How many words name what is started, without any of `verbs`.
    words: usize,
    /// Its options with a value.
    valued: &'static [&'static str],
    /// Its options whose value is what is started.
    starts: &'static [&'static str],
}

const fn launcher(names: &'static [&'static str], valued: &'static [&'static str]) -> Launcher {
    Launcher { names, verbs: &[], words: 1, valued, starts: &[] }
}

const LAUNCHERS: [Launcher; 12] = [
    launcher(
        &["npx", "pnpx", "bunx", "dnx"],
        &["-p", "--package", "-w", "--workspace", "--registry", "--source"],
    ),
    launcher(
        &["uvx"],
        &[
            "--from",
            "--with",
            "--with-editable",
            "-p",
            "--python",
            "-i",
            "--index",
            "--index-url",
            "--extra-index-url",
        ],
    ),
    launcher(
        &["node", "nodejs", "tsx", "ts-node", "ruby", "php", "perl", "pwsh", "powershell"],
        &["-r", "--require", "--import", "--loader", "--env-file", "-C", "--conditions"],
    ),
    Launcher { starts: &["-m", "-c"], ..launcher(&["python", "python3", "py", "pypy3"], &["-W", "-X"]) },
    Launcher { starts: &["-c"], ..launcher(&["sh", "bash", "zsh", "fish"], &["-o"]) },
    Launcher { starts: &["-jar"], ..launcher(&["java"], &["-cp", "-classpath", "--class-path"]) },
    Launcher {
        verbs: &[(&["dlx"], 1), (&["exec"], 1), (&["x"], 1), (&["run"], 1)],
        ..launcher(&["npm", "pnpm", "yarn", "bun"], &["-p", "--package", "-C", "--dir", "--prefix", "--cwd"])
    },
    Launcher {
        verbs: &[(&["run"], 1)],
        ..launcher(
            &["deno", "go", "pipx", "dotnet"],
            &["-c", "--config", "--env-file", "--spec", "--project", "-C"],
        )
    },
    Launcher {
        verbs: &[(&["tool", "run"], 1), (&["run"], 1)],
        ..launcher(
            &["uv"],
            &[
                "--directory",
                "--project",
                "--from",
                "--with",
                "--with-requirements",
                "--with-editable",
                "--extra",
                "--group",
                "-p",
                "--python",
                "--env-file",
                "--index",
            ],
        )
    },
    Launcher {
        verbs: &[(&["run"], 1), (&["container", "run"], 1), (&["exec"], 2), (&["mcp", "gateway", "run"], 0)],
        ..launcher(
            &["docker", "podman", "nerdctl"],
            &[
                "-e",
                "--env",
                "--env-file",
                "-v",
                "--volume",
                "--mount",
                "-p",
                "--publish",
                "--name",
                "--network",
                "--net",
                "-w",
                "--workdir",
                "-u",
                "--user",
                "--entrypoint",
                "-l",
                "--label",
                "--add-host",
                "--platform",
                "--pull",
                "-m",
                "--memory",
                "--cpus",
                "-H",
                "--host",
                "--context",
                "--gpus",
                "--device",
            ],
        )
    },
    Launcher {
        words: 2,
        ..launcher(&["ssh"], &["-p", "-i", "-l", "-o", "-F", "-J", "-b", "-c", "-L", "-R", "-D"])
    },
    Launcher { verbs: &[(&["/c"], 1), (&["/C"], 1)], ..launcher(&["cmd"], &[]) },
];

/// The launcher of that name, without its folder, its extension and the version of an interpreter.
fn of(word: &OsStr) -> Option<&'static Launcher> {
    let text = word.to_str()?;
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let name = [".exe", ".cmd", ".bat"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LAUNCHERS.iter().find(|launcher| launcher.names.contains(&name) || launcher.names.contains(&unversioned))
}

/// Whether a word is a program that starts what the words behind it name.
pub(crate) fn is_launcher(word: &OsStr) -> bool {
    of(word).is_some()
}

/// How many words the command has at least: the program, and for a launcher what it starts.
fn least(words: &[OsString]) -> usize {
    let Some(launcher) = words.first().and_then(|first| of(first)) else { return 1 };
    let (mut seen, mut verb): (Vec<&str>, _) = (Vec::new(), None);
    let mut place = 1;
    while let Some(text) = words.get(place).map(|word| word.to_str().unwrap_or_default()) {
        place += 1;
        if launcher.starts.contains(&text) {
            return place + 1;
        }
        if text.starts_with('-') && text.len() > 1 {
            place += usize::from(launcher.valued.contains(&text));
            continue;
        }
        seen.push(text);
        if verb.is_none() {
            verb = launcher.verbs.iter().find(|(verb, _)| *verb == seen.as_slice());
        }
        let is_begun =
            launcher.verbs.iter().any(|(verb, _)| verb.len() > seen.len() && verb.starts_with(&seen));
        let wanted = verb.map_or(launcher.words, |(verb, more)| verb.len() + more);
        if seen.len() >= wanted && !is_begun {
            // `cmd /c npx ...` starts a launcher.
            return match of(OsStr::new(text)) {
                Some(_) if seen.len() == wanted && verb.is_some() => place - 1 + least(&words[place - 1..]),
                _ => place,
            };
        }
    }
    place
}

/// Whether a word can be an argument of a tool or a prompt, and nothing else: `name=value`, `name:=JSON`, `@FILE`, `-`, an object.
pub(crate) fn is_argument(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    let is_package = text.starts_with('@') && text.contains('/');
    // The query of a URL has no name before its `=`.
    let has_name = |(name, _): (&str, &str)| !name.is_empty() && !name.contains("://");
    text == "-"
        || text.starts_with('{')
        || text.starts_with('@') && !is_package
        || !text.starts_with('-') && text.split_once('=').is_some_and(has_name)
}

/// Whether a word names the prompt or the resource template of `complete`.
fn is_reference(text: &str) -> bool {
    text.starts_with("prompt:") || text.starts_with("resource:") || text.contains("://")
}

/// Where the operands begin behind a command; the end where there are none.
fn operands_at(verb: &str, words: &[OsString]) -> usize {
    let least = least(words).min(words.len());
    let behind = || words.iter().enumerate().skip(least);
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-") && word.len() > 1;
    let found = match verb {
        "call" | "prompt" => match behind().find(|(_, word)| is_argument(word)) {
            Some((argument, word)) => behind()
                .rfind(|(place, word)| *place < argument && !is_option(word))
                .or(Some((argument, word))),
            None => behind().rfind(|(_, word)| !is_option(word)),
        },
        "complete" => behind().find(|(_, word)| word.to_str().is_some_and(is_reference)),
        _ => behind().rfind(|(_, word)| !is_option(word)),
    };
    found.map_or(words.len(), |(place, _)| place)
}

/// Whether the words behind a program without arguments cannot all be operands of the verb, so that some are its arguments.
pub(super) fn has_arguments(verb: &str, operands: &[OsString]) -> bool {
    match verb {
        "call" | "prompt" => operands.iter().skip(1).any(|word| !is_argument(word)),
        "complete" => operands.len() > 2 && !operands[0].to_str().is_some_and(is_reference),
        "read" | "tool" => operands.len() > 1,
        _ => false,
    }
}

/// The failure of a command with arguments that is typed without `--`. `options`: those before the command. `words`: the command
/// and the operands behind it. `takes_next`: for an option of the verb whether its value is the next word, `None` for other
/// words.
pub(crate) fn behind_dashes(
    verb: &str,
    options: &[OsString],
    words: &[OsString],
    takes_next: impl Fn(&OsStr) -> Option<bool>,
) -> Failure {
    let (command, behind) = words.split_at(operands_at(verb, words));
    let (mut front, mut operands) = (options.to_vec(), Vec::new());
    let mut behind = behind.iter();
    while let Some(word) = behind.next() {
        match takes_next(word) {
            Some(apart) => {
                front.push(word.clone());
                front.extend(behind.next().filter(|_| apart).cloned());
            }
            None => operands.push(word.clone()),
        }
    }
    let placeholder = match verb {
        "read" => "URI",
        "prompt" => "PROMPT",
        "complete" => "prompt:NAME ARGUMENT=VALUE",
        _ => "TOOL",
    };
    let is_named = match verb {
        "call" | "prompt" => operands.first().is_some_and(|word| !is_argument(word)),
        _ => !operands.is_empty(),
    };
    if !is_named {
        operands.splice(..0, placeholder.split(' ').map(OsString::from));
    }
    let operands = words_shown(&operands);
    let options = front.iter().map(|word| format!("{} ", words_shown(std::slice::from_ref(word))));
    let options: String = options.collect();
    let program = words_shown(command.get(..1).unwrap_or_default());
    Failure::usage(
        format!(
            "{program} and its arguments belong at the end, after --: it takes all following words as its own"
        ),
        format!("mcpjoin {verb} {options}{operands} -- {}", words_shown(command)),
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::{behind_dashes, has_arguments, is_argument, is_launcher};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn takes_next(word: &OsStr) -> Option<bool> {
        match word.to_str() {
            Some("--json" | "-v") => Some(false),
            Some("-t" | "-o") => Some(true),
            _ => None,
        }
    }

    #[test]
    fn the_line_that_works_has_the_command_at_its_end() {
        for (verb, typed, right) in [
            ("call", "npx -y @a/b echo message=hi", "call echo message=hi -- npx -y @a/b"),
            ("call", "npx -y @a/b", "call TOOL -- npx -y @a/b"),
            ("call", "npx -y @a/b echo", "call echo -- npx -y @a/b"),
            ("call", "npx -y @a/b message=hi", "call TOOL message=hi -- npx -y @a/b"),
            ("call", "npx -y @a/b message=hi --json", "call --json TOOL message=hi -- npx -y @a/b"),
            ("call", "npx -y @a/b /tmp read path=x", "call read path=x -- npx -y @a/b /tmp"),
            ("call", "npx -p @a/b run echo m=1 --json", "call --json echo m=1 -- npx -p @a/b run"),
            ("call", "npx -y @a/b --port 1 echo m=1 -t 5", "call -t 5 echo m=1 -- npx -y @a/b --port 1"),
            (
                "call",
                "uvx --from x mcp-server-git status repo=.",
                "call status repo=. -- uvx --from x mcp-server-git",
            ),
            (
                "call",
                "python -m mcp_server_git status repo=.",
                "call status repo=. -- python -m mcp_server_git",
            ),
            ("call", "python3.12 server.py add a=1", "call add a=1 -- python3.12 server.py"),
            ("call", "node dist/index.js add a=1", "call add a=1 -- node dist/index.js"),
            (
                "call",
                "docker run -i --rm -e KEY=1 mcp/fetch fetch url=x",
                "call fetch url=x -- docker run -i --rm -e KEY=1 mcp/fetch",
            ),
            ("call", "docker exec -i box server add a=1", "call add a=1 -- docker exec -i box server"),
            ("call", "pnpm dlx pkg add a=1", "call add a=1 -- pnpm dlx pkg"),
            ("call", "bunx pkg add a:=1", "call add a:=1 -- bunx pkg"),
            ("call", "deno run -A jsr:@a/b add a=1", "call add a=1 -- deno run -A jsr:@a/b"),
            (
                "call",
                "uv --directory /x run server.py add a=1",
                "call add a=1 -- uv --directory /x run server.py",
            ),
            ("call", "uv tool run pkg add a=1", "call add a=1 -- uv tool run pkg"),
            ("call", "ssh -p 22 host server add a=1", "call add a=1 -- ssh -p 22 host server"),
            ("call", "cmd /c npx -y pkg add a=1", "call add a=1 -- cmd /c npx -y pkg"),
            ("call", "npx -y pkg add @args.json", "call add @args.json -- npx -y pkg"),
            ("call", "./server --stdio add a=1", "call add a=1 -- ./server --stdio"),
            ("call", "npx -y pkg fetch url=http://h/?a=b", "call fetch 'url=http://h/?a=b' -- npx -y pkg"),
            ("call", "npx -y pkg http://h/?a=b fetch n=1", "call fetch n=1 -- npx -y pkg 'http://h/?a=b'"),
            ("read", "npx -y pkg test://x", "read test://x -- npx -y pkg"),
            ("read", "npx -y pkg -o f test://x", "read test://x -- npx -y pkg -o f"),
            ("tool", "npx -y pkg", "tool TOOL -- npx -y pkg"),
            ("prompt", "npx -y pkg greet name=x", "prompt greet name=x -- npx -y pkg"),
            ("complete", "npx -y pkg prompt:greet name=x", "complete prompt:greet name=x -- npx -y pkg"),
        ] {
            let failure = behind_dashes(verb, &[], &words(typed), takes_next);
            assert_eq!(failure.hint, format!("mcpjoin {right}"), "{typed}");
        }
        let failure = behind_dashes("call", &words("-t 5"), &words("npx pkg add"), takes_next);
        assert_eq!(failure.hint, "mcpjoin call -t 5 add -- npx pkg");
    }

    #[test]
    fn launchers_are_known_by_the_name_of_the_program() {
        for word in ["npx", "/usr/bin/npx", "npx.cmd", r"C:\node\node.exe", "python3.12", "uv", "docker"] {
            assert!(is_launcher(word.as_ref()), "{word}");
        }
        for word in ["npxx", "mcp-server-git", "./server", "echo", ""] {
            assert!(!is_launcher(word.as_ref()), "{word}");
        }
    }

    #[test]
    fn arguments_of_a_server_are_distinguished_from_operands() {
        for (verb, line, other) in [
            ("call", "add a=1 b:=2 @f - {}", false),
            ("call", "add", false),
            ("call", "/tmp read path=x", true),
            ("call", "fetch url=https://h/?a=b", false),
            ("call", "fetch https://h/?a=b", true),
            ("read", "test://x", false),
            ("read", "/tmp test://x", true),
            ("tool", "/tmp add", true),
            ("complete", "prompt:x a=b", false),
            ("complete", "prompt:x a b", false),
            ("complete", "/tmp prompt:x a=b", true),
        ] {
            assert_eq!(has_arguments(verb, &words(line)), other, "{verb} {line}");
        }
        assert!(
            !is_argument("@scope/name".as_ref())
                && !is_argument("--a=b".as_ref())
                && !is_argument("=b".as_ref())
        );
    }
}
