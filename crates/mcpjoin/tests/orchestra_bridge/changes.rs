//! Tools that change: who is told, and when nobody is asked.

use std::time::Duration;

use mcpjoin::bridge::orchestra::client::BridgeOptions;
use mcpjoin::bridge::orchestra::wire::PluginRequest;
use mcpjoin::bridge::orchestra::wire::plugin_request::Request;
use serde_json::json;
use tokio::sync::watch;

use crate::ports::port::Port;
use crate::support::{
    Act, Folder, Scripted, Stage, Wire, bridge_with, handle, healthy, modern, quiet, run, tools,
};

type Names = Vec<&'static str>;

fn listing(names: watch::Receiver<Names>) -> impl Fn(&PluginRequest) -> Act + Send + Sync + 'static {
    move |request| match request.request {
        Some(Request::ListTools(_)) => Act::Say(tools(&names.borrow())),
        _ => healthy(),
    }
}

fn polling() -> BridgeOptions {
    let mut options = BridgeOptions::default();
    options.poll = Some(Duration::from_millis(20));
    options
}

#[test]
fn a_client_is_told_when_the_tools_are_others_than_it_was_told() {
    run(async {
        let (put, names) = watch::channel(vec!["a", "b"]);
        let stage = Stage::with(listing(names), polling()).await;
        let mut wire = stage.opened().await;
        let list = wire.ask("tools/list", &json!({})).await;
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2);
        // In another order they are the same.
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
fn a_modern_client_is_told_when_it_listens_for_it() {
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

#[test]
fn nobody_is_asked_while_no_client_would_hear_of_it() {
    run(async {
        let (_put, names) = watch::channel(vec!["a"]);
        let stage = Stage::with(listing(names), polling()).await;
        // A modern client that listens for nothing.
        let mut wire = Wire::new(&stage.bridge);
        wire.ask_modern("server/discover", json!({})).await;
        let mut arrivals = stage.scripted.arrivals();
        let asked = tokio::time::timeout(Duration::from_millis(500), arrivals.recv()).await;
        assert!(asked.is_err(), "{asked:?}");
        // And a legacy one, which hears of everything: the first request is there at once.
        let _wire = stage.opened().await;
        arrivals.recv().await.unwrap();
    });
}

#[test]
fn with_polling_off_it_is_looked_after_a_reconnection_and_not_otherwise() {
    let folder = Folder::new();
    let certificates = folder.certificates();
    run(async {
        let (_put, names) = watch::channel(vec!["a"]);
        let port = Port::claim_udp().unwrap();
        let address = format!("127.0.0.1:{}", port.number());
        let scripted = Scripted::at(&address, &certificates, listing(names)).await;
        let bridge = bridge_with(handle(&address, &certificates).await, quiet());
        let mut wire = Wire::opened(&bridge, "2025-11-25").await;
        wire.ask("tools/list", &json!({})).await;
        let mut arrivals = scripted.arrivals();
        let asked = tokio::time::timeout(Duration::from_millis(300), arrivals.recv()).await;
        assert!(asked.is_err(), "{asked:?}");
        scripted.stop().await;
        let (_put, names) = watch::channel(vec!["a", "b"]);
        let _scripted = Scripted::at(&address, &certificates, listing(names)).await;
        assert_eq!(wire.next().await["method"], "notifications/tools/list_changed");
        let list = wire.ask("tools/list", &json!({})).await;
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2);
    });
}
