//! The file of variables that `envFile` names, as VS Code reads it
//! (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>): `NAME=value` on each line, optionally `export` before
//! it, quotes of three kinds around the value, `\n` in double quotes, and comments after a `#`.
//!
//! Read by `launch` when the entry is used, and by `survey` for the places. No value is put into a message.

use std::path::Path;

use super::variables::Texts;
use super::{called, variables};

/// A variable and the line that sets it, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
}

/// The variables of the file in their order. Of two with one name the second counts. Fails with the problem and its line.
pub(super) fn read(path: &Path, texts: &Texts) -> Result<Vec<Variable>, String> {
    let name = crate::target::path_shown(path);
    let text = texts.of(path).map_err(|why| format!("{name}: {why}"))?;
    parse(&text).map_err(|(line, why)| format!("{name}:{line}: {why}"))
}

fn parse(text: &str) -> Result<Vec<Variable>, (usize, String)> {
    let mut found: Vec<Variable> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (place, line) in text.lines().enumerate() {
        let place = place + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let Some((name, value)) = line.split_once('=') else {
            return Err((place, "this is not NAME=value".into()));
        };
        let name = name.trim_end();
        if !variables::is_name(name) {
            return Err((place, "the text before the = is not a valid name of a variable".into()));
        }
        let value = value_of(value.trim_start())
            .map_err(|why| (place, format!("the value of {} {why}", called(name))))?;
        found.retain(|known| known.name != name);
        found.push(Variable { name: name.to_owned(), value, line: place });
    }
    Ok(found)
}

fn value_of(text: &str) -> Result<String, &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`')) else {
        let end = text.find('#').unwrap_or(text.len());
        return Ok(text[..end].trim_end().to_owned());
    };
    let (value, rest) = text[1..].split_once(quote).ok_or("has an unclosed quote")?;
    if !(rest.trim().is_empty() || rest.trim_start().starts_with('#')) {
        return Err("continues after its closing quote");
    }
    Ok(if quote == '"' { value.replace("\\n", "\n").replace("\\r", "\r") } else { value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn r85_every_form_of_a_line_is_read() {
        let text = "\u{feff}# of ours\r\nA=1\r\n\nexport B = two words # told\nC='# no comment'  # told\n\
                    D=\"a\\nb\"\nE=`it's`\nF=\nG=a=b\nA=3\n";
        let read = parse(text).unwrap();
        let read: Vec<(&str, &str, usize)> =
            read.iter().map(|found| (&*found.name, &*found.value, found.line)).collect();
        assert_eq!(
            read,
            [
                ("B", "two words", 4),
                ("C", "# no comment", 5),
                ("D", "a\nb", 6),
                ("E", "it's", 7),
                ("F", "", 8),
                ("G", "a=b", 9),
                ("A", "3", 10),
            ]
        );
    }

    #[test]
    fn r85_a_line_that_is_none_is_reported_without_its_value() {
        for (text, line, told) in [
            ("A=1\nhunter2", 2, "this is not NAME=value"),
            ("\n\nA B=hunter2", 3, "is not a valid name of a variable"),
            ("=hunter2", 1, "is not a valid name of a variable"),
            ("A='hunter2", 1, "the value of A has an unclosed quote"),
            ("A=\"hunter2\" hunter2", 1, "the value of A continues after"),
        ] {
            let (place, why) = parse(text).unwrap_err();
            assert!(place == line && why.contains(told) && !why.contains("hunter2"), "{place}: {why}");
        }
    }
}
