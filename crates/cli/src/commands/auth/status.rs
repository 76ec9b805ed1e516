//! `mcpjoin auth status`: what is stored, and for how long it can be used. Nothing is sent, and nothing secret is shown.

use std::path::Path;
use std::time::SystemTime;

use mcpjoin_auth::{FileStore, Login, OAuth};
use serde_json::{Value, json};

use super::{WITHIN, connecting, folder, login, printed, refusal, with_access, without_server, words};
use crate::args;
use crate::commands::list::failed;
use crate::connect::Access;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::{BAD, HEADING, Ui};
use crate::visible;

/// One login, or why it cannot be read.
pub(super) struct Kept {
    pub(super) server: String,
    pub(super) login: Result<Login, String>,
}

/// Shows it.
pub(super) fn run(ui: &Ui, args: args::Status) -> Result<Exit, Failure> {
    let folder = folder()?;
    let args::Status { target, named, output: _ } = args;
    if target.is_none() && named.server.is_none() {
        return Ok(without_server(ui, WITHIN, async || {
            let (kept, unread) = all(&folder).await?;
            let text = if ui.json { document(&kept, &folder).to_string() } else { page(&kept, &folder) };
            // That there is nothing would not be true where there is what nobody has read.
            let is_said = ui.json || unread.is_empty() || !kept.is_empty();
            let exit = if is_said { printed(ui, ui.hidden(&text).into_owned()).await } else { Exit::Done };
            failed(ui, unread).map(|_| exit)
        }));
    }
    let connect = connecting(named, None, None);
    with_access(ui, "status", target, &connect, WITHIN, async |access| one(ui, access, &folder).await)
}

async fn one(ui: &Ui, access: &Access, folder: &Path) -> Result<Exit, Failure> {
    let nothing = |problem: String| {
        Failure::new("E_AUTH", Exit::Authorization, Phase::Authorize, problem).hint(access.line(&[]))
    };
    let login = of(access.url(), folder).await?;
    let Some(found) = login else {
        return Err(nothing(format!("nothing is stored for it in {}", shown(folder.as_os_str()))));
    };
    let is_usable = found.refreshable || !words::is_over(&found, SystemTime::now());
    let text =
        if ui.json { login::document(&found, folder).to_string() } else { login::page(&found, folder) };
    let exit = printed(ui, ui.hidden(&text).into_owned()).await;
    if exit == Exit::Done && !is_usable {
        return Err(nothing("what is stored for it is over, and cannot be renewed".into()));
    }
    Ok(exit)
}

/// What is stored for that server.
async fn of(server: &str, folder: &Path) -> Result<Option<Login>, Failure> {
    let oauth = OAuth::builder(server).store(FileStore::at(folder)).build();
    let oauth = oauth.map_err(|error| crate::connect::unusable_login(&error))?;
    oauth.status().await.map_err(refusal::of_store)
}

/// All that is stored, by the names of the servers, and why a file is left out. What cannot be read hides nothing else.
pub(super) async fn all(folder: &Path) -> Result<(Vec<Kept>, Vec<Failure>), Failure> {
    let found = FileStore::at(folder).servers().await.map_err(|error| refusal::store(&error))?;
    let unread = found.unread.iter().map(refusal::store).collect();
    let mut kept = Vec::new();
    for server in found.servers {
        let login = match of(&server, folder).await {
            Ok(Some(login)) => Ok(login),
            // Forgotten meanwhile.
            Ok(None) => continue,
            Err(failure) => Err(failure.message),
        };
        kept.push(Kept { server, login });
    }
    Ok((kept, unread))
}

fn page(kept: &[Kept], folder: &Path) -> String {
    let folder = shown(folder.as_os_str());
    if kept.is_empty() {
        return format!("nothing is stored in {folder}");
    }
    let mut out = String::new();
    for Kept { server, login } in kept {
        out.push_str(&format!("{HEADING}{}{HEADING:#}\n", visible::line(server)));
        match login {
            Ok(login) => out.push_str(&login::rows(login, "  ")),
            Err(problem) => out.push_str(&format!("  {BAD}unusable{BAD:#}   {}\n", visible::line(problem))),
        }
        out.push('\n');
    }
    let count = match kept.len() {
        1 => "1 login".to_owned(),
        count => format!("{count} logins"),
    };
    format!("{out}{count}, stored in {folder}")
}

fn document(kept: &[Kept], folder: &Path) -> Value {
    let logins: Vec<Value> = kept
        .iter()
        .map(|Kept { server, login }| match login {
            Ok(login) => login::of(login),
            Err(problem) => json!({ "server": server, "problem": problem }),
        })
        .collect();
    json!({ "storedIn": folder.to_string_lossy(), "logins": logins })
}
