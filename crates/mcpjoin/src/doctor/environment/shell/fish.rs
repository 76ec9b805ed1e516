//! What the files of fish make of `PATH`: `conf.d`, `config.fish`, and the universal variables that `fish_add_path` sets.
//!
//! Called by `paths` for a login shell that is fish. Statements are followed one by one as
//! [fish](https://fishshell.com/docs/current/language.html) has them, as far as their words are known; which files are read
//! and in which order is in its [page on configuration](https://fishshell.com/docs/current/language.html#configuration-files).
//! Nothing is run: what comes from a command, a loop, a `switch` or an unknown variable and may set `PATH` is told as not
//! computed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::fish_variables::{USER_PATHS, is_path};
use super::fish_words::{Joint, Part, Statement, Word, statements};
use super::tree::Piece;
use super::{DEPTH, Holds, Shell, tools};

/// A session of fish that reads its files.
pub(super) struct Fish<'s, 'w> {
    pub(super) shell: &'s mut Shell<'w>,
    /// Variables that the files have set.
    pub(super) lists: BTreeMap<String, Vec<String>>,
    pub(super) config: PathBuf,
}

/// Where a statement leads.
enum Flow {
    On(Holds),
    /// Out of the file.
    Leave,
}

/// Reads everything that a login reads.
pub(in super::super) fn login(shell: &mut Shell<'_>) {
    let home = shell.world.home().map(Path::to_owned);
    let config = match shell.variables.get("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => home.map(|home| home.join(".config")),
    };
    let Some(config) = config.map(|config| config.join("fish")) else { return };
    let mut fish = Fish { shell, lists: BTreeMap::new(), config: config.clone() };
    fish.universal(&config.join("fish_variables"));
    // A file hides another one of its name in a folder that comes later; the names give the order.
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for folder in [
        config.join("conf.d"),
        "/etc/fish/conf.d".into(),
        "/usr/local/share/fish/vendor_conf.d".into(),
        "/usr/share/fish/vendor_conf.d".into(),
    ] {
        for name in fish.shell.world.list(&folder).into_iter().filter(|name| name.ends_with(".fish")) {
            if !files.iter().any(|(known, _)| *known == name) {
                files.push((name.clone(), folder.join(name)));
            }
        }
    }
    files.sort();
    for (_, file) in files {
        fish.source(&file);
    }
    fish.source(Path::new("/etc/fish/config.fish"));
    fish.source(&config.join("config.fish"));
}

impl Fish<'_, '_> {
    fn source(&mut self, file: &Path) -> bool {
        let Some((text, before)) = self.shell.enter(file) else { return false };
        let (all, unread) = statements(&text);
        let flow = self.run(&all, 0..all.len());
        if let (Some(line), Flow::On(_)) = (unread, flow) {
            self.shell.line = line;
            self.shell.not_computed("what follows is not understood, and may set PATH");
        }
        self.shell.leave(before);
        true
    }

    /// Follows statements, with the blocks among them.
    fn run(&mut self, all: &[Statement], range: Range<usize>) -> Flow {
        let mut last = Holds::Yes;
        let mut at = range.start;
        while at < range.end {
            let statement = &all[at];
            self.shell.line = statement.line;
            if !self.shell.goes_on() {
                return Flow::Leave;
            }
            let end = if opens(statement) { close(all, at, range.end) } else { at + 1 };
            let runs = match statement.joint {
                Joint::Always => Holds::Yes,
                Joint::And => last,
                Joint::Or => last.not(),
            };
            let flow = match runs {
                Holds::No => Flow::On(last),
                Holds::Unknown => {
                    self.perhaps(&all[at..end]);
                    Flow::On(Holds::Unknown)
                }
                Holds::Yes => self.statement(all, at, end),
            };
            match flow {
                Flow::On(holds) => last = holds,
                Flow::Leave => return Flow::Leave,
            }
            at = end;
        }
        Flow::On(last)
    }

    /// A statement, or the block that it opens. `end`: what comes after.
    fn statement(&mut self, all: &[Statement], at: usize, end: usize) -> Flow {
        let statement = &all[at];
        let body = at + 1..end.saturating_sub(1).max(at + 1);
        match statement.head() {
            "if" | "begin" if self.shell.depth >= DEPTH => {
                self.perhaps(&all[at..end]);
                Flow::On(Holds::Unknown)
            }
            "if" => self.block(|fish| fish.branch(all, at, end)),
            "begin" => self.block(|fish| fish.run(all, body)),
            "function" => {
                if self.sets_path(&all[body])
                    && let Some(name) = statement.words.get(1).and_then(Word::text)
                {
                    self.shell.doubtful.insert(name.to_owned());
                }
                Flow::On(Holds::Yes)
            }
            "for" | "while" | "switch" => {
                self.perhaps(&all[body]);
                Flow::On(Holds::Unknown)
            }
            "exit" | "return" => Flow::Leave,
            // What it says goes on to the next.
            _ if statement.piped => Flow::On(Holds::Unknown),
            _ => Flow::On(self.simple(&statement.words, at.checked_sub(1).map(|before| &all[before]))),
        }
    }

    fn block(&mut self, follow: impl FnOnce(&mut Self) -> Flow) -> Flow {
        self.shell.depth += 1;
        let flow = follow(self);
        self.shell.depth -= 1;
        flow
    }

    /// `if ... else if ... else ... end`.
    fn branch(&mut self, all: &[Statement], at: usize, end: usize) -> Flow {
        let mut arm = at;
        let last = end - 1;
        loop {
            // What follows with `and` and `or` belongs to the condition.
            let mut holds = match all[arm].head() {
                "else" if all[arm].words.len() == 1 => Holds::Yes,
                "else" => self.simple(&all[arm].words[2..], None),
                _ => self.simple(&all[arm].words[1..], None),
            };
            let mut body = arm + 1;
            while body < last && all[body].joint != Joint::Always {
                let runs = if all[body].joint == Joint::And { holds } else { holds.not() };
                holds = match runs {
                    Holds::Yes => self.simple(&all[body].words, None),
                    Holds::No => holds,
                    Holds::Unknown => Holds::Unknown,
                };
                body += 1;
            }
            let next = else_of(all, body, last);
            match holds {
                Holds::Yes => return self.run(all, body..next),
                Holds::Unknown => {
                    self.perhaps(&all[body..last]);
                    return Flow::On(Holds::Unknown);
                }
                Holds::No if next == last => return Flow::On(Holds::Yes),
                Holds::No => arm = next,
            }
        }
    }

    /// What it is not known of whether it is run.
    fn perhaps(&mut self, all: &[Statement]) {
        if self.sets_path(all) {
            self.shell.line = all.first().map_or(self.shell.line, |statement| statement.line);
            self.shell.not_computed("PATH may be set there under a condition that is not computed");
        }
    }

    /// Whether one of these may set `PATH`.
    fn sets_path(&self, all: &[Statement]) -> bool {
        all.iter().any(|statement| {
            let words = match statement.head() {
                "not" | "!" | "if" | "while" => &statement.words[1..],
                _ => &statement.words[..],
            };
            let head = words.first().and_then(Word::text).unwrap_or_default();
            match head {
                "fish_add_path" | "source" | "." | "eval" => true,
                "set" | "export" => words.iter().any(|word| {
                    word.text().is_none_or(|text| is_path(text) || text.starts_with("PATH="))
                        && !words
                            .iter()
                            .any(|word| word.text().is_some_and(|text| text == "-q" || text == "--query"))
                }),
                head => self.shell.doubtful.contains(head),
            }
        })
    }

    /// A command without blocks. `before`: the statement before, whose output may come in.
    fn simple(&mut self, words: &[Word], before: Option<&Statement>) -> Holds {
        let negated = words.iter().take_while(|word| matches!(word.text(), Some("not" | "!"))).count();
        let holds = self.plain(&words[negated..], before);
        if negated % 2 == 0 { holds } else { holds.not() }
    }

    fn plain(&mut self, words: &[Word], before: Option<&Statement>) -> Holds {
        let Some((head, operands)) = words.split_first() else { return Holds::Unknown };
        let Some(head) = head.text() else { return Holds::Unknown };
        let known = || -> Option<Vec<String>> {
            let each: Option<Vec<Vec<String>>> = operands.iter().map(|word| self.expand(word)).collect();
            Some(each?.concat())
        };
        match head {
            "set" => self.set(operands),
            "export" => self.export(operands),
            "fish_add_path" => self.add_path(operands),
            "source" | "." => match before.filter(|before| before.piped) {
                Some(before) => self.output_of(&before.text),
                None => self.sources(operands),
            },
            "eval" => {
                for part in operands.iter().flat_map(|word| &word.0) {
                    if let Part::Output(command) = part {
                        tools::eval(self.shell, &[vec![Piece::Output(command.clone())]]);
                    }
                }
                let sets = |part: &Part| match part {
                    Part::Text(text) => {
                        text.contains("PATH") || text.contains(USER_PATHS) || text.contains("fish_add_path")
                    }
                    Part::Variable { .. } | Part::Unknown => true,
                    Part::Home | Part::Output(_) => false,
                };
                if operands.iter().flat_map(|word| &word.0).any(sets) {
                    self.shell.not_computed("what `eval` runs there may set PATH");
                }
                Holds::Unknown
            }
            "status" => match operands.first().and_then(Word::text) {
                Some("is-interactive" | "--is-interactive" | "-i") => self.shell.interactive.into(),
                Some("is-login" | "--is-login" | "-l") => Holds::Yes,
                _ => Holds::Unknown,
            },
            "test" | "[" => known().map_or(Holds::Unknown, |words| self.test(&words)),
            "type" | "command" | "which" => match known() {
                Some(words)
                    if head != "command"
                        || words
                            .iter()
                            .any(|word| word.starts_with("-") && word.contains(['q', 's', 'v'])) =>
                {
                    let asked = words.iter().find(|word| !word.starts_with('-'));
                    asked.map_or(Holds::Unknown, |asked| self.shell.finds(asked).is_some().into())
                }
                _ => Holds::Unknown,
            },
            "contains" => match known().as_deref() {
                Some([key, list @ ..]) if !key.starts_with('-') => list.contains(key).into(),
                Some([dashes, key, list @ ..]) if dashes == "--" => list.contains(key).into(),
                _ => Holds::Unknown,
            },
            "true" => Holds::Yes,
            "false" => Holds::No,
            head => {
                if self.shell.doubtful.contains(head) {
                    self.shell.not_computed("PATH may be set by a function that is called there");
                }
                Holds::Unknown
            }
        }
    }

    fn test(&self, words: &[String]) -> Holds {
        let words = words.strip_suffix(&["]".to_owned()]).unwrap_or(words);
        let negated = words.iter().take_while(|word| *word == "!").count();
        let holds = self.tests(&words[negated..]);
        if negated % 2 == 0 { holds } else { holds.not() }
    }

    fn tests(&self, words: &[String]) -> Holds {
        match words {
            [how, file] => {
                let path = Path::new(file);
                let found = self.shell.world.metadata(path);
                match how.as_str() {
                    "-e" | "-r" => found.is_some().into(),
                    "-d" => found.is_some_and(|found| found.is_dir()).into(),
                    "-f" => found.is_some_and(|found| found.is_file()).into(),
                    "-x" => (self.shell.world.is_program(path) || found.is_some_and(|found| found.is_dir()))
                        .into(),
                    "-n" => (!file.is_empty()).into(),
                    "-z" => file.is_empty().into(),
                    _ => Holds::Unknown,
                }
            }
            _ => Holds::Unknown,
        }
    }

    /// `TOOL ... | source`.
    fn output_of(&mut self, command: &str) -> Holds {
        tools::eval(self.shell, &[vec![Piece::Output(command.to_owned())]]);
        Holds::Unknown
    }

    fn sources(&mut self, operands: &[Word]) -> Holds {
        let Some(word) = operands.first() else { return Holds::Unknown };
        if let [Part::Output(command)] = &word.0[..]
            && let Some((command, _)) = command.rsplit_once('|').filter(|(_, to)| to.trim() == "psub")
        {
            return self.output_of(command.trim());
        }
        match self.expand(word).as_deref() {
            Some([file]) => self.source(Path::new(file)).into(),
            _ => {
                self.shell.not_computed("which file is read there is not computed");
                Holds::Unknown
            }
        }
    }
}

fn opens(statement: &Statement) -> bool {
    matches!(statement.head(), "if" | "begin" | "function" | "for" | "while" | "switch")
}

/// What comes after the block that this statement opens.
fn close(all: &[Statement], at: usize, end: usize) -> usize {
    let mut depth = 0_usize;
    for (place, statement) in all[..end].iter().enumerate().skip(at) {
        if opens(statement) {
            depth += 1;
        } else if statement.head() == "end" {
            depth -= 1;
            if depth == 0 {
                return place + 1;
            }
        }
    }
    end
}

/// The next `else` of this block, or its end.
fn else_of(all: &[Statement], from: usize, last: usize) -> usize {
    let mut at = from;
    while at < last {
        if all[at].head() == "else" {
            return at;
        }
        at = if opens(&all[at]) { close(all, at, last) } else { at + 1 };
    }
    last
}
