//! The variables of fish, of which each is a list: how statements and the file of universal variables set them
//! (<https://fishshell.com/docs/current/cmds/set.html>, <https://fishshell.com/docs/current/cmds/fish_add_path.html>).
//!
//! Called by `fish`.

use std::path::Path;

use super::fish::Fish;
use super::fish_words::{Part, Word};
use super::{ELEMENTS, Holds, LONGEST, UNKNOWN, tools};

/// The folders that `fish_add_path` fills, before all others.
pub(super) const USER_PATHS: &str = "fish_user_paths";
/// How fish separates the elements of a universal variable, and writes an empty list.
const SEPARATOR: char = '\u{1e}';
const NONE: &str = "\u{1d}";

impl Fish<'_, '_> {
    /// The variables that all sessions share, as fish keeps them.
    pub(super) fn universal(&mut self, file: &Path) {
        let Some(text) = self.shell.world.read(file) else { return };
        file.clone_into(&mut self.shell.file);
        for (number, line) in text.lines().enumerate() {
            let Some(rest) = line.strip_prefix("SETUVAR ") else { continue };
            let Some((names, value)) = rest.split_once(':') else { continue };
            let name = names.split(' ').next_back().unwrap_or_default();
            self.shell.line = number + 1;
            let Some(value) = unescaped(value) else {
                if is_path(name) {
                    self.shell.not_computed("a universal variable that sets PATH is not understood");
                }
                continue;
            };
            let values = match value.as_str() {
                NONE => Vec::new(),
                value => value.split(SEPARATOR).map(str::to_owned).collect(),
            };
            self.assign(name, values);
        }
    }

    pub(super) fn set(&mut self, operands: &[Word]) -> Holds {
        let (mut append, mut prepend, mut erases, mut asks) = (false, false, false, false);
        let mut rest = operands;
        while let Some((first, others)) = rest.split_first()
            && let Some(option) = first.text().filter(|text| text.starts_with('-'))
        {
            let short = |letter| !option.starts_with("--") && option.contains(letter);
            append |= short('a') || option == "--append";
            prepend |= short('p') || option == "--prepend";
            erases |= short('e') || option == "--erase";
            asks |=
                short('q') || short('S') || short('n') || matches!(option, "--query" | "--show" | "--names");
            rest = others;
        }
        let Some((name, words)) = rest.split_first() else { return Holds::Unknown };
        let Some(name) = name.text() else {
            if !asks {
                self.shell.not_computed("which variable is set there is not computed");
            }
            return Holds::Unknown;
        };
        if asks {
            let is_set = self.shell.variables.contains_key(name) || self.lists.contains_key(name);
            return if is_set { Holds::Yes } else { Holds::Unknown };
        }
        let variable = name.split('[').next().unwrap_or_default();
        if name.contains('[') {
            if is_path(variable) {
                self.shell.not_computed("a part of PATH is set there by its number");
            }
            self.lists.remove(variable);
            return Holds::Yes;
        }
        if erases {
            if name == "PATH" {
                self.shell.not_computed("PATH is erased there");
            } else if name == USER_PATHS {
                self.assign(USER_PATHS, Vec::new());
            }
            self.lists.remove(name);
            if name != "PATH" {
                self.shell.variables.remove(name);
            }
            return Holds::Yes;
        }
        let mut values = Vec::new();
        let mut certain = true;
        for word in words {
            match self.expand(word) {
                Some(more) if values.len() <= ELEMENTS => values.extend(more),
                _ => certain = false,
            }
        }
        if !certain {
            if is_path(name) {
                self.shell
                    .not_computed("a part of PATH comes from a command or a variable that is not computed");
            } else {
                self.lists.remove(name);
                self.shell.variables.remove(name);
                return Holds::Unknown;
            }
        }
        if append || prepend {
            let before = self.list(name).unwrap_or_default();
            values = if append { [before, values].concat() } else { [values, before].concat() };
        }
        self.assign(name, values);
        Holds::Yes
    }

    /// `export NAME=VALUE`, as in other shells.
    pub(super) fn export(&mut self, operands: &[Word]) -> Holds {
        for word in operands {
            let Some(Part::Text(first)) = word.0.first() else { continue };
            let Some((name, value)) = first.split_once('=') else { continue };
            let (name, mut parts) = (name.to_owned(), word.0.clone());
            parts[0] = Part::Text(value.to_owned());
            match self.expand(&Word(parts)) {
                Some(values) => self.assign(&name, values),
                None if is_path(&name) => self
                    .shell
                    .not_computed("a part of PATH comes from a command or a variable that is not computed"),
                None => {}
            }
        }
        Holds::Yes
    }

    pub(super) fn add_path(&mut self, operands: &[Word]) -> Holds {
        let (mut append, mut moves, mut at_once) = (false, false, false);
        let mut added = Vec::new();
        for word in operands {
            match word.text().filter(|text| text.starts_with('-') && text.len() > 1) {
                Some(option) => {
                    let short = |letter| !option.starts_with("--") && option.contains(letter);
                    if short('n') || option == "--dry-run" {
                        return Holds::Unknown;
                    }
                    append |= short('a') || option == "--append";
                    moves |= short('m') || option == "--move";
                    at_once |= short('P') || option == "--path";
                }
                None => match self.expand(word) {
                    Some(values) if added.len() <= ELEMENTS => added.extend(values),
                    _ => self.shell.not_computed(
                        "a part of PATH comes from a command or a variable that is not computed",
                    ),
                },
            }
        }
        // What is no folder is left out, and what is there already stays where it is.
        added.retain(|folder| {
            self.shell.world.metadata(Path::new(folder)).is_some_and(|found| found.is_dir())
        });
        let variable = if at_once { "PATH" } else { USER_PATHS };
        let mut path = self.list(variable).unwrap_or_default();
        if moves {
            path.retain(|folder| !added.contains(folder));
        }
        added.retain(|folder| !path.contains(folder));
        if added.is_empty() {
            return Holds::No;
        }
        let path = if append { [path, added].concat() } else { [added, path].concat() };
        self.assign(variable, path);
        Holds::Yes
    }

    /// The elements of a variable, where they are known.
    fn list(&self, name: &str) -> Option<Vec<String>> {
        if name == "PATH" {
            return Some(
                self.shell.path().split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect(),
            );
        }
        if name == "__fish_config_dir" {
            return Some(vec![self.config.display().to_string()]);
        }
        let own = self.lists.get(name).cloned();
        own.or_else(|| {
            Some(vec![self.shell.variables.get(name).filter(|value| !value.contains(UNKNOWN))?.clone()])
        })
    }

    fn assign(&mut self, name: &str, values: Vec<String>) {
        if values.len() > ELEMENTS || values.iter().map(String::len).sum::<usize>() > LONGEST {
            return self.shell.not_computed("a value is too long");
        }
        match name {
            "PATH" => self.shell.set_path(&values.join(":")),
            USER_PATHS => {
                // They stand before all others, and those of before leave.
                let gone = self.lists.insert(USER_PATHS.to_owned(), values.clone()).unwrap_or_default();
                let mut path = self.list("PATH").unwrap_or_default();
                path.retain(|folder| !gone.contains(folder) && !values.contains(folder));
                self.shell.set_path(&[values, path].concat().join(":"));
            }
            _ => {
                self.shell.spend(values.iter().map(String::len).sum());
                self.shell.variables.insert(name.to_owned(), values.join(" "));
                self.lists.insert(name.to_owned(), values);
            }
        }
    }

    /// What a word becomes; `None` where that is not known.
    pub(super) fn expand(&self, word: &Word) -> Option<Vec<String>> {
        let mut out = vec![String::new()];
        for part in &word.0 {
            let values = match part {
                Part::Text(text) => vec![text.clone()],
                Part::Home => vec![self.shell.world.home()?.display().to_string()],
                Part::Variable { name, quoted } => {
                    let values = self.list(name)?;
                    match (quoted, is_path(name)) {
                        (true, true) => vec![values.join(":")],
                        (true, false) => vec![values.join(" ")],
                        _ => values,
                    }
                }
                Part::Output(command) => {
                    let said = tools::output(self.shell, command)?;
                    vec![said]
                }
                Part::Unknown => return None,
            };
            if out.len() * values.len() > ELEMENTS {
                return None;
            }
            // Each with each.
            out = out
                .iter()
                .flat_map(|begin| values.iter().map(move |value| format!("{begin}{value}")))
                .collect();
            let length = out.iter().map(String::len).sum::<usize>();
            self.shell.spend(length + out.len() * size_of::<String>());
            if length > LONGEST || self.shell.is_spent() {
                return None;
            }
        }
        Some(out)
    }
}

pub(super) fn is_path(name: &str) -> bool {
    name == "PATH" || name == USER_PATHS
}

/// A value as fish writes it to its file: with `\xHH` for what is no plain text.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (kind, digits) = after.split_at_checked(1)?;
        let length = match kind {
            "x" => 2,
            "u" => 4,
            "\\" => {
                out.push('\\');
                rest = digits;
                continue;
            }
            "n" | "t" => {
                out.push(if kind == "n" { '\n' } else { '\t' });
                rest = digits;
                continue;
            }
            _ => return None,
        };
        let (digits, after) = digits.split_at_checked(length)?;
        out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}
