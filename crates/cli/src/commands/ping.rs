//! `mcpjoin ping`: whether a server responds, and the time that takes.

use std::time::{Duration, Instant};

use mcpjoin::client::Client;
use mcpjoin::proto::Method;
use serde_json::json;

use super::{refuse_orchestrator, target_of, written};
use crate::args::Ping;
use crate::connect::with_server;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::ui::Ui;
use crate::visible;

/// The time between a response and the next request, as in `ping`.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Sends the requests. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Ping, escaped: bool) -> Result<Exit, Failure> {
    let target = target_of(ui, "ping", &args.connect, args.words, escaped)?;
    refuse_orchestrator(&target, "ping")?;
    Ok(with_server(ui, &target, &args.connect, async |client, _| {
        ping(ui, client, args.count, args.interval).await
    }))
}

/// Sends the requests to the server of a client.
pub(super) async fn ping(
    ui: &Ui,
    client: &Client,
    count: u32,
    interval: Option<Duration>,
) -> Result<Exit, Failure> {
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    // `Client::ping` sends `server/discover` in revisions without `ping`.
    let version = &client.profile().version;
    let has_ping = Method::Ping.facts().is_some_and(|facts| facts.exists_in(version));
    let method = if has_ping { Method::Ping } else { Method::Discover };
    let name = client.server_name().unwrap_or("the server").to_owned();
    let mut times: Vec<Duration> = Vec::new();
    let mut failed = None;
    for number in 0..count {
        if number > 0 {
            tokio::time::sleep(interval).await;
        }
        let began = Instant::now();
        if let Err(error) = Waiting::new(ui, "waiting").wait(client.ping()).await {
            failed = Some(Failure::client(&error, Phase::Ping));
            break;
        }
        let took = began.elapsed();
        times.push(took);
        if !ui.json {
            let line = format!(
                "{} answered {} in {:.3} ms",
                visible::line(&name),
                method.as_str(),
                milliseconds(took)
            );
            let exit = written(ui, ui.aside(move |ui| ui.result(&line)).await);
            if exit != Exit::Done {
                return Ok(exit);
            }
        }
    }
    let text = if ui.json && !times.is_empty() {
        let mut document = json!({
            "protocolVersion": version.as_str(),
            "method": method.as_str(),
            "roundTripsMs": times.iter().copied().map(milliseconds).collect::<Vec<f64>>(),
        });
        if let Some(summary) = Summary::of(&times) {
            document["minMs"] = json!(summary.min);
            document["avgMs"] = json!(summary.avg);
            document["maxMs"] = json!(summary.max);
        }
        Some(visible::json(&document.to_string()))
    } else {
        // A single request has no summary.
        Summary::of(&times).filter(|_| count > 1).map(|summary| {
            format!(
                "{} answered, min/avg/max = {:.3}/{:.3}/{:.3} ms",
                times.len(),
                summary.min,
                summary.avg,
                summary.max
            )
        })
    };
    let exit = match text {
        Some(text) => written(ui, ui.aside(move |ui| ui.result(&text)).await),
        None => Exit::Done,
    };
    failed.map_or(Ok(exit), Err)
}

/// Times in milliseconds.
struct Summary {
    min: f64,
    avg: f64,
    max: f64,
}

impl Summary {
    fn of(times: &[Duration]) -> Option<Self> {
        let (min, max) = (*times.iter().min()?, *times.iter().max()?);
        let sum: Duration = times.iter().sum();
        let avg = milliseconds(sum) / times.len() as f64;
        Some(Self { min: milliseconds(min), avg, max: milliseconds(max) })
    }
}

/// In milliseconds. The clock is not more exact than a microsecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Summary;

    #[test]
    fn times_are_summed_up() {
        let times = [1500, 500, 4000].map(Duration::from_micros);
        let Summary { min, avg, max } = Summary::of(&times).unwrap();
        assert_eq!((min, avg, max), (0.5, 2.0, 4.0));
        assert!(Summary::of(&[]).is_none());
    }
}
