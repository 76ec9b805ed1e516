//! A Redis or Valkey server of one test, from the installed package or from `cargo xtask tools`.
//!
//! It stores nothing on disk, and ends with the test however that ends: its guard kills it when the test's end of a pipe closes.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use crate::{Port, tool};

/// The names of the program.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Runs a program, and kills it when its own input ends.
const GUARD: &str = r#""$@" & exec >&-; read -r _; kill -9 $!; wait $!"#;

/// A server on a port of its own.
#[derive(Debug)]
pub struct Redis {
    port: Port,
    options: Vec<String>,
    running: Option<(Child, ChildStdin)>,
}

impl Redis {
    /// Starts it, with these options beside those that keep it to itself.
    ///
    /// # Errors
    ///
    /// When no server is installed, or it does not start.
    pub fn start(options: &[&str]) -> io::Result<Self> {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut redis = Self { port: Port::claim()?, options, running: None };
        redis.start_again()?;
        Ok(redis)
    }

    /// Its port on this machine.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its URL without a user.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        let Some((mut guard, pipe)) = self.running.take() else { return };
        drop(pipe);
        let _ = guard.wait();
    }

    /// Starts it at the same port, with nothing stored.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.kill();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "redis"]).arg(tool(&PROGRAMS, "Redis 6.2 or newer, or Valkey")?);
        // The port, unless an option says that it is one for TLS.
        if !self.options.iter().any(|option| option == "--tls-port") {
            command.arg("--port").arg(self.port().to_string());
        }
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(self.options.iter().map(|option| option.replace("PORT", &self.port().to_string())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Where it may write, it writes nothing.
        command.current_dir(std::env::temp_dir());
        let mut guard = command.spawn()?;
        let pipe = guard.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let output = guard.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        self.running = Some((guard, pipe));
        let mut said = String::new();
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        while !said.contains("eady to accept connections") {
            let Some(line) = lines.next() else {
                return Err(io::Error::other(format!("Redis has not started: {said}")));
            };
            said += &line;
            said.push('\n');
        }
        // Reads to the end: a server with a full pipe would block.
        thread::spawn(move || lines.for_each(drop));
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
