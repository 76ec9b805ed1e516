//! The certificate directory that Orchestra's programs share: `ca.crt` and `ca.key`, and a certificate and key for each
//! name.
//!
//! A program with access to the directory signs its own certificate with the authority's key. An existing authority is
//! used and never replaced. If there is none, one is created; of two processes that start at once, only one creates it.
//! Our own certificates are renewed with the same key when they expire or do not match the authority. The authority's
//! certificate is renewed with the same name and key, so that the certificates that it has signed stay valid.
//!
//! Everything here does blocking file I/O. A private key that other users can read is rejected.

mod directory;
mod profile;
mod report;

use std::path::{Path, PathBuf};

use directory::Directory;
use mcpjoin_quic::endpoint::{
    Authorities, CertificateError, CertificateErrorKind, ClientAuth, ClientTls, Identity, ServerTls, Trust,
};

pub use report::{CertificateFile, CertificateReport};

/// The source of certificates: a directory, or files that replace parts of it.
///
/// ```no_run
/// use mcpjoin_orchestra::{ALPN, CLIENT_NAME, SERVER_NAME, certs::Certificates};
/// use mcpjoin_quic::endpoint::{self as quic, QuicOptions};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = Certificates::in_directory(Certificates::default_directory()?).server_name(SERVER_NAME);
/// let tls = tokio::task::spawn_blocking(move || certificates.client(CLIENT_NAME, ALPN)).await??;
/// let connection = quic::connect("10.0.0.7:50100", &tls, &QuicOptions::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    directory: PathBuf,
    ca: Option<PathBuf>,
    pair: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

impl Certificates {
    /// The certificates in this directory. It is created with access for its owner only when a missing file is needed.
    #[must_use]
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), ca: None, pair: None, server_name: None }
    }

    /// The default directory of Orchestra's programs: `.orchestra/certs` in the home directory.
    ///
    /// # Errors
    /// [`CertificateErrorKind::NoHome`].
    pub fn default_directory() -> Result<PathBuf, CertificateError> {
        Ok(home()?.join(".orchestra").join("certs"))
    }

    /// The directory with this name. A leading `~` is the home directory; an empty name is
    /// [`Certificates::default_directory`].
    ///
    /// # Errors
    /// [`CertificateErrorKind::NoHome`].
    pub fn directory_named(name: &str) -> Result<PathBuf, CertificateError> {
        match name.strip_prefix('~') {
            _ if name.is_empty() => Self::default_directory(),
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Ok(home()?.join(rest.trim_start_matches('/')))
            }
            _ => Ok(name.into()),
        }
    }

    /// Uses the authorities in this PEM file instead of the directory's.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Uses the certificate and the key in these PEM files instead of the directory's. They are never renewed.
    #[must_use]
    pub fn pair(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.pair = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the name that the server's certificate must have, instead of the host of its address. The certificate of a
    /// server on another machine does not contain that host; its name is [`orchestrator`](super::SERVER_NAME).
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// TLS settings for a client with this name and application protocol. Creates or renews files as needed.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, the problem, and what to do.
    pub fn client(&self, name: &str, alpn: &str) -> Result<ClientTls, CertificateError> {
        let (authorities, identity) = self.authorities_and_identity(name)?;
        let tls = ClientTls::new(&Trust::Authorities(authorities), Some(identity), alpn)?;
        Ok(match &self.server_name {
            Some(name) => tls.server_name(name),
            None => tls,
        })
    }

    /// TLS settings for a server with this name and application protocol. If `required` is false, clients may connect
    /// without a certificate, but one that they present is verified, as in Orchestra's own servers since 1.0.0. Creates
    /// or renews files as needed.
    ///
    /// # Errors
    /// As for [`Certificates::client`].
    pub fn server(&self, name: &str, required: bool, alpn: &str) -> Result<ServerTls, CertificateError> {
        let (authorities, identity) = self.authorities_and_identity(name)?;
        let clients = match required {
            true => ClientAuth::Required(authorities),
            false => ClientAuth::CheckedIfGiven(authorities),
        };
        ServerTls::new(identity, &clients, alpn)
    }

    /// Reports the files of this name and their problems. Changes nothing.
    #[must_use]
    pub fn report(&self, name: &str) -> CertificateReport {
        report::report(self, name)
    }

    fn authorities_and_identity(&self, name: &str) -> Result<(Authorities, Identity), CertificateError> {
        let given = self.ca.as_deref().map(Authorities::from_file).transpose()?;
        let pair = match &self.pair {
            Some((certificate, key)) => {
                let identity = Identity::from_files(certificate, key)?;
                identity.check_validity().map_err(|kind| CertificateError::at(certificate, kind))?;
                Some(identity)
            }
            None => None,
        };
        match (given, pair) {
            (Some(authorities), Some(identity)) => Ok((authorities, identity)),
            (given, Some(identity)) => {
                let own = Directory::open(&self.directory)?.authorities()?;
                Ok((given.unwrap_or(own), identity))
            }
            (given, None) => {
                let (own, identity) = Directory::open(&self.directory)?.identity(name)?;
                Ok((given.unwrap_or(own), identity))
            }
        }
    }
}

fn home() -> Result<PathBuf, CertificateError> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    home.ok_or_else(|| CertificateErrorKind::NoHome.into())
}
