//! Who we are to an authorization server: what was typed, what the entry says, or nobody yet.
//!
//! Used by `login` and `explain`. A secret comes from a file, from a variable or from the entry, never from the command line,
//! and is hidden from then on.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use mcpjoin_auth::{ClientIdentity, Secret};

use crate::args::AuthClient;
use crate::connect::{Access, CLIENT_SECRET, read_file};
use crate::failure::Failure;
use crate::target::shown;
use crate::ui::{Secrets, Ui};

/// A file with a secret, or with a key, is no larger.
const LARGEST: u64 = 64 << 10;
const FORM: &str = "--client-secret @FILE, or the variable MCPJOIN_CLIENT_SECRET";

/// Who we are. What is typed comes before what the entry says.
pub(super) fn of(ui: &Ui, typed: &AuthClient, access: &Access) -> Result<ClientIdentity, Failure> {
    if let Some(url) = &typed.client_metadata_url {
        return Ok(ClientIdentity::Document { url: url.clone() });
    }
    let entry = access.oauth();
    let Some(id) = typed.client_id.as_ref().or(entry.client_id.as_ref()) else {
        return Ok(ClientIdentity::default());
    };
    let of_entry = entry.client_secret.clone().filter(|_| typed.client_id.is_none());
    let secret = match &typed.client_secret {
        Some(word) => Some(of_word(word)?),
        None => of_variable()?.or(of_entry),
    };
    if let Some(secret) = &secret {
        ui.hide(Secrets::new(&[OsString::from(secret)]));
    }
    Ok(ClientIdentity::Registered {
        id: id.clone(),
        secret: secret.map(Secret::new),
        issuer: typed.issuer.clone(),
    })
}

fn of_word(word: &OsStr) -> Result<String, Failure> {
    let file = word.to_str().and_then(|word| word.strip_prefix('@')).filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| {
        Failure::usage("a secret does not stand on the command line, where other users can see it", FORM)
    })?;
    text(Path::new(file), "the secret", FORM)
}

fn of_variable() -> Result<Option<String>, Failure> {
    let Some(value) = std::env::var_os(CLIENT_SECRET).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text =
        value.into_string().map_err(|_| Failure::usage(format!("{CLIENT_SECRET} is not Unicode"), FORM))?;
    Ok(Some(text))
}

/// What a file holds, without the line feed at its end. `what`: it is, with its article.
pub(super) fn text(file: &Path, what: &str, form: &str) -> Result<String, Failure> {
    let name = shown(file.as_os_str());
    let cannot = |why: &str| Failure::usage(format!("{what} in {name} cannot be read: {why}"), form);
    let bytes = read_file(file, LARGEST).map_err(|why| cannot(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8"))?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() { Err(cannot("it is empty")) } else { Ok(text.to_owned()) }
}
