//! `mcpjoin auth login`: the whole way to a token, each step told as it is gone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use mcpjoin_auth::{
    AuthError, ClientIdentity, FileStore, Grant, LocalBrowser, Login, LoopbackHost, OAuthBuilder, PrivateKey,
    Rung, Step,
};
use serde_json::{Value, json};

use super::pasting::Pasting;
use super::{folder, identity, printed, reaching, refusal, with_access, words};
use crate::args::{self, Callback};
use crate::connect::{stamp, unusable_login};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::shown;
use crate::ui::{FAINT, Ui};
use crate::visible;

/// How long a person is waited for: the number of the adversarial catalogue, case 142.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

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
    // Who says how long all of it may take says how long a person is waited for, too.
    let patience = reach.timeout.unwrap_or(PATIENCE);
    let (connect, within) = reaching(reach);
    with_access(ui, "login", target, &connect, within, async |access| {
        refusal::unencrypted(access)?;
        if access.is_settled() {
            // It could be stored, and would never be used.
            ui.warning(
                "an Authorization header is configured for this server, or its entry says that no login is to be used: what \
                 is stored is not sent there",
            );
        }
        let identity = identity::of(ui, &client, access)?;
        let open = Arc::new(AtomicBool::new(false));
        let mut builder = access
            .builder()
            .client(identity.clone())
            .store(FileStore::at(&folder))
            .on_step(told(ui, open.clone()));
        for scope in access.oauth().scopes.iter().chain(&scope) {
            builder = builder.scope(scope);
        }
        let builder = if client_credentials {
            machine(builder, private_key.as_deref(), &identity)?
        } else {
            let port = callback_port.map(|port| Callback { port: Some(port), ..Callback::default() });
            let callback = callback_url.clone().or(port).or_else(|| access.oauth().callback.clone());
            person(ui, builder, callback.unwrap_or_default(), no_browser, patience)
        };
        let oauth = builder.build().map_err(|error| unusable_login(&error))?;
        let login = oauth.login().await.map_err(|error| match &error {
            AuthError::Discovery(_) if open.load(Ordering::Relaxed) => refusal::needless(access),
            error => refusal::failure(error, access),
        })?;
        let text = if ui.json {
            document(&login, &folder).to_string()
        } else {
            ui.hidden_whole(&page(&login, &folder)).into_owned()
        };
        Ok(printed(ui, text).await)
    })
}

/// Tells each step, while it is gone. `open`: is set when the server lets in whoever asks.
fn told(ui: &Ui, open: Arc<AtomicBool>) -> impl Fn(&Step) + Send + Sync + 'static {
    let ui = ui.clone();
    move |step| {
        let lets_in = step.status.is_some_and(|status| (200..300).contains(&status));
        if step.rung == Rung::Server && lets_in {
            open.store(true, Ordering::Relaxed);
        }
        ui.note(&words::step(step));
    }
}

/// A person logs in with a browser.
fn person(
    ui: &Ui,
    builder: OAuthBuilder,
    callback: Callback,
    no_browser: bool,
    patience: Duration,
) -> OAuthBuilder {
    let mut browser = LocalBrowser::new().within(patience);
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
        return builder.user_agent(Pasting::new(ui, browser.without_opening(), patience));
    }
    let ui = ui.clone();
    let time = words::time(patience);
    builder.user_agent(browser.on_url(move |url| {
        ui.note_lines(&format!(
            "log in with the browser that opens now, within {time}. Where none does, open this address:\n\n  {url}\n"
        ));
    }))
}

/// A machine logs in with what it knows.
fn machine(
    builder: OAuthBuilder,
    private_key: Option<&Path>,
    identity: &ClientIdentity,
) -> Result<OAuthBuilder, Failure> {
    let form = "--client-id ID with --client-secret @FILE, MCPJOIN_CLIENT_SECRET, or --private-key FILE";
    let ClientIdentity::Registered { secret, .. } = identity else {
        return Err(Failure::usage("a machine logs in as a client that is registered already", form));
    };
    let builder = builder.grant(Grant::ClientCredentials);
    let Some(file) = private_key else {
        if secret.is_none() {
            return Err(Failure::usage("a machine logs in with a secret, or with a key", form));
        }
        return Ok(builder);
    };
    let pem = identity::text(file, "the key", form)?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| {
        let problem = format!("the key in {} cannot be used: {error}", shown(file.as_os_str()));
        Failure::usage(
            problem,
            "PKCS#8 in PEM, of P-256 or RSA: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
        )
    })?;
    Ok(builder.private_key(key))
}

/// What is stored now, for a person.
pub(super) fn page(login: &Login, folder: &Path) -> String {
    let mut out = rows(login, "");
    out.push_str(&row("", "stored in", &shown(folder.as_os_str())));
    out
}

/// What is known of a login, a row each.
pub(super) fn rows(login: &Login, indent: &str) -> String {
    let scopes = if login.scopes.is_empty() { "none".to_owned() } else { login.scopes.join(" ") };
    let rows = [
        ("resource", login.resource.as_str()),
        ("issuer", &login.issuer),
        ("client", &login.client_id),
        ("scopes", &scopes),
        ("expires", &words::expiry(login, SystemTime::now())),
    ];
    rows.into_iter().map(|(label, text)| row(indent, label, text)).collect()
}

fn row(indent: &str, label: &str, text: &str) -> String {
    format!("{indent}{FAINT}{label:<9}{FAINT:#}  {}\n", visible::line(text))
}

/// The same for a program.
pub(super) fn document(login: &Login, folder: &Path) -> Value {
    let mut out = of(login);
    out["storedIn"] = json!(folder.to_string_lossy());
    out
}

pub(super) fn of(login: &Login) -> Value {
    let mut out = json!({
        "server": login.server,
        "resource": login.resource,
        "issuer": login.issuer,
        "clientId": login.client_id,
        "scopes": login.scopes,
        "refreshable": login.refreshable,
    });
    if let Some(expires) = login.expires {
        out["expiresAt"] = json!(stamp(expires));
        out["expired"] = json!(words::is_over(login, SystemTime::now()));
    }
    out
}
