//! Words, paths and commands as the user would type them in a shell, without their secrets.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::folders;
use crate::secret;

/// A word as the user would type it in a shell, with `***` for the user information of a URL.
pub(crate) fn shown(word: &OsStr) -> String {
    exact(&without_userinfo(&word.to_string_lossy()))
}

/// A path as the user would type it in a shell, with `~` for the home folder.
pub(crate) fn path_shown(path: &Path) -> String {
    let below = folders::home().filter(|home| home.parent().is_some()).and_then(|home| {
        let below = path.strip_prefix(home).ok()?;
        Some(below.to_owned())
    });
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".into(),
        Some(below) => format!("~/{}", shown(below.as_os_str())),
        None => shown(path.as_os_str()),
    }
}

/// A command as the user would type it, with `***` for the secrets among its arguments. The program is not changed.
pub(crate) fn command_shown<'a>(program: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    let args = secret::masked(args).into_iter().map(|arg| exact(&arg));
    std::iter::once(exact(program)).chain(args).collect::<Vec<_>>().join(" ")
}

/// Words as the user would type them, with `***` for their secrets.
pub(crate) fn words_shown(words: &[OsString]) -> String {
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
    let masked = secret::masked(words.iter().map(AsRef::as_ref));
    masked.iter().map(|word| shown(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A word as the user would type it in a shell. Only characters that a terminal obeys or hides are replaced, and text that looks
/// like their escapes.
pub(crate) fn exact(word: &str) -> String {
    let word = crate::visible::word(word);
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,#*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Replaces the text between `://` and `@`.
fn without_userinfo(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        // The last `@`: a password may hold others.
        rest = match secret::authority(after).rfind('@') {
            Some(at) => {
                out.push_str("***");
                &after[at..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}
