//! The folder of certificates that Orchestra's programs share: `ca.crt` and `ca.key`, and a certificate and key for each
//! name.
//!
//! Whoever holds the folder signs its own certificate with the authority's key. An authority that is there is used and
//! never replaced, whoever made it; where there is none, one is made, and of two that begin at once one makes it.

use std::path::{Path, PathBuf};

use crate::quic::{CertificateError, CertificateFacts, ClientTls, ServerTls};

/// Where certificates come from: the folder, and what is named by hand instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    directory: PathBuf,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}
