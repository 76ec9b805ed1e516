//! Fuzz target of the consent question for discovered configurations: the question shows everything that an entry runs or
//! connects to, as the file has it, in a text without characters that a terminal interprets or hides.

use crate::expand;
use mcpjoin_cli::fuzzing::{ELSEWHERE, OURS, Question, Used, questions};

/// The largest number of entries of an input: each is compared with each.
const MOST_ENTRIES: usize = 8;
/// The largest size of the question about one entry, in bytes. The text of the changes since the last consent can be ten
/// times as long.
const MOST_SHOWN: usize = 4 << 10;
const MOST_CHANGES: usize = 400 << 10;

pub(crate) fn run(data: &[u8]) {
    // Two files, separated by a zero byte, which occurs in neither.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let files = [&data[..end], data.get(end + 1..).unwrap_or_default()];
    let mut asked: Vec<Question> = Vec::new();
    for file in files {
        let file = expand(file);
        // If the file contains the mark itself, the mark does not show the origin of a text.
        let marks = !file
            .windows(4)
            .any(|part| part.eq_ignore_ascii_case(b"e000") || part.eq_ignore_ascii_case(b"e001"))
            && !file.windows(2).any(|part| part == [0xee, 0x80]);
        let of_file = questions(&file, MOST_ENTRIES);
        for question in &of_file {
            shown(question, marks);
        }
        asked.extend(of_file);
    }
    asked.truncate(MOST_ENTRIES);
    for one in &asked {
        for other in &asked {
            differ(one, other);
        }
    }
}

/// Checks the question about one entry. `marks`: values from outside the file can be recognized.
fn shown(question: &Question, marks: bool) {
    let Question { lines, page, folded, used, .. } = question;
    for text in [page, folded] {
        assert!(!hides(text), "{text:?}");
        assert!(!marks || !text.contains([OURS, ELSEWHERE]), "{text:?}");
    }
    let solid = |text: &str| text.split_ascii_whitespace().collect::<String>();
    assert_eq!(solid(page), solid(folded), "a terminal shows something else");
    if let Some(lines) = lines {
        assert!(lines.iter().map(String::len).sum::<usize>() <= MOST_SHOWN);
        assert!(lines.iter().all(|line| !line.contains('\n') && page.contains(line.as_str())));
    }
    let Some(used) = used else { return };
    for text in [&used.shown, &used.said] {
        assert!(!hides(text), "{text:?}");
    }
    masked(used);
    if let Some(lines) = lines {
        whole(&lines.iter().map(|line| words(line)).collect::<Vec<_>>(), used);
    }
}

/// Checks that the lines, parsed as shell words, contain everything that is used.
fn whole(lines: &[Vec<String>], used: &Used) {
    let first = lines.first().expect("what is run or reached");
    let is_there = |begin: &[&str], value: &str| {
        lines[1..].iter().any(|line| {
            let named = line.len() > begin.len() && line.iter().zip(begin).all(|(word, begin)| word == begin);
            named && line[begin.len()..].iter().any(|word| word == value || is_reference(word))
        })
    };
    let mut words = first.iter();
    for (what, name, value) in &used.parts {
        match *what {
            "program" | "argument" => {
                let word = words.next().unwrap_or_else(|| panic!("{value:?} is not in {first:?}"));
                assert!(word == value || is_reference(word), "{what} {value:?} is not {word:?}");
            }
            "address" => {
                let word = words.next().expect("an address");
                if let Some(path) = value.strip_prefix("unix:") {
                    assert!(word.ends_with(path) || is_reference(word), "{value:?} is not {word:?}");
                    continue;
                }
                let host = value.split_once("://").map_or(&**value, |(_, rest)| rest);
                let host = &host[..host.find(['/', '\\', '?', '#']).unwrap_or(host.len())];
                assert!(word.contains(host) || is_reference(word), "{value:?} is not {word:?}");
            }
            "variable" => {
                let set = format!("{name}={value}");
                let by_reference =
                    |word: &String| word.strip_prefix(&*format!("{name}=")).is_some_and(is_reference);
                let is_set = |line: &Vec<String>| {
                    line[0] == "env"
                        && line.iter().skip(1).take(1).any(|word| *word == set || by_reference(word))
                };
                let is_named = |line: &Vec<String>| {
                    let from_elsewhere = line.starts_with(&["your".into(), "own".into()])
                        || line.starts_with(&["envFile".into(), "sets".into()]);
                    from_elsewhere && line.iter().any(|word| word.trim_end_matches(',') == name)
                };
                let line = lines[1..].iter().find(|line| is_set(line) || is_named(line));
                let line = line.unwrap_or_else(|| panic!("{set:?} is not in {lines:?}"));
                if CHANGING.contains(&name.as_str()) && line[0] != "your" {
                    assert!(
                        line.join(" ").ends_with("(this variable can change which code runs)"),
                        "{line:?}"
                    );
                }
            }
            "directory" => assert!(is_there(&["cwd"], value), "{value:?} is not in {lines:?}"),
            "header" => {
                assert!(is_there(&["header", &format!("{name}:")], value), "{value:?} is not in {lines:?}");
            }
            "side" => assert!(lines[1..].iter().any(|line| line[0] == *name), "{name} is not in {lines:?}"),
            _ => {}
        }
    }
    assert_eq!(words.next(), None, "{first:?} shows more than is used");
}

/// Some variables that influence which program runs.
const CHANGING: [&str; 7] = [
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "PATH",
    "PYTHONPATH",
    "BASH_ENV",
    "GIT_SSH_COMMAND",
    "npm_config_registry",
];

/// Checks that other outputs mask secrets, but only in their places, and never the program or the address.
fn masked(used: &Used) {
    let mut words = words(&used.shown).into_iter();
    let mut before = String::new();
    for (what, _, value) in &used.parts {
        let word = match *what {
            "program" | "argument" | "address" => words.next().expect("a word for each"),
            _ => continue,
        };
        if *what == "address" {
            let host = |url: &str| {
                let url = url.split_once("://")?.1;
                let end = url.find(['/', '\\', '?', '#']).unwrap_or(url.len());
                Some(url[..end].rsplit_once('@').map_or(&url[..end], |(_, host)| host).to_ascii_lowercase())
            };
            let is_whole = value.starts_with("unix:") || host(&word) == host(value);
            assert!(is_whole || is_reference(&word), "{value:?} is shown as {word:?}");
            return;
        }
        let may_be_secret = before.starts_with('-') || value.contains(['=', ':', ' ']);
        let is_whole = *what == "program" || !may_be_secret;
        assert!(is_reference(&word) || word == *value || !is_whole, "{value:?} is shown as {word:?}");
        let pieces: Vec<&str> = word.split("***").collect();
        let stays = value.starts_with(pieces[0]) && value.ends_with(pieces[pieces.len() - 1]);
        assert!(is_reference(&word) || stays, "{value:?} is shown as {word:?}");
        before.clone_from(value);
    }
    assert_eq!(words.next(), None);
}

/// Checks that two entries with a different effect have different questions, and that consent to one is not valid for the
/// other.
fn differ(one: &Question, other: &Question) {
    let changes = other.changes(one);
    assert!(changes.iter().all(|line| !hides(line) && !line.contains('\n')), "{changes:?}");
    assert!(changes.iter().map(String::len).sum::<usize>() <= MOST_CHANGES);
    let (Some(first), Some(second)) = (&one.used, &other.used) else { return };
    // The order of variables and headers makes no difference.
    let parts = |used: &Used| {
        let mut parts = used.parts.clone();
        parts.sort_by_key(|(what, name, _)| {
            (matches!(*what, "variable" | "header").then(|| name.clone()), *what)
        });
        parts
    };
    if parts(first) == parts(second) {
        return;
    }
    assert_ne!(one.digest, other.digest, "{first:?} {second:?}");
    assert!(!changes.is_empty(), "{first:?} {second:?}");
    // The question contains only the names of other files, not their text.
    let is_elsewhere = |used: &Used| used.parts.iter().any(|(_, _, value)| value.contains(ELSEWHERE));
    if let (Some(first_lines), Some(second_lines)) = (&one.lines, &other.lines)
        && !is_elsewhere(first)
        && !is_elsewhere(second)
    {
        assert_ne!(first_lines, second_lines, "{first:?} {second:?}");
    }
}

/// Whether the text is a reference to an outside value, or looks like one.
fn is_reference(text: &str) -> bool {
    text.contains("${") || text.contains("{env:") || text.contains("{file:")
}

/// Parses the shown line into words like a shell, with `\u{..}` for characters that cannot be shown.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut begun, mut quoted) = (String::new(), false, false);
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                words.extend(begun.then(|| std::mem::take(&mut word)));
                begun = false;
            }
            '\\' if !quoted => word.extend(rest.next()),
            '\\' if rest.as_str().starts_with("u{") => {
                let (code, after) = rest.as_str()[2..].split_once('}').unwrap_or(("", ""));
                let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
                word.push(code.unwrap_or_else(|| panic!("no character is written so: {line:?}")));
                rest = after.chars();
            }
            _ => {
                word.push(character);
                begun = true;
            }
        }
    }
    assert!(!quoted, "a quote stays open: {line:?}");
    words.extend(begun.then_some(word));
    words
}

/// Whether a terminal would interpret a character of the text, or show nothing for it. The emoji variation selector is
/// allowed.
fn hides(text: &str) -> bool {
    let mut before = ' ';
    text.chars().any(|character| {
        let before = std::mem::replace(&mut before, character);
        match character {
            '\n' => false,
            '\u{fe0f}' => before.is_ascii() || before == '\u{fe0f}',
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
            '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
            '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' => true,
            '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
            '\u{e0000}'..='\u{e0fff}' => true,
            _ => character.is_control(),
        }
    })
}
