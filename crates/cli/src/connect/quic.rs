//! A server that is reached over QUIC: from its address and who both sides are to what connects to it.
//!
//! Called by `connect::plan`.

use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::{Authorities, CertificateError, Identity, Trust};

use crate::args::Connect;
use crate::failure::Failure;
use crate::target::Quic;

/// What connects.
pub(super) fn link(quic: &Quic, connect: &Connect) -> Result<QuicConnect, Failure> {
    let trust = match (&connect.pin, &connect.ca) {
        (Some(pin), _) => Trust::Key(pin.0),
        (None, Some(path)) => Trust::Authorities(
            Authorities::from_file(path)
                .map_err(|error| Failure::usage(error.to_string(), "--ca FILE, where FILE is in PEM"))?,
        ),
        (None, None) => {
            return Err(Failure::usage(
                format!("nothing says whom to take for {quic}"),
                "--pin sha256:HEX, the server's key as it prints it, or --ca FILE, whose authorities have signed its certificate; in an entry, pin or ca",
            ));
        }
    };
    let mut link = mcpjoin_quic::connect(&quic.0, trust);
    if let (Some(certificate), Some(key)) = (&connect.cert, &connect.key) {
        link = link.identity(Identity::from_files(certificate, key).map_err(|error| unusable(&error))?);
    }
    if let Some(time) = connect.connect_timeout {
        link = link.timeout(time);
    }
    Ok(link)
}

/// A certificate or a key of ours that cannot be used.
pub(crate) fn unusable(error: &CertificateError) -> Failure {
    Failure::usage(error.to_string(), "--cert FILE --key FILE, both in PEM, the key readable for you alone")
}
