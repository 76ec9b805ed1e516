//! `mcpjoin auth status` and `mcpjoin auth logout`: stored logins, shown or removed. `status` sends nothing. No secret is
//! shown.

use std::path::Path;
use std::time::SystemTime;

use mcpjoin_auth::{FileStore, Login, Logout, OAuth, OAuthBuilder};
use serde_json::{Value, json};

use super::{TOTAL_TIMEOUT, connecting, failures, folder, format, reaching, with_access, without_server};
use crate::args;
use crate::commands::{present, print_page, report_failures};
use crate::connect::{Access, certificates, unusable_login};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::path_shown;
use crate::ui::{BAD, HEADING, Ui};
use crate::visible;

/// A stored login, or why it cannot be read.
struct StoredLogin {
    server: String,
    login: Result<Login, String>,
}

/// Shows stored logins.
pub(super) fn status(ui: &Ui, args: args::Status) -> Result<Exit, Failure> {
    let folder = folder()?;
    let args::Status { target, named, output: _ } = args;
    if target.is_none() && named.server.is_none() {
        return Ok(without_server(ui, TOTAL_TIMEOUT, async || {
            let (stored, unread) = load_all(&folder).await?;
            let text = if ui.json {
                status_document(&stored, &folder).to_string()
            } else {
                status_page(&stored, &folder)
            };
            // "Nothing is stored" would be wrong if a file could not be read.
            let is_said = ui.json || unread.is_empty() || !stored.is_empty();
            let exit = if is_said { print_page(ui, ui.hidden(&text).into_owned()).await } else { Exit::Done };
            report_failures(ui, unread).map(|_| exit)
        }));
    }
    let connect = connecting(named, None, None);
    with_access(ui, "status", target, &connect, TOTAL_TIMEOUT, async |access| {
        status_of(ui, access, &folder).await
    })
}

async fn status_of(ui: &Ui, access: &Access, folder: &Path) -> Result<Exit, Failure> {
    let nothing = |problem: String| {
        Failure::new("E_AUTH", Exit::Authorization, Phase::Authorize, problem).hint(access.line(&[]))
    };
    let login = load(access.url(), folder).await?;
    let Some(found) = login else {
        return Err(nothing(format!("no login is stored for it in {}", path_shown(folder))));
    };
    let is_usable = found.refreshable || !format::is_expired(&found, SystemTime::now());
    let text =
        if ui.json { format::document(&found, folder).to_string() } else { format::page(&found, folder) };
    let exit = print_page(ui, ui.hidden(&text).into_owned()).await;
    if exit == Exit::Done && !is_usable {
        return Err(nothing("the stored login has expired and cannot be renewed".into()));
    }
    Ok(exit)
}

/// Loads the login for a server.
async fn load(server: &str, folder: &Path) -> Result<Option<Login>, Failure> {
    let oauth = OAuth::builder(server).store(FileStore::at(folder)).build();
    let oauth = oauth.map_err(|error| unusable_login(&error))?;
    oauth.status().await.map_err(failures::of_store)
}

/// Loads all logins in the order of their servers. A file that cannot be read is a failure of its own.
async fn load_all(folder: &Path) -> Result<(Vec<StoredLogin>, Vec<Failure>), Failure> {
    let found = FileStore::at(folder).servers().await.map_err(|error| failures::store(&error))?;
    let unread = found.unread.iter().map(failures::store).collect();
    let mut stored = Vec::new();
    for server in found.servers {
        let login = match load(&server, folder).await {
            Ok(Some(login)) => Ok(login),
            // Removed meanwhile.
            Ok(None) => continue,
            Err(failure) => Err(failure.message),
        };
        stored.push(StoredLogin { server, login });
    }
    Ok((stored, unread))
}

fn status_page(stored: &[StoredLogin], folder: &Path) -> String {
    let folder = path_shown(folder);
    if stored.is_empty() {
        return format!("no logins are stored in {folder}");
    }
    let mut out = String::new();
    for StoredLogin { server, login } in stored {
        out.push_str(&format!("{HEADING}{}{HEADING:#}\n", visible::line(server)));
        match login {
            Ok(login) => out.push_str(&format::rows(login, "  ")),
            Err(problem) => out.push_str(&format!("  {BAD}unusable{BAD:#}   {}\n", visible::line(problem))),
        }
        out.push('\n');
    }
    let count = match stored.len() {
        1 => "1 login".to_owned(),
        count => format!("{count} logins"),
    };
    format!("{out}{count}, stored in {folder}")
}

fn status_document(stored: &[StoredLogin], folder: &Path) -> Value {
    let logins: Vec<Value> = stored
        .iter()
        .map(|StoredLogin { server, login }| match login {
            Ok(login) => format::login(login),
            Err(problem) => json!({ "server": server, "problem": problem }),
        })
        .collect();
    json!({ "storedIn": folder.to_string_lossy(), "logins": logins })
}

// ---- logout ----

/// Removes stored logins.
pub(super) fn logout(ui: &Ui, args: args::Logout) -> Result<Exit, Failure> {
    let folder = folder()?;
    let args::Logout { target, all, reach, output: _ } = args;
    let (connect, within) = reaching(reach);
    if !all {
        return with_access(ui, "logout", target, &connect, within, async |access| {
            logout_of(ui, access, &folder).await
        });
    }
    let extra_ca = match &connect.ca {
        Some(path) => Some(certificates("--ca", path)?),
        None => None,
    };
    Ok(without_server(ui, within, async || {
        let mut outcomes = Vec::new();
        let (logins, mut failed) = load_all(&folder).await?;
        for stored in logins {
            let mut builder = OAuth::builder(&stored.server);
            if let Some(pem) = &extra_ca {
                builder = builder.extra_ca(pem.clone());
            }
            if let Some(time) = connect.connect_timeout {
                builder = builder.connect_timeout(time);
            }
            match revoke(builder, &folder).await {
                Ok(logout) => outcomes.push((stored.server, logout)),
                // The other logins are removed all the same.
                Err(failure) => failed.push(failure),
            }
        }
        let text = if ui.json {
            json!({ "logouts": outcomes.iter().map(|(server, it)| logout_document(server, it)).collect::<Vec<_>>() })
                .to_string()
        } else if outcomes.is_empty() && failed.is_empty() {
            format!("no logins are stored in {}", path_shown(&folder))
        } else {
            outcomes.iter().map(|(server, it)| logout_sentence(server, it)).collect::<Vec<_>>().join("\n")
        };
        outcomes.iter().for_each(|(server, logout)| warn_not_revoked(ui, server, logout));
        let exit = print_page(ui, ui.hidden(&text).into_owned()).await;
        report_failures(ui, failed).map(|_| exit)
    }))
}

async fn logout_of(ui: &Ui, access: &Access, folder: &Path) -> Result<Exit, Failure> {
    let oauth = access.builder().store(FileStore::at(folder)).build();
    let oauth = oauth.map_err(|error| unusable_login(&error))?;
    let logout = oauth.logout().await.map_err(|error| failures::failure(&error, access))?;
    let text = if ui.json {
        logout_document(access.url(), &logout).to_string()
    } else {
        logout_sentence(access.url(), &logout)
    };
    warn_not_revoked(ui, access.url(), &logout);
    Ok(print_page(ui, ui.hidden(&text).into_owned()).await)
}

async fn revoke(builder: OAuthBuilder, folder: &Path) -> Result<Logout, Failure> {
    let oauth = builder.store(FileStore::at(folder)).build().map_err(|error| unusable_login(&error))?;
    oauth.logout().await.map_err(failures::of_store)
}

/// The outcome of a logout for a person.
fn logout_sentence(server: &str, logout: &Logout) -> String {
    let server = visible::line(server);
    match (logout.stored, &logout.revoked) {
        (false, _) => format!("no login was stored for {server}"),
        (true, Some(Ok(()))) => format!("{server}: revoked and deleted"),
        (true, Some(Err(_))) => format!("{server}: deleted, not revoked"),
        (true, None) => format!("{server}: deleted; its authorization server has no revocation"),
    }
}

fn warn_not_revoked(ui: &Ui, server: &str, logout: &Logout) {
    if let Some(Err(why)) = &logout.revoked {
        ui.warning(&format!(
            "{server}: the authorization server did not revoke the tokens ({why}): they may work until they expire"
        ));
    }
}

/// The outcome of a logout for a program.
fn logout_document(server: &str, logout: &Logout) -> Value {
    let revoked = logout.revoked.as_ref();
    present(json!({
        "server": server,
        "forgotten": logout.stored,
        "revoked": revoked.map(Result::is_ok),
        "problem": revoked.and_then(|revoked| revoked.as_ref().err()),
    }))
}
