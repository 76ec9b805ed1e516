//! What the files of nushell make of `PATH`: `env.nu`, `config.nu`, those that are loaded by themselves, `login.nu`.
//!
//! Called by `paths` for a login shell that is nu. Assignments to `$env.PATH` and `path add` are followed as far as their
//! expressions are literals, known variables and the filters that lists of folders are made with
//! (<https://www.nushell.sh/book/configuration.html#path-configuration>); every other statement that may set it is told as
//! not computed. Nothing is run.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::world::System;
use super::{DEPTH, ELEMENTS, LONGEST, Shell};

/// A session of nu that reads its files.
struct Nu<'s, 'w> {
    shell: &'s mut Shell<'w>,
    home: String,
    config: PathBuf,
    /// Variables that were set, those of the environment as `env.NAME`.
    known: BTreeMap<String, Vec<String>>,
    /// Commands of the user's that may set `PATH`.
    doubtful: BTreeSet<String>,
    /// How deep we are in brackets.
    nested: Cell<usize>,
}

/// Reads everything that a login reads.
pub(in super::super) fn login(shell: &mut Shell<'_>) {
    let Some(home) = shell.world.home().map(Path::to_owned) else { return };
    let config = match shell.variables.get("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None if shell.world.system() == System::Mac => home.join("Library/Application Support"),
        None => home.join(".config"),
    };
    let config = config.join("nushell");
    let mut files = vec![config.join("env.nu"), config.join("config.nu")];
    for folder in [
        PathBuf::from("/usr/share/nushell/vendor/autoload"),
        PathBuf::from("/usr/local/share/nushell/vendor/autoload"),
        home.join(".local/share/nushell/vendor/autoload"),
        config.join("autoload"),
    ] {
        let names = shell.world.list(&folder);
        files.extend(names.iter().filter(|name| name.ends_with(".nu")).map(|name| folder.join(name)));
    }
    files.push(config.join("login.nu"));
    if !shell.interactive {
        // Whether it reads them depends on how it is called.
        if files.iter().any(|file| shell.world.read(file).is_some_and(|text| sets_path(&text))) {
            shell.file = config.join("config.nu");
            shell.line = 1;
            shell.not_computed("whether nu reads its files is not known where nobody types");
        }
        return;
    }
    let home = home.display().to_string();
    let mut nu =
        Nu { shell, home, config, known: BTreeMap::new(), doubtful: BTreeSet::new(), nested: Cell::new(0) };
    for file in files {
        nu.source(&file);
    }
}

impl Nu<'_, '_> {
    fn source(&mut self, file: &Path) -> bool {
        let Some((text, before)) = self.shell.enter(file) else { return false };
        for (line, statement) in statements(&text) {
            self.shell.line = line;
            if !self.shell.goes_on() {
                break;
            }
            self.statement(statement.trim());
        }
        self.shell.leave(before);
        true
    }

    fn statement(&mut self, text: &str) {
        let block = text.strip_prefix("export-env ").and_then(|block| inside(block.trim(), '{', '}'));
        let text = block.map_or(text, str::trim);
        if let Some(rest) = text.strip_prefix("$env.") {
            return self.environment(rest, text);
        }
        for word in ["let ", "let-env ", "const ", "mut "] {
            if let Some((name, value)) = text.strip_prefix(word).and_then(|rest| rest.split_once('=')) {
                let name = name.split(':').next().unwrap_or_default().trim();
                let name = if word == "let-env " { format!("env.{name}") } else { name.to_owned() };
                match self.list(value) {
                    _ if name == "env.PATH" => self.path_is(value),
                    Some(values) => _ = self.known.insert(name, values),
                    None => _ = self.known.remove(&name),
                }
                return;
            }
        }
        if let Some(rest) = text.strip_prefix("path add ") {
            return self.path_add(rest);
        }
        for word in ["source ", "source-env "] {
            if let Some(rest) = text.strip_prefix(word) {
                return self.sources(rest);
            }
        }
        let head = text.split([' ', '\n']).next().unwrap_or_default();
        match head {
            "def" | "export" if text.contains("def ") => {
                let name = text.split_once("def ").map_or("", |(_, rest)| rest);
                let name = name.split(' ').find(|word| !word.starts_with('-')).unwrap_or_default();
                if sets_path(text) {
                    self.doubtful.insert(name.trim_matches('"').to_owned());
                }
            }
            "alias" | "print" | "module" => {}
            "use" | "overlay" => self.uses(text),
            "load-env" => {
                self.shell.not_computed("what `load-env` sets there is not computed, and may be PATH");
            }
            head if self.doubtful.contains(head) => {
                self.shell.not_computed("PATH may be set by a command that is called there");
            }
            _ if sets_path(text) => {
                self.shell.not_computed("PATH may be set there under a condition that is not computed");
            }
            _ => {}
        }
    }

    /// `$env.NAME = VALUE`, and what is like it.
    fn environment(&mut self, rest: &str, text: &str) {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, operation) = rest.split_at(end);
        let operation = operation.trim_start();
        if name != "PATH" {
            if let Some(value) = operation.strip_prefix('=') {
                match self.list(value) {
                    Some(values) => _ = self.known.insert(format!("env.{name}"), values),
                    None => _ = self.known.remove(&format!("env.{name}")),
                }
            } else if sets_path(text) {
                self.shell.not_computed("PATH may be set there in a way that is not computed");
            }
            return;
        }
        if let Some(value) = operation.strip_prefix("++=") {
            match self.list(value) {
                Some(values) => self.assign([self.path(), values].concat()),
                None => self.unclear(),
            }
        } else if let Some(value) = operation.strip_prefix('=').filter(|value| !value.starts_with('=')) {
            self.path_is(value);
        } else if !operation.is_empty() && !operation.starts_with('|') && !operation.starts_with('=') {
            self.shell.not_computed("a part of PATH is set there in a way that is not computed");
        }
    }

    fn path_is(&mut self, value: &str) {
        match self.list(value) {
            Some(values) => self.assign(values),
            None => self.unclear(),
        }
    }

    fn unclear(&mut self) {
        self.shell.not_computed("a part of PATH comes from a command or a variable that is not computed");
    }

    fn assign(&mut self, values: Vec<String>) {
        // Whether it means the home there depends on the version.
        if values.iter().any(|value| value.starts_with('~')) {
            self.shell.not_computed("a folder of PATH begins with ~ in quotes");
        }
        let values: Vec<String> = values.into_iter().filter(|value| !value.starts_with('~')).collect();
        self.shell.set_path(&values.join(":"));
    }

    fn path(&self) -> Vec<String> {
        self.shell.path().split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    fn path_add(&mut self, rest: &str) {
        let (mut append, mut added) = (false, Vec::new());
        for word in words(rest) {
            match word {
                "-a" | "--append" => append = true,
                "-r" | "--ret" => return,
                word => match self.all(vec![word], true) {
                    Some(values) => added.extend(values.iter().map(|value| self.at_home(value))),
                    None => self.unclear(),
                },
            }
        }
        let path = self.path();
        self.assign(if append { [path, added].concat() } else { [added, path].concat() });
    }

    fn sources(&mut self, rest: &str) {
        let file = words(rest).first().and_then(|word| self.all(vec![word], true));
        match file.as_deref() {
            Some([name]) if name == "null" => {}
            Some([name]) => {
                let path = PathBuf::from(self.at_home(name));
                let beside = self.shell.file.parent().map(|folder| folder.join(&path)).unwrap_or_default();
                if !self.source(&beside) {
                    let config = self.config.join(&path);
                    self.source(&config);
                }
            }
            _ => self.shell.not_computed("which file is read there is not computed"),
        }
    }

    /// A module may set the environment of whoever uses it.
    fn uses(&mut self, text: &str) {
        let Some(name) = words(text).into_iter().find(|word| word.contains(".nu")) else { return };
        let Some(name) = self.all(vec![name], true).and_then(|names| names.into_iter().next()) else {
            return;
        };
        let path = PathBuf::from(self.at_home(&name));
        let beside = self.shell.file.parent().map(|folder| folder.join(&path)).unwrap_or_default();
        let found =
            self.shell.world.read(&beside).or_else(|| self.shell.world.read(&self.config.join(&path)));
        if found.is_some_and(|text| text.contains("export-env") && sets_path(&text)) {
            self.shell.not_computed("PATH may be set by a module that is used there");
        }
    }

    fn at_home(&self, path: &str) -> String {
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.home),
            _ => path.to_owned(),
        }
    }

    /// What an expression is; `None` where that is not known.
    fn list(&self, expression: &str) -> Option<Vec<String>> {
        self.shell.spend(expression.len());
        if self.shell.is_spent() || self.nested.get() >= DEPTH {
            return None;
        }
        self.nested.set(self.nested.get() + 1);
        let value = self.pipeline(expression.trim());
        self.nested.set(self.nested.get() - 1);
        value
    }

    fn pipeline(&self, expression: &str) -> Option<Vec<String>> {
        let stages = split(expression, |rest| rest.starts_with('|').then_some(1));
        let (first, filters) = stages.split_first()?;
        let mut value = self.all(split(first, |rest| rest.starts_with("++").then_some(2)), false)?;
        for filter in filters {
            value = self.filtered(value, filter.trim())?;
            if value.len() > ELEMENTS || value.iter().map(String::len).sum::<usize>() > LONGEST {
                return None;
            }
        }
        Some(value)
    }

    /// What these are, one after the other. `bare`: a word without quotes is a text there, and no command.
    fn all(&self, atoms: Vec<&str>, bare: bool) -> Option<Vec<String>> {
        let (mut out, mut length) = (Vec::new(), 0);
        for atom in atoms {
            let more = match self.atom(atom) {
                None if bare && is_bare(atom) => vec![self.at_home(atom)],
                known => known?,
            };
            length += more.iter().map(String::len).sum::<usize>();
            out.extend(more);
            self.shell.spend(length + out.len() * size_of::<String>());
            if out.len() > ELEMENTS || length > LONGEST || self.shell.is_spent() {
                return None;
            }
        }
        Some(out)
    }

    fn filtered(&self, value: Vec<String>, filter: &str) -> Option<Vec<String>> {
        let all = words(filter);
        let each = |words: &[&str]| self.all(words.to_vec(), true);
        Some(match all[..] {
            ["prepend", ref more @ ..] => [each(more)?, value].concat(),
            ["append", ref more @ ..] => [value, each(more)?].concat(),
            ["split", "row", _] => {
                value.iter().flat_map(|entry| entry.split(':')).map(str::to_owned).collect()
            }
            ["uniq" | "flatten" | "compact"] | ["str", "trim"] | ["into", "string"] => value,
            ["path", "expand"] => value.iter().map(|entry| self.at_home(entry)).collect(),
            ["path", "join", ref more @ ..] => {
                let more = each(more)?;
                let joined =
                    |entry: &String| more.iter().fold(PathBuf::from(entry), |path, more| path.join(more));
                value.iter().map(|entry| joined(entry).display().to_string()).collect()
            }
            _ => return None,
        })
    }

    fn atom(&self, text: &str) -> Option<Vec<String>> {
        let text = text.trim();
        let text = text.strip_prefix("...").unwrap_or(text);
        if let Some(inner) = inside(text, '(', ')') {
            return self.list(inner);
        }
        if let Some(inner) = inside(text, '[', ']') {
            if self.nested.get() >= DEPTH {
                return None;
            }
            self.nested.set(self.nested.get() + 1);
            let value = self.all(words(inner), true);
            self.nested.set(self.nested.get() - 1);
            return value;
        }
        for (open, close) in [("$\"", '"'), ("$'", '\'')] {
            if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
                return Some(vec![self.interpolated(inner)?]);
            }
        }
        if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            return Some(vec![inner.replace("\\\\", "\\").replace("\\\"", "\"")]);
        }
        for quote in ['\'', '`'] {
            if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
                return Some(vec![inner.to_owned()]);
            }
        }
        if let Some(name) = text.strip_prefix('$') {
            return match name {
                "env.PATH" => Some(self.path()),
                "env.HOME" | "nu.home-path" | "nu.home-dir" => Some(vec![self.home.clone()]),
                "nu.default-config-dir" => Some(vec![self.config.display().to_string()]),
                name => self.known.get(name).cloned(),
            };
        }
        None
    }

    /// `$"($env.HOME)/bin"`.
    fn interpolated(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('(') {
            out.push_str(&rest[..at]);
            let end = at + end_of(&rest[at..])?;
            match self.list(inside(&rest[at..end], '(', ')')?)?.as_slice() {
                [one] => out.push_str(one),
                _ => return None,
            }
            rest = &rest[end..];
        }
        out.push_str(rest);
        Some(out)
    }
}

/// Whether a text is one word without quotes, and nothing that is computed.
fn is_bare(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "*?{}<>;$()[]'\"`|".contains(c))
}

/// Whether a text may set `PATH`.
fn sets_path(text: &str) -> bool {
    let assigns = text.match_indices("env.PATH").any(|(at, name)| {
        let after = text[at + name.len()..].trim_start();
        after.starts_with("++=")
            || after.starts_with('=') && !after.starts_with("==")
            || after.starts_with('.')
    });
    assigns || ["path add", "load-env", "let-env PATH"].iter().any(|word| text.contains(word))
}

/// Where the bracket ends that a text begins with, behind it.
fn end_of(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some('"'), '\\') => _ = characters.next(),
            (Some(open), character) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + character.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

/// What is between the brackets, where they are around all of it.
fn inside(text: &str, open: char, close: char) -> Option<&str> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    (end_of(text)? == text.len()).then_some(inner)
}

/// The parts between what is outside of quotes and brackets. `mark`: how long one is that begins there.
fn split(text: &str, mark: impl Fn(&str) -> Option<usize>) -> Vec<&str> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if let Some(length) = mark(rest) {
            parts.push(&text[from..at]);
            at += length;
            from = at;
            continue;
        }
        at += step(rest);
    }
    parts.push(&text[from..]);
    parts
}

/// How long what a text begins with is: a character, or all that is in quotes or brackets.
fn step(rest: &str) -> usize {
    let first = rest.chars().next().unwrap_or(' ');
    match first {
        '(' | '[' | '{' => end_of(rest).unwrap_or(rest.len()),
        '"' | '\'' | '`' => {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, character)| {
                let ends = *character == first && !escaped;
                escaped = first == '"' && *character == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        }
        first => first.len_utf8(),
    }
}

/// The words of a text: what is in quotes or brackets is one.
fn words(text: &str) -> Vec<&str> {
    let blank = |rest: &str| rest.starts_with([' ', '\t', '\r', '\n', ',']).then_some(1);
    split(text, blank).into_iter().filter(|word| !word.is_empty()).collect()
}

/// Each statement with the line on which it begins, without remarks. One goes on while a bracket is open, and on a line that
/// begins with a pipe.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let (mut line, mut begun, mut statement) = (1, 1, String::new());
    let (mut depth, mut quote) = (0_usize, None);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let lines = usize::from(character == '\n');
        let is_first = statement.trim_end().is_empty();
        if is_first {
            begun = line;
        }
        line += lines;
        match (quote, character) {
            (Some('"'), '\\') => {
                statement.push(character);
                if let Some(escaped) = characters.next() {
                    line += usize::from(escaped == '\n');
                    statement.push(escaped);
                }
                continue;
            }
            (Some(open), character) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, '#') if statement.chars().next_back().is_none_or(char::is_whitespace) => {
                while characters.peek().is_some_and(|character| *character != '\n') {
                    characters.next();
                }
                continue;
            }
            (None, ';') if depth == 0 => {
                all.push((begun, std::mem::take(&mut statement)));
                continue;
            }
            (None, '\n') if depth == 0 => {
                if is_first {
                    statement.clear();
                    continue;
                }
                let mut blanks = 0;
                while characters.peek().is_some_and(|character| character.is_whitespace()) {
                    blanks += usize::from(characters.next() == Some('\n'));
                }
                line += blanks;
                if characters.peek() != Some(&'|') {
                    all.push((begun, std::mem::take(&mut statement)));
                    continue;
                }
            }
            _ => {}
        }
        statement.push(character);
    }
    all.push((begun, statement));
    all.retain(|(_, text)| !text.trim().is_empty());
    all
}
