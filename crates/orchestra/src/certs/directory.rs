//! Reads, checks and writes the certificate directory, so that no process ever sees it half written.
//!
//! Files are written under the lock, first as `.NAME.new`, then moved into place in one step. The authority has two
//! files: its key is placed first, its certificate last, and neither replaces an existing file. If a process ends in
//! between, the next one completes the work. Orchestra's own programs do not use the lock; the order of writing
//! protects against them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::KeyPair;

use super::profile::{self, RENEWAL_SECS};
use mcpjoin_quic::endpoint::{
    Authorities, CertificateError, CertificateErrorKind, CertificateFacts, Identity, check_private, now,
};

const AUTHORITY: &str = "ca";

type Result<T, E = CertificateError> = std::result::Result<T, E>;

/// An existing directory that no other user can write to.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Opens the directory. Creates it if it is missing, accessible to its owner only.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|error| CertificateError::io(path, error))?;
        check_not_writable_by_others(path)?;
        Ok(Self(path.to_owned()))
    }

    /// The authorities of the directory. Creates one if there is none.
    pub(super) fn authorities(&self) -> Result<Authorities> {
        match self.existing_authority()? {
            Some((authorities, facts)) if outlasts_renewal(&facts) => Ok(authorities),
            _ => {
                let _lock = Lock::take(&self.0)?;
                Ok(self.authority()?.0)
            }
        }
    }

    /// The authorities, and the certificate and key of `name`. Creates what is missing and renews what has expired.
    pub(super) fn identity(&self, name: &str) -> Result<(Authorities, Identity)> {
        if !is_name(name) {
            return Err(CertificateErrorKind::Name(name.to_owned()).into());
        }
        if let Some((authorities, facts)) = self.existing_authority()?
            && outlasts_renewal(&facts)
            && let Ok(identity) = self.existing_pair(name)?
            && problem(&identity, &authorities, name).is_none()
        {
            return Ok((authorities, identity));
        }
        let _lock = Lock::take(&self.0)?;
        let (authorities, facts) = self.authority()?;
        let identity = self.leaf(name, &authorities, &facts)?;
        Ok((authorities, identity))
    }

    pub(super) fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!("{name}.{kind}"))
    }

    /// The path under which a file is written before it is moved into place.
    fn temporary(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!(".{name}.{kind}.new"))
    }

    /// The existing authorities, and the fields of the first one.
    fn existing_authority(&self) -> Result<Option<(Authorities, CertificateFacts)>> {
        let path = self.file(AUTHORITY, "crt");
        if !exists(&path)? {
            return Ok(None);
        }
        let authorities = Authorities::from_file(&path)?;
        let not_one = |why: &str| {
            let kind = CertificateErrorKind::Authority(AUTHORITY.to_owned(), why.to_owned());
            CertificateError::at(&path, kind)
        };
        let facts = authorities.facts().ok_or_else(|| not_one("it cannot be read"))?;
        if !facts.is_authority {
            return Err(not_one("it is not the certificate of an authority (basic constraints)"));
        }
        Ok(Some((authorities, facts)))
    }

    /// The key of the authority. `None` if it is missing, which is fine if nothing must be signed.
    fn authority_key(&self, facts: &CertificateFacts) -> Result<Option<KeyPair>> {
        let path = self.file(AUTHORITY, "key");
        let Some(key) = self.key(&path)? else { return Ok(None) };
        let key = key.map_err(|kind| CertificateError::at(&path, kind))?;
        if profile::key_hash(&key) == facts.key_hash {
            return Ok(Some(key));
        }
        Err(CertificateError::at(&path, CertificateErrorKind::KeyMismatch))
    }

    /// Reads a private key. An unusable key is returned as the inner error.
    fn key(&self, path: &Path) -> Result<Option<Result<KeyPair, CertificateErrorKind>>> {
        match fs::read(path) {
            Ok(pem) => {
                check_private(path)?;
                Ok(Some(profile::read_key(&pem)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CertificateError::io(path, error)),
        }
    }

    /// The existing certificate and key of `name`, or why they are unusable. A key that others can read is an error and
    /// is never replaced silently.
    fn existing_pair(&self, name: &str) -> Result<Result<Identity, CertificateError>> {
        let (certificate, key) = (self.file(name, "crt"), self.file(name, "key"));
        if exists(&key)? {
            check_private(&key)?;
        }
        Ok(Identity::from_files(&certificate, &key))
    }

    /// The existing authority, or a new one. Call it under the lock.
    fn authority(&self) -> Result<(Authorities, CertificateFacts)> {
        self.finish_authority()?;
        if self.existing_authority()?.is_none() {
            if exists(&self.file(AUTHORITY, "key"))? {
                let missing = "ca.crt".to_owned();
                return Err(CertificateError::at(
                    &self.file(AUTHORITY, "key"),
                    CertificateErrorKind::Half { missing },
                ));
            }
            let key = profile::new_key().map_err(|kind| CertificateError::at(&self.0, kind))?;
            let pem =
                profile::authority(&key, None, now()).map_err(|kind| CertificateError::at(&self.0, kind))?;
            write(&self.temporary(AUTHORITY, "key"), key.serialize_pem().as_bytes())?;
            write(&self.temporary(AUTHORITY, "crt"), pem.as_bytes())?;
            self.finish_authority()?;
            tracing::info!(target: "mcpjoin", directory = %self.0.display(), "made an authority for Orchestra");
        }
        let path = self.file(AUTHORITY, "crt");
        let gone = || CertificateError::io(&path, ErrorKind::NotFound.into());
        let (authorities, facts) = self.existing_authority()?.ok_or_else(gone)?;
        if facts.begins() > now() {
            let kind = CertificateErrorKind::NotYet(facts.begins().to_string());
            return Err(CertificateError::at(&path, kind));
        }
        if outlasts_renewal(&facts) {
            return Ok((authorities, facts));
        }
        self.renewed(authorities, facts)
    }

    /// Renews the authority's certificate for a year if possible. Otherwise returns it unchanged until it expires.
    fn renewed(
        &self,
        authorities: Authorities,
        facts: CertificateFacts,
    ) -> Result<(Authorities, CertificateFacts)> {
        let path = self.file(AUTHORITY, "crt");
        let key = if profile::is_ours(&facts) { self.authority_key(&facts)? } else { None };
        let Some(key) = key else {
            if facts.ends() < now() {
                let todo = "the operator of the authority must renew its certificate";
                return Err(CertificateError::at(
                    &path,
                    CertificateErrorKind::Expired(facts.ends().to_string(), todo),
                ));
            }
            tracing::warn!(target: "mcpjoin", file = %path.display(), ends = %facts.ends(), "the authority \
                expires");
            return Ok((authorities, facts));
        };
        let pem = profile::authority(&key, Some(&facts), now())
            .map_err(|kind| CertificateError::at(&path, kind))?;
        self.replace(AUTHORITY, "crt", pem.as_bytes())?;
        tracing::info!(target: "mcpjoin", file = %path.display(), "the certificate of the authority was \
            renewed for a year");
        self.existing_authority()?.ok_or_else(|| CertificateError::io(&path, ErrorKind::NotFound.into()))
    }

    /// Moves a prepared authority into place, key first. Existing files stay.
    fn finish_authority(&self) -> Result<()> {
        let (new_key, new_crt) = (self.temporary(AUTHORITY, "key"), self.temporary(AUTHORITY, "crt"));
        let (key, crt) = (self.file(AUTHORITY, "key"), self.file(AUTHORITY, "crt"));
        if !exists(&crt)? && is_complete_pair(&new_crt, &new_key) {
            if !exists(&key)? {
                place_if_absent(&new_key, &key)?;
            }
            if same_contents(&new_key, &key)? {
                place_if_absent(&new_crt, &crt)?;
            }
        }
        remove(&new_crt)?;
        remove(&new_key)?;
        self.sync()
    }

    /// The certificate and key of `name`, renewed if necessary. Call it under the lock.
    fn leaf(&self, name: &str, authorities: &Authorities, facts: &CertificateFacts) -> Result<Identity> {
        let existing = self.existing_pair(name)?;
        let why = match &existing {
            Ok(identity) => problem(identity, authorities, name),
            Err(error) => Some(error.to_string()),
        };
        let (Some(why), path) = (why, self.file(name, "crt")) else { return existing };
        let Some(signing) = self.authority_key(facts)? else {
            let usable =
                existing.as_ref().is_ok_and(|existing| existing.verify_against(authorities, name).is_ok());
            if usable {
                tracing::warn!(target: "mcpjoin", file = %path.display(), "{why}, and ca.key is missing to \
                    sign a new one");
                return existing;
            }
            let cannot = format!("ca.key is missing to sign one, and the present one is unusable: {why}");
            let kind = CertificateErrorKind::CannotSign(name.to_owned(), cannot);
            return Err(CertificateError::at(&self.file(AUTHORITY, "key"), kind));
        };
        let at = |kind| CertificateError::at(&path, kind);
        // Names that a user has added stay.
        let more =
            existing.as_ref().ok().and_then(Identity::facts).map(|facts| facts.names).unwrap_or_default();
        let key = match self.key(&self.file(name, "key"))? {
            Some(Ok(key)) => key,
            _ => {
                let key = profile::new_key().map_err(at)?;
                self.replace(name, "key", key.serialize_pem().as_bytes())?;
                key
            }
        };
        let pem = profile::leaf(name, &more, &key, facts, signing, now()).map_err(at)?;
        self.replace(name, "crt", pem.as_bytes())?;
        tracing::info!(target: "mcpjoin", file = %path.display(), %why, "made a certificate for Orchestra");
        let identity = Identity::from_files(&path, &self.file(name, "key"))?;
        match identity.verify_against(authorities, name) {
            Ok(()) => Ok(identity),
            Err(why) => Err(at(CertificateErrorKind::CannotSign(name.to_owned(), why))),
        }
    }

    /// Replaces a file atomically.
    fn replace(&self, name: &str, kind: &str, text: &[u8]) -> Result<()> {
        let (temporary, path) = (self.temporary(name, kind), self.file(name, kind));
        write(&temporary, text)?;
        fs::rename(&temporary, &path).map_err(|error| CertificateError::io(&path, error))?;
        self.sync()
    }

    /// Makes the renames durable.
    #[cfg(unix)]
    fn sync(&self) -> Result<()> {
        let synced = File::open(&self.0).and_then(|folder| folder.sync_all());
        synced.map_err(|error| CertificateError::io(&self.0, error))
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "the system does it by itself")]
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// Whether a name can be that of two files, and differs from the authority's.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty()
        && name.len() <= 200
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && name != AUTHORITY
}

/// Whether it is valid, and for longer than the renewal period.
fn outlasts_renewal(facts: &CertificateFacts) -> bool {
    facts.begins() <= now() && facts.not_after > now().0.saturating_add(RENEWAL_SECS)
}

/// Why a certificate must be renewed.
pub(super) fn problem(identity: &Identity, authorities: &Authorities, name: &str) -> Option<String> {
    if let Err(why) = identity.verify_against(authorities, name) {
        return Some(why);
    }
    let facts = identity.facts()?;
    (!outlasts_renewal(&facts)).then(|| format!("it is valid only until {}", facts.ends()))
}

/// Whether certificate and key exist and belong together.
fn is_complete_pair(certificate: &Path, key: &Path) -> bool {
    Identity::from_files(certificate, key).is_ok()
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| CertificateError::io(path, error))
}

fn same_contents(one: &Path, other: &Path) -> Result<bool> {
    let read = |path: &Path| fs::read(path).map_err(|error| CertificateError::io(path, error));
    Ok(read(one)? == read(other)?)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(CertificateError::io(path, error)),
        _ => Ok(()),
    }
}

/// Moves a file into place unless a file is already there.
fn place_if_absent(from: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // The file system has no links. No other process of ours is here, so a copy will do.
        Err(_) => fs::read(from)
            .and_then(|text| create_private(to)?.write_all(&text))
            .map_err(|error| CertificateError::io(to, error)),
    }
}

/// Writes a file that only its owner can read, and syncs it to the disk.
fn write(path: &Path, text: &[u8]) -> Result<()> {
    remove(path)?;
    let written = create_private(path).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.map_err(|error| CertificateError::io(path, error))
}

/// Creates a new file that only its owner can access.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Checks that other users cannot write to the directory. They could place another authority there.
#[cfg(unix)]
pub(super) fn check_not_writable_by_others(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs::metadata(path).map_err(|error| CertificateError::io(path, error))?;
    if !metadata.is_dir() {
        return Err(CertificateError::io(path, ErrorKind::NotADirectory.into()));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o022 == 0 {
        return Ok(());
    }
    let wanted = mode & !0o022;
    Err(CertificateError::at(path, CertificateErrorKind::Open { what: "write to", mode, wanted }))
}

#[cfg(not(unix))]
pub(super) fn check_not_writable_by_others(_: &Path) -> Result<()> {
    Ok(())
}

/// How long to wait for another process, in seconds. Creating all files takes a few milliseconds.
const LOCK_TIMEOUT_SECS: u64 = 10;
/// Delay between two attempts to lock.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The lock on the file `.lock` in the directory, held until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "held open")] File);

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Self, CertificateError> {
        let path = directory.join(".lock");
        let until = Instant::now() + Duration::from_secs(LOCK_TIMEOUT_SECS);
        loop {
            match try_lock(&path) {
                Ok(Some(file)) => return Ok(Self(file)),
                Ok(None) if Instant::now() >= until => {
                    return Err(CertificateError::at(
                        directory,
                        CertificateErrorKind::Locked(LOCK_TIMEOUT_SECS),
                    ));
                }
                Ok(None) => thread::sleep(LOCK_RETRY_DELAY),
                Err(error) => return Err(CertificateError::io(&path, error)),
            }
        }
    }
}

/// The locked file; `None` if another process has locked it.
#[cfg(unix)]
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{FlockOperation, flock};
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The file, opened exclusively.
#[cfg(windows)]
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    use std::os::windows::fs::OpenOptionsExt as _;
    /// `ERROR_SHARING_VIOLATION`.
    const SHARED: i32 = 32;
    let mut options = OpenOptions::new();
    match options.read(true).write(true).create(true).truncate(false).share_mode(0).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(SHARED) => Ok(None),
        Err(error) => Err(error),
    }
}
