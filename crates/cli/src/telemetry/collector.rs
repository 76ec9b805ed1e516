//! Sends the batches of spans to the collector, with the HTTP client that the program has for everything else: its TLS, its
//! trusted authorities, its proxies.
//!
//! Used by `exporting`. The exporter calls it in a thread of its own that has no runtime, so it has one.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use mcpjoin::internal::http::{Client, ClientOptions, Proxies, describe, root, tls_config};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use url::Url;

use crate::ui::Ui;

/// How long one attempt to send a batch may take: the default of the specification.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a response: it has a number and a message.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The collector is not reached, or refuses. That is told once.
pub(super) struct Outage {
    ui: Ui,
    /// The URL of the collector without its query.
    shown: String,
    is_told: AtomicBool,
}

impl Outage {
    pub(super) fn new(ui: &Ui, shown: String) -> Self {
        Self { ui: ui.clone(), shown, is_told: AtomicBool::new(false) }
    }

    /// Warns if it is the first failure.
    pub(super) fn tell(&self, why: &str) {
        let text = format!("traces cannot be sent to {}: {why}; calls go on", self.shown);
        match self.is_told.swap(true, Ordering::Relaxed) {
            false => self.ui.warning(&text),
            true => self.ui.detail(&text),
        }
    }
}

/// The client of one collector.
pub(super) struct Collector {
    url: Url,
    client: Client,
    runtime: Runtime,
    outage: Arc<Outage>,
}

impl Collector {
    pub(super) fn new(url: Url, outage: Arc<Outage>) -> Result<Self, Box<dyn Error>> {
        let mut options = ClientOptions::new(tls_config(&[])?, SEND_TIMEOUT);
        options.proxies = Some(Proxies::from_system());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { url, client: Client::new(options), runtime, outage })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (head, body) = request.into_parts();
        let sent = self.client.send(head.method, &self.url, head.headers, body).await;
        let mut response = sent.map_err(|error| describe(&error, &self.url, SEND_TIMEOUT, false).1)?;
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(|error| root(&error))? {
            if body.len() + part.len() > MAX_RESPONSE_BYTES {
                return Err(format!("its response is longer than {MAX_RESPONSE_BYTES} bytes"));
            }
            body.extend_from_slice(&part);
        }
        let mut whole = Response::new(body.freeze());
        *whole.status_mut() = response.status();
        *whole.headers_mut() = response.headers().clone();
        Ok(whole)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = async { timeout(SEND_TIMEOUT, self.send(request)).await };
        let late = |_| Err(format!("no response within {} s", SEND_TIMEOUT.as_secs()));
        let response = self.runtime.block_on(sending).unwrap_or_else(late);
        match &response {
            Ok(response) if !response.status().is_success() => {
                self.outage.tell(&format!("it answers {}", response.status()));
            }
            Ok(_) => {}
            Err(why) => self.outage.tell(why),
        }
        Ok(response?)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
