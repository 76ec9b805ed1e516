//! The state of the system and of the user's folders: the clock, the home, the folder of temporary files, open files, the
//! caches of npm and uv, and the certificates that TLS trusts.
//!
//! Used by `environment`. It writes nothing. Whether a server's certificate is signed by a trusted authority shows only when
//! it is connected to. Locations of caches: <https://docs.npmjs.com/cli/v11/using-npm/config#cache>,
//! <https://docs.astral.sh/uv/concepts/cache/#cache-directory>. Certificates are in
//! [PEM](https://www.rfc-editor.org/rfc/rfc7468).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use time::OffsetDateTime;

use super::super::findings::Kind;
use super::faults::*;
use super::{CheckResults, EnvironmentCheck as Check, EnvironmentFinding, World};

/// A server with its pipes needs a handful of open files, node with its packages several hundred.
const MIN_OPEN_FILES: u64 = 256;
/// The first of January 2026, since the beginning of 1970: this program is younger.
const EARLIEST_TIME: Duration = Duration::from_secs(1_767_225_600);
/// The first of January 2100.
const LATEST_TIME: Duration = Duration::from_secs(4_102_444_800);
/// A file that was changed this much later than now was changed while the clock was right.
const MAX_FILE_LEAD: Duration = Duration::from_secs(86_400);
/// Files that the system changes from time to time.
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
/// Variables that name certificates, and the programs that read them.
const CERTIFICATE_VARIABLES: [(&str, &str); 6] = [
    ("SSL_CERT_FILE", "OpenSSL, Python, uv and mcpjoin"),
    ("SSL_CERT_DIR", "OpenSSL, Python, uv and mcpjoin"),
    ("NODE_EXTRA_CA_CERTS", "node, npx and npm"),
    ("REQUESTS_CA_BUNDLE", "Python's requests"),
    ("CURL_CA_BUNDLE", "curl"),
    ("DENO_CERT", "deno"),
];
/// The places in which systems keep the authorities that they trust.
const CERTIFICATE_STORES: [&str; 7] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
];
/// Files of a folder that are searched for a certificate: one is enough.
const MAX_FOLDER_FILES: usize = 50;

/// Checks the clock.
pub(super) fn clock(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let now = i64::try_from(world.now.as_secs()).ok().map(OffsetDateTime::from_unix_timestamp);
    // The last year that `time` knows is 9999.
    let year = now.and_then(Result::ok).map_or(10_000, OffsetDateTime::year);
    if (EARLIEST_TIME..LATEST_TIME).contains(&world.now) {
        results.pass(Check::ClockYear);
        let later: Vec<&str> =
            SYSTEM_FILES.into_iter().filter(|file| is_in_the_future(world, file)).collect();
        // A single one may have been unpacked with a wrong time.
        if later.len() < 2 {
            results.pass(Check::ClockFiles);
        } else {
            let files = later[..later.len().min(3)].join(", ");
            let seen = format!("the clock shows the year {year}, but {files} were changed later");
            results.fail(CLOCK_BEHIND.found(seen, &[]));
        }
    } else {
        results.fail(CLOCK_WRONG.found(format!("the clock shows the year {year}"), &[]));
        results.not_run(Check::ClockFiles, "the clock is wrong");
    }
    results.detail = format!("the system clock looks right ({year})");
    results
}

fn is_in_the_future(world: &World, file: &str) -> bool {
    let changed = world.metadata(Path::new(file)).and_then(|metadata| metadata.modified().ok());
    let changed = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    changed.is_some_and(|changed| changed > world.now.saturating_add(MAX_FILE_LEAD))
}

/// Checks the home, the folder of temporary files, and how many files may be open.
pub(super) fn resources(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let home = world.set("HOME").map(|home| home.to_string_lossy().into_owned());
    let fault = match &home {
        None => Some(HOME_UNSET.found("HOME is not set", &[])),
        Some(home) => {
            let problem = match world.home() {
                None => Some("is not an absolute path"),
                Some(home) => folder_problem(world, home),
            };
            problem.map(|problem| {
                let kind = if problem == UNWRITABLE { HOME_UNWRITABLE } else { HOME_MISSING };
                kind.found(format!("HOME is {home}, which {problem}"), &[])
            })
        }
    };
    results.decide(Check::Home, fault);
    let temporary = world.set("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let shown = temporary.display();
    let fault = folder_problem(world, &temporary)
        .map(|problem| TEMPORARY_UNUSABLE.found(format!("the temporary folder, {shown}, {problem}"), &[]));
    results.decide(Check::Temporary, fault);
    let few = world.open_files.filter(|limit| *limit < MIN_OPEN_FILES);
    let fault = few.map(|limit| OPEN_FILES_FEW.found(format!("the limit of open files is {limit}"), &[]));
    results.decide(Check::OpenFiles, fault);
    let home = home.unwrap_or_else(|| "not set".to_owned());
    let limit =
        world.open_files.map_or_else(|| "an unlimited number of".to_owned(), |limit| limit.to_string());
    results.detail = format!("home {home}, temporary {shown}, {limit} open files");
    results
}

const UNWRITABLE: &str = "is not writable";

/// Why a folder cannot be used.
fn folder_problem(world: &World, folder: &Path) -> Option<&'static str> {
    match world.metadata(folder) {
        None => Some("does not exist"),
        Some(metadata) if !metadata.is_dir() => Some("is not a folder"),
        Some(_) if !world.is_writable(folder) => Some(UNWRITABLE),
        Some(_) => None,
    }
}

/// Checks whether npm and uv can write to their caches.
pub(super) fn caches(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let mut shown = Vec::new();
    for (check, name, runner, folder) in
        [(Check::NpmCache, "npm", "npx", npm_cache(world)), (Check::UvCache, "uv", "uvx", uv_cache(world))]
    {
        let Some(folder) = folder else {
            results.not_run(check, "there is no home folder");
            continue;
        };
        let fault = cache_problem(world, name, &folder).map(|(kind, place, why)| {
            let advice = if place.starts_with(&folder) {
                format!("sudo chown -R {} {}", world.user, quoted(&place))
            } else {
                // A folder above the cache has other uses: its owner stays.
                let folder = quoted(&folder);
                format!("create the folder {folder}, owned by you, or choose another cache folder")
            };
            let (cache, at) = (folder.display(), place.display());
            let seen = format!("the cache of {name}, {cache}, is unusable: {at} {why}");
            let values = [("runner", runner), ("place", &*quoted(&place)), ("advice", &*advice)];
            EnvironmentFinding { check, ..kind.found(seen, &values) }
        });
        results.decide(check, fault);
        let is_new = world.metadata(&folder).is_none();
        shown.push(format!(
            "{name} {}{}",
            folder.display(),
            if is_new { " (does not exist yet)" } else { "" }
        ));
    }
    results.detail = if shown.is_empty() { "there is no home folder".to_owned() } else { shown.join(", ") };
    results
}

/// A path, quoted for a shell if necessary.
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

/// The cache of npm: from a variable, from the last line of ~/.npmrc that names one, or the default.
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
    let default = if world.is_mac { "Library/Caches/uv" } else { ".cache/uv" };
    folder_of(world, "UV_CACHE_DIR")
        .or_else(|| Some(folder_of(world, "XDG_CACHE_HOME")?.join("uv")))
        .or_else(|| Some(world.home()?.join(default)))
}

/// The first place because of which a cache cannot be written to, and why.
fn cache_problem(world: &World, name: &str, folder: &Path) -> Option<(Kind<Check>, PathBuf, String)> {
    // A folder that does not exist is made in the folder above.
    let existing = folder.ancestors().find(|folder| world.metadata(folder).is_some())?;
    if !world.metadata(existing)?.is_dir() {
        return Some((CACHE_NO_FOLDER, existing.to_owned(), "is not a folder".to_owned()));
    }
    // `sudo npm` leaves folders inside that belong to root.
    let inside: &[&str] = match name {
        "npm" if existing == folder => &["_cacache", "_cacache/tmp", "_npx", "_logs"],
        _ => &[],
    };
    let places = std::iter::once(existing.to_owned()).chain(inside.iter().map(|inside| folder.join(inside)));
    places.into_iter().find_map(|place| {
        let owner = world.metadata(&place)?.uid();
        (!world.is_writable(&place)).then(|| match owner {
            0 if world.user != 0 => (CACHE_OF_ROOT, place, "belongs to root".to_owned()),
            owner if owner != world.user => (CACHE_UNWRITABLE, place, format!("belongs to the user {owner}")),
            _ => (CACHE_UNWRITABLE, place, UNWRITABLE.to_owned()),
        })
    })
}

/// Checks the variables that name certificates, and the system's store.
pub(super) fn certificates(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    results.pass(Check::CertificateVariables);
    results.not_run(Check::Interception, "needs a target");
    // Each place once, with the names of its variables.
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for (variable, readers) in CERTIFICATE_VARIABLES {
        let Some(value) = world.set(variable) else { continue };
        // OpenSSL accepts several folders.
        let places = match variable {
            "SSL_CERT_DIR" => std::env::split_paths(value).collect(),
            _ => vec![PathBuf::from(value)],
        };
        let value = value.to_string_lossy();
        let problems: Vec<&str> =
            places.iter().filter_map(|place| certificate_problem(world, place)).collect();
        if problems.len() < places.len() {
            match shown.iter_mut().find(|(place, _)| *place == value) {
                Some((_, names)) => names.push(variable),
                None => shown.push((value.into_owned(), vec![variable])),
            }
            continue;
        }
        let problem = problems.first().unwrap_or(&"names nothing");
        let consequence = match variable {
            "NODE_EXTRA_CA_CERTS" => "ignore it, and do not trust the certificates that it should contain",
            _ => "trust no certificate: every TLS connection fails",
        };
        let values = [("readers", readers), ("consequence", consequence), ("variable", variable)];
        let seen = format!("{variable} names {value}, which {problem}");
        results.fail(CERTIFICATES_NAMED_WRONG.found(seen, &values));
    }
    certificate_store(world, &mut results, &mut shown);
    certificate_notes(world, &mut results);
    let shown = shown.iter().map(|(place, names)| format!("{place} ({})", names.join(", ")));
    results.detail = shown.collect::<Vec<_>>().join(", ");
    results
}

/// The same with only those variables that mcpjoin reads.
pub(super) fn own_certificates(world: &World) -> CheckResults {
    let of_others = CERTIFICATE_VARIABLES.iter().filter(|(variable, _)| !variable.starts_with("SSL_"));
    certificates(&of_others.fold(world.clone(), |world, (variable, _)| world.without_variable(variable)))
}

fn certificate_store(world: &World, results: &mut CheckResults, shown: &mut Vec<(String, Vec<&str>)>) {
    if world.is_mac {
        return results.not_run(Check::CertificateStore, "the keychain was not read");
    }
    let mut stores = CERTIFICATE_STORES.iter();
    if let Some(store) = stores.find(|store| certificate_problem(world, Path::new(store)).is_none()) {
        results.pass(Check::CertificateStore);
        match shown.iter_mut().find(|(place, _)| place == store) {
            Some((_, names)) => names.insert(0, "the system's"),
            None => shown.push(((*store).to_owned(), vec!["the system's"])),
        }
    } else if world.set("SSL_CERT_FILE").or_else(|| world.set("SSL_CERT_DIR")).is_some() {
        results.not_run(Check::CertificateStore, "variables select other certificates");
    } else {
        let seen = "the system's certificate store is empty or missing";
        results.fail(NO_AUTHORITIES.found(seen, &[]));
    }
}

fn certificate_notes(world: &World, results: &mut CheckResults) {
    if let (Some(file), None) = (world.set("SSL_CERT_FILE"), world.set("NODE_EXTRA_CA_CERTS")) {
        let file = file.to_string_lossy();
        if !CERTIFICATE_STORES.contains(&&*file) {
            results.notes.push(format!(
                "SSL_CERT_FILE names {file}, but node and npx do not read it: they need NODE_EXTRA_CA_CERTS"
            ));
        }
    }
    if world.set("NODE_TLS_REJECT_UNAUTHORIZED").is_some_and(|value| value == "0") {
        let note = "NODE_TLS_REJECT_UNAUTHORIZED is 0: node accepts every certificate, also that of an \
            attacker";
        results.notes.push(note.to_owned());
    }
}

/// Why a file or a folder has no readable certificate. `None`: it has one or more.
fn certificate_problem(world: &World, place: &Path) -> Option<&'static str> {
    let Some(metadata) = world.metadata(place) else { return Some("does not exist") };
    if metadata.is_dir() {
        let names = world.list(place);
        let mut texts = names.iter().take(MAX_FOLDER_FILES).filter_map(|name| world.read(&place.join(name)));
        return (!texts.any(|text| has_certificate(&text))).then_some("is a folder without certificates");
    }
    match world.read(place) {
        None => Some("cannot be read"),
        Some(text) if has_certificate(&text) => None,
        // DER begins with the tag of a sequence, which is this character.
        Some(text) if text.starts_with('0') => Some("contains no certificate in PEM (it may be DER)"),
        Some(_) => Some("contains no certificate in PEM"),
    }
}

/// Whether the text has a certificate in PEM, with a body that may be one.
fn has_certificate(text: &str) -> bool {
    const BEGIN: [&str; 2] = ["-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----"];
    let bodies = BEGIN.iter().flat_map(|begin| text.split(begin).skip(1));
    let mut whole = bodies.filter_map(|body| body.split_once("-----END").map(|(body, _)| body.trim()));
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "+/=".contains(c);
    // A sequence in DER begins with this character in base64.
    whole.any(|body| body.starts_with('M') && body.len() > 100 && body.chars().all(is_base64))
}
