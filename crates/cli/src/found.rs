//! Files that nobody named, but that were found where files of their kind lie: configurations, files of variables.
//!
//! Somebody else may have put them there, so none may keep us waiting: what is no regular file is not read, and neither is
//! what takes long to be read, as a file of a network that does not answer, or one of `/proc`. What is named on the command
//! line is read by `connect::file`, and may be a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long reading a file may take. A disk needs milliseconds for it, also one that has to start turning.
const PATIENCE: Duration = Duration::from_secs(1);

/// One byte more than may be read: it shows that there is more.
const HEADROOM: u64 = 1;

/// The bytes of a regular file, of which there are at most so many; `None` when there are more.
///
/// # Errors
/// It cannot be opened or read, is no regular file, or takes too long to be read.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let path = path.to_owned();
    aside(PATIENCE, move || bounded(open(&path)?, largest))
}

/// Opens a regular file without waiting for whoever writes to it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // A terminal that is opened must not become ours.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("this is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("this is no regular file"));
    }
    Ok(file)
}

/// Reads to the end. `None` when there are more than `largest` bytes.
pub(crate) fn bounded(from: impl Read, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(largest.saturating_add(HEADROOM)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= largest).then_some(bytes))
}

/// Does it on a thread of its own. One that takes longer is left alone, and ends with the process.
fn aside<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = mpsc::sync_channel(1);
    thread::Builder::new().name("reading".into()).spawn(move || {
        // When it took too long, nobody waits for it.
        let _ = done.send(work());
    })?;
    outcome.recv_timeout(patience).unwrap_or_else(|_| {
        let problem = format!("reading it takes longer than {} s", patience.as_secs_f64());
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

    use super::{PATIENCE, aside, bounded, read};

    /// Gives a byte for each that is sent, and blocks until one is.
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
        let refused = aside(Duration::from_millis(10), || bounded(Blocking(receiver), 8)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert_eq!(refused.to_string(), "reading it takes longer than 0.01 s");
        // It blocked until now.
        drop(sender);

        let (sender, receiver) = mpsc::channel();
        sender.send(b'x').unwrap();
        drop(sender);
        assert_eq!(aside(PATIENCE * 60, || bounded(Blocking(receiver), 8)).unwrap(), Some(b"x".to_vec()));
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
        // Nobody writes to it: opening it in the usual way would wait.
        assert_eq!(why(&pipe), "this is no regular file");
        assert_eq!(why(Path::new("/dev/zero")), "this is no regular file");
        assert_eq!(why(&folder), "this is a directory");
        let file = folder.join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read(&file, 4).unwrap(), Some(b"text".to_vec()));
        assert_eq!(read(&file, 3).unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
