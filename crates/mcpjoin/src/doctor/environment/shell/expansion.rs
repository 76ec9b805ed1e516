//! What a word becomes: variables, words of words, names of files
//! (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_06>).
//!
//! Called by `shell` and `conditions`. It changes nothing, but that each text which is made counts against the room of the
//! session: without that, a short file makes texts that no memory holds.

use std::borrow::Cow;
use std::path::Path;

use super::tree::{How, Piece, Word};
use super::{Holds, Kind, LONGEST, Shell, UNKNOWN, conditions, tools};

impl Shell<'_> {
    /// A word as one text.
    pub(super) fn expand(&self, word: &Word) -> String {
        if self.is_spent() {
            return UNKNOWN.into();
        }
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
                self.spend(out.len());
                return UNKNOWN.into();
            }
        }
        self.spend(out.len());
        out
    }

    /// Whether so much was expanded that no more is.
    pub(super) const fn is_spent(&self) -> bool {
        self.room.get() == 0
    }

    pub(super) fn spend(&self, length: usize) {
        self.room.set(self.room.get().saturating_sub(length));
    }

    pub(super) fn variable(&self, out: &mut String, name: &str, how: &How) {
        let value = match name {
            "@" | "*" => {
                let all = self.positional.join(" ");
                self.spend(all.len());
                Some(Cow::Owned(all))
            }
            "#" => Some(Cow::Owned(self.positional.len().to_string())),
            "?" | "$" | "!" => {
                return out.push(UNKNOWN);
            }
            "path" if self.kind == Kind::Zsh => Some(Cow::Borrowed(self.path())),
            _ => match name.parse::<usize>() {
                Ok(place) if place > 0 => {
                    self.positional.get(place - 1).map(|value| Cow::Borrowed(value.as_str()))
                }
                _ => self.variables.get(name).map(|value| Cow::Borrowed(value.as_str())),
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
    pub(super) fn fields(&self, word: &Word) -> Vec<String> {
        if self.is_spent() {
            return Vec::new();
        }
        let is_all =
            |piece: &Piece| matches!(piece, Piece::Variable { name, quoted: true, .. } if name == "@");
        if word.iter().any(is_all) {
            // `"$@"` becomes as many words as there are; with more around it, it is not computed unless it is one.
            let is_nothing = |piece: &Piece| matches!(piece, Piece::Text { text, .. } if text.is_empty());
            if word.iter().all(|piece| {
                is_nothing(piece) || matches!(piece, Piece::Variable { how: How::Plain, .. }) && is_all(piece)
            }) {
                self.spend(self.positional.iter().map(String::len).sum());
                return self.positional.clone();
            }
            return if self.positional.len() == 1 { vec![self.expand(word)] } else { vec![UNKNOWN.into()] };
        }
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
        // What splits at other signs than blanks is not computed.
        if splits && !quoted && self.kind != Kind::Zsh && self.variables.contains_key("IFS") {
            return vec![UNKNOWN.into()];
        }
        match (splits && self.kind != Kind::Zsh && !quoted, is_array && self.kind == Kind::Zsh) {
            (_, true) => text.split(':').map(str::to_owned).collect(),
            (true, _) => text.split_whitespace().map(str::to_owned).collect(),
            _ => vec![text],
        }
    }

    /// The files that a pattern names, in order; of folders none is a pattern.
    pub(super) fn files(&self, pattern: &str) -> Vec<String> {
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
        self.spend(found.iter().map(String::len).sum());
        if found.is_empty() { vec![pattern.to_owned()] } else { found }
    }

    pub(super) fn matches(&self, word: &str, pattern: &Word) -> Holds {
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
