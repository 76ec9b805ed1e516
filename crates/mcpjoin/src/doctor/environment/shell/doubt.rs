//! Whether what is perhaps run may set `PATH`: assignments, files that are read, `eval`, functions that do such a thing.
//!
//! Called by `shell` for commands under a condition that is not known, and for the rest of a file that was not understood.
//! It follows nothing and changes nothing.

use std::collections::BTreeSet;

use super::tree::{Command, List, Word};
use super::{Shell, UNKNOWN, tools};

/// One question, with the functions that were looked into for it.
pub(super) struct Doubt<'s, 'w> {
    shell: &'s Shell<'w>,
    visited: BTreeSet<String>,
    /// Those that are perhaps made there, and may set `PATH` when they are called.
    pub(super) functions: Vec<String>,
    /// In a loop that is doubtful itself, it does not matter when it is left.
    in_loop: bool,
}

impl<'s, 'w> Doubt<'s, 'w> {
    pub(super) fn of(shell: &'s Shell<'w>, in_loop: bool) -> Self {
        Self { shell, visited: BTreeSet::new(), functions: Vec::new(), in_loop }
    }

    pub(super) fn list(&mut self, list: &List) -> bool {
        // All of it is looked at: functions are made there, too.
        let mut sets = false;
        for (_, command) in list.iter().flat_map(|item| &item.chain) {
            sets |= self.command(command);
        }
        sets
    }

    /// Whether a command, or one inside it, may set `PATH`, or what is in `PATH` later.
    pub(super) fn command(&mut self, command: &Command) -> bool {
        match command {
            Command::Simple { assignments, words } => {
                assignments.iter().any(|assignment| matches!(assignment.name.as_str(), "PATH" | "path"))
                    || self.simple(words)
            }
            Command::Not(command) => self.command(command),
            Command::If { arms, otherwise } => {
                let mut sets = self.list(otherwise);
                for (condition, body) in arms {
                    sets |= self.list(condition) | self.list(body);
                }
                sets
            }
            Command::Case { arms, .. } => arms.iter().fold(false, |sets, (_, body)| self.list(body) | sets),
            Command::For { body, .. } | Command::Loop(body) => {
                let before = std::mem::replace(&mut self.in_loop, true);
                let sets = self.list(body);
                self.in_loop = before;
                sets
            }
            Command::Group(body) => self.list(body),
            Command::Function(name, body) => {
                if self.list(body) {
                    self.functions.push(name.clone());
                }
                false
            }
            Command::Condition(_) | Command::Apart => false,
        }
    }

    fn simple(&mut self, words: &[Word]) -> bool {
        let mut names = words.iter().enumerate().map(|(place, word)| (place, self.shell.expand(word)));
        // These run what they are told.
        let found = names.find(|(_, name)| !matches!(name.as_str(), "builtin" | "command"));
        let Some((place, name)) = found else { return false };
        match name.as_str() {
            "." | "source" => {
                let Some(file) = words.get(place + 1).map(|word| self.shell.expand(word)) else {
                    return false;
                };
                file.contains(UNKNOWN)
                    || self.shell.file_of(&file).is_some_and(|file| {
                        !tools::is_completion(&file) && self.shell.world.metadata(&file).is_some()
                    })
            }
            "eval" => tools::evaluates(self.shell, &words[place + 1..]),
            "break" | "continue" => !self.in_loop && self.shell.counts,
            // A later `$1` may be another.
            "shift" | "set" => {
                let first = words.get(place + 1).map(|word| self.shell.expand(word));
                name == "shift" || first.is_some_and(|first| first == "--" || !first.starts_with(['-', '+']))
            }
            name => self.calls(name),
        }
    }

    /// Whether that is a function that may.
    fn calls(&mut self, name: &str) -> bool {
        if self.shell.doubtful.contains(name) || self.functions.iter().any(|known| known == name) {
            return true;
        }
        let Some(body) = self.shell.functions.get(name).filter(|_| self.visited.insert(name.to_owned()))
        else {
            return false;
        };
        let before = std::mem::replace(&mut self.in_loop, true);
        let sets = self.list(body);
        self.in_loop = before;
        sets
    }
}

impl Shell<'_> {
    /// Whether a text that was not understood may set `PATH`, by its words.
    pub(super) fn names_path(&self, text: &str) -> bool {
        let mut doubt = Doubt::of(self, true);
        text.lines().map(str::trim_start).filter(|line| !line.starts_with('#')).any(|line| {
            ["PATH=", "path=", "path+=", "PATH+="].iter().any(|sign| line.contains(sign))
                || line.split(|c: char| c.is_whitespace() || ";&|(){}`".contains(c)).any(|word| {
                    let word = word.trim_start_matches('\\');
                    matches!(word, "." | "source" | "eval") || !word.is_empty() && doubt.calls(word)
                })
        })
    }
}
