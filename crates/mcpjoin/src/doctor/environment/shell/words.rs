//! Words of the shell's grammar, in pieces: quotes, variables, and what commands say
//! (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02>).
//!
//! Called by `syntax` wherever a word may stand. It expands nothing.

use super::UNKNOWN;
use super::syntax::{DEPTH, Parser, Stuck};
use super::tree::{How, Piece, Word};

impl Parser {
    /// Skips to the other end of what is in brackets, and gives what is between.
    pub(super) fn balanced(&mut self, open: char, close: char) -> Result<String, Stuck> {
        let mut depth = 0_usize;
        let mut text = String::new();
        loop {
            let c = self.next().ok_or(Stuck)?;
            if depth > 0 {
                text.push(c);
            }
            match c {
                '\\' => text.extend(self.next()),
                '\'' => {
                    let has_escapes = text.trim_end_matches('\'').ends_with('$');
                    loop {
                        let c = self.next().ok_or(Stuck)?;
                        text.push(c);
                        match c {
                            '\'' => break,
                            '\\' if has_escapes => text.extend(self.next()),
                            _ => {}
                        }
                    }
                }
                _ if c == open => depth += 1,
                _ if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        text.pop();
                        return Ok(text);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn word(&mut self) -> Result<Word, Stuck> {
        let mut word = Word::new();
        // Where a tilde means the home.
        let mut begins = true;
        let started = self.at;
        while let Some(c) = self.peek() {
            let at_beginning = std::mem::replace(&mut begins, matches!(c, ':' | '='));
            match c {
                '<' | '>' if self.chars.get(self.at + 1) == Some(&'(') && word.is_empty() => {
                    self.at += 1;
                    word.push(Piece::Output(self.balanced('(', ')')?));
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') | None => {}
                        Some(c) => push(&mut word, c, true),
                    }
                }
                '\'' => {
                    self.next();
                    self.single(&mut word)?;
                }
                '"' => {
                    self.next();
                    self.double(&mut word)?;
                }
                '$' if self.looks_at("$'") => {
                    self.at += 2;
                    self.escaped(&mut word)?;
                }
                '$' if self.looks_at("$\"") => self.at += 1,
                '$' => self.dollar(&mut word, false)?,
                '`' => word.push(self.backquoted()?),
                '~' if at_beginning
                    && self
                        .chars
                        .get(self.at + 1)
                        .is_none_or(|c| c.is_whitespace() || "/:;&|)".contains(*c)) =>
                {
                    self.next();
                    word.push(Piece::Variable { name: "HOME".into(), how: How::Plain, quoted: true });
                }
                c => {
                    self.next();
                    push(&mut word, c, false);
                }
            }
        }
        if self.at == started { Err(Stuck) } else { Ok(word) }
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Stuck> {
        let mut text = String::new();
        loop {
            match self.next().ok_or(Stuck)? {
                '\'' => break,
                c => text.push(c),
            }
        }
        word.push(Piece::Text { text, quoted: true });
        Ok(())
    }

    /// `$'...'`, which has escapes.
    fn escaped(&mut self, word: &mut Word) -> Result<(), Stuck> {
        let mut text = String::new();
        loop {
            match self.next().ok_or(Stuck)? {
                '\'' => break,
                '\\' => text.push(match self.next().ok_or(Stuck)? {
                    c @ ('\'' | '"' | '\\' | '?') => c,
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    // Signs by their number are not computed.
                    _ => UNKNOWN,
                }),
                c => text.push(c),
            }
        }
        word.push(Piece::Text { text, quoted: true });
        Ok(())
    }

    fn double(&mut self, word: &mut Word) -> Result<(), Stuck> {
        word.push(Piece::Text { text: String::new(), quoted: true });
        loop {
            match self.peek().ok_or(Stuck)? {
                '"' => {
                    self.next();
                    return Ok(());
                }
                '\\' => {
                    self.next();
                    match self.next().ok_or(Stuck)? {
                        '\n' => {}
                        c @ ('$' | '`' | '"' | '\\') => push(word, c, true),
                        c => {
                            push(word, '\\', true);
                            push(word, c, true);
                        }
                    }
                }
                '$' => self.dollar(word, true)?,
                '`' => word.push(self.backquoted()?),
                c => {
                    self.next();
                    push(word, c, true);
                }
            }
        }
    }

    fn backquoted(&mut self) -> Result<Piece, Stuck> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next().ok_or(Stuck)? {
                '`' => return Ok(Piece::Output(text)),
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Result<(), Stuck> {
        self.next();
        let variable = |name: String, how| Piece::Variable { name, how, quoted };
        match self.peek() {
            Some('(') => word.push(Piece::Output(self.balanced('(', ')')?)),
            Some('{') => {
                let inner = self.balanced('{', '}')?;
                let length = inner
                    .char_indices()
                    .find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_'))
                    .map_or(inner.len(), |(at, _)| at);
                let (name, rest) = inner.split_at(length);
                if name.is_empty() {
                    let one = inner.chars().count() == 1;
                    let how = if one { How::Plain } else { How::Opaque };
                    word.push(variable(inner, how));
                    return Ok(());
                }
                let empty = rest.starts_with(':');
                let after = rest.strip_prefix(':').unwrap_or(rest);
                let inside = |text: &str| self.inside(text);
                let how = match after.chars().next() {
                    None if !empty => How::Plain,
                    Some('-' | '=') => How::Or { empty, word: inside(&after[1..])? },
                    Some('+') => How::Instead { empty, word: inside(&after[1..])? },
                    _ => How::Opaque,
                };
                word.push(variable(name.to_owned(), how));
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                    self.next();
                }
                word.push(variable(name, How::Plain));
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.next();
                word.push(variable(c.to_string(), How::Plain));
            }
            _ => push(word, '$', quoted),
        }
        Ok(())
    }

    /// What stands inside the brackets of a variable: one word, whatever is in it.
    fn inside(&self, text: &str) -> Result<Word, Stuck> {
        if self.depth >= DEPTH {
            return Err(Stuck);
        }
        let text: String = text.chars().filter(|c| *c != '"').chain(['"']).collect();
        let mut word = Word::new();
        let mut parser =
            Self { chars: text.chars().collect(), at: 0, line: 1, depth: self.depth + 1, here: Vec::new() };
        parser.double(&mut word)?;
        Ok(word)
    }
}

fn push(word: &mut Word, c: char, as_quoted: bool) {
    match word.last_mut() {
        Some(Piece::Text { text, quoted }) if *quoted == as_quoted => text.push(c),
        _ => word.push(Piece::Text { text: c.into(), quoted: as_quoted }),
    }
}
