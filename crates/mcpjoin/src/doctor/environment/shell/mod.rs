//! What files of settings make of `PATH`, computed from their text: no shell is run.
//!
//! Called by `paths` for each way to begin a session. Assignments, conditions, functions and files that read others are
//! followed as [POSIX](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html) has them; what comes
//! from a command is known of a few (version managers, `id -u`) and otherwise told as not computed. Everything is bounded:
//! steps, depth, the size of a file.

mod conditions;
mod syntax;
mod tools;
mod tree;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use self::tree::{Assignment, Command, How, Item, Joint, List, Piece, Value, Word};
use super::world::World;

/// So many commands are followed, and then no more.
const STEPS: usize = 20_000;
/// Files that read files, and functions that call functions, are followed so deep.
const DEPTH: usize = 24;
/// A longer value is none.
const LONGEST: usize = 64 << 10;
/// At most so much is told of what was not computed.
const TOLD: usize = 12;
/// Stands for a text that is not known.
const UNKNOWN: char = '\u{1}';

/// A shell, by what it reads and understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sh,
    Bash,
    Zsh,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
    Unknown,
}

impl Holds {
    const fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// Where a command leads.
enum Flow {
    On(Holds),
    /// Out of the file or the function.
    Return,
    /// Out of everything.
    Exit,
}

/// A session that reads its files.
pub(super) struct Shell<'a> {
    world: &'a World,
    kind: Kind,
    interactive: bool,
    variables: BTreeMap<String, String>,
    functions: BTreeMap<String, Rc<List>>,
    positional: Vec<String>,
    file: PathBuf,
    line: usize,
    steps: usize,
    depth: usize,
    /// Every file that was read.
    pub(super) read: Vec<PathBuf>,
    /// Where `PATH` was set, as `FILE:LINE`.
    pub(super) set: Vec<String>,
    /// What could not be computed.
    pub(super) unknown: Vec<String>,
}

impl<'a> Shell<'a> {
    /// `path`: what `PATH` is before any file is read.
    pub(super) fn new(world: &'a World, kind: Kind, interactive: bool, path: &str) -> Self {
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: String| _ = variables.insert(name.to_owned(), value);
        set("PATH", path.to_owned());
        if let Some(home) = world.home() {
            set("HOME", home.display().to_string());
        }
        for name in ["USER", "LOGNAME", "LANG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            if let Some(value) = world.variable(name).and_then(|value| value.to_str()) {
                set(name, value.to_owned());
            }
        }
        let (name, version) = match kind {
            Kind::Sh => ("sh", None),
            Kind::Bash => ("bash", Some(("BASH_VERSION", "5.2"))),
            Kind::Zsh => ("zsh", Some(("ZSH_VERSION", "5.9"))),
        };
        if let Some((variable, version)) = version {
            set(variable, version.to_owned());
        }
        if kind == Kind::Bash {
            set("BASH", "/bin/bash".to_owned());
        }
        for name in ["UID", "EUID"] {
            if kind != Kind::Sh {
                set(name, world.user().to_string());
            }
        }
        set("0", name.to_owned());
        set("-", if interactive { "himBH" } else { "hB" }.to_owned());
        if interactive {
            set("PS1", "$ ".to_owned());
        }
        Self {
            world,
            kind,
            interactive,
            variables,
            functions: BTreeMap::new(),
            positional: Vec::new(),
            file: PathBuf::new(),
            line: 0,
            steps: 0,
            depth: 0,
            read: Vec::new(),
            set: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// The entries of `PATH` as it is now.
    pub(super) fn path(&self) -> &str {
        self.variables.get("PATH").map_or("", String::as_str)
    }

    /// Reads a file, where it is one. True when it was there.
    pub(super) fn source(&mut self, file: &Path) -> bool {
        if self.depth >= DEPTH {
            self.not_computed("files read each other too deep");
            return false;
        }
        let Some(text) = self.world.read(file) else { return false };
        if !self.read.iter().any(|known| known == file) {
            self.read.push(file.to_owned());
        }
        let (list, unread) = syntax::read(&text);
        let before = (std::mem::replace(&mut self.file, file.to_owned()), self.line);
        self.depth += 1;
        let flow = self.list(&list);
        self.depth -= 1;
        if let (Some(unread), Flow::On(_)) = (unread, flow) {
            let rest: String = text.chars().skip(unread.at).collect();
            if ["PATH=", "path=", "path+=", "PATH+="].iter().any(|sign| rest.contains(sign)) {
                self.line = unread.line;
                self.not_computed("what follows is not understood, and names PATH");
            }
        }
        (self.file, self.line) = before;
        true
    }

    fn not_computed(&mut self, what: &str) {
        let told = format!("{}: {what}", self.place());
        if self.unknown.len() < TOLD && !self.unknown.contains(&told) {
            self.unknown.push(told);
        }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    fn list(&mut self, list: &List) -> Flow {
        let mut last = Holds::Yes;
        for item in list {
            match self.item(item) {
                Flow::On(holds) => last = holds,
                flow => return flow,
            }
        }
        Flow::On(last)
    }

    fn item(&mut self, item: &Item) -> Flow {
        let mut last = Holds::Yes;
        for (joint, command) in &item.chain {
            self.line = item.line;
            let runs = match joint {
                Joint::Always => Holds::Yes,
                Joint::And => last,
                Joint::Or => last.not(),
            };
            match runs {
                Holds::No => continue,
                Holds::Unknown => {
                    self.perhaps(command);
                    continue;
                }
                Holds::Yes => {}
            }
            match self.command(command) {
                Flow::On(holds) => last = holds,
                flow => return flow,
            }
        }
        Flow::On(last)
    }

    /// What it is not known of whether it is run.
    fn perhaps(&mut self, command: &Command) {
        if sets_path(command) {
            self.not_computed("PATH is set there under a condition that is not computed");
        }
    }

    fn perhaps_list(&mut self, list: &List) {
        for item in list {
            self.line = item.line;
            item.chain.iter().for_each(|(_, command)| self.perhaps(command));
        }
    }

    fn command(&mut self, command: &Command) -> Flow {
        self.steps += 1;
        if self.steps > STEPS {
            self.not_computed("more is done there than is followed");
            return Flow::Exit;
        }
        match command {
            Command::Simple { assignments, words } => self.simple(assignments, words),
            Command::Not(command) => match self.command(command) {
                Flow::On(holds) => Flow::On(holds.not()),
                flow => flow,
            },
            Command::If { arms, otherwise } => {
                for (place, (condition, body)) in arms.iter().enumerate() {
                    match self.list(condition) {
                        Flow::On(Holds::Yes) => return self.list(body),
                        Flow::On(Holds::No) => {}
                        Flow::On(Holds::Unknown) => {
                            arms[place..].iter().for_each(|(_, body)| self.perhaps_list(body));
                            self.perhaps_list(otherwise);
                            return Flow::On(Holds::Unknown);
                        }
                        flow => return flow,
                    }
                }
                self.list(otherwise)
            }
            Command::Case { word, arms } => {
                let word = self.expand(word);
                for (place, (patterns, body)) in arms.iter().enumerate() {
                    let mut found = Holds::No;
                    for pattern in patterns {
                        match self.matches(&word, pattern) {
                            Holds::Yes => found = Holds::Yes,
                            Holds::Unknown if found == Holds::No => found = Holds::Unknown,
                            _ => {}
                        }
                    }
                    match found {
                        Holds::Yes => return self.list(body),
                        Holds::No => {}
                        Holds::Unknown => {
                            arms[place..].iter().for_each(|(_, body)| self.perhaps_list(body));
                            return Flow::On(Holds::Unknown);
                        }
                    }
                }
                Flow::On(Holds::Yes)
            }
            Command::For { name, words, body } => {
                let values: Vec<String> = words.iter().flat_map(|word| self.fields(word)).collect();
                for value in values {
                    self.steps += 1;
                    if self.steps > STEPS {
                        return Flow::Exit;
                    }
                    self.variables.insert(name.clone(), value);
                    match self.list(body) {
                        Flow::On(_) => {}
                        flow => return flow,
                    }
                }
                Flow::On(Holds::Yes)
            }
            Command::Group(list) => self.list(list),
            Command::Function(name, body) => {
                self.functions.insert(name.clone(), body.clone());
                Flow::On(Holds::Yes)
            }
            Command::Condition(words) => Flow::On(conditions::double(self, words)),
            Command::Apart => Flow::On(Holds::Unknown),
            Command::Loop(body) => {
                self.perhaps_list(body);
                Flow::On(Holds::Unknown)
            }
        }
    }

    fn simple(&mut self, assignments: &[Assignment], words: &[Word]) -> Flow {
        let fields: Vec<String> = words.iter().flat_map(|word| self.fields(word)).collect();
        let Some((name, operands)) = fields.split_first() else {
            assignments.iter().for_each(|assignment| self.assign(assignment));
            return Flow::On(Holds::Yes);
        };
        let declares = ["export", "declare", "typeset", "local", "readonly"].contains(&name.as_str());
        if declares {
            assignments.iter().for_each(|assignment| self.assign(assignment));
        }
        let known = match name.as_str() {
            "return" => return Flow::Return,
            "exit" => return Flow::Exit,
            "." | "source" => return self.reads(operands),
            "eval" => {
                tools::eval(self, words.get(1..).unwrap_or_default());
                Holds::Unknown
            }
            "[" | "test" => {
                let operands = match operands.split_last() {
                    Some((last, rest)) if name == "[" && last == "]" => rest,
                    _ => operands,
                };
                conditions::single(self, operands)
            }
            "command" | "type" | "which" | "hash" | "whence" => {
                let asked = operands.iter().find(|operand| !operand.starts_with('-'));
                match asked {
                    Some(asked)
                        if name != "command"
                            || operands.iter().any(|word| word.starts_with("-v") || word == "-V") =>
                    {
                        Holds::from(self.functions.contains_key(asked) || self.finds(asked).is_some())
                    }
                    _ => Holds::Unknown,
                }
            }
            "unset" => {
                for operand in operands {
                    self.variables.remove(operand);
                }
                Holds::Yes
            }
            "true" | ":" | "echo" | "printf" | "alias" | "unalias" | "umask" | "ulimit" | "set"
            | "setopt" | "unsetopt" | "autoload" | "bindkey" | "zstyle" | "complete" | "bind" | "trap"
            | "cd" => Holds::Yes,
            "false" => Holds::No,
            _ if declares => Holds::Yes,
            "emulate" | "compinit" | "mesg" | "tty" | "stty" | "shopt" => Holds::Unknown,
            "fish_add_path" => Holds::Unknown,
            _ => return self.calls(name, operands),
        };
        Flow::On(known)
    }

    /// A function, where it is one.
    fn calls(&mut self, name: &str, operands: &[String]) -> Flow {
        let Some(body) = self.functions.get(name).cloned() else {
            return Flow::On(Holds::Unknown);
        };
        if self.depth >= DEPTH {
            self.not_computed("functions call each other too deep");
            return Flow::On(Holds::Unknown);
        }
        let before = std::mem::replace(&mut self.positional, operands.to_vec());
        self.depth += 1;
        let flow = self.list(&body);
        self.depth -= 1;
        self.positional = before;
        match flow {
            Flow::Return => Flow::On(Holds::Unknown),
            flow => flow,
        }
    }

    /// Another file is read.
    fn reads(&mut self, operands: &[String]) -> Flow {
        let Some(file) = operands.first() else { return Flow::On(Holds::No) };
        if file.contains(UNKNOWN) {
            return Flow::On(Holds::Unknown);
        }
        let path = if file.contains('/') {
            PathBuf::from(file)
        } else {
            match self.finds(file) {
                Some(path) => path,
                None => return Flow::On(Holds::No),
            }
        };
        if tools::sourced(self, &path, operands) {
            return Flow::On(Holds::Yes);
        }
        let there = self.source(&path);
        if self.steps > STEPS { Flow::Exit } else { Flow::On(there.into()) }
    }

    /// The program of that name on the `PATH` of now.
    fn finds(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| self.world.is_program(path));
        }
        let folders = self.path().split(':').filter(|folder| folder.starts_with('/'));
        folders.map(|folder| Path::new(folder).join(name)).find(|path| self.world.is_program(path))
    }

    fn assign(&mut self, assignment: &Assignment) {
        // In zsh, `path` is PATH as an array.
        let is_path = assignment.name == "PATH" || self.kind == Kind::Zsh && assignment.name == "path";
        let value = match &assignment.value {
            Value::Text(word) => self.expand(word),
            Value::Array(words) => {
                let words: Vec<String> = words.iter().flat_map(|word| self.fields(word)).collect();
                words.join(if is_path { ":" } else { " " })
            }
        };
        let value = match self.variables.get(if is_path { "PATH" } else { &assignment.name }) {
            Some(before) if assignment.append => {
                let array = matches!(assignment.value, Value::Array(_));
                format!("{before}{}{value}", if array && is_path { ":" } else { "" })
            }
            _ => value,
        };
        if value.len() > LONGEST {
            return self.not_computed("a value is too long");
        }
        if is_path {
            self.set_path(&value);
        } else {
            self.variables.insert(assignment.name.clone(), value);
        }
    }

    /// Sets `PATH`, but for what is not known of it.
    fn set_path(&mut self, value: &str) {
        let known: Vec<&str> = value.split(':').filter(|entry| !entry.contains(UNKNOWN)).collect();
        if value.contains(UNKNOWN) {
            self.not_computed("a part of PATH comes from a command or a variable that is not computed");
        }
        let place = self.place();
        if !self.set.contains(&place) {
            self.set.push(place);
        }
        self.variables.insert("PATH".into(), known.join(":"));
    }

    /// Puts a folder in front.
    fn prepend(&mut self, folder: &Path) {
        let value = format!("{}:{}", folder.display(), self.path());
        self.set_path(&value);
    }

    /// A word as one text.
    fn expand(&self, word: &Word) -> String {
        let mut out = String::new();
        for piece in word {
            match piece {
                Piece::Text { text, .. } => out.push_str(text),
                Piece::Variable { name, how, .. } => self.variable(&mut out, name, how),
                Piece::Output(command) => match tools::output(self, command) {
                    Some(text) => out.push_str(&text),
                    None => out.push(UNKNOWN),
                },
            }
            if out.len() > LONGEST {
                return UNKNOWN.into();
            }
        }
        out
    }

    fn variable(&self, out: &mut String, name: &str, how: &How) {
        let value = match name {
            "@" | "*" => Some(self.positional.join(" ")),
            "#" => Some(self.positional.len().to_string()),
            "?" | "$" | "!" => {
                return out.push(UNKNOWN);
            }
            "path" if self.kind == Kind::Zsh => Some(self.path().to_owned()),
            _ => match name.parse::<usize>() {
                Ok(place) if place > 0 => self.positional.get(place - 1).cloned(),
                _ => self.variables.get(name).cloned(),
            },
        };
        let counts = |empty: bool| value.as_ref().is_some_and(|value| !(empty && value.is_empty()));
        match how {
            How::Plain => out.push_str(value.as_deref().unwrap_or_default()),
            How::Or { empty, word } if !counts(*empty) => out.push_str(&self.expand(word)),
            How::Or { .. } => out.push_str(value.as_deref().unwrap_or_default()),
            How::Instead { empty, word } if counts(*empty) => out.push_str(&self.expand(word)),
            How::Instead { .. } => {}
            How::Opaque => out.push(UNKNOWN),
        }
    }

    /// A word as the words that it becomes: what is not quoted is split, and its stars name files.
    fn fields(&self, word: &Word) -> Vec<String> {
        let splits = word
            .iter()
            .any(|piece| matches!(piece, Piece::Variable { quoted: false, .. } | Piece::Output(_)));
        let quoted = word.iter().any(|piece| {
            matches!(piece, Piece::Text { quoted: true, .. } | Piece::Variable { quoted: true, .. })
        });
        let text = self.expand(word);
        let stars = word
            .iter()
            .any(|piece| matches!(piece, Piece::Text { text, quoted: false } if text.contains('*')));
        if stars && text.starts_with('/') && !text.contains(UNKNOWN) {
            return self.files(&text);
        }
        // zsh splits nothing; `$path` of it is an array.
        let is_array = matches!(&word[..], [Piece::Variable { name, .. }] if name == "path");
        match (splits && self.kind != Kind::Zsh && !quoted, is_array && self.kind == Kind::Zsh) {
            (_, true) => text.split(':').map(str::to_owned).collect(),
            (true, _) => text.split_whitespace().map(str::to_owned).collect(),
            _ => vec![text],
        }
    }

    /// The files that a pattern names, in order; of folders none is a pattern.
    fn files(&self, pattern: &str) -> Vec<String> {
        let Some((folder, name)) = pattern.rsplit_once('/').filter(|(folder, _)| !folder.contains('*'))
        else {
            return vec![pattern.to_owned()];
        };
        let names = self.world.list(Path::new(folder));
        let found: Vec<String> = names
            .iter()
            .filter(|found| !found.starts_with('.') && conditions::fits(found, name))
            .map(|found| format!("{folder}/{found}"))
            .collect();
        if found.is_empty() { vec![pattern.to_owned()] } else { found }
    }

    fn matches(&self, word: &str, pattern: &Word) -> Holds {
        let mut written = String::new();
        for piece in pattern {
            let one = self.expand(&vec![piece.clone()]);
            match piece {
                Piece::Text { quoted: false, .. } => written.push_str(&one),
                // What is quoted or comes from a variable means itself.
                _ => one.chars().for_each(|c| {
                    if "*?[\\".contains(c) {
                        written.push('\\');
                    }
                    written.push(c);
                }),
            }
        }
        if word.contains(UNKNOWN) || written.contains(UNKNOWN) {
            return if written == "*" { Holds::Yes } else { Holds::Unknown };
        }
        conditions::fits(word, &written).into()
    }
}

/// Whether a command, or one inside it, sets `PATH` or reads a file that may.
fn sets_path(command: &Command) -> bool {
    let within =
        |list: &List| list.iter().any(|item| item.chain.iter().any(|(_, command)| sets_path(command)));
    match command {
        Command::Simple { assignments, .. } => {
            assignments.iter().any(|assignment| matches!(assignment.name.as_str(), "PATH" | "path"))
        }
        Command::Not(command) => sets_path(command),
        Command::If { arms, otherwise } => {
            within(otherwise) || arms.iter().any(|(condition, body)| within(condition) || within(body))
        }
        Command::Case { arms, .. } => arms.iter().any(|(_, body)| within(body)),
        Command::For { body, .. } | Command::Group(body) | Command::Loop(body) => within(body),
        Command::Function(..) | Command::Condition(_) | Command::Apart => false,
    }
}

#[cfg(test)]
mod tests;
