//! A server that is reached over HTTP: from its address and the headers for it to what connects to it.
//!
//! Called by `connect::plan`.

use std::ffi::OsString;

use mcpjoin::Link;
use mcpjoin::link::{HttpConnect, HttpSetupError};

use super::file;
use super::headers::headers;
use crate::args::Connect;
use crate::config::Remote;
use crate::failure::Failure;
use crate::secret;
use crate::target::shown;

/// A file of certificates is no larger: the authorities that systems bring along have a tenth of that.
const LARGEST: u64 = 4 << 20;

/// What connects, and what must not be shown from then on. A header that is typed takes the place of its namesake in the
/// entry.
pub(super) fn link(remote: &Remote, connect: &Connect) -> Result<(HttpConnect, Vec<OsString>), Failure> {
    let address = &remote.address;
    let typed = headers(&connect.header)?;
    let is_typed = |name: &str| typed.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let entry = remote.headers.iter().filter(|(name, _)| !is_typed(name));
    let mut link = Link::http(&address.url);
    let mut hidden = secret::values(&[OsString::from(&address.url)]);
    for (name, value) in entry.chain(&typed) {
        hidden.extend(secret::of_header(value));
        link = link.header(name, value);
    }
    if address.sse {
        link = link.legacy_sse();
    }
    if let Some(path) = &connect.ca {
        let pem = file::read(path, LARGEST).map_err(|why| {
            let problem = format!("the certificates in {} cannot be read: {why}", shown(path.as_os_str()));
            Failure::usage(problem, "--ca FILE, where FILE is in PEM")
        })?;
        link = link.extra_ca(pem);
    }
    if let Some(time) = connect.connect_timeout {
        link = link.connect_timeout(time);
    }
    Ok((link, hidden))
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
