//! Which authorities TLS trusts here: variables that name certificates, and the store of the system.
//!
//! Used by `environment`. Whether a server's own certificate is signed by one of them is seen when it is connected to.
//! Certificates are in [PEM](https://www.rfc-editor.org/rfc/rfc7468).

use std::path::{Path, PathBuf};

use super::faults::{CERTIFICATES_NAMED_WRONG, NO_AUTHORITIES};
use super::{CheckResults, EnvironmentCheck as Check, World};

/// Variables that name certificates, and the programs that read them.
const VARIABLES: [(&str, &str); 6] = [
    ("SSL_CERT_FILE", "OpenSSL, Python, uv and mcpjoin"),
    ("SSL_CERT_DIR", "OpenSSL, Python, uv and mcpjoin"),
    ("NODE_EXTRA_CA_CERTS", "node, npx and npm"),
    ("REQUESTS_CA_BUNDLE", "Python's requests"),
    ("CURL_CA_BUNDLE", "curl"),
    ("DENO_CERT", "deno"),
];
/// Where systems keep the authorities that they trust.
const STORES: [&str; 7] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
];
/// How many files of a folder are looked at: one with a certificate is enough.
const MAX_FOLDER_FILES: usize = 50;

pub(super) fn examine(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    results.pass(Check::CertificateVariables);
    results.not_run(Check::Interception, "needs a target");
    // Each place once, with what names it.
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for (variable, readers) in VARIABLES {
        let Some(value) = world.set(variable) else { continue };
        // OpenSSL takes several folders.
        let places = match variable {
            "SSL_CERT_DIR" => std::env::split_paths(value).collect(),
            _ => vec![PathBuf::from(value)],
        };
        let value = value.to_string_lossy();
        let problems: Vec<&str> = places.iter().filter_map(|place| problem(world, place)).collect();
        if problems.len() < places.len() {
            match shown.iter_mut().find(|(place, _)| *place == value) {
                Some((_, names)) => names.push(variable),
                None => shown.push((value.into_owned(), vec![variable])),
            }
            continue;
        }
        let problem = problems.first().unwrap_or(&"names nothing");
        let consequence = match variable {
            "NODE_EXTRA_CA_CERTS" => "go on without it, and trust no certificate that it should have held",
            _ => "trust nobody: every connection over TLS fails",
        };
        let values = [("readers", readers), ("consequence", consequence), ("variable", variable)];
        let seen = format!("{variable} names {value}, which {problem}");
        results.fail(CERTIFICATES_NAMED_WRONG.found(seen, &values));
    }
    store(world, &mut results, &mut shown);
    notes(world, &mut results);
    let shown = shown.iter().map(|(place, names)| format!("{place} ({})", names.join(", ")));
    results.detail = shown.collect::<Vec<_>>().join(", ");
    results
}

/// What affects connections of our own: of the variables those that we read.
pub(super) fn ours(world: &World) -> CheckResults {
    let of_others = VARIABLES.iter().filter(|(variable, _)| !variable.starts_with("SSL_"));
    examine(&of_others.fold(world.clone(), |world, (variable, _)| world.without_variable(variable)))
}

fn store(world: &World, results: &mut CheckResults, shown: &mut Vec<(String, Vec<&str>)>) {
    if world.is_mac {
        return results.not_run(Check::CertificateStore, "the keychain is not looked into");
    }
    if let Some(store) = STORES.iter().find(|store| problem(world, Path::new(store)).is_none()) {
        results.pass(Check::CertificateStore);
        match shown.iter_mut().find(|(place, _)| place == store) {
            Some((_, names)) => names.insert(0, "the system's"),
            None => shown.push(((*store).to_owned(), vec!["the system's"])),
        }
    } else if world.set("SSL_CERT_FILE").or_else(|| world.set("SSL_CERT_DIR")).is_some() {
        results.not_run(Check::CertificateStore, "variables name other certificates");
    } else {
        let seen = "the system's store of certificates is empty, or there is none";
        results.fail(NO_AUTHORITIES.found(seen, &[]));
    }
}

fn notes(world: &World, results: &mut CheckResults) {
    if let (Some(file), None) = (world.set("SSL_CERT_FILE"), world.set("NODE_EXTRA_CA_CERTS")) {
        let own = file.to_string_lossy();
        if !STORES.contains(&&*own) {
            results.notes.push(format!(
                "SSL_CERT_FILE names {own}, which node and npx do not read: they need NODE_EXTRA_CA_CERTS"
            ));
        }
    }
    if world.set("NODE_TLS_REJECT_UNAUTHORIZED").is_some_and(|value| value == "0") {
        let note = "NODE_TLS_REJECT_UNAUTHORIZED is 0: node trusts everybody, also who stands between";
        results.notes.push(note.to_owned());
    }
}

/// Why a file or a folder holds no certificate that can be read. `None`: it holds one or more.
fn problem(world: &World, place: &Path) -> Option<&'static str> {
    let Some(metadata) = world.metadata(place) else { return Some("is not there") };
    if metadata.is_dir() {
        let names = world.list(place);
        let mut texts = names.iter().take(MAX_FOLDER_FILES).filter_map(|name| world.read(&place.join(name)));
        return (!texts.any(|text| has_certificate(&text))).then_some("is a folder without certificates");
    }
    match world.read(place) {
        None => Some("cannot be read"),
        Some(text) if has_certificate(&text) => None,
        // DER begins with this sign.
        Some(text) if text.starts_with('0') => Some("holds no certificate in PEM (it may be DER)"),
        Some(_) => Some("holds no certificate in PEM"),
    }
}

/// Whether there is a certificate in PEM: one whose text can be one.
fn has_certificate(text: &str) -> bool {
    const BEGIN: [&str; 2] = ["-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----"];
    let bodies = BEGIN.iter().flat_map(|begin| text.split(begin).skip(1));
    let mut whole = bodies.filter_map(|body| body.split_once("-----END").map(|(body, _)| body.trim()));
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "+/=".contains(c);
    // A sequence in DER begins so.
    whole.any(|body| body.starts_with('M') && body.len() > 100 && body.chars().all(is_base64))
}
