//! Stored logins, steps to a login and times, for people and for programs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use mcpjoin_auth::{Login, Step, StepResult};
use serde_json::{Value, json};

use crate::connect::stamp;
use crate::target::path_shown;
use crate::ui::FAINT;
use crate::visible::{self, counted};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The outcome of a step, in one line.
pub(super) fn step(step: &Step) -> String {
    let asked = asked(step).map(|asked| format!("{asked}: ")).unwrap_or_default();
    let outcome = match &step.result {
        StepResult::Passed => step.found.clone(),
        StepResult::Skipped(why) => format!("skipped: {why}"),
        StepResult::Failed(why) => format!("failed: {why}"),
    };
    visible::line(&format!("{}: {asked}{outcome}", step.subject.as_str())).into_owned()
}

/// The request of a step, and the status of the response.
pub(super) fn asked(step: &Step) -> Option<String> {
    let tried = step.tried.as_ref()?;
    let status = step.status.map(|status| format!(" {status}")).unwrap_or_default();
    Some(format!("{} {}{status}", tried.method, tried.url))
}

/// How long a stored login can be used, in words.
pub(super) fn expiry(login: &Login, now: SystemTime) -> String {
    let renewed = match (login.refreshable, is_expired(login, now)) {
        (true, true) => "; it is renewed at the next use",
        (true, false) => ", then renewed automatically",
        (false, true) => "; log in again",
        (false, false) => ", and then log in again",
    };
    let Some(expires) = login.expires else {
        let renewed = if login.refreshable { "; renewed automatically" } else { "" };
        return format!("unknown: it is used until the server rejects it{renewed}");
    };
    let when = match expires.duration_since(now) {
        Ok(left) => format!("in {}", time(left)),
        Err(error) => format!("{} ago", time(error.duration())),
    };
    format!("{when}{renewed}")
}

/// Whether the access token has expired.
pub(super) fn is_expired(login: &Login, now: SystemTime) -> bool {
    login.expires.is_some_and(|expires| expires <= now)
}

/// A time in its two largest units.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large: u64, name: &str, small: u64, other: &str| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        match rest {
            0 => counted(whole, name),
            rest => format!("{} {}", counted(whole, name), counted(rest, other)),
        }
    };
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => two(HOUR, "hour", MINUTE, "minute"),
        _ => two(DAY, "day", HOUR, "hour"),
    }
}

/// A stored login for a person, with its folder.
pub(super) fn page(login: &Login, folder: &Path) -> String {
    let mut out = rows(login, "");
    out.push_str(&row("", "stored in", &path_shown(folder)));
    out
}

/// A stored login, one row for each member.
pub(super) fn rows(login: &Login, indent: &str) -> String {
    let scopes = if login.scopes.is_empty() { "none".to_owned() } else { login.scopes.join(" ") };
    let rows = [
        ("resource", login.resource.as_str()),
        ("issuer", &login.issuer),
        ("client", &login.client_id),
        ("scopes", &scopes),
        ("expires", &expiry(login, SystemTime::now())),
    ];
    rows.into_iter().map(|(label, text)| row(indent, label, text)).collect()
}

fn row(indent: &str, label: &str, text: &str) -> String {
    format!("{indent}{FAINT}{label:<9}{FAINT:#}  {}\n", visible::line(text))
}

/// A stored login for a program, with its folder.
pub(super) fn document(login: &Login, folder: &Path) -> Value {
    let mut out = self::login(login);
    out["storedIn"] = json!(folder.to_string_lossy());
    out
}

pub(super) fn login(login: &Login) -> Value {
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
        out["expired"] = json!(is_expired(login, SystemTime::now()));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::time;

    #[test]
    fn a_time_has_two_units_at_most() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 hour"),
            (3_661, "1 hour 1 minute"),
            (7_320, "2 hours 2 minutes"),
            (86_400, "1 day"),
            (2_000_000, "23 days 3 hours"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), words);
        }
    }
}
