//! What the environment says about traces, and the pipeline that follows from it: spans of the library, a queue, a batch,
//! the collector.
//!
//! The queue is limited, and a span for which it has no room is lost. A thread of its own takes the batches from the queue
//! and sends them, so a collector that is slow or gone delays no call. Used by `telemetry`.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::internal::http::shown;
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Key, KeyValue, StringValue, Value, global};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use tracing::level_filters::LevelFilter;
use url::Url;

use super::collector::{Collector, Outage, SEND_TIMEOUT};
use crate::events;
use crate::ui::Ui;

/// Spans that wait for the collector: the default of the specification, about 2 MiB. Further ones are lost.
const MAX_QUEUED_SPANS: usize = 2048;
/// How long the end of the process waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// The name of this program in traces, if the environment gives none.
const SERVICE_NAME: &str = "mcpjoin";
/// The collector, if the environment asks for an export and names none.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// Exports spans. Cheap to clone.
#[derive(Clone)]
pub(super) struct Exporting {
    provider: SdkTracerProvider,
    outage: Arc<Outage>,
}

/// What the environment says.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// It does not ask for traces.
    Off,
    /// It asks for traces that cannot be exported, for this reason.
    Unusable(String),
    /// The URL of the collector for traces.
    To(Url),
}

impl Wish {
    /// `variable` returns the value of a variable. An empty one is as if it were not set.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        let exporter = variable("OTEL_TRACES_EXPORTER");
        if is_disabled || exporter.as_deref().is_some_and(|exporter| exporter != "otlp") {
            return Self::Off;
        }
        let of_all =
            || variable("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| exporter.map(|_| DEFAULT_ENDPOINT.into()));
        let endpoint = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| Some(format!("{}/v1/traces", of_all()?.trim_end_matches('/'))));
        let Some(endpoint) = endpoint else { return Self::Off };
        let protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "http/protobuf") {
            return Self::Unusable(format!("the protocol {protocol:?} is not supported, http/protobuf is"));
        }
        match Url::parse(&endpoint) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Self::To(url),
            _ => Self::Unusable(format!("{endpoint:?} is not a URL with http:// or https://")),
        }
    }
}

impl Exporting {
    /// Begins to export if the environment says so.
    pub(super) fn start(ui: &Ui, level: LevelFilter) -> Option<Self> {
        let started = match Wish::of(|name| std::env::var(name).ok()) {
            Wish::Off => return None,
            Wish::Unusable(why) => Err(why.into()),
            Wish::To(url) => Self::to(ui, url),
        };
        match started {
            Ok(exporting) => {
                exporting.install(ui, level);
                Some(exporting)
            }
            Err(why) => {
                ui.warning(&format!("no traces are exported: {why}"));
                None
            }
        }
    }

    fn to(ui: &Ui, url: Url) -> Result<Self, Box<dyn Error>> {
        let outage = Arc::new(Outage::new(ui, shown(&url)));
        let exporter = OtlpExporter::builder()
            .with_http()
            .with_endpoint(url.as_str())
            .with_http_client(Collector::new(url, SEND_TIMEOUT, outage.clone())?)
            .build()?;
        let provider = provider(WithoutSecrets { exporter, ui: ui.clone() });
        Ok(Self { provider, outage })
    }

    /// Gives it the spans of this process, which begin and continue traces as the W3C specifies.
    fn install(&self, ui: &Ui, level: LevelFilter) {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE_NAME))
            // What only authors of this program can use.
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_target(false);
        events::show_beside(ui, level, layer);
    }

    pub(super) fn end(self) {
        if self.provider.shutdown_with_timeout(FLUSH_TIMEOUT).is_err() {
            self.outage.tell(&format!("not all were accepted within {} s", FLUSH_TIMEOUT.as_secs()));
        }
    }
}

/// The queue and the sampling before an exporter.
fn provider(exporter: impl SpanExporter + 'static) -> SdkTracerProvider {
    let queue = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUED_SPANS).build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(queue).build();
    // The sampler is that of the environment.
    SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource()).build()
}

/// What the environment says about this process, and its name and version.
fn resource() -> Resource {
    let detected = Resource::builder().build();
    let is_given = |key: &'static str| {
        let value = detected.get(&Key::from_static_str(key));
        value.is_some_and(|value| !value.as_str().starts_with("unknown_service"))
    };
    let own = [("service.name", SERVICE_NAME), ("service.version", env!("CARGO_PKG_VERSION"))];
    let own = own.into_iter().filter(|(key, _)| !is_given(key)).map(|(key, value)| KeyValue::new(key, value));
    Resource::builder().with_attributes(own).build()
}

/// Replaces the secrets of the command and of the configuration in what is exported.
struct WithoutSecrets<E> {
    exporter: E,
    ui: Ui,
}

impl<E: SpanExporter> SpanExporter for WithoutSecrets<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            span.name = self.ui.hidden(&span.name).into_owned().into();
            if let Status::Error { description } = &mut span.status {
                *description = self.ui.hidden(description).into_owned().into();
            }
            for attribute in &mut span.attributes {
                if let Value::String(text) = &attribute.value {
                    attribute.value = StringValue::from(self.ui.hidden(text.as_str()).into_owned()).into();
                }
            }
        }
        self.exporter.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E> fmt::Debug for WithoutSecrets<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithoutSecrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use opentelemetry::trace::{Span as _, Tracer as _};

    use super::*;

    fn wish(variables: &[(&str, &str)]) -> Wish {
        Wish::of(|name| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    fn to(url: &str) -> Wish {
        Wish::To(Url::parse(url).unwrap())
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");

    #[test]
    fn traces_are_exported_only_where_the_environment_says_so() {
        assert_eq!(wish(&[]), Wish::Off);
        assert_eq!(wish(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Wish::Off);
        assert_eq!(wish(&[("OTEL_SERVICE_NAME", "tools")]), Wish::Off);
        assert_eq!(wish(&[ENDPOINT]), to("http://c:4318/v1/traces"));
        assert_eq!(wish(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")]), Wish::Off);
        assert_eq!(wish(&[ENDPOINT, ("OTEL_SDK_DISABLED", "false")]), to("http://c:4318/v1/traces"));
        assert_eq!(wish(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]), Wish::Off);
        assert_eq!(wish(&[("OTEL_TRACES_EXPORTER", "otlp")]), to("http://localhost:4318/v1/traces"));
    }

    #[test]
    fn the_endpoint_of_traces_is_used_as_it_is_and_the_one_of_all_gets_their_path() {
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/own?key=1");
        assert_eq!(wish(&[ENDPOINT, traces]), to("https://t/own?key=1"));
        assert_eq!(wish(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/otlp/")]), to("http://c/otlp/v1/traces"));
    }

    #[test]
    fn what_cannot_be_exported_is_reported_with_the_reason() {
        let refused = |variables: &[(&str, &str)]| match wish(variables) {
            Wish::Unusable(why) => why,
            wish => panic!("{wish:?}"),
        };
        let grpc = refused(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert_eq!(grpc, r#"the protocol "grpc" is not supported, http/protobuf is"#);
        let both = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        assert_eq!(wish(&both), to("http://c:4318/v1/traces"));
        let no_url = refused(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]);
        assert_eq!(no_url, r#""collector:4318/v1/traces" is not a URL with http:// or https://"#);
    }

    /// An exporter that waits in its first batch until it is released.
    #[derive(Debug)]
    struct Slow {
        released: Mutex<Receiver<()>>,
        exported: Arc<Mutex<usize>>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            // Later batches find the sender gone.
            let _ = self.released.lock().unwrap().recv();
            *self.exported.lock().unwrap() += batch.len();
            Ok(())
        }
    }

    #[test]
    fn queued_spans_are_limited_and_a_slow_collector_delays_nothing() {
        let (release, released) = channel();
        let exported = Arc::<Mutex<usize>>::default();
        let provider = provider(Slow { released: Mutex::new(released), exported: exported.clone() });
        let tracer = provider.tracer("test");
        (0..4 * MAX_QUEUED_SPANS).for_each(|_| tracer.start("span").end());
        drop(release);
        provider.shutdown().unwrap();
        let exported = *exported.lock().unwrap();
        // The rest of the first batch was in no queue.
        assert!((MAX_QUEUED_SPANS..=2 * MAX_QUEUED_SPANS).contains(&exported), "{exported}");
    }
}
