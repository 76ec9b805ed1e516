//! `mcpjoin auth logout`: takes back what is stored, where that can be done, and forgets it in any case.

use std::path::Path;

use mcpjoin_auth::{FileStore, Logout, OAuthBuilder};
use serde_json::{Value, json};

use super::{folder, printed, reaching, refusal, status, with_access, without_server};
use crate::args;
use crate::commands::list;
use crate::connect::{Access, unusable_login};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// Forgets.
pub(super) fn run(ui: &Ui, args: args::Logout) -> Result<Exit, Failure> {
    let folder = folder()?;
    let args::Logout { target, all, reach, output: _ } = args;
    let (connect, within) = reaching(reach);
    if !all {
        return with_access(ui, "logout", target, &connect, within, async |access| {
            one(ui, access, &folder).await
        });
    }
    let extra_ca = match &connect.ca {
        Some(path) => Some(crate::connect::certificates("--ca", path)?),
        None => None,
    };
    Ok(without_server(ui, within, async || {
        let mut told = Vec::new();
        let (stored, mut failed) = status::all(&folder).await?;
        for kept in stored {
            let mut builder = mcpjoin_auth::OAuth::builder(&kept.server);
            if let Some(pem) = &extra_ca {
                builder = builder.extra_ca(pem.clone());
            }
            if let Some(time) = connect.connect_timeout {
                builder = builder.connect_timeout(time);
            }
            match out(builder, &folder).await {
                Ok(logout) => told.push((kept.server, logout)),
                // The others are forgotten all the same.
                Err(failure) => failed.push(failure),
            }
        }
        let text = if ui.json {
            json!({ "logouts": told.iter().map(|(server, it)| document(server, it)).collect::<Vec<_>>() })
                .to_string()
        } else if told.is_empty() && failed.is_empty() {
            format!("nothing is stored in {}", shown(folder.as_os_str()))
        } else {
            told.iter().map(|(server, it)| sentence(server, it)).collect::<Vec<_>>().join("\n")
        };
        told.iter().for_each(|(server, logout)| warned(ui, server, logout));
        let exit = printed(ui, ui.hidden(&text).into_owned()).await;
        list::failed(ui, failed).map(|_| exit)
    }))
}

async fn one(ui: &Ui, access: &Access, folder: &Path) -> Result<Exit, Failure> {
    let oauth = access.builder().store(FileStore::at(folder)).build();
    let oauth = oauth.map_err(|error| unusable_login(&error))?;
    let logout = oauth.logout().await.map_err(|error| refusal::failure(&error, access))?;
    let text =
        if ui.json { document(access.url(), &logout).to_string() } else { sentence(access.url(), &logout) };
    warned(ui, access.url(), &logout);
    Ok(printed(ui, ui.hidden(&text).into_owned()).await)
}

async fn out(builder: OAuthBuilder, folder: &Path) -> Result<Logout, Failure> {
    let oauth = builder.store(FileStore::at(folder)).build().map_err(|error| unusable_login(&error))?;
    oauth.logout().await.map_err(refusal::of_store)
}

/// What became of it, for a person.
fn sentence(server: &str, logout: &Logout) -> String {
    let server = visible::line(server);
    match (logout.stored, &logout.revoked) {
        (false, _) => format!("nothing was stored for {server}"),
        (true, Some(Ok(()))) => format!("{server}: taken back by its authorization server, and forgotten"),
        (true, Some(Err(_))) => format!("{server}: forgotten, and not taken back"),
        (true, None) => format!("{server}: forgotten; its authorization server takes nothing back"),
    }
}

fn warned(ui: &Ui, server: &str, logout: &Logout) {
    if let Some(Err(why)) = &logout.revoked {
        ui.warning(&format!(
            "{server}: the authorization server did not take the tokens back ({why}): they may be good until they expire"
        ));
    }
}

/// The same for a program.
fn document(server: &str, logout: &Logout) -> Value {
    let mut out = json!({ "server": server, "forgotten": logout.stored });
    match &logout.revoked {
        Some(Ok(())) => out["revoked"] = json!(true),
        Some(Err(why)) => {
            out["revoked"] = json!(false);
            out["problem"] = json!(why);
        }
        None => {}
    }
    out
}
