//! The steps of a chore: each has a name and a measured time and, when it fails, prints how to run it again.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// The results of the steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    /// The processor time of the programs that ended while it ran, in seconds. `None` for a step that ran beside others: its
    /// programs count for those.
    cpu: Option<f64>,
    failure: Option<String>,
}

impl Steps {
    /// Runs one step and records its result; `rerun` is the command that repeats it alone. A failed step does not stop the
    /// steps after it, so that one run shows all failures.
    pub(crate) fn step<T>(
        &mut self,
        name: &'static str,
        rerun: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Option<T> {
        println!("\n==> {name}: {rerun}");
        let (began, cpu) = (Instant::now(), cpu_of_children().ok());
        let outcome = work();
        let cpu = cpu_of_children().ok().zip(cpu).map(|(after, before)| after - before);
        self.done(name, rerun, began.elapsed(), cpu, outcome)
    }

    /// Waits for a step that runs on another thread, and records its result.
    pub(crate) fn joined<T>(&mut self, beside: Beside<T>) -> Option<T> {
        let Beside { name, rerun, thread } = beside;
        println!("\n==> {name}, begun beside the steps before: {rerun}");
        let (took, outcome) =
            thread.join().unwrap_or_else(|_| (Duration::ZERO, Err(anyhow!("it has panicked, see above"))));
        self.done(name, rerun, took, None, outcome)
    }

    fn done<T>(
        &mut self,
        name: &'static str,
        rerun: &str,
        took: Duration,
        cpu: Option<f64>,
        outcome: Result<T>,
    ) -> Option<T> {
        let (value, failure) = match outcome {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        match &failure {
            None => println!("    {name}: ok, {:.1} s", took.as_secs_f64()),
            Some(why) => {
                println!("    {name}: FAILED after {:.1} s: {why}", took.as_secs_f64());
                println!("    to run it again: {rerun}");
            }
        }
        self.done.push(Step { name, took, cpu, failure });
        value
    }

    /// Prints every step with its time and its processor time; returns how many failed.
    pub(crate) fn summary(&self) -> usize {
        println!("\n{:<14} {:>8} {:>8}", "step", "seconds", "CPU");
        for step in &self.done {
            let verdict = if step.failure.is_some() { "  FAILED" } else { "" };
            let cpu = step.cpu.map(|cpu| format!("{cpu:.1}")).unwrap_or_default();
            println!("{:<14} {:>8.1} {cpu:>8}{verdict}", step.name, step.took.as_secs_f64());
        }
        self.done.iter().filter(|step| step.failure.is_some()).count()
    }
}

/// A step that runs on another thread, for work that mostly waits. No measurement runs at the same time.
pub(crate) struct Beside<T> {
    name: &'static str,
    rerun: &'static str,
    thread: JoinHandle<(Duration, Result<T>)>,
}

impl<T: Send + 'static> Beside<T> {
    pub(crate) fn begin(
        name: &'static str,
        rerun: &'static str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let thread = thread::spawn(move || {
            let began = Instant::now();
            let outcome = work();
            (began.elapsed(), outcome)
        });
        Self { name, rerun, thread }
    }
}

/// The clock ticks in a second of `/proc/self/stat`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time of all ended children of this process, in seconds: fields 16 and 17 of proc_pid_stat(5).
pub(crate) fn cpu_of_children() -> Result<f64> {
    let stat =
        std::fs::read_to_string("/proc/self/stat").context("the processor time is read on Linux only")?;
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat has another form")?;
    let fields: Vec<f64> =
        fields.split(' ').skip(13).take(2).map(|field| field.parse().unwrap_or(0.0)).collect();
    Ok(fields.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// The cargo that runs this chore, in the project's folder, with an empty standard input.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    prepared(Command::new(program()), root, arguments)
}

/// The same with the lowest priority: for what compiles while tests run.
pub(crate) fn background_cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program());
    prepared(command, root, arguments)
}

fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Adds what every cargo has here, and removes the variables that the outer cargo has set for this program. The build script
/// of `ring` runs again when they change, and everything above `ring` is then compiled again.
fn prepared(mut command: Command, root: &Path, arguments: &[&str]) -> Command {
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command to its end; any exit status but success is an error that names the command.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command, and returns its standard output.
pub(crate) fn stdout(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{shown} printed something that is not UTF-8"))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The packages in the project's folder with a workspace of their own: commands on the main workspace do not include
/// them.
pub(crate) fn detached(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["bench", "bench/jobs", "interop/rmcp"] {
        let manifest = root.join(folder).join("Cargo.toml");
        if manifest.is_file() && std::fs::read_to_string(&manifest)?.lines().any(|line| line == "[workspace]")
        {
            found.push(format!("{folder}/Cargo.toml"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::bail;

    use super::{Beside, Steps, background_cargo, cargo};

    #[test]
    fn a_step_beside_others_counts_like_any_other() {
        let mut steps = Steps::default();
        let well = Beside::begin("well", "true", || Ok(7));
        let badly = Beside::begin("badly", "false", || -> anyhow::Result<()> { bail!("no") });
        assert_eq!(steps.step("between", "true", || Ok(1)), Some(1));
        assert_eq!(steps.joined(well), Some(7));
        assert_eq!(steps.joined(badly), None);
        assert_eq!(steps.summary(), 1);
    }

    #[test]
    fn a_cargo_of_a_step_does_not_get_the_variables_of_this_package() {
        for command in [cargo(Path::new("."), &["build"]), background_cargo(Path::new("."), &["build"])] {
            let removed = |name: &str| command.get_envs().any(|(set, value)| set == name && value.is_none());
            for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
                assert!(removed(name), "{name}");
            }
        }
    }
}
