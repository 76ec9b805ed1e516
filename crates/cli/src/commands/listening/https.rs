//! TLS for `--listen https://...`: the handshake with the certificate of `--cert` and `--key`.
//!
//! Made by `listening`. The files are read again before the first handshake after they have changed, so that a renewed
//! certificate needs no restart. If they cannot be used then, the certificate before stays, and a warning says why.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use mcpjoin_quic::endpoint::{CertificateError, ServerTls};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::QuicOptions;
use crate::connect::{Signals, unusable};
use crate::failure::Failure;
use crate::ui::Ui;

/// The protocol that is agreed on by ALPN.
const HTTP_1_1: &str = "http/1.1";

/// The certificate of a listener.
pub(super) struct Https {
    options: QuicOptions,
    ui: Ui,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    stamps: Vec<Stamp>,
}

/// When a file was last changed, and its length; `None` if it is gone.
type Stamp = Option<(SystemTime, u64)>;

impl Https {
    /// Reads the files. From now on a hangup ends nothing, because it is the usual signal for renewed certificates.
    pub(super) fn open(options: &QuicOptions, ui: &Ui) -> Result<Arc<Self>, Failure> {
        if options.identity.is_none() {
            return Err(Failure::usage("https:// needs a certificate", "--cert FILE --key FILE"));
        }
        let stamps = stamps(options);
        let config = read(options).map_err(|error| unusable(&error))?;
        Signals::spare_hangups();
        let current = Mutex::new(Current { config, stamps });
        Ok(Arc::new(Self { options: options.clone(), ui: ui.clone(), current }))
    }

    /// Performs the handshake of a connection.
    pub(super) async fn accept(self: Arc<Self>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.config()).accept(stream).await
    }

    /// The configuration by the files as they are now.
    fn config(&self) -> Arc<ServerConfig> {
        let stamps = stamps(&self.options);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.stamps != stamps {
            // Files that cannot be used are not read again before they change again.
            current.stamps = stamps;
            match read(&self.options) {
                Ok(config) => {
                    current.config = config;
                    self.ui.note("the certificate was read again");
                }
                Err(error) => {
                    self.ui.warning(&format!(
                        "the certificate before stays in use: {}",
                        unusable(&error).message
                    ));
                }
            }
        }
        current.config.clone()
    }
}

fn read(options: &QuicOptions) -> Result<Arc<ServerConfig>, CertificateError> {
    let (identity, clients) = options.who(None)?;
    ServerTls::new(identity, &clients, HTTP_1_1)?.over_tcp()
}

fn stamps(options: &QuicOptions) -> Vec<Stamp> {
    let (certificate, key) =
        options.identity.as_ref().map_or((None, None), |(cert, key)| (Some(cert), Some(key)));
    let files: Vec<&PathBuf> = [certificate, key, options.client_ca.as_ref()].into_iter().flatten().collect();
    let stamp = |file: &&PathBuf| {
        let facts = std::fs::metadata(file).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    };
    files.iter().map(stamp).collect()
}
