//! What servers need of the system and of the user's folders: the clock, a home, a folder of temporary files, open files,
//! and caches for npm and uv.
//!
//! Used by `environment`. It writes nothing. Where the caches are: <https://docs.npmjs.com/cli/v11/using-npm/config#cache>,
//! <https://docs.astral.sh/uv/concepts/cache/#cache-directory>.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::faults::{
    CACHE_NO_FOLDER, CACHE_OF_ROOT, CACHE_UNWRITABLE, CLOCK_BEHIND, CLOCK_WRONG, Fault, HOME_MISSING,
    HOME_UNSET, HOME_UNWRITABLE, OPEN_FILES_FEW, TEMPORARY_UNUSABLE,
};
use super::{CheckResults, EnvironmentCheck as Check, EnvironmentFinding, World};

/// A server with its pipes needs a handful of open files, node with its packages some hundred.
const MIN_OPEN_FILES: u64 = 256;
/// The first of January 2026, since the beginning of 1970: this program is younger.
const EARLIEST_TIME: Duration = Duration::from_secs(1_767_225_600);
/// The first of January 2100.
const LATEST_TIME: Duration = Duration::from_secs(4_102_444_800);
/// A file that was changed so much later than now was changed by a clock that was right.
const MAX_FILE_LEAD: Duration = Duration::from_secs(86_400);
/// What the system changes from time to time.
const SYSTEM_FILES: [&str; 10] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/resolv.conf",
    "/etc/mtab",
    "/etc/ld.so.cache",
    "/var/lib/dpkg/status",
    "/var/lib/rpm",
    "/var/log",
    "/var/log/wtmp",
    "/var/log/syslog",
    "/var/tmp",
];

pub(super) fn clock(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let year = year(world.now);
    if (EARLIEST_TIME..LATEST_TIME).contains(&world.now) {
        results.pass(Check::ClockYear);
        let later: Vec<&str> =
            SYSTEM_FILES.into_iter().filter(|file| is_of_the_future(world, file)).collect();
        // One alone may have been unpacked with a wrong time.
        if later.len() < 2 {
            results.pass(Check::ClockFiles);
        } else {
            let files = later[..later.len().min(3)].join(", ");
            let seen = format!("by the clock it is the year {year}, and {files} were changed later");
            results.fail(CLOCK_BEHIND.found(seen, &[]));
        }
    } else {
        results.fail(CLOCK_WRONG.found(format!("by the clock it is the year {year}"), &[]));
        results.not_run(Check::ClockFiles, "the clock is wrong");
    }
    results.detail = format!("the year {year}, and no file from the future");
    results
}

/// The year of the Gregorian calendar at that time after the beginning of 1970, in UTC.
const fn year(now: Duration) -> u64 {
    // Years begin in March here, so that a leap day is the last of its year; 400 years have 146,097 days.
    let day = now.as_secs() / 86_400 + 719_468;
    let day_of_era = day % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let is_after_new_year = day_of_year >= 306;
    day / 146_097 * 400 + year_of_era + is_after_new_year as u64
}

fn is_of_the_future(world: &World, file: &str) -> bool {
    let changed = world.metadata(Path::new(file)).and_then(|metadata| metadata.modified().ok());
    let changed = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    changed.is_some_and(|changed| changed > world.now.saturating_add(MAX_FILE_LEAD))
}

/// Home, folder of temporary files, and how many files may be open.
pub(super) fn room(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let (home, problem) = home(world);
    match problem {
        Some(finding) => results.fail(finding),
        None => results.pass(Check::Home),
    }
    let temporary = world.set("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let shown = temporary.display();
    match folder_problem(world, &temporary) {
        None => results.pass(Check::Temporary),
        Some(problem) => {
            let seen = format!("the folder of temporary files, {shown}, {problem}");
            results.fail(TEMPORARY_UNUSABLE.found(seen, &[]));
        }
    }
    match world.open_files {
        Some(limit) if limit < MIN_OPEN_FILES => {
            results.fail(OPEN_FILES_FEW.found(format!("at most {limit} files may be open at once"), &[]));
        }
        _ => results.pass(Check::OpenFiles),
    }
    let limit = world.open_files.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
    results.detail = format!("home {home}, temporary {shown}, {limit} open files");
    results
}

/// The home as it is shown, and what is wrong with it.
fn home(world: &World) -> (String, Option<EnvironmentFinding>) {
    let Some(written) = world.set("HOME") else {
        return ("not set".to_owned(), Some(HOME_UNSET.found("HOME is not set", &[])));
    };
    let shown = written.to_string_lossy().into_owned();
    let problem = match world.home() {
        None => Some("is no absolute path"),
        Some(home) => folder_problem(world, home),
    };
    let finding = problem.map(|problem| {
        let fault = if problem == UNWRITABLE { HOME_UNWRITABLE } else { HOME_MISSING };
        fault.found(format!("HOME is {shown}, which {problem}"), &[])
    });
    (shown, finding)
}

const UNWRITABLE: &str = "may not be written to";

/// Why a folder cannot be used.
fn folder_problem(world: &World, folder: &Path) -> Option<&'static str> {
    match world.metadata(folder) {
        None => Some("is not there"),
        Some(metadata) if !metadata.is_dir() => Some("is no folder"),
        Some(_) if !world.is_writable(folder) => Some(UNWRITABLE),
        Some(_) => None,
    }
}

/// Whether npm and uv can write to where they keep what they download.
pub(super) fn caches(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let mut shown = Vec::new();
    for (check, name, runner, folder) in
        [(Check::NpmCache, "npm", "npx", npm_cache(world)), (Check::UvCache, "uv", "uvx", uv_cache(world))]
    {
        let Some(folder) = folder else {
            results.not_run(check, "there is no home");
            continue;
        };
        match unwritable(world, name, &folder) {
            None => results.pass(check),
            Some((fault, place, why)) => {
                let quoted = quoted(&place);
                let advice = if place.starts_with(&folder) {
                    format!("sudo chown -R {} {quoted}", world.user)
                } else {
                    // What lies above the cache belongs to others, too: its owner stays.
                    let folder = self::quoted(&folder);
                    format!("make the folder {folder}, owned by you, or name another for the cache")
                };
                let (cache, at) = (folder.display(), place.display());
                let seen = format!("the cache of {name}, {cache}, cannot be used: {at} {why}");
                let values = [("runner", runner), ("place", &*quoted), ("advice", &*advice)];
                results.fail(EnvironmentFinding { check, ..fault.found(seen, &values) });
            }
        }
        let is_new = world.metadata(&folder).is_none();
        shown.push(format!("{name} {}{}", folder.display(), if is_new { " (not there yet)" } else { "" }));
    }
    results.detail = if shown.is_empty() { "there is no home".to_owned() } else { shown.join(", ") };
    results
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

/// The value of a variable that is an absolute path.
fn folder_of(world: &World, variable: &str) -> Option<PathBuf> {
    world.set(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The cache of npm: a variable, the last line of ~/.npmrc that names one, or its own.
fn npm_cache(world: &World) -> Option<PathBuf> {
    let named = folder_of(world, "npm_config_cache").or_else(|| folder_of(world, "NPM_CONFIG_CACHE"));
    if named.is_some() {
        return named;
    }
    let home = world.home()?;
    let text = world.read(&home.join(".npmrc")).unwrap_or_default();
    let mut values =
        text.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| name.trim() == "cache");
    let written = values.next_back().map(|(_, value)| {
        let home = home.display().to_string();
        PathBuf::from(value.trim().trim_matches('"').replace("${HOME}", &home).replacen('~', &home, 1))
    });
    Some(written.filter(|folder| folder.is_absolute()).unwrap_or_else(|| home.join(".npm")))
}

fn uv_cache(world: &World) -> Option<PathBuf> {
    let own = if world.is_mac { "Library/Caches/uv" } else { ".cache/uv" };
    folder_of(world, "UV_CACHE_DIR")
        .or_else(|| Some(folder_of(world, "XDG_CACHE_HOME")?.join("uv")))
        .or_else(|| Some(world.home()?.join(own)))
}

/// The first place that keeps a cache from being written to, and why.
fn unwritable(world: &World, name: &str, folder: &Path) -> Option<(Fault, PathBuf, String)> {
    // What is not there yet is made in the folder above.
    let there = folder.ancestors().find(|folder| world.metadata(folder).is_some())?;
    if !world.metadata(there)?.is_dir() {
        return Some((CACHE_NO_FOLDER, there.to_owned(), "is no folder".to_owned()));
    }
    // `sudo npm` leaves folders of root's inside.
    let inside: &[&str] = match name {
        "npm" if there == folder => &["_cacache", "_cacache/tmp", "_npx", "_logs"],
        _ => &[],
    };
    let places = std::iter::once(there.to_owned()).chain(inside.iter().map(|inside| folder.join(inside)));
    places.into_iter().find_map(|place| {
        let owner = world.metadata(&place)?.uid();
        (!world.is_writable(&place)).then(|| match owner {
            0 if world.user != 0 => (CACHE_OF_ROOT, place, "belongs to root".to_owned()),
            owner if owner != world.user => (CACHE_UNWRITABLE, place, format!("belongs to the user {owner}")),
            _ => (CACHE_UNWRITABLE, place, UNWRITABLE.to_owned()),
        })
    })
}
