//! Which authorities TLS trusts here: variables that name certificates, and the store of the system.
//!
//! Called by `environment`. Whether a server's own certificate is signed by one of them is seen when it is connected to.
//! Certificates are in [PEM](https://www.rfc-editor.org/rfc/rfc7468).

use std::path::{Path, PathBuf};

use super::world::System;
use super::{EnvironmentCheck as Check, Looked, NO_TARGET, World};

/// Variables that name a file of certificates, and who reads them.
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
/// Of a folder so many files are looked at: one with a certificate is enough.
const ENOUGH: usize = 50;

/// What is found where certificates should be.
enum Held {
    /// One or more.
    Some,
    Problem(&'static str),
}

pub(super) fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    looked.pass(Check::CertificateVariables);
    looked.not_run(Check::Interception, NO_TARGET);
    // Each place once, with what names it.
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    let mut replaced = false;
    for (variable, readers) in VARIABLES {
        let Some(value) = world.set(variable) else { continue };
        replaced |= variable.starts_with("SSL_");
        // OpenSSL takes several folders.
        let is_list = variable == "SSL_CERT_DIR";
        let places: Vec<PathBuf> =
            if is_list { std::env::split_paths(value).collect() } else { vec![PathBuf::from(value)] };
        let held: Vec<Held> =
            places.iter().map(|place| held(world, place, variable == "DENO_CERT")).collect();
        let shown_value = value.to_string_lossy();
        if held.iter().any(|held| matches!(held, Held::Some)) {
            match shown.iter_mut().find(|(place, _)| *place == shown_value) {
                Some((_, names)) => names.push(variable),
                None => shown.push((shown_value.into_owned(), vec![variable])),
            }
            continue;
        }
        let problem = held.iter().find_map(|held| match held {
            Held::Problem(problem) => Some(*problem),
            Held::Some => None,
        });
        let problem = problem.unwrap_or("names nothing");
        let meaning = match variable {
            "NODE_EXTRA_CA_CERTS" => {
                format!("{readers} go on without it, and trust no certificate that it should have held")
            }
            _ => format!("{readers} trust nobody: every connection over TLS fails"),
        };
        looked.fail(
            Check::CertificateVariables,
            "certificates-named-wrong",
            format!("{variable} names {shown_value}, which {problem}"),
            meaning,
            format!(
                "mend or unset {variable}; the system's own are mostly in /etc/ssl/certs/ca-certificates.crt"
            ),
        );
    }
    store(world, replaced, &mut looked, &mut shown);
    notes(world, &mut looked);
    let shown = shown.iter().map(|(place, names)| format!("{place} ({})", names.join(", ")));
    looked.detail = shown.collect::<Vec<_>>().join(", ");
    looked
}

/// What bears on connections of our own: of the variables those that we read.
pub(super) fn ours(world: &World) -> Looked {
    let others =
        VARIABLES.iter().map(|(variable, _)| variable).filter(|variable| !variable.starts_with("SSL_"));
    examine(&others.fold(world.clone(), World::without_variable))
}

fn store(world: &World, replaced: bool, looked: &mut Looked, shown: &mut Vec<(String, Vec<&str>)>) {
    if world.system() == System::Mac {
        return looked.not_run(Check::CertificateStore, "the keychain is not looked into");
    }
    let found = STORES.iter().find(|store| matches!(held(world, Path::new(store), true), Held::Some));
    match found {
        Some(store) => {
            looked.pass(Check::CertificateStore);
            match shown.iter_mut().find(|(place, _)| place == store) {
                Some((_, names)) => names.insert(0, "the system's"),
                None => shown.push(((*store).to_owned(), vec!["the system's"])),
            }
        }
        None if replaced => looked.not_run(Check::CertificateStore, "variables name other certificates"),
        None => looked.fail(
            Check::CertificateStore,
            "no-authorities",
            "the system's store of certificates is empty, or there is none",
            "nobody is trusted: every connection over TLS fails",
            "install the package ca-certificates",
        ),
    }
}

fn notes(world: &World, looked: &mut Looked) {
    if let (Some(file), None) = (world.set("SSL_CERT_FILE"), world.set("NODE_EXTRA_CA_CERTS")) {
        let own = file.to_string_lossy();
        if !STORES.contains(&&*own) {
            looked.notes.push(format!(
                "SSL_CERT_FILE names {own}, which node and npx do not read: they need NODE_EXTRA_CA_CERTS"
            ));
        }
    }
    if world.set("NODE_TLS_REJECT_UNAUTHORIZED").is_some_and(|value| value == "0") {
        let note = "NODE_TLS_REJECT_UNAUTHORIZED is 0: node trusts everybody, also who stands between";
        looked.notes.push(note.to_owned());
    }
}

/// Whether a file or a folder holds certificates.
fn held(world: &World, place: &Path, any_form: bool) -> Held {
    let Some(metadata) = world.metadata(place) else {
        return Held::Problem("is not there");
    };
    if metadata.is_dir() {
        let names = world.list(place);
        let mut files = names.iter().take(ENOUGH).map(|name| place.join(name));
        let holds = |file: PathBuf| world.read(&file).is_some_and(|text| has_certificate(&text));
        return if files.any(holds) { Held::Some } else { Held::Problem("is a folder without certificates") };
    }
    let Some(text) = world.read(place) else {
        return Held::Problem("cannot be read");
    };
    if has_certificate(&text) {
        Held::Some
    } else if text.starts_with('0') && !any_form {
        // DER begins with this sign.
        Held::Problem("holds no certificate in PEM (it may be DER)")
    } else {
        Held::Problem("holds no certificate in PEM")
    }
}

/// Whether there is a certificate in PEM: one whose text can be one.
fn has_certificate(text: &str) -> bool {
    const BEGIN: [&str; 2] = ["-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----"];
    let bodies = BEGIN.iter().flat_map(|begin| text.split(begin).skip(1));
    let mut whole = bodies.filter_map(|body| body.split_once("-----END").map(|(body, _)| body.trim()));
    let sign = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "+/=".contains(c);
    // A sequence in DER begins so.
    whole.any(|body| body.starts_with('M') && body.len() > 100 && body.chars().all(sign))
}
