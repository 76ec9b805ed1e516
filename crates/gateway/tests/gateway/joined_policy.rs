//! Tests of the limits of a policy at a joined gateway, which asks several targets for one request of a client.

use std::path::Path;
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::proto::types::SubscriptionFilter;
use mcpjoin::proto::{Era, Version};
use mcpjoin_gateway::{CallOutcome, Gateway, GatewayEvent, JoinedGateway, Policy, SharedPolicy};
use std::sync::{Arc, Mutex};
use tokio::time::timeout;

use super::joined::{PAIRS, Target, builder, call, connect, one_of_everything, refused, tools};
use super::run;

/// Two targets, `a` and `b`, with one policy, and a client that was opened without limits.
struct Limited {
    gateway: JoinedGateway,
    policy: SharedPolicy,
    client: Client,
    /// The target and the outcome of each recorded request.
    records: Arc<Mutex<Vec<(String, CallOutcome)>>>,
}

impl Limited {
    async fn new(era: Era, version: &Version) -> Self {
        let policy = SharedPolicy::default();
        let records: Arc<Mutex<Vec<_>>> = Arc::default();
        let mut joined = Gateway::joined("both", "1");
        for name in ["a", "b"] {
            let recorded = records.clone();
            let target = Target::new(one_of_everything(name, version)).gateway().policy(policy.clone());
            let target = target.record_calls().on_event(move |event| {
                if let GatewayEvent::Called(record) = event {
                    recorded.lock().unwrap().push((record.target.to_string(), record.outcome));
                }
            });
            joined = joined.target(name, target);
        }
        let gateway = joined.build();
        let client = connect(&gateway, builder(era)).await;
        records.lock().unwrap().clear();
        Self { gateway, policy, client, records }
    }

    fn limit(&self, policy: &str) {
        self.policy.replace(Policy::parse(Path::new("policy.toml"), policy).unwrap());
    }

    fn recorded(&self) -> Vec<(String, CallOutcome)> {
        std::mem::take(&mut *self.records.lock().unwrap())
    }
}

#[test]
fn another_policy_for_several_targets_is_notified_once_on_a_stream() {
    run(async {
        for version in [Version::V2025_06_18, Version::V2026_07_28] {
            let it = Limited::new(Era::Modern, &version).await;
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = it.client.listen(filter).await.unwrap();
            it.limit("[defaults]\ndeny = [\"who\"]");
            let changed = timeout(Duration::from_secs(5), stream.next()).await;
            let changed = changed.expect("it is told").unwrap().unwrap();
            assert_eq!(changed.method.as_str(), "notifications/tools/list_changed", "{version}");
            let second = timeout(Duration::from_secs(5), stream.next()).await;
            assert!(second.is_err(), "{version}: {second:?}");
            assert_eq!(tools(&it.client).await.len(), 12, "{version}");
        }
    });
}

#[test]
fn a_request_counts_once_towards_the_limits_of_its_client_however_many_targets_are_asked() {
    run(async {
        for (era, version) in PAIRS {
            let it = Limited::new(era, &version).await;
            it.limit("[limits]\nrequests_per_minute = 1\nburst = 3\nconcurrent_requests = 1");
            // Two requests: each list has the tools of both targets, and a call reads no list of its own account.
            assert_eq!(tools(&it.client).await.len(), 14, "{era:?} {version}");
            assert_eq!(tools(&it.client).await.len(), 14, "{era:?} {version}");
            assert_eq!(call(&it.client, "a__who").await, "a");
            it.recorded();
            let error = refused(&it.client, "b__who").await;
            assert_eq!(error["data"]["gateway"], "tooManyRequests", "{error}");
            assert!(error["data"]["retryAfterMs"].is_number(), "{error}");
            assert_eq!(it.recorded(), [("b".to_owned(), CallOutcome::Refused)], "{era:?} {version}");
            it.gateway.close().await;
        }
    });
}

#[test]
fn a_name_is_found_without_further_requests_of_the_client() {
    run(async {
        for (era, version) in PAIRS {
            let it = Limited::new(era, &version).await;
            it.limit("[limits]\nrequests_per_minute = 1\nburst = 1\nconcurrent_requests = 1");
            assert_eq!(call(&it.client, "b__who").await, "b", "{era:?} {version}");
            it.gateway.close().await;
        }
    });
}

#[test]
fn a_call_says_which_limit_kept_the_list_of_its_target_from_being_read() {
    run(async {
        for (era, version) in PAIRS {
            let it = Limited::new(era, &version).await;
            let other = connect(&it.gateway, builder(era)).await;
            assert_eq!(call(&it.client, "b__who").await, "b");
            it.limit("[target.b.limits]\nrequests_per_minute = 1\nburst = 1");
            assert_eq!(call(&it.client, "b__who").await, "b");
            let error = refused(&other, "b__who").await;
            assert_eq!(error["data"]["gateway"], "tooManyRequests", "{era:?} {version}: {error}");
            assert_eq!(call(&other, "a__who").await, "a");
            // Any list may have a URI.
            let error = other.read_resource("b:/all").await.unwrap_err().to_string();
            assert!(error.contains("too many requests"), "{era:?} {version}: {error}");
            it.gateway.close().await;
        }
    });
}
