//! Metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::header;
use axum::response::IntoResponse;

use super::SharedState;
use crate::shared::Shared;

/// What this node sees of the grid, and what its API does, in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "grid",
    responses((status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format 0.0.4")),
)]
pub(super) async fn metrics(shared: SharedState) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text(&shared))
}

/// A metric: name, kind, help, and each value with its labels.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    Vec<(&'static str, f64)>,
);

fn text(shared: &Shared) -> String {
    let mut text = String::new();
    for (name, kind, help, values) in of_state(shared) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP tensorgrid_{name} {help}\n# TYPE tensorgrid_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = writeln!(text, "tensorgrid_{name}{labels} {value}");
        }
    }
    shared.calls.write(&mut text);
    text
}

/// What the last final state says.
fn of_state(shared: &Shared) -> Vec<Metric> {
    let state = shared.port.state();
    let head = state.head();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let age = now.unwrap_or_default().as_secs_f64() - head.timestamp.get() as f64 / 1e3;
    let queued = state.queued_jobs().count();
    let submitted = state.submitted_jobs().count();
    let leased = state.live_leases().count();
    let open = (queued + submitted + leased) as u64;
    let ended = state.totals().jobs.saturating_sub(open) as f64;
    let [models, offers] = [state.models().iter().count(), state.offers().iter().count()];
    let height = head.height.get() as f64;
    let fee = state.base_fee().get() as f64 / 1e18;
    let jobs = vec![
        ("{state=\"submitted\"}", submitted as f64),
        ("{state=\"queued\"}", queued as f64),
        ("{state=\"leased\"}", leased as f64),
    ];
    let (served, asking) = shared.relay.counts();
    let gauge = |name, help, value: f64| (name, "gauge", help, vec![("", value)]);
    vec![
        gauge("block_height", "Height of the last final block.", height),
        gauge(
            "finality_age_seconds",
            "Time since the last final block, by this machine's clock.",
            age,
        ),
        ("jobs", "gauge", "Jobs by where they stand.", jobs),
        (
            "jobs_ended_total",
            "counter",
            "Jobs that have ended.",
            vec![("", ended)],
        ),
        gauge("models", "Registered models.", models as f64),
        gauge("offers", "Open offers.", offers as f64),
        gauge(
            "validators",
            "Validators of the network.",
            state.validators().len() as f64,
        ),
        gauge("base_fee_tgrid_per_gas", "Base fee.", fee),
        gauge(
            "endpoints_served",
            "Endpoints whose providers fetch requests here.",
            served as f64,
        ),
        gauge(
            "endpoint_requests_waiting",
            "Requests to endpoints that wait for an answer.",
            asking as f64,
        ),
    ]
}
