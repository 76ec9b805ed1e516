//! `mcpjoin auth login`: gets and stores a token, and prints each step.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcpjoin_auth::{
    AuthError, ClientIdentity, FileStore, Grant, LocalBrowser, LoopbackHost, OAuthBuilder, Secret,
    ServerAnswer, Step,
};

use super::no_browser::NoBrowser;
use super::{failures, folder, format, reaching, with_access};
use crate::args::{self, AuthClient, Callback};
use crate::commands::print_page;
use crate::connect::{self, Access, CLIENT_SECRET, secret_file, unusable_login};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Secrets, Ui};

const SECRET_FORM: &str = "--client-secret @FILE, or the variable MCPJOIN_CLIENT_SECRET";

/// How long to wait for the browser (case 142 of the adversarial catalogue).
const BROWSER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Logs in.
pub(super) fn run(ui: &Ui, args: args::Login) -> Result<Exit, Failure> {
    let folder = folder()?;
    let args::Login {
        target,
        client,
        scope,
        callback_port,
        callback_url,
        no_browser,
        client_credentials,
        private_key,
        reach,
        output: _,
    } = args;
    // A total timeout limits the wait for the browser, too.
    let browser_timeout = reach.timeout.unwrap_or(BROWSER_TIMEOUT);
    let (connect, within) = reaching(reach);
    with_access(ui, "login", target, &connect, within, async |access| {
        failures::refuse_plain_http(access)?;
        if access.is_settled() {
            // The login could be stored, but would never be used.
            ui.warning(
                "an Authorization header is configured for this server, or its entry disables logins: the stored \
                 token is not sent",
            );
        }
        let identity = identity(ui, &client, access)?;
        let open = Arc::new(AtomicBool::new(false));
        let mut builder = access
            .builder()
            .client(identity.clone())
            .store(FileStore::at(&folder))
            .on_step(report_steps(ui, open.clone()));
        for scope in access.oauth().scopes.iter().chain(&scope) {
            builder = builder.scope(scope);
        }
        let builder = if client_credentials {
            with_credentials(ui, builder, private_key.as_deref(), &identity)?
        } else {
            let port = callback_port.map(|port| Callback { port: Some(port), ..Callback::default() });
            let callback = callback_url.clone().or(port).or_else(|| access.oauth().callback.clone());
            with_browser(ui, builder, callback.unwrap_or_default(), no_browser, browser_timeout)
        };
        let oauth = builder.build().map_err(|error| unusable_login(&error))?;
        let login = oauth.login().await.map_err(|error| match &error {
            AuthError::Discovery(_) if open.load(Ordering::Relaxed) => failures::login_not_needed(access),
            error => failures::failure(error, access),
        })?;
        let text = if ui.json {
            format::document(&login, &folder).to_string()
        } else {
            ui.hidden_whole(&format::page(&login, &folder)).into_owned()
        };
        Ok(print_page(ui, text).await)
    })
}

/// Returns the callback that prints each step. It sets `open` if the server accepts requests without a token.
fn report_steps(ui: &Ui, open: Arc<AtomicBool>) -> impl Fn(&Step) + Send + Sync + 'static {
    let ui = ui.clone();
    move |step| {
        if step.answer() == Some(ServerAnswer::Open) {
            open.store(true, Ordering::Relaxed);
        }
        ui.note(&format::step(step));
    }
}

/// A person logs in with a browser.
fn with_browser(
    ui: &Ui,
    builder: OAuthBuilder,
    callback: Callback,
    no_browser: bool,
    browser_timeout: Duration,
) -> OAuthBuilder {
    let mut browser = LocalBrowser::new().within(browser_timeout);
    if callback.by_name {
        browser = browser.host(LoopbackHost::Name);
    }
    if let Some(port) = callback.port {
        browser = browser.port(port);
    }
    if let Some(path) = callback.path {
        browser = browser.path(path);
    }
    if no_browser {
        return builder.user_agent(NoBrowser::new(ui, browser.without_opening(), browser_timeout));
    }
    let ui = ui.clone();
    let time = format::time(browser_timeout);
    builder.user_agent(browser.on_url(move |url| {
        ui.note_lines(&format!(
            "log in in the browser within {time}. If no browser opens, open this address:\n\n  {url}\n"
        ));
    }))
}

/// A machine logs in with a secret or a key.
fn with_credentials(
    ui: &Ui,
    builder: OAuthBuilder,
    private_key: Option<&Path>,
    identity: &ClientIdentity,
) -> Result<OAuthBuilder, Failure> {
    let form = "--client-id ID with --client-secret @FILE, MCPJOIN_CLIENT_SECRET, or --private-key FILE";
    let ClientIdentity::Registered { secret, .. } = identity else {
        return Err(Failure::usage("--client-credentials needs a registered client", form));
    };
    let builder = builder.grant(Grant::ClientCredentials);
    let Some(file) = private_key else {
        if secret.is_none() {
            return Err(Failure::usage("--client-credentials needs a secret or a key", form));
        }
        return Ok(builder);
    };
    Ok(builder.private_key(connect::private_key(ui, file, form)?))
}

/// The identity of the client at the authorization server. Options come before the entry. A secret is read from a file,
/// from a variable or from the entry, never from the command line, and is hidden in all output from then on.
pub(super) fn identity(ui: &Ui, typed: &AuthClient, access: &Access) -> Result<ClientIdentity, Failure> {
    if let Some(url) = &typed.client_metadata_url {
        return Ok(ClientIdentity::Document { url: url.clone() });
    }
    let entry = access.oauth();
    let Some(id) = typed.client_id.as_ref().or(entry.client_id.as_ref()) else {
        return Ok(ClientIdentity::default());
    };
    let of_entry = entry.client_secret.clone().filter(|_| typed.client_id.is_none());
    let secret = match &typed.client_secret {
        Some(word) => Some(secret_of_word(ui, word)?),
        None => secret_of_variable()?.or(of_entry),
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

fn secret_of_word(ui: &Ui, word: &OsStr) -> Result<String, Failure> {
    let file = word.to_str().and_then(|word| word.strip_prefix('@')).filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| {
        Failure::usage(
            "secrets are not accepted on the command line, where other users can see them",
            SECRET_FORM,
        )
    })?;
    secret_file(ui, Path::new(file), "the secret", SECRET_FORM)
}

fn secret_of_variable() -> Result<Option<String>, Failure> {
    let Some(value) = std::env::var_os(CLIENT_SECRET).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value
        .into_string()
        .map_err(|_| Failure::usage(format!("{CLIENT_SECRET} is not Unicode"), SECRET_FORM))?;
    Ok(Some(text))
}
