//! Whether npm and uv can write to where they keep what they download.
//!
//! Called by `environment`. Where their caches lie: <https://docs.npmjs.com/cli/v11/using-npm/config#cache>,
//! <https://docs.astral.sh/uv/concepts/cache/#cache-directory>. It writes nothing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::world::System;
use super::{EnvironmentCheck as Check, Looked, World};

pub(super) fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    let mut shown = Vec::new();
    for (check, name, folder) in [(Check::NpmCache, "npm", npm(world)), (Check::UvCache, "uv", uv(world))] {
        let Some(folder) = folder else {
            looked.not_run(check, "there is no home");
            continue;
        };
        let new = world.metadata(&folder).is_none();
        match unwritable(world, name, &folder) {
            None => looked.pass(check),
            Some((id, at, why)) => {
                let whose = format!(
                    "the cache of {name}, {}, cannot be used: {} {why}",
                    folder.display(),
                    at.display()
                );
                let advice = if id == "cache-no-folder" {
                    format!("move {} away", quoted(&at))
                } else if at.starts_with(&folder) {
                    format!("sudo chown -R {} {}", world.user(), quoted(&at))
                } else {
                    // What lies above the cache is others', too: its owner stays.
                    format!(
                        "make the folder {}, owned by you, or name another for the cache",
                        quoted(&folder)
                    )
                };
                let meaning = format!(
                    "{} cannot download a server that it is asked to run, and the server ends before it has begun",
                    if name == "npm" { "npx" } else { "uvx" }
                );
                looked.fail(check, id, whose, meaning, advice);
            }
        }
        shown.push(format!("{name} {}{}", folder.display(), if new { " (not there yet)" } else { "" }));
    }
    looked.detail = if shown.is_empty() { "there is no home".to_owned() } else { shown.join(", ") };
    looked
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@:,%=".contains(c)) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The cache of npm: a variable, a line of ~/.npmrc, or its own.
fn npm(world: &World) -> Option<PathBuf> {
    for name in ["npm_config_cache", "NPM_CONFIG_CACHE"] {
        if let Some(folder) = world.set(name).map(PathBuf::from).filter(|folder| folder.is_absolute()) {
            return Some(folder);
        }
    }
    let home = world.home()?;
    let text = world.read(&home.join(".npmrc")).unwrap_or_default();
    let of_line = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "cache").then(|| value.trim().trim_matches('"').to_owned())
    });
    let home_text = home.display().to_string();
    let written =
        of_line.map(|value| value.replace("${HOME}", &home_text).replacen('~', &home_text, 1)).next_back();
    Some(
        written.map(PathBuf::from).filter(|folder| folder.is_absolute()).unwrap_or_else(|| home.join(".npm")),
    )
}

fn uv(world: &World) -> Option<PathBuf> {
    let absolute = |name| world.set(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let shared = || absolute("XDG_CACHE_HOME").map(|folder| folder.join("uv"));
    let own = || {
        let folder = if world.system() == System::Mac { "Library/Caches/uv" } else { ".cache/uv" };
        Some(world.home()?.join(folder))
    };
    absolute("UV_CACHE_DIR").or_else(shared).or_else(own)
}

/// The first place that keeps a cache from being written to, and why.
fn unwritable(world: &World, name: &str, folder: &Path) -> Option<(&'static str, PathBuf, String)> {
    // What is not there yet is made in the folder above.
    let there = folder.ancestors().find(|folder| world.metadata(folder).is_some())?.to_owned();
    let metadata = world.metadata(&there)?;
    if !metadata.is_dir() {
        return Some(("cache-no-folder", there, "is no folder".into()));
    }
    if !world.is_writable(&there) {
        let why = match metadata.uid() {
            0 if world.user() != 0 => ("cache-of-root", "belongs to root".to_owned()),
            owner if owner != world.user() => ("cache-unwritable", format!("belongs to the user {owner}")),
            _ => ("cache-unwritable", "may not be written to".to_owned()),
        };
        return Some((why.0, there, why.1));
    }
    if there != *folder {
        return None;
    }
    // `sudo npm` leaves folders of root's inside.
    let inside: &[&str] = if name == "npm" { &["_cacache", "_cacache/tmp", "_npx", "_logs"] } else { &[] };
    inside.iter().map(|inside| folder.join(inside)).find_map(|inside| {
        let metadata = world.metadata(&inside)?;
        (!world.is_writable(&inside)).then(|| match metadata.uid() {
            0 if world.user() != 0 => ("cache-of-root", inside.clone(), "belongs to root".to_owned()),
            _ => ("cache-unwritable", inside.clone(), "may not be written to".to_owned()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::environment::tests::Folder;

    #[test]
    fn what_lies_above_a_cache_keeps_its_owner() {
        let folder = Folder::new("cache-above");
        let ours = rustix::process::geteuid().as_raw();
        let world = folder.world().with_user(ours + 1).with_variable("HOME", "/nonexistent");
        let looked = examine(&world);
        assert_eq!(looked.findings.len(), 2);
        for (finding, cache) in looked.findings.iter().zip([".npm", ".cache/uv"]) {
            assert!(!finding.advice.contains("chown"), "{}", finding.advice);
            assert!(finding.advice.contains(&format!("/nonexistent/{cache}, owned")), "{}", finding.advice);
        }
        // A cache of another's is given back, whatever it is called.
        folder.file("home/u/a b's/x", "");
        let looked = examine(&world.with_variable("npm_config_cache", "/home/u/a b's"));
        let advice = format!("sudo chown -R {} '/home/u/a b'\\''s'", ours + 1);
        assert_eq!(looked.findings[0].advice, advice);
    }
}
