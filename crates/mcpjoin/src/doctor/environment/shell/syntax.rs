//! The part of the shell's grammar that files of settings are written in, read into a tree
//! (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html>, and of bash and zsh what their users
//! write).
//!
//! Called by `shell` for each file. It runs nothing. What it cannot read is told with its line, and what was read before
//! stays.

use std::rc::Rc;

use super::tree::{Assignment, Command, How, Item, Joint, List, Piece, Value, Word};

/// Commands may stand in each other so deep.
pub(super) const DEPTH: usize = 40;

/// Where reading ended too soon.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) line: usize,
    /// In characters from the beginning.
    pub(super) at: usize,
}

/// Reads a file: its commands, and where that ended when it was not at its end.
pub(super) fn read(text: &str) -> (List, Option<Unread>) {
    let mut parser = Parser { chars: text.chars().collect(), at: 0, line: 1, depth: 0, here: Vec::new() };
    let mut list = Vec::new();
    let unread = loop {
        parser.blank(true);
        if parser.at >= parser.chars.len() {
            break None;
        }
        let before = Unread { line: parser.line, at: parser.at };
        match parser.item() {
            Ok(item) => list.push(item),
            Err(Stuck) => break Some(before),
        }
        if !parser.separator() && parser.at < parser.chars.len() {
            break Some(Unread { line: parser.line, at: parser.at });
        }
    };
    (list, unread)
}

/// The grammar ends here.
pub(super) struct Stuck;

pub(super) struct Parser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) line: usize,
    pub(super) depth: usize,
    /// The ends of documents that begin after this line.
    pub(super) here: Vec<String>,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn looks_at(&self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        text.chars().enumerate().all(|(place, c)| rest.get(place) == Some(&c))
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
            self.documents();
        }
        Some(c)
    }

    /// Skips the documents that begin where a line begins.
    fn documents(&mut self) {
        for end in std::mem::take(&mut self.here) {
            while self.at < self.chars.len() {
                let rest = &self.chars[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at += (length + 1).min(rest.len());
                self.line += 1;
                if line.trim_start_matches('\t') == end {
                    break;
                }
            }
        }
    }

    /// Skips blanks and comments, and the ends of lines where asked to.
    fn blank(&mut self, lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => _ = self.next(),
                Some('\n') if lines => _ = self.next(),
                Some(';') if lines && !self.looks_at(";;") && !self.looks_at(";&") => _ = self.next(),
                Some('\\') if self.looks_at("\\\n") => {
                    self.next();
                    self.next();
                }
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                _ => return,
            }
        }
    }

    /// Whether a command may begin after what stands here.
    fn separator(&mut self) -> bool {
        self.blank(false);
        match self.peek() {
            Some('\n') => {
                self.next();
                true
            }
            Some(';') if !self.looks_at(";;") && !self.looks_at(";&") => {
                self.next();
                true
            }
            Some('&') if !self.looks_at("&&") => {
                self.next();
                true
            }
            _ => false,
        }
    }

    /// A word of the grammar: unquoted, and whole.
    fn reserved(&self) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|c| c.is_whitespace() || ";&|()<>\"'$`\\".contains(*c))
            .unwrap_or_else(|| rest.len().min(16));
        rest[..end].iter().collect()
    }

    fn take(&mut self, word: &str) -> Result<(), Stuck> {
        self.blank(true);
        if self.reserved() != word && !(word.len() == 1 && self.looks_at(word)) {
            return Err(Stuck);
        }
        self.at += word.chars().count();
        Ok(())
    }

    /// Commands until one of these words, which is left.
    fn list(&mut self, ends: &[&str]) -> Result<List, Stuck> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Stuck);
        }
        let mut list = Vec::new();
        loop {
            self.blank(true);
            if self.at >= self.chars.len() {
                return Err(Stuck);
            }
            let word = self.reserved();
            if ends
                .iter()
                .any(|end| *end == word || (!end.chars().all(char::is_alphabetic) && self.looks_at(end)))
            {
                self.depth -= 1;
                return Ok(list);
            }
            list.push(self.item()?);
            self.separator();
        }
    }

    fn item(&mut self) -> Result<Item, Stuck> {
        let line = self.line;
        let mut chain = vec![(Joint::Always, self.pipeline()?)];
        loop {
            self.blank(false);
            let joint = if self.looks_at("&&") {
                Joint::And
            } else if self.looks_at("||") {
                Joint::Or
            } else {
                return Ok(Item { line, chain });
            };
            self.at += 2;
            self.blank(true);
            chain.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Command, Stuck> {
        self.blank(false);
        let mut denied = false;
        while self.reserved() == "!" {
            self.at += 1;
            denied = !denied;
            self.blank(false);
        }
        let first = self.command()?;
        let first = if denied { Command::Not(Box::new(first)) } else { first };
        self.blank(false);
        if !self.looks_at("|") || self.looks_at("||") {
            return Ok(first);
        }
        while self.looks_at("|") && !self.looks_at("||") {
            self.at += if self.looks_at("|&") { 2 } else { 1 };
            self.blank(true);
            self.command()?;
            self.blank(false);
        }
        Ok(Command::Apart)
    }

    fn command(&mut self) -> Result<Command, Stuck> {
        let command = match self.reserved().as_str() {
            "if" => self.conditional()?,
            "case" => self.case()?,
            "for" | "select" => self.repeated()?,
            "while" | "until" => {
                self.at += 5;
                self.list(&["do"])?;
                self.take("do")?;
                let body = self.list(&["done"])?;
                self.take("done")?;
                Command::Loop(body)
            }
            "{" => {
                self.at += 1;
                let list = self.list(&["}"])?;
                self.take("}")?;
                Command::Group(list)
            }
            "function" => {
                self.at += 8;
                self.blank(false);
                let name = self.reserved();
                self.at += name.chars().count();
                self.blank(false);
                if self.looks_at("()") {
                    self.at += 2;
                }
                self.function(name)?
            }
            "[[" => self.condition()?,
            _ if self.looks_at("((") => {
                self.balanced('(', ')')?;
                Command::Apart
            }
            _ if self.looks_at("(") => {
                self.balanced('(', ')')?;
                Command::Apart
            }
            // A word of the grammar in the wrong place.
            "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "}" => return Err(Stuck),
            _ => return self.simple(),
        };
        // What is redirected matters to nobody.
        loop {
            self.blank(false);
            if !self.redirected()? {
                return Ok(command);
            }
        }
    }

    fn function(&mut self, name: String) -> Result<Command, Stuck> {
        self.blank(true);
        if self.looks_at("(") {
            self.balanced('(', ')')?;
            return Ok(Command::Function(name, Rc::default()));
        }
        self.take("{")?;
        let body = self.list(&["}"])?;
        self.take("}")?;
        Ok(Command::Function(name, Rc::new(body)))
    }

    fn conditional(&mut self) -> Result<Command, Stuck> {
        let mut arms = Vec::new();
        self.at += 2;
        loop {
            let condition = self.list(&["then"])?;
            self.take("then")?;
            let body = self.list(&["elif", "else", "fi"])?;
            arms.push((condition, body));
            if self.reserved() != "elif" {
                break;
            }
            self.at += 4;
        }
        let mut otherwise = Vec::new();
        if self.reserved() == "else" {
            self.at += 4;
            otherwise = self.list(&["fi"])?;
        }
        self.take("fi")?;
        Ok(Command::If { arms, otherwise })
    }

    fn case(&mut self) -> Result<Command, Stuck> {
        self.at += 4;
        self.blank(false);
        let word = self.word()?;
        self.take("in")?;
        let mut arms = Vec::new();
        loop {
            self.blank(true);
            if self.reserved() == "esac" {
                self.at += 4;
                return Ok(Command::Case { word, arms });
            }
            if self.looks_at("(") {
                self.at += 1;
            }
            let mut patterns = Vec::new();
            loop {
                self.blank(false);
                patterns.push(self.word()?);
                self.blank(false);
                match self.next() {
                    Some('|') => {}
                    Some(')') => break,
                    _ => return Err(Stuck),
                }
            }
            let body = self.list(&[";;", ";&", "esac"])?;
            arms.push((patterns, body));
            for end in [";;&", ";;", ";&"] {
                if self.looks_at(end) {
                    self.at += end.len();
                    break;
                }
            }
        }
    }

    fn repeated(&mut self) -> Result<Command, Stuck> {
        let keyword = self.reserved();
        self.at += keyword.len();
        self.blank(false);
        if self.looks_at("((") {
            self.balanced('(', ')')?;
            self.take("do")?;
            let body = self.list(&["done"])?;
            self.take("done")?;
            return Ok(Command::Loop(body));
        }
        let name = self.reserved();
        self.at += name.chars().count();
        self.blank(true);
        let mut words = Vec::new();
        if self.reserved() != "in" {
            // Without words, those of the function are meant.
            words.push(vec![Piece::Variable { name: "@".into(), how: How::Plain, quoted: true }]);
        } else {
            self.at += 2;
            loop {
                self.blank(false);
                if matches!(self.peek(), None | Some('\n' | ';')) {
                    break;
                }
                words.push(self.word()?);
            }
        }
        self.take("do")?;
        let body = self.list(&["done"])?;
        self.take("done")?;
        Ok(if keyword == "for" { Command::For { name, words, body } } else { Command::Loop(body) })
    }

    fn condition(&mut self) -> Result<Command, Stuck> {
        self.at += 2;
        let mut words = Vec::new();
        let sign = |text: &str| vec![Piece::Text { text: text.into(), quoted: false }];
        loop {
            self.blank(true);
            if self.reserved() == "]]" {
                self.at += 2;
                return Ok(Command::Condition(words));
            }
            let signs = ["&&", "||", "(", ")", "<", ">"];
            if let Some(found) = signs.into_iter().find(|found| self.looks_at(found)) {
                self.at += found.len();
                words.push(sign(found));
                continue;
            }
            let word = self.word()?;
            let is_match = matches!(&word[..], [Piece::Text { text, quoted: false }] if text == "=~");
            words.push(word);
            if is_match {
                self.blank(true);
                self.expression()?;
                words.push(vec![Piece::Output(String::new())]);
            }
        }
    }

    /// Skips a regular expression: to a blank that stands in no brackets.
    fn expression(&mut self) -> Result<(), Stuck> {
        let (mut depth, mut set) = (0_usize, false);
        loop {
            match self.peek().ok_or(Stuck)? {
                ' ' | '\t' | '\r' | '\n' if depth == 0 => return Ok(()),
                ')' if depth == 0 && !set => return Ok(()),
                '\\' => _ = self.next(),
                quote @ ('\'' | '"') => {
                    self.next();
                    while self.peek().ok_or(Stuck)? != quote {
                        self.next();
                    }
                }
                '(' if !set => depth += 1,
                ')' if !set => depth -= 1,
                '[' if set && self.looks_at("[:") => {
                    while !self.looks_at(":]") {
                        self.next().ok_or(Stuck)?;
                    }
                    self.next();
                }
                '[' if !set => {
                    set = true;
                    // One that stands first is meant itself.
                    for sign in ["[^]", "[]"] {
                        if self.looks_at(sign) {
                            self.at += sign.len() - 1;
                            break;
                        }
                    }
                }
                ']' => set = false,
                _ => {}
            }
            self.next().ok_or(Stuck)?;
        }
    }

    fn simple(&mut self) -> Result<Command, Stuck> {
        let (mut assignments, mut words) = (Vec::new(), Vec::<Word>::new());
        loop {
            self.blank(false);
            if self.redirected()? {
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => {
                    // `name()` begins a function.
                    let [Piece::Text { text, quoted: false }] =
                        words.first().map_or(&[][..], |word| &word[..])
                    else {
                        return Err(Stuck);
                    };
                    let name = text.clone();
                    self.at += 1;
                    self.blank(false);
                    if words.len() != 1 || !assignments.is_empty() || self.next() != Some(')') {
                        return Err(Stuck);
                    }
                    return self.function(name);
                }
                _ => {}
            }
            // `export` and the like take assignments, too.
            let declares = words.first().is_some_and(|word| {
                matches!(&word[..], [Piece::Text { text, .. }]
                    if ["export", "declare", "typeset", "local", "readonly"].contains(&text.as_str()))
            });
            if (words.is_empty() || declares)
                && let Some(assignment) = self.assignment()?
            {
                assignments.push(assignment);
                continue;
            }
            words.push(self.word()?);
        }
        if assignments.is_empty() && words.is_empty() {
            Err(Stuck)
        } else {
            Ok(Command::Simple { assignments, words })
        }
    }

    fn assignment(&mut self) -> Result<Option<Assignment>, Stuck> {
        let rest = &self.chars[self.at..];
        let length =
            rest.iter().position(|c| !(c.is_ascii_alphanumeric() || *c == '_')).unwrap_or(rest.len());
        if length == 0 || rest[0].is_ascii_digit() {
            return Ok(None);
        }
        let append = rest[length..].starts_with(&['+', '=']);
        if !append && rest.get(length) != Some(&'=') {
            return Ok(None);
        }
        let name = rest[..length].iter().collect();
        self.at += length + 1 + usize::from(append);
        let value = if self.looks_at("(") {
            self.at += 1;
            let mut words = Vec::new();
            loop {
                self.blank(true);
                if self.looks_at(")") {
                    self.at += 1;
                    break Value::Array(words);
                }
                words.push(self.word()?);
            }
        } else if matches!(self.peek(), None | Some(' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | ')')) {
            Value::Text(Vec::new())
        } else {
            Value::Text(self.word()?)
        };
        Ok(Some(Assignment { name, append, value }))
    }

    /// Skips a redirection.
    fn redirected(&mut self) -> Result<bool, Stuck> {
        let rest = &self.chars[self.at..];
        let digits = rest.iter().position(|c| !c.is_ascii_digit()).unwrap_or(rest.len());
        let sign = rest.get(digits).copied();
        let both = digits == 0 && sign == Some('&') && rest.get(1) == Some(&'>');
        if !both && !matches!(sign, Some('<' | '>')) {
            return Ok(false);
        }
        if rest.get(digits + 1) == Some(&'(') && !both {
            // A command in the place of a file is a word.
            return Ok(false);
        }
        self.at += digits + usize::from(both);
        let document = self.looks_at("<<") && !self.looks_at("<<<");
        if self.looks_at(">&-") || self.looks_at("<&-") {
            self.at += 3;
            return Ok(true);
        }
        while matches!(self.peek(), Some('<' | '>' | '|' | '&' | '-')) {
            self.at += 1;
        }
        self.blank(false);
        let word = self.word()?;
        if document {
            let end = word.iter().map(|piece| match piece {
                Piece::Text { text, .. } => text.as_str(),
                _ => "",
            });
            self.here.push(end.collect());
        }
        Ok(true)
    }
}
