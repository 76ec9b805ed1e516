//! What is wrong with certificates of our own: which file, what, and what to do.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{kind}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
#[non_exhaustive]
pub struct CertificateError {
    /// The file or folder, where it is one.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    #[source]
    pub kind: CertificateErrorKind,
}

/// What can be wrong with certificates.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateErrorKind {
    /// The system does not let us read or write it.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// It is not what PEM and X.509 ask for.
    #[error("it is no certificate: {0}")]
    Pem(String),
    /// It is no private key, or of a kind that is not known.
    #[error("it is no private key that can be used: {0}")]
    Key(String),
    /// Certificate and key do not belong together.
    #[error(
        "the key does not belong to the certificate: remove both so that they are made anew, or put the right one beside it"
    )]
    KeyMismatch,
    /// Others can read a private key, or write where one lies.
    #[error(
        "others may {what} it (mode {mode:03o}): `chmod {wanted:03o}` it, and consider the key known to them"
    )]
    Open {
        /// `read` or `write`.
        what: &'static str,
        /// Its mode.
        mode: u32,
        /// What it must be.
        wanted: u32,
    },
    /// Half of a pair is there.
    #[error("{missing} is missing beside it: put it back, or remove this one too so that both are made anew")]
    Half {
        /// The file that is not there.
        missing: String,
    },
    /// It has expired.
    #[error("it expired on {0}; {1}")]
    Expired(String, &'static str),
    /// It is not valid yet.
    #[error("it is not valid before {0}: is this machine's clock right?")]
    NotYet(String),
    /// The certificate of an authority is none.
    #[error("{0}: it is no certificate of an authority: {1}")]
    Authority(String, String),
    /// The authority cannot sign, so that there can be no certificate.
    #[error("a certificate for `{0}` cannot be made: {1}")]
    CannotSign(String, String),
    /// No certificate can have that name.
    #[error("`{0}` is no name that a certificate can have: say which one the server has (--server-name)")]
    Name(String),
    /// Somebody else works on the folder and does not end.
    #[error("another process has it locked for more than {0} s")]
    Locked(u64),
    /// There is no home folder to have certificates in.
    #[error("there is no home folder, so the folder of the certificates must be named (--certs-dir)")]
    NoHome,
    /// Certificate and key are given by hand only together.
    #[error("a certificate and its key are named together (--cert and --key)")]
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

    /// The same for a pair of files.
    pub(super) fn of(self, certificate: &Path, key: &Path) -> Self {
        let path = if matches!(self.kind, CertificateErrorKind::Pem(_)) { certificate } else { key };
        Self::at(path, self.kind)
    }
}

/// A larger file holds no certificates: the bundle of all public authorities has 200 KiB. A device may have no end.
const LARGEST: u64 = 16 << 20;

/// Reads a file that may be known.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::other("it is larger than the limit of 16 MiB"));
        }
        Ok(bytes)
    };
    read().map_err(|error| CertificateError::io(path, error))
}

/// Reads a file that must be ours alone.
pub(super) fn read_secret(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let secret = read(path)?;
    private(path)?;
    Ok(secret)
}

/// Whether a private key is for its owner alone. On Windows the folder's own list says who may read.
#[cfg(unix)]
pub fn private(path: &Path) -> Result<(), CertificateError> {
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
pub fn private(_: &Path) -> Result<(), CertificateError> {
    Ok(())
}
