//! A foreign program of one test that ends with the test however that ends: its guard kills it when the test's end of a pipe closes.
//!
//! Used by [`crate::Redis`] and [`crate::Nginx`].

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

/// Runs a program, and kills it when its own input ends.
const GUARD: &str = r#""$@" & exec >&-; read -r _; kill -9 $!; wait $!"#;

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Guarded {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Guarded {
    /// Starts the program, and waits until a line of its standard output contains `ready`.
    ///
    /// # Errors
    ///
    /// When it does not start, or ends before that; the error has its output.
    pub(crate) fn start(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        ready: &str,
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "guard"]).arg(program).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A program that writes into its folder writes nothing into the project's.
        command.current_dir(std::env::temp_dir());
        let mut guard = command.spawn()?;
        let (pipe, output) = (guard.stdin.take(), guard.stdout.take());
        let own = Self { guard, pipe };
        let mut lines =
            BufReader::new(output.ok_or_else(|| io::Error::other("no pipe"))?).lines().map_while(Result::ok);
        let mut said = String::new();
        while !said.contains(ready) {
            let Some(line) = lines.next() else {
                return Err(io::Error::other(format!("{} has not started: {said}", program.display())));
            };
            said += &line;
            said.push('\n');
        }
        // Reads to the end: a program with a full pipe would block.
        thread::spawn(move || lines.for_each(drop));
        Ok(own)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.guard.wait();
    }
}
