//! The keys that several bridges share (`bridge --key-file`): reads their file, checks it, and reads it again when it changes.
//!
//! `mcpjoin_gateway` seals with them. Used by `relay` and `joined`, which make the gateway, by `serving`, which follows the file,
//! and by `bridge --check-config`, which starts nothing.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin::server::{SealingKeys, StateKey};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::policy::{POLL, Stamp, stamp};
use crate::commands::written;
use crate::connect::is_readable_by_others;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// Keys in a file: a rotation needs two.
const MAX_KEYS: usize = 16;
/// Bytes of the file. Each key has 44, and there may be comments.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// The permission bits that let a group and others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The keys of a file, which are replaced when the file changes.
pub(super) struct KeyFile {
    path: PathBuf,
    keys: SealingKeys,
    stamp: Stamp,
}

/// The keys of a file, the first of which seals.
type Keys = (StateKey, Vec<StateKey>);

impl KeyFile {
    /// Reads the file.
    pub(super) fn open(ui: &Ui, path: &Path) -> Result<Self, Failure> {
        // Before it is read, so that a change meanwhile is noticed.
        let stamp = stamp(path);
        let (first, others) = read(path).map_err(|cause| {
            Failure::usage(visible::line(&cause).into_owned(), "docs/replicas.md explains the file")
        })?;
        if is_readable_by_others(path) {
            let name = shown(path.as_os_str());
            ui.warning(&format!("other users can read {name}, and with a key they can take over sessions"));
        }
        Ok(Self { path: path.into(), keys: SealingKeys::new(first, others), stamp })
    }

    pub(super) fn keys(&self) -> SealingKeys {
        self.keys.clone()
    }

    /// Reads the file again as often as it changes, while `work` is in progress.
    pub(super) async fn during<T>(&self, ui: &Ui, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = self.follow(ui) => match never {},
        }
    }

    async fn follow(&self, ui: &Ui) -> Infallible {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = self.stamp;
        loop {
            ticks.tick().await;
            let path = self.path.clone();
            let look = move || {
                let now = stamp(&path);
                (now != known).then(|| (read(&path), now))
            };
            // A file system may take long.
            let Ok(Some((outcome, now))) = spawn_blocking(look).await else { continue };
            known = now;
            match outcome {
                Ok((first, others)) => {
                    let count = others.len() + 1;
                    self.keys.replace(first, others);
                    let name = shown(self.path.as_os_str());
                    ui.note(&format!("the keys were read again: {count} in {name}, the first one seals"));
                }
                Err(cause) => {
                    ui.warning(&format!("{}; the keys stay as they were", visible::line(&cause)));
                }
            }
        }
    }
}

/// Checks a file for `--check-config`.
pub(super) fn check(ui: &Ui, path: &Path) -> Result<Exit, Failure> {
    KeyFile::open(ui, path)?;
    Ok(written(ui, ui.result(&format!("{} is valid", shown(path.as_os_str())))))
}

/// Reads the keys of a file. Fails with the reason why it cannot be used, which never contains a key.
fn read(path: &Path) -> Result<Keys, String> {
    let unusable = |why: &str| format!("{}: {why}", path.display());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = path.metadata().map_err(|error| unusable(&error.to_string()))?;
        if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(unusable("other users can write to it (chmod go-w)"));
        }
    }
    let text = found::read(path, MAX_FILE_BYTES).map_err(|error| unusable(&error.to_string()))?;
    let text = text.ok_or_else(|| unusable("it is larger than the limit of 64 KiB"))?;
    parse(&text).map_err(|why| unusable(&why))
}

/// Parses one key per line: the base64 of 32 bytes. Blank lines and lines that begin with `#` are skipped.
fn parse(text: &[u8]) -> Result<Keys, String> {
    let mut keys: Vec<[u8; 32]> = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let bytes = STANDARD
            .decode(line)
            .map_err(|_| format!("line {number} is not base64 (openssl rand -base64 32 makes a key)"))?;
        let length = bytes.len();
        let key = <[u8; 32]>::try_from(bytes)
            .map_err(|_| format!("line {number} has {length} bytes, but a key has 32"))?;
        if keys.contains(&key) {
            return Err(format!("line {number} has a key that an earlier line has, too"));
        }
        if keys.len() == MAX_KEYS {
            return Err(format!("line {number} is above the limit of {MAX_KEYS} keys"));
        }
        keys.push(key);
    }
    let mut keys = keys.into_iter().map(StateKey::from_bytes);
    let first = keys.next().ok_or("it has no key (openssl rand -base64 32 makes one)")?;
    Ok((first, keys.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> String {
        STANDARD.encode([number; 32])
    }

    #[test]
    fn a_file_has_one_key_per_line_and_comments() {
        let text = format!("# the new one\n{}\r\n\n  {}  \n# the end", key(2), key(1));
        let (first, others) = parse(text.as_bytes()).unwrap();
        let own = SealingKeys::new(first, others);
        let expected = SealingKeys::new(StateKey::from_bytes([2; 32]), [StateKey::from_bytes([1; 32])]);
        assert_eq!(own.derived("p"), expected.derived("p"));
    }

    #[test]
    fn a_fault_is_named_with_its_line_and_without_the_key() {
        let many: Vec<String> = (0..=16).map(key).collect();
        for (text, why) in [
            (String::new(), "it has no key"),
            ("# nothing\n\n".into(), "it has no key"),
            (format!("{}\nsecret word", key(1)), "line 2 is not base64"),
            (format!("{} {}", key(1), key(2)), "line 1 is not base64"),
            ("AAAA".into(), "line 1 has 3 bytes, but a key has 32"),
            (STANDARD.encode([1; 33]), "line 1 has 33 bytes, but a key has 32"),
            (format!("{}\n{}", key(1), key(1)), "line 2 has a key that an earlier line has, too"),
            (many.join("\n"), "line 17 is above the limit of 16 keys"),
        ] {
            let fault = parse(text.as_bytes()).map(drop).unwrap_err();
            assert!(fault.starts_with(why) && !fault.contains("secret"), "{fault}");
        }
        assert!(parse(many[..16].join("\n").as_bytes()).is_ok());
    }
}
