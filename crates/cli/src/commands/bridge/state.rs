//! What several bridges share in Redis (`bridge --state`): reads where it is, and makes the stores.
//!
//! `mcpjoin_redis` keeps the connection and the records. Used by `relay`, which makes the options of HTTP, by `serving`, which connects,
//! and by `bridge --check-config`, which starts nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use mcpjoin::server::{SealingKeys, StateKey};
use mcpjoin::transport::HttpOptions;
use mcpjoin_gateway::SealedSessions;
use mcpjoin_redis::Redis;
use url::Url;

use super::misplaced;
use crate::args::Bridge;
use crate::commands::written;
use crate::connect::{STATE_URL, certificates, secret_file};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::secret::Secrets;
use crate::ui::Ui;

const FORM: &str = "--state redis://HOST:PORT or rediss://HOST:PORT; with a password --state @FILE, or the variable MCPJOIN_STATE_URL";

/// Makes the handle of the server that `--state` names. Nothing is connected.
pub(super) fn open(ui: &Ui, args: &Bridge, keys: SealingKeys) -> Result<Option<Redis>, Failure> {
    let Some(url) = url(ui, args.state.as_deref())? else {
        let alone =
            [("--state-ca", args.state_ca.is_some()), ("--state-timeout", args.state_timeout.is_some())];
        misplaced(&alone, "for what several bridges share", "--state URL")?;
        return Ok(None);
    };
    let redis = match &args.state_ca {
        Some(file) => Redis::with_authorities(&url, keys, certificates("--state-ca", file)?),
        None => Redis::new(&url, keys),
    };
    let redis = redis.map_err(|error| Failure::usage(format!("--state: {error}"), FORM))?;
    Ok(Some(match args.state_timeout {
        Some(time) => redis.patience(time),
        None => redis,
    }))
}

/// Adds the stores to the options. `idle`: how long an unused session is kept.
pub(super) fn stores(
    options: HttpOptions,
    keys: SealingKeys,
    redis: Option<&Redis>,
    idle: Duration,
) -> HttpOptions {
    let sealed = SealedSessions::new(keys);
    let Some(redis) = redis else { return options.session_store(sealed) };
    options.session_store(sealed.beyond(redis.sessions(idle))).event_store(redis.events(idle))
}

/// Checks the options for `--check-config`.
pub(super) fn check(ui: &Ui, args: &Bridge) -> Result<Option<Exit>, Failure> {
    if args.key_file.is_none() {
        return Ok(None);
    }
    // No record is made or read: any key will do.
    let keys = SealingKeys::new(StateKey::from_bytes([0; 32]), []);
    let Some(redis) = open(ui, args, keys)? else { return Ok(None) };
    Ok(Some(written(ui, ui.result(&format!("--state is valid: Redis at {}", redis.address())))))
}

/// The URL of the option, or of the variable. A password is not accepted on the command line, where other users can see it.
fn url(ui: &Ui, word: Option<&OsStr>) -> Result<Option<String>, Failure> {
    let not_unicode = |what: &str| Failure::usage(format!("{what} is not Unicode"), FORM);
    let word = word.map(|word| word.to_str().ok_or_else(|| not_unicode("--state"))).transpose()?;
    let url = match word.map(|word| (word, word.strip_prefix('@'))) {
        Some((_, Some(file))) => secret_file(ui, Path::new(file), "the URL", FORM)?,
        Some((url, None)) => url.to_owned(),
        None => match std::env::var_os(STATE_URL).filter(|value| !value.is_empty()) {
            Some(value) => value.into_string().map_err(|_| not_unicode(STATE_URL))?,
            None => return Ok(None),
        },
    };
    if let Some(password) = Url::parse(&url).ok().as_ref().and_then(Url::password) {
        ui.hide(Secrets::new(&[OsString::from(password)]));
        if word == Some(&*url) {
            let problem = "a password is not accepted on the command line, where other users can see it";
            return Err(Failure::usage(
                problem,
                "--state @FILE, with the URL in the file, or the variable MCPJOIN_STATE_URL",
            ));
        }
    }
    Ok(Some(url))
}
