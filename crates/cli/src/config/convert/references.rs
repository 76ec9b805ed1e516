//! Replaces values that must not be shown by references: each value of a variable or a header, and each secret among words.

use std::ffi::OsString;

use super::super::dialect::Key;
use super::super::entry::{Definition, Setting};
use super::super::launch::written_secrets;
use super::super::tree::Text;
use super::super::variables::{Piece, is_name, pieces};
use crate::secret;

/// The first placeholder, from the last private plane of Unicode: each stands for one reference until that is written.
const FIRST_PLACEHOLDER: u32 = 0x10_0000;

/// Puts references into the entry of that name, and returns the variables that have to be set. `files`: as in [`pieces`]; `plain`: the
/// variables whose values stay.
pub(super) fn put(definition: &mut Definition, entry: &str, files: bool, plain: &[String]) -> Vec<String> {
    let mut set = Vec::new();
    let words = definition.settings.iter_mut();
    // The address of a server that listens without HTTP holds no secret, and its other texts name files.
    let is_word = |key| key == Key::Args || key == Key::Url && !definition.transport.is_socket();
    let words = words.filter(|setting| is_word(setting.key)).map(|setting| &mut setting.text);
    in_words(&mut words.collect::<Vec<_>>(), entry, &mut set);
    for Setting { key, name, text } in &mut definition.settings {
        let variable = match key {
            Key::Env if plain.contains(name) => continue,
            Key::Env if is_name(name) => name.clone(),
            Key::Env | Key::Headers => spelled(entry, name),
            Key::ClientSecret => spelled(entry, "CLIENT_SECRET"),
            _ => continue,
        };
        in_value(text, variable, files, &mut set);
    }
    set
}

/// Replaces a value as a whole, or the part after a scheme.
fn in_value(text: &mut Text, variable: String, files: bool, set: &mut Vec<String>) {
    let parts = pieces(&text.text, files);
    if parts.is_empty() {
        return;
    }
    let has_variable = parts.iter().any(|piece| !matches!(piece, Piece::Literal(_) | Piece::Broken(_)));
    if !has_variable {
        let scheme = secret::scheme(&text.text).map(|scheme| format!("{scheme} ")).unwrap_or_default();
        text.text = format!("{scheme}${{{variable}}}");
        set.push(variable);
        return;
    }
    // A default is a value, too.
    let mut without = String::new();
    let mut changed = false;
    for piece in parts {
        match piece {
            Piece::Environment(name, Some(default)) if !default.is_empty() => {
                without.push_str(&format!("${{{name}}}"));
                set.push(name.to_owned());
                changed = true;
            }
            Piece::Environment(name, Some(_)) => without.push_str(&format!("${{{name}:-}}")),
            Piece::Environment(name, None) => without.push_str(&format!("${{{name}}}")),
            Piece::Editor(name) => without.push_str(&format!("${{{name}}}")),
            Piece::File(path) => without.push_str(&format!("{{file:{path}}}")),
            Piece::Literal(literal) | Piece::Broken(literal) => {
                without.push_str(&literal.replace("${", "$${"));
            }
        }
    }
    if changed {
        text.text = without;
    }
}

/// Replaces the secrets among words, which the names beside them show.
fn in_words(words: &mut [&mut Text], entry: &str, set: &mut Vec<String>) {
    let written: Vec<OsString> = words.iter().map(|word| OsString::from(&word.text)).collect();
    let mut secrets: Vec<String> =
        written_secrets(&written).into_iter().filter_map(|secret| secret.into_string().ok()).collect();
    // One may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.retain(|secret| !secret.is_empty());
    let mut references = Vec::new();
    for secret in secrets {
        let holding = |word: &&mut &mut Text| word.text.contains(&secret);
        if !words.iter_mut().any(|word| holding(&word)) {
            continue;
        }
        let number = references.len() + 1;
        let ending = if number == 1 { "SECRET".to_owned() } else { format!("SECRET_{number}") };
        // A placeholder until all are found: a reference may hold another secret by chance.
        let sign = u32::try_from(number)
            .ok()
            .and_then(|number| char::from_u32(FIRST_PLACEHOLDER + number.min(0xFFFC)));
        let sign = sign.unwrap_or('\u{10FFFD}');
        for word in words.iter_mut().filter(holding) {
            word.text = word.text.replace(&secret, sign.encode_utf8(&mut [0; 4]));
        }
        references.push((sign, spelled(entry, &ending)));
    }
    for (sign, variable) in references {
        for word in words.iter_mut().filter(|word| word.text.contains(sign)) {
            word.text = word.text.replace(sign, &format!("${{{variable}}}"));
        }
        set.push(variable);
    }
}

/// The name of the variable for a value of that entry.
fn spelled(entry: &str, name: &str) -> String {
    /// Of a longer name the beginning is used.
    const MAX_NAME_CHARS: usize = 40;
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let entry: String = entry.chars().take(MAX_NAME_CHARS).map(letter).collect();
    let name: String = name.chars().take(MAX_NAME_CHARS).map(letter).collect();
    let before = if entry.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
    format!("{before}{entry}_{name}")
}
