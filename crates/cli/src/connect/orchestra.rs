//! Where the certificates for Orchestra lie.
//!
//! Called by `plan` for an orchestrator that is reached, and by the verbs that speak Orchestra themselves.

use std::ffi::OsString;
use std::path::PathBuf;

use mcpjoin_orchestra::certs::Certificates;

use crate::args::Connect;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;

/// The folder of certificates: the one that was named, or that of Orchestra's own programs. It need not be there yet.
pub(crate) fn certificates_folder(named: Option<&str>) -> Result<PathBuf, Failure> {
    let folder = Certificates::directory_named(named.unwrap_or_default())
        .map_err(|error| Failure::usage(error.to_string(), "--certs-dir DIR"))?;
    if folder.exists() && !folder.is_dir() {
        let problem = format!("{} is a file, and no folder of certificates", shown(folder.as_os_str()));
        return Err(Failure::new("E_CERTIFICATE", Exit::Usage, Phase::Usage, problem)
            .hint("--certs-dir DIR names the folder in which ca.crt and the others lie"));
    }
    Ok(folder)
}

/// The words with which our own bridge is told of the certificates that were named.
pub(super) fn words(connect: &Connect) -> Result<Vec<OsString>, Failure> {
    let mut words = Vec::new();
    // With --cwd it works elsewhere than we do.
    let absolute = |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone());
    if let Some(named) = &connect.certs_dir {
        let folder = certificates_folder(Some(named))?;
        words.extend(["--certs-dir".into(), absolute(&folder).into_os_string()]);
    }
    if let Some(name) = &connect.server_name {
        words.extend(["--server-name".into(), name.into()]);
    }
    let files = [("--ca", &connect.ca), ("--cert", &connect.cert), ("--key", &connect.key)];
    for (option, file) in files {
        words.extend(file.iter().flat_map(|file| [OsString::from(option), absolute(file).into()]));
    }
    Ok(words)
}
