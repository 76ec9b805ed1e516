//! Writes values as JSON and as TOML, in the order in which they are given.

use std::fmt::Write as _;

/// A value of a configuration.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    /// In the spelling of both syntaxes.
    Number(String),
    Bool(bool),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn table<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Table(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Whether it is an empty text, list or table.
    pub(super) const fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Table(members) => members.is_empty(),
            Self::Number(_) | Self::Bool(_) => false,
        }
    }

    /// As a JSON document: objects on several lines, lists on one.
    pub(super) fn json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out, 0);
        out
    }

    fn write_json(&self, out: &mut String, depth: usize) {
        match self {
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Number(number) => out.push_str(number),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::List(items) => {
                let tables = items.iter().any(|item| matches!(item, Self::Table(_)));
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    match (place, tables) {
                        (_, true) => {
                            out.push_str(if place > 0 { "," } else { "" });
                            new_line(out, depth + 1);
                        }
                        (0, false) => {}
                        (_, false) => out.push_str(", "),
                    }
                    item.write_json(out, depth + 1);
                }
                if tables {
                    new_line(out, depth);
                }
                out.push(']');
            }
            Self::Table(members) if members.is_empty() => out.push_str("{}"),
            Self::Table(members) => {
                out.push('{');
                for (place, (name, value)) in members.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    new_line(out, depth + 1);
                    let _ = write!(out, "{}: ", quoted(name));
                    value.write_json(out, depth + 1);
                }
                new_line(out, depth);
                out.push('}');
            }
        }
    }

    /// On one line of TOML.
    fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.clone(),
            Self::Bool(value) => value.to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::toml).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(members) => {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("{} = {}", key(name), value.toml())).collect();
                format!("{{ {} }}", members.join(", "))
            }
        }
    }
}

/// `[[NAME]]` for each value, which is a table.
pub(super) fn tables(name: &str, entries: &[(String, Value)]) -> String {
    let tables: Vec<String> =
        entries.iter().map(|(_, entry)| format!("[[{name}]]\n{}", lines(entry))).collect();
    tables.join("\n")
}

/// `[NAME.KEY]` for each value, which is a table.
pub(super) fn sections(name: &str, entries: &[(String, Value)]) -> String {
    let sections: Vec<String> =
        entries.iter().map(|(entry, value)| format!("[{name}.{}]\n{}", key(entry), lines(value))).collect();
    sections.join("\n")
}

fn lines(entry: &Value) -> String {
    let Value::Table(members) = entry else { return String::new() };
    members.iter().map(|(name, value)| format!("{} = {}\n", key(name), value.toml())).collect()
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A string in both syntaxes: TOML reads the escapes of JSON, and requires one more.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}
