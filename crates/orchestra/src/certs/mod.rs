//! The folder of certificates that Orchestra's programs share: `ca.crt` and `ca.key`, and a certificate and key for each
//! name.
//!
//! Whoever holds the folder signs its own certificate with the authority's key. An authority that is there is used and
//! never replaced, whoever made it; where there is none, one is made, and of two that begin at once one makes it. A
//! certificate of ours that runs out, or does not fit the authority, is made anew with the key that it has; so is the
//! authority's own certificate, whose name and key stay, so that what it has signed still counts.
//!
//! Everything here blocks on files. Private keys must be for their owner alone: one that others can read is refused.

mod directory;
mod profile;
mod report;

use std::path::{Path, PathBuf};

use directory::Directory;
use mcpjoin_quic::endpoint::{
    Authorities, CertificateError, CertificateErrorKind, ClientTls, ClientsAre, Identity, ServerTls, Trust,
};

pub use report::{CertificateFile, CertificateReport};

/// Where certificates come from: the folder, and what is named by hand instead.
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
    /// Those in that folder. It is made, for us alone, when something is asked for that is not there.
    #[must_use]
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), ca: None, pair: None, server_name: None }
    }

    /// The folder of Orchestra's programs when none is named: `.orchestra/certs` in our home folder.
    ///
    /// # Errors
    /// [`CertificateErrorKind::NoHome`].
    pub fn default_directory() -> Result<PathBuf, CertificateError> {
        Ok(home()?.join(".orchestra").join("certs"))
    }

    /// The folder that a person has named: a `~` at its beginning is our home folder, nothing at all is
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

    /// The authorities in this PEM file instead of the folder's own.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// The certificate and the key in these PEM files instead of the folder's. They are used as they are, and never
    /// made anew.
    #[must_use]
    pub fn pair(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.pair = Some((certificate.into(), key.into()));
        self
    }

    /// The name that the server's certificate must have, instead of the host of its address. A server that is reached
    /// from another machine has no such host in its certificate: it is called
    /// [`orchestrator`](super::SERVER_NAME).
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A client's side of TLS, under that name, with that application protocol. What is missing or has run out is made.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, what is wrong with it, and what to do.
    pub fn client(&self, name: &str, alpn: &str) -> Result<ClientTls, CertificateError> {
        let (authorities, identity) = self.authorities_and_identity(name)?;
        let tls = ClientTls::new(&Trust::Authorities(authorities), Some(identity), alpn)?;
        Ok(match &self.server_name {
            Some(name) => tls.server_name(name),
            None => tls,
        })
    }

    /// A server's side of TLS, under that name, with that application protocol. Clients have to show a certificate, or,
    /// where they need not, one that they show is checked all the same: Orchestra's own servers since 1.0.0. What is
    /// missing or has run out is made.
    ///
    /// # Errors
    /// As [`Certificates::client`].
    pub fn server(&self, name: &str, required: bool, alpn: &str) -> Result<ServerTls, CertificateError> {
        let (authorities, identity) = self.authorities_and_identity(name)?;
        let clients = match required {
            true => ClientsAre::Required(authorities),
            false => ClientsAre::CheckedIfGiven(authorities),
        };
        ServerTls::new(identity, &clients, alpn)
    }

    /// What there is for that name, and what is wrong with it. Nothing is made or changed.
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
