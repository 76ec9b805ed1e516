//! `PATH` as the user's shell sets it: the shell of `$SHELL` is run, reads its start files and prints the value, as editors
//! do it.
//!
//! Used by `paths` for a terminal and for a Linux desktop. The shell has no standard input, no controlling terminal, and
//! [`SHELL_TIMEOUT`] to exit. All processes of its start files are killed with it. A random marker is printed before and after
//! the value, so that text of the start files is not mistaken for it. Any failure is an error, without a value. The variable
//! `MCPJOIN_CHILD` is set, by which start files can recognise this.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use mcpjoin_proto::session::ProcessExit;

use super::World;
use mcpjoin::internal::ProgramOutput;

/// How long a shell may take from its start to its exit. Version managers for node take up to two seconds.
pub(super) const SHELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of the standard error of a shell that are shown.
const MAX_STDERR_CHARS: usize = 160;
/// Placeholder of the marker in a command.
const MARKER: &str = "MARKER";

/// How a kind of shell is run.
struct Syntax {
    names: &'static [&'static str],
    /// Options of a login shell in a terminal, the last of which takes the command.
    interactive: &'static [&'static str],
    /// The same for a login shell without a terminal.
    login: &'static [&'static str],
    /// Prints `MARKER=`, the value and `=MARKER`. These are not in the command itself, because a shell may print that, too.
    command: &'static str,
}

/// nu accepts `-l` with a command, and then reads all of its files; `-i` needs a terminal
/// (<https://github.com/zed-industries/zed/pull/51420>). csh accepts `-l` only without any other option
/// (<https://github.com/zed-industries/zed/issues/24890>).
const SYNTAXES: [Syntax; 5] = [
    Syntax {
        names: &["bash", "zsh", "sh", "dash", "ash", "ksh", "ksh93", "mksh", "oksh", "yash"],
        interactive: &["-ilc"],
        login: &["-lc"],
        command: r#"command printf "%s=%s=%s" MARKER "$PATH" MARKER"#,
    },
    Syntax {
        names: &["fish"],
        interactive: &["-ilc"],
        login: &["-lc"],
        command: r#"builtin printf "%s=%s=%s" MARKER "$PATH" MARKER"#,
    },
    Syntax {
        names: &["nu"],
        interactive: &["-l", "-c"],
        login: &["-l", "-c"],
        command: r#"print (["MARKER" ($env.PATH | str join (char esep)) "MARKER"] | str join "=")"#,
    },
    Syntax {
        names: &["csh", "tcsh"],
        interactive: &["-ic"],
        login: &["-c"],
        command: r#"echo "MARKER""=""$PATH""=""MARKER""#,
    },
    Syntax {
        names: &["pwsh"],
        interactive: &["-Login", "-Command"],
        login: &["-Login", "-Command"],
        command: "[Console]::Out.Write('MARKER' + '=' + $env:PATH + '=' + 'MARKER')",
    },
];

/// A shell and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShellCommand {
    shell: OsString,
    options: &'static [&'static str],
    command: &'static str,
}

impl ShellCommand {
    /// The arguments of the shell of `$SHELL`. `interactive`: as in a terminal.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub(super) fn new(world: &World, interactive: bool) -> Result<Self, String> {
        let shell = world.set("SHELL").ok_or("SHELL is not set, so the login shell is unknown")?;
        let path = Path::new(shell);
        let shown = path.display();
        if !path.is_absolute() {
            return Err(format!("SHELL is {shown}, which is not an absolute path"));
        }
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let syntax = SYNTAXES.iter().find(|syntax| syntax.names.contains(&name));
        let Some(syntax) = syntax else {
            return Err(format!("SHELL is {shown}, which mcpjoin does not support"));
        };
        let options = if interactive { syntax.interactive } else { syntax.login };
        Ok(Self { shell: shell.to_owned(), options, command: syntax.command })
    }

    /// `/bin/bash -ilc`
    pub(super) fn shown(&self) -> String {
        format!("{} {}", Path::new(&self.shell).display(), self.options.join(" "))
    }

    /// The whole command line, with `MARKER` in place of the marker.
    pub(super) fn command_line(&self) -> String {
        format!("{} '{}'", self.shown(), self.command)
    }

    /// Runs the shell, which begins with this `PATH`, and returns its `PATH` after it has read its files.
    ///
    /// # Errors
    /// The command line, and how it failed.
    pub(super) async fn run(
        &self,
        world: &World,
        path: &OsStr,
        timeout: Duration,
    ) -> Result<OsString, String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| "the system provides no random numbers".to_owned())?;
        let marker = random.iter().fold("mcpjoin-".to_owned(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let home = world.home().map(|home| world.real(home)).filter(|home| home.is_dir());
        // Start files of NixOS set a variable with `__`, and do nothing if it is set.
        let command = world
            .command(Path::new(&self.shell), |name| !name.as_bytes().starts_with(b"__"))
            .args(self.options)
            .arg(self.command.replace(MARKER, &marker))
            .env("PATH", path)
            .new_session()
            .current_dir(home.unwrap_or_else(|| world.real(Path::new("/"))));
        let shown = self.shown();
        let output = command.output(timeout).await.map_err(|error| format!("{shown}: {error}"))?;
        if output.timed_out {
            return Err(format!("{shown} did not exit within {} s", timeout.as_secs_f32()));
        }
        match output.report.exit {
            Some(ProcessExit::Code(0)) => {}
            Some(exit) => return Err(format!("{shown} ended with {exit}{}", last_line(&output))),
            None => return Err(format!("{shown} exited, with an unknown exit status")),
        }
        match value(&output.stdout, &marker) {
            Some(value) if !value.is_empty() => Ok(OsString::from_vec(value.to_owned())),
            Some(_) => Err(format!("{shown} printed an empty PATH")),
            None => Err(format!("{shown} exited with code 0 and printed no PATH{}", last_line(&output))),
        }
    }
}

/// The text between the two markers.
fn value<'a>(output: &'a [u8], marker: &str) -> Option<&'a [u8]> {
    let (before, after) = (format!("{marker}="), format!("={marker}"));
    let begin = memchr::memmem::find(output, before.as_bytes())? + before.len();
    let end = memchr::memmem::find(&output[begin..], after.as_bytes())?;
    Some(&output[begin..begin + end])
}

/// The last line of standard error that is not about the missing terminal, after a colon.
fn last_line(output: &ProgramOutput) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let is_of_terminal =
        |line: &&str| ["job control", "terminal process group"].iter().any(|part| line.contains(part));
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.rfind(|line| !is_of_terminal(line)) {
        Some(line) => format!(": {}", line.chars().take(MAX_STDERR_CHARS).collect::<String>()),
        None => String::new(),
    }
}
