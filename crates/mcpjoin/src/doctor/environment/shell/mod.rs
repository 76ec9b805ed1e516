//! What files of settings make of `PATH`, computed from their text: no shell is run.
//!
//! Called by `paths` for each way to begin a session. Assignments, conditions, functions and files that read others are
//! followed as [POSIX](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html) has them; what comes
//! from a command is known of a few (version managers, `id -u`) and otherwise told as not computed. Everything is bounded:
//! steps, depth, the size of a file.

mod conditions;
mod doubt;
mod expansion;
pub(super) mod fish;
mod fish_variables;
mod fish_words;
pub(super) mod nu;
mod syntax;
mod tools;
mod tree;
mod words;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mcpjoin_proto::Walk;

use self::doubt::Doubt;
use self::tree::{Assignment, Command, Item, Joint, List, Value, Word};
use super::world::World;

/// So many commands are followed, and then no more.
const STEPS: usize = 20_000;
/// Files that read files, and functions that call functions, are followed so deep.
const DEPTH: usize = 24;
/// A longer value is none.
const LONGEST: usize = 64 << 10;
/// All texts that a session makes, and the files that it reads, may have so many bytes together.
const ROOM: usize = 16 << 20;
/// A list has at most so many elements.
const ELEMENTS: usize = 4096;
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
    /// Read by [`fish`].
    Fish,
    /// Read by [`nu`].
    Nu,
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
    /// Out of a `for`.
    Break,
    /// To the next turn of a `for`.
    Continue,
    /// Out of everything.
    Exit,
}

/// A file, and a line of it.
type Place = (PathBuf, usize);

/// A session that reads its files.
pub(super) struct Shell<'a> {
    world: &'a World,
    kind: Kind,
    interactive: bool,
    variables: BTreeMap<String, String>,
    functions: BTreeMap<String, Rc<List>>,
    /// Functions that there may be, and that may set `PATH`.
    doubtful: BTreeSet<String>,
    /// Whether we are in a `for` that sets `PATH`, so that it matters how often it is gone through.
    counts: bool,
    positional: Vec<String>,
    file: PathBuf,
    line: usize,
    walk: Walk,
    depth: usize,
    /// How many bytes may still be made.
    room: Cell<usize>,
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
            Kind::Fish => ("fish", None),
            Kind::Nu => ("nu", None),
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
            doubtful: BTreeSet::new(),
            counts: false,
            positional: Vec::new(),
            file: PathBuf::new(),
            line: 0,
            walk: Walk::new(STEPS),
            depth: 0,
            room: Cell::new(ROOM),
            read: Vec::new(),
            set: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// The entries of `PATH` as it is now.
    pub(super) fn path(&self) -> &str {
        self.variables.get("PATH").map_or("", String::as_str)
    }

    /// The folder where zsh looks for its files, when a variable says so.
    pub(super) fn settings(&mut self) -> Option<PathBuf> {
        let folder = self.variables.get("ZDOTDIR").filter(|folder| !folder.is_empty())?;
        if folder.contains(UNKNOWN) {
            self.not_computed("ZDOTDIR is not computed, and says where the files of zsh are");
            return None;
        }
        Some(PathBuf::from(folder))
    }

    /// Begins a file, where it is one: its text, and where we were before.
    fn enter(&mut self, file: &Path) -> Option<(String, Place)> {
        if self.depth >= DEPTH {
            self.not_computed("files read each other too deep");
            return None;
        }
        let text = self.world.read(file)?;
        if !self.read.iter().any(|known| known == file) {
            self.read.push(file.to_owned());
        }
        self.spend(text.len());
        self.depth += 1;
        Some((text, (std::mem::replace(&mut self.file, file.to_owned()), self.line)))
    }

    /// Is where it was before a file.
    fn leave(&mut self, before: Place) {
        self.depth -= 1;
        (self.file, self.line) = before;
    }

    /// Reads a file, where it is one. True when it was there.
    pub(super) fn source(&mut self, file: &Path) -> bool {
        let Some((text, before)) = self.enter(file) else { return false };
        let (list, unread) = syntax::read(&text);
        let flow = self.list(&list);
        if let (Some(unread), Flow::On(_)) = (unread, flow) {
            let rest: String = text.chars().skip(unread.at).collect();
            if self.names_path(&rest) {
                self.line = unread.line;
                self.not_computed("what follows is not understood, and may set PATH");
            }
        }
        self.leave(before);
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
                    self.perhaps(command, false);
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
    fn perhaps(&mut self, command: &Command, in_loop: bool) {
        let mut doubt = Doubt::of(self, in_loop);
        let sets = doubt.command(command);
        let functions = doubt.functions;
        self.doubtful.extend(functions);
        if sets {
            self.not_computed("PATH may be set there under a condition that is not computed");
        }
    }

    fn perhaps_list(&mut self, list: &List, in_loop: bool) {
        for item in list {
            self.line = item.line;
            item.chain.iter().for_each(|(_, command)| self.perhaps(command, in_loop));
        }
    }

    /// Takes a step; false, which is told, when there are none left, or no room.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.walk.step() && !self.is_spent();
        if !goes_on {
            self.not_computed("more is done there than is followed");
        }
        goes_on
    }

    fn command(&mut self, command: &Command) -> Flow {
        if !self.goes_on() {
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
                            arms[place..].iter().for_each(|(_, body)| self.perhaps_list(body, false));
                            self.perhaps_list(otherwise, false);
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
                            arms[place..].iter().for_each(|(_, body)| self.perhaps_list(body, false));
                            return Flow::On(Holds::Unknown);
                        }
                    }
                }
                Flow::On(Holds::Yes)
            }
            Command::For { name, words, body } => {
                let counts = Doubt::of(self, true).list(body);
                let before = std::mem::replace(&mut self.counts, counts);
                let flow = self.turns(name, words, body);
                self.counts = before;
                flow
            }
            Command::Group(list) => self.list(list),
            Command::Function(name, body) => {
                self.functions.insert(name.clone(), body.clone());
                Flow::On(Holds::Yes)
            }
            Command::Condition(words) => Flow::On(conditions::double(self, words)),
            Command::Apart => Flow::On(Holds::Unknown),
            Command::Loop(body) => {
                self.perhaps_list(body, true);
                Flow::On(Holds::Unknown)
            }
        }
    }

    /// Goes through a `for`.
    fn turns(&mut self, name: &str, words: &[Word], body: &List) -> Flow {
        let values: Vec<String> = words.iter().flat_map(|word| self.fields(word)).collect();
        for value in values {
            if !self.goes_on() {
                return Flow::Exit;
            }
            self.variables.insert(name.to_owned(), value);
            match self.list(body) {
                Flow::On(_) | Flow::Continue => {}
                Flow::Break => break,
                flow => return flow,
            }
        }
        Flow::On(Holds::Yes)
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
            "break" | "continue" => {
                if !operands.is_empty() {
                    self.not_computed("how many loops are left there is not computed");
                }
                return if name == "break" { Flow::Break } else { Flow::Continue };
            }
            "shift" => self.shift(operands),
            "set" => {
                self.sets(operands);
                Holds::Yes
            }
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
            "true" | ":" | "echo" | "printf" | "alias" | "unalias" | "umask" | "ulimit" | "setopt"
            | "unsetopt" | "autoload" | "bindkey" | "zstyle" | "complete" | "bind" | "trap" | "cd" => {
                Holds::Yes
            }
            "false" => Holds::No,
            _ if declares => Holds::Yes,
            // Bash does not keep to POSIX alone where nobody has asked it to.
            "shopt" if operands.iter().any(|operand| operand == "posix") => Holds::No,
            "emulate" | "compinit" | "mesg" | "tty" | "stty" | "shopt" => Holds::Unknown,
            "fish_add_path" => Holds::Unknown,
            _ => return self.calls(name, operands),
        };
        Flow::On(known)
    }

    fn shift(&mut self, operands: &[String]) -> Holds {
        match operands.first().map_or(Ok(1), |count| count.parse::<usize>()) {
            Ok(count) if count <= self.positional.len() => {
                self.positional.drain(..count);
                Holds::Yes
            }
            Ok(_) => Holds::No,
            Err(_) => {
                self.positional = vec![UNKNOWN.into()];
                Holds::Unknown
            }
        }
    }

    /// `set`: what are no options are the positional parameters.
    fn sets(&mut self, operands: &[String]) {
        if let Some(end) = operands.iter().position(|operand| operand == "--") {
            self.positional = operands[end + 1..].to_vec();
        } else if let Some(first) = operands.first().filter(|first| !first.starts_with(['-', '+'])) {
            // One that is not known may have become many, or options.
            self.positional = if first.contains(UNKNOWN) { vec![UNKNOWN.into()] } else { operands.to_vec() };
        }
    }

    /// A function, where it is one.
    fn calls(&mut self, name: &str, operands: &[String]) -> Flow {
        if self.doubtful.contains(name) {
            self.not_computed(
                "PATH may be set by a function that is there under a condition that is not computed",
            );
        }
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
            Flow::Exit => Flow::Exit,
            Flow::On(holds) => Flow::On(holds),
            Flow::Return | Flow::Break | Flow::Continue => Flow::On(Holds::Unknown),
        }
    }

    /// Another file is read.
    fn reads(&mut self, operands: &[String]) -> Flow {
        let Some(file) = operands.first() else { return Flow::On(Holds::No) };
        if file.contains(UNKNOWN) {
            self.not_computed("which file is read there is not computed");
            return Flow::On(Holds::Unknown);
        }
        let Some(path) = self.file_of(file) else { return Flow::On(Holds::No) };
        if tools::sourced(self, &path, operands) {
            return Flow::On(Holds::Yes);
        }
        let there = self.source(&path);
        if self.walk.left() == 0 { Flow::Exit } else { Flow::On(there.into()) }
    }

    /// The file that is read under that name.
    fn file_of(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') { Some(PathBuf::from(name)) } else { self.finds(name) }
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
        if value.len() > LONGEST {
            return self.not_computed("a value is too long");
        }
        self.spend(value.len());
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
}

#[cfg(test)]
mod tests;
