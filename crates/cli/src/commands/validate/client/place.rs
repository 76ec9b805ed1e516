//! The file that the report on a client goes to. It is opened before anything is done, so that nobody looks at a client
//! for ten minutes to learn that there is no such folder.
//!
//! Made by `validate --client --report` before the look, and written after it. What was made for nothing is taken away.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use crate::commands::unwritten;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::shown;

/// Stands for the id of our process in the name of the report.
const PID: &str = "{pid}";

/// Where the report is written to.
pub(super) struct Place {
    path: PathBuf,
    /// There was no such file before.
    made: bool,
}

impl Place {
    /// # Errors
    /// When nothing can be written there.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let path = match path.to_str() {
            Some(name) => PathBuf::from(name.replace(PID, &std::process::id().to_string())),
            None => path.to_owned(),
        };
        let known = std::fs::metadata(&path).ok();
        // A pipe waits for its reader, and a terminal is there: they are opened when there is something to say.
        if known.as_ref().is_none_or(|known| known.is_file() || known.is_dir()) {
            let opened = OpenOptions::new().append(true).create(true).open(&path);
            opened.map_err(|error| unwritten(&shown(path.as_os_str()), &error))?;
        }
        Ok(Self { path, made: known.is_none() })
    }

    /// Writes the report, without styles.
    pub(super) fn save(mut self, text: &str) -> Result<Exit, Failure> {
        let plain = anstream::adapter::strip_str(text).to_string();
        self.made = false;
        std::fs::write(&self.path, plain.trim_end().to_owned() + "\n")
            .map(|()| Exit::Done)
            .map_err(|error| unwritten(&shown(self.path.as_os_str()), &error))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.made {
            // Where that fails, an empty file stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
