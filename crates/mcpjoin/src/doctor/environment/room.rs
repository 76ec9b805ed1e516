//! Home, folder of temporary files, and how many files may be open.
//!
//! Called by `environment`. It writes nothing.

use std::path::PathBuf;

use super::{EnvironmentCheck as Check, Looked, World};

/// A server with its pipes takes a handful, node and its packages some hundred.
const FEW: u64 = 256;

pub(super) fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    let home = home(world, &mut looked);
    let temporary = temporary(world, &mut looked);
    match world.open_files() {
        Some(limit) if limit < FEW => looked.fail(
            Check::OpenFiles,
            "open-files-few",
            format!("at most {limit} files may be open at once"),
            "several servers at once, or one of node's with many packages, run out of them (EMFILE, \"too many open files\")",
            "raise the limit: ulimit -n 4096 in the shell, LimitNOFILE= in a service",
        ),
        _ => looked.pass(Check::OpenFiles),
    }
    let limit = world.open_files().map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
    looked.detail = format!("home {home}, temporary {temporary}, {limit} open files");
    looked
}

fn home(world: &World, looked: &mut Looked) -> String {
    let Some(written) = world.set("HOME") else {
        looked.fail(
            Check::Home,
            "home-missing",
            "HOME is not set",
            "programs find neither their settings nor a place for their caches",
            "set HOME: a service of the system gets it with User=, cron and containers have to be told",
        );
        return "not set".into();
    };
    let shown = written.to_string_lossy().into_owned();
    let mut fail = |id, seen: String| {
        let meaning = "programs find neither their settings nor a place for their caches";
        looked.fail(Check::Home, id, seen, meaning, "set HOME to a folder of the user's own");
    };
    match world.home().map(|home| (home, world.metadata(home))) {
        None => fail("home-missing", format!("HOME is {shown}, which is no absolute path")),
        Some((_, None)) => fail("home-missing", format!("HOME is {shown}, which is not there")),
        Some((_, Some(metadata))) if !metadata.is_dir() => {
            fail("home-missing", format!("HOME is {shown}, which is no folder"));
        }
        Some((home, _)) if !world.is_writable(home) => {
            fail("home-unwritable", format!("HOME is {shown}, which may not be written to"));
        }
        _ => looked.pass(Check::Home),
    }
    shown
}

fn temporary(world: &World, looked: &mut Looked) -> String {
    let folder = world.set("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let shown = folder.display().to_string();
    let problem = match world.metadata(&folder) {
        None => Some("is not there"),
        Some(metadata) if !metadata.is_dir() => Some("is no folder"),
        Some(_) if !world.is_writable(&folder) => Some("may not be written to"),
        Some(_) => None,
    };
    match problem {
        None => looked.pass(Check::Temporary),
        Some(problem) => looked.fail(
            Check::Temporary,
            "temporary-unusable",
            format!("the folder of temporary files, {shown}, {problem}"),
            "npx, uvx and many servers cannot start",
            "make the folder, or set TMPDIR to one that can be written to",
        ),
    }
    shown
}
