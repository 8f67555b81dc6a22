//! What a process tells of its work: lines of a log, and traces for an OpenTelemetry collector. Both are off unless they are
//! asked for.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use tg_console::outcome::{Exit, Failure, OrFail};

/// Where a collector takes traces, in the words of OpenTelemetry's specification; without one of them nothing is sent.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The parts whose work is traced: what libraries trace is theirs.
const TRACED: [&str; 3] = ["tg_api", "tg_node", "tg_provider"];

/// What has to live as long as the process: at its end the traces that wait are sent.
#[derive(Debug)]
#[must_use]
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = &self.traces {
            // A collector that is gone takes nothing, and the process ends all the same.
            let _ = traces.shutdown();
        }
    }
}

/// Begins to write what the parts log to the error stream, as far as `filter` asks for it, or RUST_LOG without one, as objects
/// of JSON or as lines for people; and to send traces if the environment names a collector.
///
/// # Errors
/// If the filter is none, or the address of the collector is none.
pub(crate) fn start(filter: Option<&str>, as_json: bool) -> Result<Telemetry, Failure> {
    let filter = match filter {
        Some(filter) => {
            let filter = EnvFilter::try_new(filter);
            Some(filter.or_fail(Exit::Usage, "read what is logged")?)
        }
        None => std::env::var_os("RUST_LOG").map(|_| EnvFilter::from_default_env()),
    };
    let collector = ENDPOINTS.iter().find_map(std::env::var_os);
    let traces = collector.map(|it| exporter(&it.to_string_lossy()));
    let traces = traces.transpose()?;
    if filter.is_none() && traces.is_none() {
        return Ok(Telemetry { traces });
    }
    let logs = filter.map(|filter| {
        let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        match as_json {
            true => layer.json().with_filter(filter).boxed(),
            false => layer.with_filter(filter).boxed(),
        }
    });
    let spans = traces.as_ref().map(|traces| {
        let targets = TRACED.map(|target| (target, LevelFilter::INFO));
        tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("tensorgrid"))
            .with_filter(Targets::new().with_targets(targets))
    });
    tracing_subscriber::registry().with(logs).with(spans).init();
    Ok(Telemetry { traces })
}

/// What sends traces by HTTP in protobuf. Where to, how long it may take and the name of the service are the environment's.
fn exporter(collector: &str) -> Result<SdkTracerProvider, Failure> {
    const HINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT names a collector that takes HTTP without TLS, such as http://127.0.0.1:4318";
    // The library takes what it cannot read for nothing said, and sends to a port of this machine.
    let host = collector.strip_prefix("http://");
    if !host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace)) {
        let text = format!("send traces: {collector:?} is no address of a collector");
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(HINT));
    }
    let exporter = SpanExporter::builder().with_http().build();
    let exporter = exporter
        .or_fail(Exit::Usage, "send traces")
        .map_err(|failure| failure.hint(HINT))?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("tensorgrid");
    }
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build())
}
