//! The folder itself: what is there, what is wrong with it, and how something gets into it so that nobody ever finds half
//! of it.
//!
//! Everything is made under the lock, written beside its place as `.NAME.new`, and then put there by one step of the file
//! system. The authority is two files: its key comes first, its certificate last, and neither ever takes the place of
//! one that is there. A process that ends in between leaves what the next one finishes.

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

type CertificateResult<T> = Result<T, CertificateError>;

/// A folder that is there and that nobody else may write to.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Opens the folder, or makes it for us alone.
    pub(super) fn open(path: &Path) -> CertificateResult<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|error| CertificateError::io(path, error))?;
        check_not_writable_by_others(path)?;
        Ok(Self(path.to_owned()))
    }

    /// The authorities of the folder. Where there are none, one is made.
    pub(super) fn authorities(&self) -> CertificateResult<Authorities> {
        match self.existing_authority()? {
            Some((authorities, facts)) if outlasts_renewal(&facts) => Ok(authorities),
            _ => {
                let _lock = Lock::take(&self.0)?;
                Ok(self.authority()?.0)
            }
        }
    }

    /// The authorities, and the certificate and key for that name. What is missing or has run out is made.
    pub(super) fn identity(&self, name: &str) -> CertificateResult<(Authorities, Identity)> {
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

    /// Where something is written before it is put in its place.
    fn temporary(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!(".{name}.{kind}.new"))
    }

    /// The authorities that are there, and what the first of them says.
    fn existing_authority(&self) -> CertificateResult<Option<(Authorities, CertificateFacts)>> {
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
            return Err(not_one("it says that it is none (basic constraints)"));
        }
        Ok(Some((authorities, facts)))
    }

    /// The key of the authority; `None` when it is not there, which is no fault of a folder that only has to be read.
    fn authority_key(&self, facts: &CertificateFacts) -> CertificateResult<Option<KeyPair>> {
        let path = self.file(AUTHORITY, "key");
        let Some(key) = self.key(&path)? else { return Ok(None) };
        let key = key.map_err(|kind| CertificateError::at(&path, kind))?;
        if profile::key_hash(&key) == facts.key_hash {
            return Ok(Some(key));
        }
        Err(CertificateError::at(&path, CertificateErrorKind::KeyMismatch))
    }

    /// A key that must be ours alone. That it is none is left to the caller to judge.
    fn key(&self, path: &Path) -> CertificateResult<Option<Result<KeyPair, CertificateErrorKind>>> {
        match fs::read(path) {
            Ok(pem) => {
                check_private(path)?;
                Ok(Some(profile::read_key(&pem)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CertificateError::io(path, error)),
        }
    }

    /// The certificate and key that are there for that name, or why they cannot be used. A key that others can read is
    /// an error, and never replaced in silence.
    fn existing_pair(&self, name: &str) -> CertificateResult<Result<Identity, CertificateError>> {
        let (certificate, key) = (self.file(name, "crt"), self.file(name, "key"));
        if exists(&key)? {
            check_private(&key)?;
        }
        Ok(Identity::from_files(&certificate, &key))
    }

    /// The authority, under the lock: the one that is there, or a new one.
    fn authority(&self) -> CertificateResult<(Authorities, CertificateFacts)> {
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

    /// The authority with a certificate that counts for another year, where it can be made; otherwise as it is, until it
    /// has run out.
    fn renewed(
        &self,
        authorities: Authorities,
        facts: CertificateFacts,
    ) -> CertificateResult<(Authorities, CertificateFacts)> {
        let path = self.file(AUTHORITY, "crt");
        let key = if profile::is_ours(&facts) { self.authority_key(&facts)? } else { None };
        let Some(key) = key else {
            if facts.ends() < now() {
                let todo = "whoever made the authority must make its certificate anew";
                return Err(CertificateError::at(
                    &path,
                    CertificateErrorKind::Expired(facts.ends().to_string(), todo),
                ));
            }
            tracing::warn!(target: "mcpjoin", file = %path.display(), ends = %facts.ends(), "the authority runs out");
            return Ok((authorities, facts));
        };
        let pem = profile::authority(&key, Some(&facts), now())
            .map_err(|kind| CertificateError::at(&path, kind))?;
        self.replace(AUTHORITY, "crt", pem.as_bytes())?;
        tracing::info!(target: "mcpjoin", file = %path.display(), "the authority's certificate counts for another year");
        self.existing_authority()?.ok_or_else(|| CertificateError::io(&path, ErrorKind::NotFound.into()))
    }

    /// Puts the authority in its place, as far as it has come: the key first. What is there already stays.
    fn finish_authority(&self) -> CertificateResult<()> {
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

    /// The certificate and key for a name, under the lock.
    fn leaf(
        &self,
        name: &str,
        authorities: &Authorities,
        facts: &CertificateFacts,
    ) -> CertificateResult<Identity> {
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
                tracing::warn!(target: "mcpjoin", file = %path.display(), "{why}, and ca.key is not there to sign a new one");
                return existing;
            }
            let cannot = format!("ca.key is not there to sign it, and what is there does not do: {why}");
            let kind = CertificateErrorKind::CannotSign(name.to_owned(), cannot);
            return Err(CertificateError::at(&self.file(AUTHORITY, "key"), kind));
        };
        let at = |kind| CertificateError::at(&path, kind);
        // Names that somebody has given it by hand stay.
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

    /// Puts a file in its place, whatever is there: all of it or nothing.
    fn replace(&self, name: &str, kind: &str, text: &[u8]) -> CertificateResult<()> {
        let (temporary, path) = (self.temporary(name, kind), self.file(name, kind));
        write(&temporary, text)?;
        fs::rename(&temporary, &path).map_err(|error| CertificateError::io(&path, error))?;
        self.sync()
    }

    /// Lets the folder outlast a power cut.
    #[cfg(unix)]
    fn sync(&self) -> CertificateResult<()> {
        let synced = File::open(&self.0).and_then(|folder| folder.sync_all());
        synced.map_err(|error| CertificateError::io(&self.0, error))
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "the system does it by itself")]
    fn sync(&self) -> CertificateResult<()> {
        Ok(())
    }
}

/// Whether a name can be that of two files in the folder, and is not the authority's.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty()
        && name.len() <= 200
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && name != AUTHORITY
}

/// Whether it counts, and for longer than the rest at which it is made anew.
fn outlasts_renewal(facts: &CertificateFacts) -> bool {
    facts.begins() <= now() && facts.not_after > now().0.saturating_add(RENEWAL_SECS)
}

/// What is wrong with a certificate that has to be made anew.
pub(super) fn problem(identity: &Identity, authorities: &Authorities, name: &str) -> Option<String> {
    if let Err(why) = identity.verify_against(authorities, name) {
        return Some(why);
    }
    let facts = identity.facts()?;
    (!outlasts_renewal(&facts)).then(|| format!("it counts until {} only", facts.ends()))
}

/// Whether a certificate and a key are both there and belong together.
fn is_complete_pair(certificate: &Path, key: &Path) -> bool {
    Identity::from_files(certificate, key).is_ok()
}

fn exists(path: &Path) -> CertificateResult<bool> {
    path.try_exists().map_err(|error| CertificateError::io(path, error))
}

fn same_contents(one: &Path, other: &Path) -> CertificateResult<bool> {
    let read = |path: &Path| fs::read(path).map_err(|error| CertificateError::io(path, error));
    Ok(read(one)? == read(other)?)
}

fn remove(path: &Path) -> CertificateResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(CertificateError::io(path, error)),
        _ => Ok(()),
    }
}

/// Puts a file in a place where nothing is; what has come there meanwhile stays.
fn place_if_absent(from: &Path, to: &Path) -> CertificateResult<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // A file system without links. Nobody else of ours is here, so a copy under its own name does.
        Err(_) => fs::read(from)
            .and_then(|text| create_private(to)?.write_all(&text))
            .map_err(|error| CertificateError::io(to, error)),
    }
}

/// Writes a file that only we may read, down to the disk.
fn write(path: &Path, text: &[u8]) -> CertificateResult<()> {
    remove(path)?;
    let written = create_private(path).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.map_err(|error| CertificateError::io(path, error))
}

/// A file that was not there, for us alone.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whoever may write to the folder may put another authority there.
#[cfg(unix)]
pub(super) fn check_not_writable_by_others(path: &Path) -> CertificateResult<()> {
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
pub(super) fn check_not_writable_by_others(_: &Path) -> CertificateResult<()> {
    Ok(())
}

/// How long another process may hold it, in seconds: making everything takes a few milliseconds.
const LOCK_TIMEOUT_SECS: u64 = 10;
/// How long to wait before it is tried again.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The lock, until it is dropped or the process ends.
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

/// The file, locked; `None` when somebody else has locked it.
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

/// The file, opened by nobody else at the same time.
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
