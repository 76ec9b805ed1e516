//! Errors of our own certificates: the file, the problem, and what to do.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate or key that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{kind}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
#[non_exhaustive]
pub struct CertificateError {
    /// The file or directory, if it came from one.
    pub path: Option<PathBuf>,
    /// The problem.
    #[source]
    pub kind: CertificateErrorKind,
}

/// What is wrong with a certificate or key.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateErrorKind {
    /// Reading or writing the file failed.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// It is not valid PEM or X.509.
    #[error("not a certificate: {0}")]
    Pem(String),
    /// It is not a private key of a supported kind.
    #[error("not a usable private key: {0}")]
    Key(String),
    /// The key does not belong to the certificate.
    #[error(
        "the key does not belong to the certificate: remove both to create new ones, or add the matching one"
    )]
    KeyMismatch,
    /// Other users can read a private key, or write to its directory.
    #[error(
        "others may {what} it (mode {mode:03o}): `chmod {wanted:03o}` it, and consider the key known to them"
    )]
    Open {
        /// `read` or `write`.
        what: &'static str,
        /// The current file mode.
        mode: u32,
        /// The required file mode.
        wanted: u32,
    },
    /// One file of a pair is missing.
    #[error("{missing} is missing next to it: restore it, or remove this file too to create both again")]
    Half {
        /// The missing file.
        missing: String,
    },
    /// It has expired.
    #[error("it expired on {0}; {1}")]
    Expired(String, &'static str),
    /// It is not valid yet.
    #[error("it is not valid before {0}: check this machine's clock")]
    NotYet(String),
    /// It is not a certificate of an authority.
    #[error("{0}: not a certificate of an authority: {1}")]
    Authority(String, String),
    /// The authority cannot sign a certificate.
    #[error("a certificate for `{0}` cannot be created: {1}")]
    CannotSign(String, String),
    /// A certificate cannot contain this name.
    #[error("`{0}` is not a valid name for a certificate: use --server-name with the name of the server")]
    Name(String),
    /// Another process has locked the directory for too long.
    #[error("another process has locked it for more than {0} s")]
    Locked(u64),
    /// There is no home directory.
    #[error("there is no home folder: use --certs-dir for the folder of certificates")]
    NoHome,
    /// A certificate was given without its key, or a key without its certificate.
    #[error("a certificate and its key belong together (--cert and --key)")]
    Pair,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

impl From<CertificateErrorKind> for CertificateError {
    fn from(kind: CertificateErrorKind) -> Self {
        Self { path: None, kind }
    }
}

impl CertificateError {
    #[doc(hidden)]
    pub fn at(path: &Path, kind: CertificateErrorKind) -> Self {
        Self { path: Some(path.to_owned()), kind }
    }

    #[doc(hidden)]
    pub fn io(path: &Path, error: io::Error) -> Self {
        Self::at(path, CertificateErrorKind::Io(Arc::new(error)))
    }

    #[doc(hidden)]
    pub fn interrupted(why: &str) -> Self {
        CertificateErrorKind::Tls(why.to_owned()).into()
    }

    /// Adds the path of the file that is at fault.
    pub(super) fn of(self, certificate: &Path, key: &Path) -> Self {
        let path = if matches!(self.kind, CertificateErrorKind::Pem(_)) { certificate } else { key };
        Self::at(path, self.kind)
    }
}

/// Maximum size of a certificate file. The bundle of all public authorities has 200 KiB; a device file may never end.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reads a file of certificates.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("it is larger than the limit of 16 MiB"));
        }
        Ok(bytes)
    };
    read().map_err(|error| CertificateError::io(path, error))
}

/// Reads a private key, which only its owner may be able to access.
pub(super) fn read_secret(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let secret = read(path)?;
    check_private(path)?;
    Ok(secret)
}

/// Checks that only the owner can access a private key. On Windows the access list of its directory applies.
#[cfg(unix)]
pub fn check_private(path: &Path) -> Result<(), CertificateError> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs::metadata(path).map_err(|error| CertificateError::io(path, error))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let what = if mode & 0o044 == 0 { "write" } else { "read" };
    Err(CertificateError::at(path, CertificateErrorKind::Open { what, mode, wanted: 0o600 }))
}

#[cfg(not(unix))]
pub fn check_private(_: &Path) -> Result<(), CertificateError> {
    Ok(())
}
