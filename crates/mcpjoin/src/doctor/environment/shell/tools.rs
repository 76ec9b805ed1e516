//! What version managers and the like do to `PATH` where a file of settings calls them: known, and not run.
//!
//! Called by `shell`. Of each only what its documentation says that it puts in front: nvm
//! (<https://github.com/nvm-sh/nvm>), fnm (<https://github.com/Schniz/fnm>), pyenv (<https://github.com/pyenv/pyenv>),
//! rbenv, asdf (<https://asdf-vm.com>), mise (<https://mise.jdx.dev>), Homebrew (<https://docs.brew.sh>) and, on macOS,
//! `path_helper`.

use std::path::{Path, PathBuf};

use super::tree::{Piece, Word};
use super::{Shell, UNKNOWN};
use crate::doctor::environment::managers;

/// Their output is text for the shell that has nothing to do with `PATH`.
const HARMLESS: [&str; 12] = [
    "dircolors",
    "lesspipe",
    "ssh-agent",
    "starship",
    "zoxide",
    "direnv",
    "atuin",
    "thefuck",
    "fzf",
    "gh",
    "op",
    "keychain",
];

/// What a command says, where that is known.
pub(super) fn output(shell: &Shell<'_>, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["id", "-u"] | ["/usr/bin/id", "-u"] | ["id", "-ru"] => Some(shell.world.user().to_string()),
        ["uname"] | ["uname", "-s"] => Some(shell.world.system().name().to_owned()),
        _ => None,
    }
}

/// `eval "$(TOOL ...)"`.
pub(super) fn eval(shell: &mut Shell<'_>, words: &[Word]) {
    // A text is not followed.
    if !words.iter().flatten().any(|piece| matches!(piece, Piece::Output(_))) && names_path(shell, words) {
        shell.not_computed("what `eval` runs there may set PATH");
    }
    let commands = words.iter().flatten().filter_map(|piece| match piece {
        Piece::Output(command) => Some(command.clone()),
        _ => None,
    });
    for command in commands.collect::<Vec<_>>() {
        let words: Vec<String> =
            command.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
        let Some(first) = words.first() else { continue };
        let first = first.replace("$HOME", &shell.variables.get("HOME").cloned().unwrap_or_default());
        let name = first.rsplit('/').next().unwrap_or_default().to_owned();
        if HARMLESS.contains(&name.as_str()) {
            continue;
        }
        let Some(program) = shell.finds(&first) else {
            // What is not there says nothing.
            continue;
        };
        let second = words.get(1).map(String::as_str);
        let home = PathBuf::from(shell.variables.get("HOME").cloned().unwrap_or_default());
        let rooted = |variable: &str, otherwise: &str| {
            shell
                .variables
                .get(variable)
                .filter(|root| !root.is_empty())
                .map_or_else(|| home.join(otherwise), PathBuf::from)
        };
        match (name.as_str(), second) {
            ("pyenv", Some("init")) => {
                let folder = rooted("PYENV_ROOT", ".pyenv").join("shims");
                shell.prepend(&folder);
            }
            ("rbenv", Some("init")) => {
                let folder = rooted("RBENV_ROOT", ".rbenv").join("shims");
                shell.prepend(&folder);
            }
            ("nodenv", Some("init")) => {
                let folder = rooted("NODENV_ROOT", ".nodenv").join("shims");
                shell.prepend(&folder);
            }
            ("pyenv", Some("virtualenv-init")) => {}
            ("fnm", Some("env")) => {
                let folder = managers::fnm(shell.world, &home).join("aliases/default/bin");
                shell.prepend(&folder);
            }
            ("mise" | "rtx", Some("activate")) => {
                let folder = rooted("MISE_DATA_DIR", ".local/share/mise").join("shims");
                shell.prepend(&folder);
            }
            ("brew", Some("shellenv")) => {
                let Some(prefix) = program.parent().and_then(Path::parent).map(Path::to_owned) else {
                    continue;
                };
                shell.prepend(&prefix.join("sbin"));
                shell.prepend(&prefix.join("bin"));
            }
            ("path_helper", _) => path_helper(shell),
            _ => shell.not_computed("what `eval` runs there comes from a command that is not run"),
        }
    }
}

/// Whether an `eval` that is perhaps run may set `PATH`.
pub(super) fn evaluates(shell: &Shell<'_>, words: &[Word]) -> bool {
    let mut text = false;
    for piece in words.iter().flatten() {
        let Piece::Output(command) = piece else {
            text |= !matches!(piece, Piece::Text { text, .. } if text.trim().is_empty());
            continue;
        };
        let Some(first) = command.split_whitespace().next().map(|word| word.trim_matches('"')) else {
            continue;
        };
        let first = first.replace("$HOME", shell.variables.get("HOME").map_or("", String::as_str));
        let name = first.rsplit('/').next().unwrap_or_default();
        if !HARMLESS.contains(&name) && shell.finds(&first).is_some() {
            return true;
        }
    }
    text && names_path(shell, words)
}

/// Whether a text that is evaluated may set `PATH`.
fn names_path(shell: &Shell<'_>, words: &[Word]) -> bool {
    let texts: Vec<String> = words.iter().map(|word| shell.expand(word)).collect();
    let text = texts.join(" ");
    text.contains(UNKNOWN) && !words.iter().flatten().any(|piece| matches!(piece, Piece::Output(_)))
        || shell.names_path(&text)
}

/// Files of completions set no `PATH`, and are long.
pub(super) fn is_completion(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "bash_completion")
}

/// `/etc/paths` and `/etc/paths.d` come first, then what was there.
fn path_helper(shell: &mut Shell<'_>) {
    let mut files = vec![PathBuf::from("/etc/paths")];
    let folder = Path::new("/etc/paths.d");
    files.extend(shell.world.list(folder).iter().map(|name| folder.join(name)));
    let mut entries: Vec<String> = Vec::new();
    for file in files {
        let text = shell.world.read(&file).unwrap_or_default();
        entries.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
    }
    let before: Vec<String> = shell.path().split(':').map(str::to_owned).collect();
    entries.extend(before.into_iter().filter(|entry| !entry.is_empty()));
    let mut known = Vec::new();
    entries.retain(|entry| {
        let first = !known.contains(entry);
        known.push(entry.clone());
        first
    });
    shell.set_path(&entries.join(":"));
}

/// A file of a version manager that is read: too large to be followed, and known. True when it was one that is there.
pub(super) fn sourced(shell: &mut Shell<'_>, file: &Path, operands: &[String]) -> bool {
    let Some(folder) = file.parent().map(Path::to_owned) else { return false };
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !matches!(name, "nvm.sh" | "asdf.sh" | "bash_completion")
        || folder.display().to_string().contains(UNKNOWN)
    {
        return false;
    }
    if shell.world.metadata(file).is_none() {
        return false;
    }
    if is_completion(file) {
        return true;
    }
    match name {
        "nvm.sh" => {
            let version = managers::nvm_default(shell.world, &folder);
            if let Some(version) = version.filter(|_| !operands.iter().any(|word| word == "--no-use")) {
                shell.prepend(&folder.join("versions/node").join(version).join("bin"));
            }
        }
        _ => {
            shell.prepend(&folder.join("bin"));
            let root = shell.variables.get("ASDF_DATA_DIR").map_or_else(|| folder.clone(), PathBuf::from);
            shell.prepend(&root.join("shims"));
        }
    }
    true
}
