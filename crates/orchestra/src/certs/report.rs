//! The report for `doctor`: every file, its fields, and its problem. Changes nothing.

use std::path::{Path, PathBuf};

use super::directory::{check_not_writable_by_others, is_name, problem};
use super::{Certificates, profile};
use mcpjoin_quic::endpoint::{Authorities, CertificateError, CertificateFacts, Identity, check_private, now};

/// The certificates of a name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CertificateReport {
    /// The directory.
    pub directory: PathBuf,
    /// The problem of the directory itself.
    pub problem: Option<String>,
    /// The authority's certificate and key, then those of the name. Missing files that can be created are omitted.
    pub files: Vec<CertificateFile>,
}

/// A file with certificates or a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CertificateFile {
    /// Its path.
    pub path: PathBuf,
    /// The fields of its first certificate; `None` for a key or an unreadable file.
    pub facts: Option<CertificateFacts>,
    /// What is wrong with it, and what to do.
    pub problem: Option<String>,
}

impl CertificateReport {
    /// Whether there is no problem.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problem.is_none() && self.files.iter().all(|file| file.problem.is_none())
    }
}

pub(super) fn report(certificates: &Certificates, name: &str) -> CertificateReport {
    let directory = certificates.directory.clone();
    let own = |kind: &str| directory.join(format!("{name}.{kind}"));
    let authority = certificates.ca.clone().unwrap_or_else(|| directory.join("ca.crt"));
    let (certificate, key) = certificates.pair.clone().unwrap_or_else(|| (own("crt"), own("key")));
    let mut problem = None;
    if directory.exists() {
        problem = check_not_writable_by_others(&directory).err().map(|error| error.to_string());
    }
    if !is_name(name) {
        problem = Some(format!("`{name}` is not a valid name for certificate files"));
    }
    let mut files = Vec::new();
    let authorities = if certificates.ca.is_some() || authority.exists() {
        let read = Authorities::from_file(&authority);
        files.push(authority_file(authority, &read));
        read.ok()
    } else {
        None
    };
    if certificates.ca.is_none() && directory.join("ca.key").exists() {
        files.push(key_file(directory.join("ca.key")));
    }
    if certificates.pair.is_some() || certificate.exists() || key.exists() {
        let read = Identity::from_files(&certificate, &key);
        files.push(identity_file(certificate, &read, authorities.as_ref(), name));
        files.push(key_file(key));
    }
    CertificateReport { directory, problem, files }
}

fn authority_file(path: PathBuf, read: &Result<Authorities, CertificateError>) -> CertificateFile {
    let facts = read.as_ref().ok().and_then(Authorities::facts);
    let problem = match (read, &facts) {
        (Err(error), _) => Some(error.to_string()),
        (_, Some(facts)) => validity_problem(facts).or_else(|| {
            (!facts.is_authority)
                .then(|| "it is not the certificate of an authority (basic constraints)".to_owned())
        }),
        _ => None,
    };
    CertificateFile { path, facts, problem }
}

fn identity_file(
    path: PathBuf,
    read: &Result<Identity, CertificateError>,
    authorities: Option<&Authorities>,
    name: &str,
) -> CertificateFile {
    let facts = read.as_ref().ok().and_then(Identity::facts);
    let problem = match (read, authorities) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(identity), Some(authorities)) => problem(identity, authorities, name),
        (Ok(_), None) => facts.as_ref().and_then(validity_problem),
    };
    CertificateFile { path, facts, problem }
}

fn key_file(path: PathBuf) -> CertificateFile {
    let problem = key_problem(&path).map(|error| error.to_string());
    CertificateFile { path, facts: None, problem }
}

fn key_problem(path: &Path) -> Option<CertificateError> {
    let pem = match std::fs::read(path) {
        Ok(pem) => pem,
        Err(error) => return Some(CertificateError::io(path, error)),
    };
    let read = profile::read_key(&pem).map_err(|kind| CertificateError::at(path, kind));
    check_private(path).and(read).err()
}

fn validity_problem(facts: &CertificateFacts) -> Option<String> {
    if facts.begins() > now() {
        Some(format!("it is not valid before {}: is this machine's clock right?", facts.begins()))
    } else if facts.ends() < now() {
        Some(format!("it expired on {}", facts.ends()))
    } else {
        None
    }
}
