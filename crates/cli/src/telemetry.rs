//! The traces of `bridge` and `serve`: spans of their requests, exported by OTLP over HTTP if the environment says so.
//!
//! `mcpjoin` and `mcpjoin_gateway` make the spans, the crates of OpenTelemetry sample, batch and encode them, and `collector`
//! sends them. Started by the two verbs before they connect anything, and ended by them when everything else has ended. The
//! environment: <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>,
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. What prevents an export is a warning: it never fails a
//! call or ends the process. Without the feature `otel` the environment is not read.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod exporting;

use mcpjoin::server::ServerBuilder;
use mcpjoin_gateway::{GatewayBuilder, JoinedBuilder};
use tracing::level_filters::LevelFilter;

#[cfg(feature = "otel")]
use self::exporting::Exporting;
use crate::ui::Ui;

/// Whether spans are recorded and exported. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    exporting: Option<Exporting>,
}

impl Telemetry {
    /// Begins to export if the environment says so. The events of the library are shown as far as `-v` asks for them, and
    /// up to `level` without it.
    pub(crate) fn start(ui: &Ui, level: LevelFilter) -> Self {
        #[cfg(not(feature = "otel"))]
        let _ = (ui, level);
        Self {
            #[cfg(feature = "otel")]
            exporting: Exporting::start(ui, level),
        }
    }

    #[cfg(feature = "otel")]
    const fn is_on(&self) -> bool {
        self.exporting.is_some()
    }

    /// A gateway that records its spans.
    pub(crate) fn gateway(&self, builder: GatewayBuilder) -> GatewayBuilder {
        #[cfg(feature = "otel")]
        if self.is_on() {
            return builder.telemetry();
        }
        builder
    }

    /// A joined gateway that records its spans, at every target.
    pub(crate) fn joined(&self, builder: JoinedBuilder) -> JoinedBuilder {
        #[cfg(feature = "otel")]
        if self.is_on() {
            return builder.telemetry();
        }
        builder
    }

    /// A server that records its spans.
    pub(crate) fn server(&self, builder: ServerBuilder) -> ServerBuilder {
        #[cfg(feature = "otel")]
        if self.is_on() {
            return builder.telemetry();
        }
        builder
    }

    /// Sends the spans that are left. Waits for it, but not long. Must be called outside of a runtime.
    pub(crate) fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(exporting) = self.exporting {
            exporting.end();
        }
    }
}
