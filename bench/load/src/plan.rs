//! The options of a load: over stdio, and over HTTP.

use std::time::Duration;

/// The concurrency, the text and the duration of the calls.
pub(crate) struct Plan {
    /// The number of concurrent calls.
    pub(crate) at_once: usize,
    pub(crate) measured: Duration,
    /// The duration of calls before the measurement.
    pub(crate) warm: Duration,
    pub(crate) text: String,
    /// The name of what is asked of a server over stdio.
    pub(crate) work: String,
    /// Whether each call over HTTP has a connection of its own.
    pub(crate) once: bool,
    /// Whether all calls share one connection, with HTTP/2.
    pub(crate) http2: bool,
    /// A process that works for the server. Its CPU time, and that of the processes it has started, is added to the server's.
    pub(crate) beside: Option<u32>,
}

impl Plan {
    /// `option` is the name of the option for the concurrency; `at_once` is its default.
    pub(crate) fn parse(words: &[&str], option: &str, at_once: usize) -> Result<Self, String> {
        let mut plan = Self {
            at_once,
            measured: Duration::from_secs(1),
            warm: Duration::from_millis(500),
            text: String::new(),
            work: "echo".to_owned(),
            once: false,
            http2: false,
            beside: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--work" {
                plan.work = (*words.next().ok_or("--work needs a name")?).to_owned();
                continue;
            }
            let mut number = || -> Result<f64, String> {
                let value = words.next().and_then(|value| value.parse().ok());
                value.ok_or_else(|| format!("{word} needs a number"))
            };
            match *word {
                "--once" => plan.once = true,
                "--http2" => plan.http2 = true,
                word if word == option => plan.at_once = number()? as usize,
                "--seconds" => plan.measured = Duration::from_secs_f64(number()?),
                "--beside" => plan.beside = Some(number()? as u32),
                "--warm" => plan.warm = Duration::from_secs_f64(number()?),
                file => {
                    plan.text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
                }
            }
        }
        Ok(plan)
    }
}
