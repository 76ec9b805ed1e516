//! Changed tools: which clients are notified, and when no check is made.

use std::time::{Duration, Instant};

use mcpjoin_orchestra::client::{BridgeOptions, OrchestratorOptions};
use mcpjoin_orchestra::wire::PluginRequest;
use mcpjoin_orchestra::wire::plugin_request::Request;
use serde_json::json;
use tokio::sync::watch;

use crate::stand_in::StandIn;
use crate::support::{Act, Stage, Wire, bridge_with, healthy, modern, quiet, run, tools};

type Names = Vec<&'static str>;

fn listing(names: watch::Receiver<Names>) -> impl Fn(&PluginRequest) -> Act + Send + Sync + 'static {
    move |request| match request.request {
        Some(Request::ListTools(_)) => Act::Say(tools(&names.borrow())),
        _ => healthy(),
    }
}

/// Checks only while the orchestrator may be starting its plugins, with the default times.
fn settling() -> BridgeOptions {
    let mut options = BridgeOptions::default();
    options.poll = None;
    options
}

fn polling() -> BridgeOptions {
    let mut options = BridgeOptions::default();
    options.poll = Some(Duration::from_millis(20));
    options
}

#[test]
fn a_client_is_notified_when_its_tools_are_no_longer_those_that_it_listed() {
    run(async {
        let (put, names) = watch::channel(vec!["a", "b"]);
        let stage = Stage::with(listing(names), polling()).await;
        let mut wire = stage.opened().await;
        let list = wire.ask("tools/list", &json!({})).await;
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2);
        // Another order is no change.
        put.send(vec!["b", "a"]).unwrap();
        let mut arrivals = stage.scripted.arrivals();
        for _ in 0..3 {
            arrivals.recv().await.unwrap();
        }
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}), "nothing came before");
        put.send(vec!["a", "b", "c"]).unwrap();
        assert_eq!(
            wire.next().await,
            json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
        );
    });
}

#[test]
fn a_modern_client_is_notified_of_what_it_listens_for() {
    run(async {
        let (put, names) = watch::channel(vec!["a"]);
        let stage = Stage::with(listing(names), polling()).await;
        let mut wire = Wire::new(&stage.bridge);
        let listed = wire.ask_modern("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"][0]["name"], "a");
        let asked = stage.scripted.requests().len();
        let listen = json!({ "notifications": { "toolsListChanged": true } });
        wire.request("subscriptions/listen", &modern(listen)).await;
        let acknowledged = wire.next().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
        put.send(vec!["a", "b"]).unwrap();
        let told = wire.next().await;
        assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
        assert!(stage.scripted.requests().len() > asked);
    });
}

/// Expects the notification of changed tools, and returns how many there are now.
async fn told(wire: &mut Wire) -> usize {
    assert_eq!(wire.next().await["method"], "notifications/tools/list_changed");
    wire.ask("tools/list", &json!({})).await["result"]["tools"].as_array().unwrap().len()
}

#[test]
fn plugins_that_start_after_the_orchestrator_are_announced_within_a_second_after_each_connection() {
    run(async {
        let mut stand_in = StandIn::start().await;
        let bridge = bridge_with(stand_in.client(OrchestratorOptions::default()).await, settling());
        let mut wire = Wire::opened(&bridge, "2025-11-25").await;
        assert_eq!(wire.ask("tools/list", &json!({})).await["result"]["tools"], json!([]));
        let begun = Instant::now();
        stand_in.up(&["echo"]);
        assert_eq!(told(&mut wire).await, 1);
        println!("told {:?} after the plugin was up", begun.elapsed());
        stand_in.up(&["slow", "fail"]);
        assert_eq!(told(&mut wire).await, 3);
        stand_in.stop().await;
        stand_in.start_again().await;
        assert_eq!(told(&mut wire).await, 0);
        let begun = Instant::now();
        stand_in.up(&["echo"]);
        assert_eq!(told(&mut wire).await, 1);
        println!("told {:?} after the plugin was up again", begun.elapsed());
    });
}

#[test]
fn a_client_that_listed_before_the_orchestrator_connected_is_notified_of_its_tools() {
    run(async {
        let mut stand_in = StandIn::start().await;
        stand_in.kill().await;
        let mut options = OrchestratorOptions::default();
        options.wait = Duration::from_millis(100);
        let bridge = bridge_with(stand_in.client(options).await, settling());
        let mut wire = Wire::opened(&bridge, "2025-11-25").await;
        assert_eq!(wire.ask("tools/list", &json!({})).await["error"]["code"], -32603);
        stand_in.start_again().await;
        stand_in.up(&["echo"]);
        assert_eq!(told(&mut wire).await, 1);
    });
}

#[test]
fn no_target_is_asked_while_no_client_would_be_notified() {
    run(async {
        for options in [polling(), settling()] {
            let (_put, names) = watch::channel(vec!["a"]);
            let stage = Stage::with(listing(names), options).await;
            // A modern client that has subscribed to nothing.
            let mut wire = Wire::new(&stage.bridge);
            wire.ask_modern("server/discover", json!({})).await;
            let mut arrivals = stage.scripted.arrivals();
            let asked = tokio::time::timeout(Duration::from_millis(1_500), arrivals.recv()).await;
            assert!(asked.is_err(), "{asked:?}");
            // And a legacy client, which gets all notifications.
            let _wire = stage.opened().await;
            arrivals.recv().await.unwrap();
        }
    });
}

#[test]
fn an_orchestrator_that_has_settled_is_looked_at_no_more_than_that() {
    run(async {
        let mut options = settling();
        assert_eq!(options.settling.as_secs(), 15);
        options.settling = Duration::from_secs(1);
        let (_put, names) = watch::channel(vec!["a"]);
        let stage = Stage::with(listing(names), options).await;
        let mut arrivals = stage.scripted.arrivals();
        let _wire = stage.opened().await;
        let mut looks = 0;
        while tokio::time::timeout(Duration::from_millis(1_500), arrivals.recv()).await.is_ok() {
            looks += 1;
        }
        assert!((1..=2).contains(&looks), "{looks}");
    });
}

#[test]
fn with_polling_off_it_is_looked_after_a_reconnection_and_not_otherwise() {
    run(async {
        let mut stand_in = StandIn::start().await;
        stand_in.up(&["echo"]);
        let bridge = bridge_with(stand_in.client(OrchestratorOptions::default()).await, quiet());
        let mut wire = Wire::opened(&bridge, "2025-11-25").await;
        wire.ask("tools/list", &json!({})).await;
        let mut arrivals = stand_in.arrivals();
        let asked = tokio::time::timeout(Duration::from_millis(1_500), arrivals.recv()).await;
        assert!(asked.is_err(), "{asked:?}");
        stand_in.stop().await;
        stand_in.up(&["echo", "slow"]);
        stand_in.start_again().await;
        assert_eq!(told(&mut wire).await, 2);
    });
}
