//! What a client of a gateway sees when one of the servers is dead.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::session::Session;
use super::{Gateway, Options, wait};

/// How long a gateway may take to start a server again.
const RECOVERY: Duration = Duration::from_secs(15);
/// The name of the server that dies.
const VICTIM: &str = "b3";
/// The end of the name of a program that cannot be started.
const GONE: &str = "gone";
/// The longest error that is shown, in characters.
const SHOWN: usize = 300;

/// Kills one server twice: first a program that can be started again, then one that cannot. All by one client, which
/// stays in its session unless the gateway ends it.
pub(super) fn dead(options: Options, command: &[String]) -> Result<Value, String> {
    let gateway = Gateway::start(options, command)?;
    let (mut session, _) = gateway.complete()?;
    session.call(&gateway, VICTIM)?;
    let program = gateway.options.program(VICTIM);

    let killed = gateway.processes().kill(&program);
    let began = Instant::now();
    let mut failed = 0_u32;
    let is_back = wait(RECOVERY, || {
        let answered = session.call(&gateway, VICTIM).is_ok();
        failed += u32::from(!answered);
        answered
    });
    let back = is_back.then(|| began.elapsed().as_secs_f64() * 1e3);

    let away = Away::take(&program)?;
    gateway.processes().kill(&program);
    let asked = Instant::now();
    let error = session.call(&gateway, VICTIM).err();
    let error_ms = asked.elapsed().as_secs_f64() * 1e3;
    // The next call is what a client sees from then on.
    let later = session.call(&gateway, VICTIM).err();
    let alive = gateway.options.names().filter(|name| name != VICTIM);
    let alive = alive.filter(|name| session.call(&gateway, name).is_ok()).count();
    let listed = session.list(&gateway);
    let joined = Session::open(&gateway).and_then(|mut new| {
        new.list(&gateway)?;
        new.call(&gateway, "b1")
    });
    drop(away);
    let began = Instant::now();
    let is_back = wait(RECOVERY, || session.call(&gateway, VICTIM).is_ok());
    let back_after = is_back.then(|| began.elapsed().as_secs_f64() * 1e3);
    let tools = |names: &Vec<String>| {
        gateway.options.names().filter(|name| names.contains(&gateway.options.tool(name))).count()
    };
    Ok(json!({
        "killed": killed,
        "back_ms": back,
        "failed": failed,
        "gone_error": error.map(shown),
        "gone_error_ms": error_ms,
        "gone_error_later": later.map(shown),
        "alive": alive,
        "listed": listed.as_ref().ok().map(tools),
        "list_error": listed.err().map(shown),
        "new_session_error": joined.err().map(shown),
        "back_after_gone_ms": back_after,
    }))
}

fn shown(error: String) -> String {
    error.chars().take(SHOWN).collect()
}

/// A program under another name, until this value is dropped.
struct Away<'a>(&'a Path, PathBuf);

impl<'a> Away<'a> {
    fn take(program: &'a Path) -> Result<Self, String> {
        let away = program.with_extension(GONE);
        std::fs::rename(program, &away).map_err(|error| error.to_string())?;
        Ok(Self(program, away))
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        // Without it the next measurement says that the program is missing.
        let _ = std::fs::rename(&self.1, self.0);
    }
}
