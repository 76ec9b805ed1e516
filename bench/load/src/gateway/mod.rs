//! Measures a gateway: a process that starts several servers and offers them over HTTP.
//!
//! The servers are the programs `b1`, `b2` ... in one folder, which distinguishes their processes from those of the
//! gateway by the name they were started with. Called by `cargo xtask bench gateway`.

mod calls;
mod dead;
mod processes;
mod session;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use interop::Port;
use serde_json::{Value, json};

use self::processes::Processes;
use self::session::Session;
use crate::http::{Endpoint, Listening, Mode};

/// The placeholder for the name of a server.
const BACKEND: &str = "{backend}";
/// The placeholder for the file of configuration.
const CONFIG: &str = "{config}";
/// How long a gateway may take until it lists the tools of all servers.
const OPENING: Duration = Duration::from_secs(30);
/// The pause after a list that was not complete.
const AGAIN: Duration = Duration::from_millis(5);

/// The words of the generator, before those of the measurement.
struct Options {
    mode: Mode,
    path: String,
    /// The name of the tool of a server, with `{backend}` for the server's name.
    tool: String,
    /// A configuration with `{port}` for the port. The gateway gets the path of a copy in place of `{config}`.
    config: Option<PathBuf>,
    /// The folder with the servers' programs.
    folder: PathBuf,
    backends: usize,
}

impl Options {
    /// Reads the options; the words behind them are those of the measurement.
    fn parse<'a>(words: &'a [&'a str]) -> Result<(Self, &'a [&'a str]), String> {
        let mut options = Self {
            mode: Mode::Stateful,
            path: "/mcp".to_owned(),
            tool: "echo".to_owned(),
            config: None,
            folder: PathBuf::new(),
            backends: 1,
        };
        let mut rest = words;
        while let [word, value, behind @ ..] = rest {
            match *word {
                "--mode" => {
                    options.mode = match *value {
                        "stateful" => Mode::Stateful,
                        "stateless" => Mode::Stateless,
                        "events" => Mode::Events,
                        "openapi" => Mode::OpenApi,
                        other => return Err(format!("--mode knows no {other}")),
                    }
                }
                "--path" => options.path = (*value).to_owned(),
                "--tool" => options.tool = (*value).to_owned(),
                "--config" => options.config = Some((*value).into()),
                "--folder" => options.folder = (*value).into(),
                "--backends" => options.backends = value.parse().map_err(|_| "--backends needs a number")?,
                _ => break,
            }
            rest = behind;
        }
        Ok((options, rest))
    }

    /// The names of the servers.
    fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.backends).map(|number| format!("b{number}"))
    }

    /// The program of a server.
    fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The tool of a server, as the gateway lists it.
    fn tool(&self, name: &str) -> String {
        self.tool.replace(BACKEND, name)
    }
}

/// A gateway that runs.
struct Gateway {
    options: Options,
    listening: Listening,
}

impl Gateway {
    fn start(options: Options, command: &[String]) -> Result<Self, String> {
        let port = Port::claim().map_err(|error| error.to_string())?;
        let mut words = command.to_vec();
        if let Some(template) = &options.config {
            let filled = fill(template, port.number())?;
            for word in &mut words {
                *word = word.replace(CONFIG, &filled.display().to_string());
            }
        }
        let listening = Listening::start_at(port, &words, "")?;
        Ok(Self { options, listening })
    }

    /// The endpoint with the tool of a server.
    fn endpoint(&self, name: &str) -> Endpoint {
        let Options { mode, path, .. } = &self.options;
        let (address, path, tool) = (self.listening.address, path.clone(), self.options.tool(name));
        // There the tool is a path.
        let path = if *mode == Mode::OpenApi { tool.clone() } else { path };
        Endpoint { address, path, mode: *mode, tool, tls: None }
    }

    fn processes(&self) -> Processes {
        Processes::of(self.listening.pid(), &self.options.folder)
    }

    /// Opens a session and waits until the tools of all servers are in a list.
    fn complete(&self) -> Result<(Session, usize), String> {
        let mut lists = 0;
        let mut fault = String::new();
        while self.listening.began.elapsed() < OPENING {
            match Session::open(self) {
                Err(error) => fault = error,
                Ok(mut session) => {
                    while self.listening.began.elapsed() < OPENING {
                        lists += 1;
                        match session.list(self) {
                            Ok(names) => match self.missing(&names) {
                                None => return Ok((session, lists)),
                                Some(name) => fault = format!("the list has no {name}: {names:?}"),
                            },
                            Err(error) => {
                                fault = error;
                                break;
                            }
                        }
                        std::thread::sleep(AGAIN);
                    }
                }
            }
            std::thread::sleep(AGAIN);
        }
        Err(format!("no complete list: {fault}"))
    }

    /// The first tool that is not in a list.
    fn missing(&self, names: &[String]) -> Option<String> {
        self.options.names().map(|name| self.options.tool(&name)).find(|tool| !names.contains(tool))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let all = self.processes();
        self.listening.end();
        // Servers whose gateway was killed end by themselves, but not all of them.
        all.end();
    }
}

/// Measures a gateway, and returns its figures.
pub(crate) fn measure(words: &[&str], command: &[String]) -> Result<Value, String> {
    let (options, words) = Options::parse(words)?;
    match words {
        ["first"] => first(options, command),
        ["calls", words @ ..] => calls::calls(options, words, command),
        ["dead"] => dead::dead(options, command),
        _ => Err("load gateway OPTIONS... first|calls|dead: see the first lines of its source".into()),
    }
}

/// The time from the start to the first list with the tools of all servers, and the memory after it.
fn first(options: Options, command: &[String]) -> Result<Value, String> {
    let gateway = Gateway::start(options, command)?;
    let listens = gateway.listening.began.elapsed();
    let (_session, lists) = gateway.complete()?;
    let took = gateway.listening.began.elapsed();
    let processes = gateway.processes();
    Ok(json!({
        "ms": took.as_secs_f64() * 1e3,
        "listens_ms": listens.as_secs_f64() * 1e3,
        "lists": lists,
        "cpu_ms": processes.cpu().as_secs_f64() * 1e3,
        "gateway_kib": processes.memory(),
        "backends": processes.backends(),
    }))
}

/// Writes a copy of a configuration with the port, beside it.
fn fill(template: &Path, port: u16) -> Result<PathBuf, String> {
    let text =
        std::fs::read_to_string(template).map_err(|error| format!("{}: {error}", template.display()))?;
    let extension = template.extension().unwrap_or_default().to_string_lossy();
    let filled = template.with_extension(format!("filled.{extension}"));
    std::fs::write(&filled, text.replace("{port}", &port.to_string()))
        .map_err(|error| format!("{}: {error}", filled.display()))?;
    Ok(filled)
}

/// Waits until the condition is met; true when it was met within the limit.
fn wait(limit: Duration, mut met: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if met() {
            return true;
        }
        if began.elapsed() > limit {
            return false;
        }
        std::thread::sleep(AGAIN);
    }
}
