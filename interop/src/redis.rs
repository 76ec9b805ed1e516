//! A Redis or Valkey server of one test, from the installed package or from `cargo xtask tools`.
//!
//! It stores nothing on disk, and ends with the test however that ends.

use std::io;

use crate::guarded::Guarded;
use crate::{Port, tool};

/// The names of the program.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// A server on a port of its own.
#[derive(Debug)]
pub struct Redis {
    port: Port,
    options: Vec<String>,
    running: Option<Guarded>,
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
        drop(self.running.take());
    }

    /// Starts it at the same port, with nothing stored.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.kill();
        let mut words = Vec::new();
        // The port, unless an option says that it is one for TLS.
        if !self.options.iter().any(|option| option == "--tls-port") {
            words.extend(["--port".to_owned(), self.port().to_string()]);
        }
        let own = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"];
        words.extend(own.map(ToOwned::to_owned));
        words.extend(self.options.iter().map(|option| option.replace("PORT", &self.port().to_string())));
        let program = tool(&PROGRAMS, "Redis 6.2 or newer, or Valkey")?;
        self.running = Some(Guarded::start(&program, words, "eady to accept connections")?);
        Ok(())
    }
}
