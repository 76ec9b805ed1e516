//! Values that must not be shown, as references: in what `convert` prints, a variable stands in the place of each value of a
//! variable or a header, and of each secret among words. Who reads the text then learns where a secret goes and not what it
//! is; who wants the values as well asks for them.

use std::ffi::OsString;

use super::super::entry::{Child, Definition, Remote, Way};
use super::super::launch::written_secrets;
use super::super::tree::Text;
use super::super::variables::{Piece, is_name, pieces};
use crate::secret;

/// Where the last private plane of Unicode begins: what stands for a reference until it is written.
const SIGNS: u32 = 0x10_0000;

/// Puts references into the entry of that name; the variables that have to be set for it now. `files`: as in [`pieces`].
pub(super) fn put(definition: &mut Definition, entry: &str, files: bool) -> Vec<String> {
    let mut set = Vec::new();
    match &mut definition.way {
        Way::Child(Child { args, env, .. }) => {
            in_words(&mut args.iter_mut().collect::<Vec<_>>(), entry, &mut set);
            for (name, text) in env {
                let variable = if is_name(name) { name.clone() } else { spelled(entry, name) };
                in_value(text, variable, files, &mut set);
            }
        }
        Way::Http(Remote { url, headers, oauth, .. }) => {
            in_words(&mut [url], entry, &mut set);
            for (name, text) in headers {
                in_value(text, spelled(entry, name), files, &mut set);
            }
            if let Some(text) = oauth.as_mut().and_then(|oauth| oauth.client_secret.as_mut()) {
                in_value(text, spelled(entry, "CLIENT_SECRET"), files, &mut set);
            }
        }
        // Its address holds none, and the others name files.
        Way::Listening(_) => {}
    }
    set
}

/// A value that is one as a whole, or what stands behind the words of a token.
fn in_value(text: &mut Text, variable: String, files: bool, set: &mut Vec<String>) {
    let parts = pieces(&text.text, files);
    if parts.is_empty() {
        return;
    }
    let has_variable = parts.iter().any(|piece| !matches!(piece, Piece::Literal(_)));
    if !has_variable {
        let scheme = secret::scheme(&text.text).map(|scheme| format!("{scheme} ")).unwrap_or_default();
        text.text = format!("{scheme}${{{variable}}}");
        set.push(variable);
        return;
    }
    // What stands for a variable that is missing is a value, too.
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
            Piece::Literal(literal) => without.push_str(&literal.replace("${", "$${")),
        }
    }
    if changed {
        text.text = without;
    }
}

/// The secrets among words, as far as the names beside them tell.
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
        // A sign of no text's own until all are found: a reference may hold another secret by chance.
        let sign = u32::try_from(number).ok().and_then(|number| char::from_u32(SIGNS + number.min(0xFFFC)));
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

/// The name of a variable for what is called so in that entry.
fn spelled(entry: &str, name: &str) -> String {
    /// The beginning of a longer name is name enough.
    const LONGEST: usize = 40;
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let entry: String = entry.chars().take(LONGEST).map(letter).collect();
    let name: String = name.chars().take(LONGEST).map(letter).collect();
    let before = if entry.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
    format!("{before}{entry}_{name}")
}
