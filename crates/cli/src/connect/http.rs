//! A server that is reached over HTTP: from its address and the headers for it to what connects to it.
//!
//! Called by `connect::plan`.

use std::ffi::OsString;
use std::path::Path;

use mcpjoin::Link;
use mcpjoin::link::{HttpConnect, HttpSetupError};

use super::authorization::Access;
use super::file;
use super::headers::headers;
use crate::args::Connect;
use crate::config::Remote;
use crate::failure::Failure;
use crate::secret;
use crate::target::shown;
use crate::ui::Ui;

/// A file of certificates is no larger: the authorities that systems bring along have a tenth of that.
pub(super) const LARGEST: u64 = 4 << 20;

/// What connects, who is asked for our authorization, and what must not be shown from then on. A header that is typed takes
/// the place of its namesake in the entry. `named`: the entry as it is to be typed.
pub(super) fn link(
    ui: &Ui,
    remote: &Remote,
    connect: &Connect,
    named: Option<&str>,
) -> Result<(HttpConnect, Access, Vec<OsString>), Failure> {
    let address = &remote.address;
    let typed = headers(&connect.header)?;
    let is_typed = |name: &str| typed.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let entry = remote.headers.iter().filter(|(name, _)| !is_typed(name));
    let mut link = Link::http(&address.url);
    let mut hidden = secret::values(&[OsString::from(&address.url)]);
    let mut has_header = false;
    for (name, value) in entry.chain(&typed) {
        has_header |= name.eq_ignore_ascii_case("authorization");
        hidden.extend(secret::of_header(value));
        link = link.header(name, value);
    }
    if address.sse {
        link = link.legacy_sse();
    }
    let mut extra_ca = None;
    if let Some(path) = &connect.ca {
        let pem = certificates("--ca", path)?;
        link = link.extra_ca(pem.clone());
        extra_ca = Some(pem);
    }
    if let Some(time) = connect.connect_timeout {
        link = link.connect_timeout(time);
    }
    let access = Access::new(ui, remote, connect, has_header, extra_ca, named)?;
    if let Some(credentials) = access.credentials() {
        link = link.credentials(credentials);
    }
    Ok((link, access, hidden))
}

/// The authorities in a file that this option names.
pub(crate) fn certificates(option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    file::read(path, LARGEST).map_err(|why| {
        let problem = format!("the certificates in {} cannot be read: {why}", shown(path.as_os_str()));
        Failure::usage(problem, format!("{option} FILE, where FILE is in PEM"))
    })
}

/// The link, made.
pub(super) fn made(connect: HttpConnect) -> Result<Link, Failure> {
    connect.build().map_err(|error| refused(&error))
}

/// What cannot be connected to.
pub(crate) fn refused(error: &HttpSetupError) -> Failure {
    let hint = match error {
        HttpSetupError::Header { .. } => "leave that header out, or mend it",
        HttpSetupError::Certificate(_) => "--ca FILE, where FILE is in PEM",
        HttpSetupError::Client(_) => "look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        _ => "http://host:port/path",
    };
    Failure::usage(error.to_string(), hint)
}

#[cfg(test)]
mod tests {
    use super::certificates;
    use crate::found::Zeros;

    #[test]
    fn a_file_of_certificates_has_4_mib_at_most() {
        assert_eq!(certificates("--ca", &Zeros::new("certificates", 4_194_304).0).unwrap().len(), 4_194_304);
        let failure = certificates("--ca", &Zeros::new("certificates", 4_194_305).0).unwrap_err();
        let words = "it has more than the 4194304 bytes that are read";
        assert!(failure.message.ends_with(words), "{}", failure.message);
    }
}
