//! Conditions of the shell: `[ ... ]` and `test`
//! (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/test.html>), `[[ ... ]]`, and patterns.
//!
//! Called by `shell`. What is not known stays unknown.

use std::path::Path;

use super::tree::{Piece, Word};
use super::{Holds, Shell, UNKNOWN};

/// A longer condition is not followed.
const WORDS: usize = 64;
/// Patterns are compared for so many steps.
const STEPS: usize = 200_000;

/// `[ ... ]`, its words expanded.
pub(super) fn single(shell: &Shell<'_>, words: &[String]) -> Holds {
    if words.len() > WORDS {
        return Holds::Unknown;
    }
    either(words, "-o", |part| both(part, "-a", |one| primary(shell, one)))
}

/// `[[ ... ]]`.
pub(super) fn double(shell: &Shell<'_>, words: &[Word]) -> Holds {
    if words.len() > WORDS {
        return Holds::Unknown;
    }
    let sign = |word: &Word| match &word[..] {
        [Piece::Text { text, quoted: false }] => text.clone(),
        _ => String::new(),
    };
    let one = |part: &[Word]| {
        let signs: Vec<String> = part.iter().map(sign).collect();
        if signs.iter().any(|sign| sign == "(" || sign == ")") {
            return Holds::Unknown;
        }
        // The right side is a pattern there.
        if let [left, _, right] = part
            && let "=" | "==" | "!=" = signs[1].as_str()
        {
            let holds = shell.matches(&shell.expand(left), right);
            return if signs[1] == "!=" { holds.not() } else { holds };
        }
        let words: Vec<String> = part.iter().map(|word| shell.expand(word)).collect();
        primary(shell, &words)
    };
    let split = |words: &[Word], at: &str| {
        let mut parts = vec![Vec::new()];
        for word in words {
            match parts.last_mut() {
                Some(_) if sign(word) == at => parts.push(Vec::new()),
                Some(part) => part.push(word.clone()),
                None => {}
            }
        }
        parts
    };
    any(split(words, "||").into_iter().map(|part| all(split(&part, "&&").into_iter().map(|part| one(&part)))))
}

fn either(words: &[String], at: &str, one: impl Fn(&[String]) -> Holds) -> Holds {
    any(words.split(|word| word == at).map(one))
}

fn both(words: &[String], at: &str, one: impl Fn(&[String]) -> Holds) -> Holds {
    all(words.split(|word| word == at).map(one))
}

fn any(parts: impl Iterator<Item = Holds>) -> Holds {
    let mut whole = Holds::No;
    for part in parts {
        match part {
            Holds::Yes => return Holds::Yes,
            Holds::Unknown => whole = Holds::Unknown,
            Holds::No => {}
        }
    }
    whole
}

fn all(parts: impl Iterator<Item = Holds>) -> Holds {
    any(parts.map(Holds::not)).not()
}

fn primary(shell: &Shell<'_>, words: &[String]) -> Holds {
    if words.iter().any(|word| word.contains(UNKNOWN)) {
        return Holds::Unknown;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let world = shell.world;
    let there = |path: &str| !path.is_empty() && world.metadata(Path::new(path)).is_some();
    match words[..] {
        [] => Holds::No,
        [word] => (!word.is_empty()).into(),
        ["!", ref rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            // One `!` less each time, and there are few words.
            primary(shell, &rest).not()
        }
        ["-n", word] => (!word.is_empty()).into(),
        ["-z", word] => word.is_empty().into(),
        ["-e" | "-a" | "-r" | "-w" | "-O" | "-G", path] => there(path).into(),
        ["-f", path] => world.metadata(Path::new(path)).is_some_and(|metadata| metadata.is_file()).into(),
        ["-d", path] => world.metadata(Path::new(path)).is_some_and(|metadata| metadata.is_dir()).into(),
        ["-s", path] => world.metadata(Path::new(path)).is_some_and(|metadata| metadata.len() > 0).into(),
        ["-x", path] => {
            let folder = world.metadata(Path::new(path)).is_some_and(|metadata| metadata.is_dir());
            (folder || world.is_program(Path::new(path))).into()
        }
        ["-h" | "-L", path] => world.is_link(Path::new(path)).into(),
        ["-t", _] => shell.interactive.into(),
        ["-v", name] => shell.variables.contains_key(name).into(),
        [left, "=" | "==", right] => (left == right).into(),
        [left, "!=", right] => (left != right).into(),
        [left, sign, right] => match (left.trim().parse::<i64>(), right.trim().parse::<i64>()) {
            (Ok(left), Ok(right)) => match sign {
                "-eq" => (left == right).into(),
                "-ne" => (left != right).into(),
                "-lt" => (left < right).into(),
                "-le" => (left <= right).into(),
                "-gt" => (left > right).into(),
                "-ge" => (left >= right).into(),
                _ => Holds::Unknown,
            },
            _ => Holds::Unknown,
        },
        _ => Holds::Unknown,
    }
}

/// Whether a text fits a pattern of `*`, `?` and `[...]`
/// (<https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_14>).
pub(super) fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where to go on when a star has to take one more.
    let mut star: Option<(usize, usize)> = None;
    for _ in 0..STEPS {
        let step = match pattern.get(place) {
            None if at == text.len() => return true,
            None => None,
            Some('*') => {
                star = Some((at, place + 1));
                place += 1;
                continue;
            }
            Some('?') => (at < text.len()).then_some(place + 1),
            Some('\\') => (text.get(at) == pattern.get(place + 1) && at < text.len()).then_some(place + 2),
            Some('[') => one_of(&pattern[place..], text.get(at)).map(|length| place + length),
            Some(c) => (text.get(at) == Some(c)).then_some(place + 1),
        };
        match (step, star) {
            (Some(next), _) => (at, place) = (at + 1, next),
            (None, Some((taken, next))) if taken < text.len() => {
                star = Some((taken + 1, next));
                (at, place) = (taken + 1, next);
            }
            (None, _) => return false,
        }
    }
    false
}

/// How long the set of characters at the beginning of a pattern is, when the character is one of them.
fn one_of(pattern: &[char], c: Option<&char>) -> Option<usize> {
    let denied = matches!(pattern.get(1), Some('!' | '^'));
    let first = if denied { 2 } else { 1 };
    let end = pattern.iter().enumerate().skip(first + 1).find(|(_, c)| **c == ']')?.0;
    let set = &pattern[first..end];
    let c = *c?;
    let ranged = set.windows(3).any(|range| range[1] == '-' && range[0] <= c && c <= range[2]);
    ((set.contains(&c) || ranged) != denied).then_some(end + 1)
}
