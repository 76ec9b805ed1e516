//! Reads files that were found, and that the user has not named: configurations and files of variables.
//!
//! Another person may have put them there, so none may block us: a file that is not regular is refused, and so is one that takes
//! long to read, such as a file of a network that does not respond, or one of `/proc`. A file that is named on the command line
//! may be a pipe; `connect::network` reads it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long reading a file may take. A disk needs milliseconds, also one that has to spin up.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes of a regular file; `None` when there are more than `max_bytes`.
///
/// # Errors
/// When it cannot be opened or read, is no regular file, or takes longer than [`READ_TIMEOUT`].
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let path = path.to_owned();
    on_thread(READ_TIMEOUT, move || bounded(open(&path)?, max_bytes))
}

/// Opens a regular file. On a pipe it fails at once and waits for no writer.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // A terminal must not become our controlling terminal.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("this is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    Ok(file)
}

/// Reads to the end; `None` when there are more than `max_bytes`.
pub(crate) fn bounded(from: impl Read, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    // One byte more shows that there are more.
    from.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max_bytes).then_some(bytes))
}

/// Runs the work on a new thread. After the timeout the thread is abandoned and ends with the process.
fn on_thread<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = mpsc::sync_channel(1);
    thread::Builder::new().name("reading".into()).spawn(move || {
        // After the timeout there is no receiver.
        let _ = done.send(work());
    })?;
    outcome.recv_timeout(limit).unwrap_or_else(|_| {
        let problem = format!("reading it takes longer than {} s", limit.as_secs_f64());
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    })
}

/// A file of NUL bytes. Dropping this removes it.
#[cfg(test)]
pub(crate) struct Zeros(pub(crate) std::path::PathBuf);

#[cfg(test)]
impl Zeros {
    pub(crate) fn new(name: &str, bytes: u64) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-zeros-{name}-{}", std::process::id()));
        File::create(&path).unwrap().set_len(bytes).unwrap();
        Self(path)
    }
}

#[cfg(test)]
impl Drop for Zeros {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::path::Path;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use super::{READ_TIMEOUT, bounded, on_thread, read};

    /// Reads one byte for each that is sent, and blocks until then.
    struct Blocking(Receiver<u8>);

    impl Read for Blocking {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Ok(byte) = self.0.recv() else { return Ok(0) };
            buffer[0] = byte;
            Ok(1)
        }
    }

    #[test]
    fn a_file_that_blocks_is_not_waited_for() {
        let (sender, receiver) = mpsc::channel();
        sender.send(b'x').unwrap();
        let refused = on_thread(Duration::from_millis(10), || bounded(Blocking(receiver), 8)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert_eq!(refused.to_string(), "reading it takes longer than 0.01 s");
        // It blocked until now.
        drop(sender);

        let (sender, receiver) = mpsc::channel();
        sender.send(b'x').unwrap();
        drop(sender);
        assert_eq!(
            on_thread(READ_TIMEOUT * 60, || bounded(Blocking(receiver), 8)).unwrap(),
            Some(b"x".to_vec())
        );
    }

    #[test]
    fn what_has_no_end_is_read_up_to_the_bound() {
        assert_eq!(bounded(&b"12345678"[..], 8).unwrap(), Some(b"12345678".to_vec()));
        assert_eq!(bounded(io::repeat(b'x'), 8).unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("mcpjoin-found-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let why = |path: &Path| super::open(path).map(|_| ()).unwrap_err().to_string();
        // It has no writer: opening it in the usual way would block.
        assert_eq!(why(&pipe), "this is not a regular file");
        assert_eq!(why(Path::new("/dev/zero")), "this is not a regular file");
        assert_eq!(why(&folder), "this is a directory");
        let file = folder.join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read(&file, 4).unwrap(), Some(b"text".to_vec()));
        assert_eq!(read(&file, 3).unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
