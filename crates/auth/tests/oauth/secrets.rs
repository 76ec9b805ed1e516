//! Test of the adversarial case 138: no secret appears in an error, in a `Debug` text, or in the tracing output.

use std::fmt;
use std::sync::{Arc, Mutex};

use mcpjoin_auth::{ClientIdentity, LocalBrowser, MemoryStore};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::authority::{SECRET, World};
use super::flow::connect;
use crate::scripted::{call, run};
use crate::told::hearing;

/// Records the tracing output of every level.
#[derive(Clone, Default)]
struct Tracing(Arc<Mutex<String>>);

impl Visit for Tracing {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        *self.0.lock().unwrap() += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Tracing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn g138_no_secret_is_shown_by_anything() {
    let tracing = Tracing::default();
    let told = tracing.clone();
    let mut shown = hearing(tracing, || {
        run(async {
            let mut shown = String::new();
            let world = World::with(|knobs| knobs.auth_methods = vec!["client_secret_basic".into()]).await;
            let store = MemoryStore::default();
            let registered = ClientIdentity::Registered {
                id: "by-hand".into(),
                secret: Some(format!("{SECRET}-by-hand").into()),
                issuer: None,
            };
            let building = world.asking().client(registered).store(store.clone());
            shown += &format!("{building:?} {:?}", LocalBrowser::new());
            let oauth = building.build().unwrap();
            let login = oauth.login().await.unwrap();
            shown += &format!("{oauth:?} {login:?} {store:?}");
            let client = connect(&world, &oauth).await.unwrap();
            world.revoke_access();
            call(&client, "a").await.unwrap();
            // Failures, with every secret in the server's response.
            let verifier = world.asked(0, "/token")[0]["code_verifier"].clone();
            for reply in [
                (200, format!("{SECRET} {verifier}")),
                (200, json!({"access_token": format!("{SECRET}\n"), "token_type": "bearer"}).to_string()),
                (
                    200,
                    json!({"access_token": SECRET, "token_type": "bearer", "refresh_token": [SECRET]})
                        .to_string(),
                ),
                (400, json!({"error": "invalid_request"}).to_string()),
                (500, SECRET.into()),
            ] {
                world.turn(|knobs| {
                    knobs.token_reply = Some(reply.clone());
                    knobs.refresh_reply = Some(reply);
                });
                let error = oauth.login().await.unwrap_err();
                shown += &format!("{error} {error:?}");
                world.revoke_access();
                let error = call(&client, "a").await.unwrap_err();
                shown += &error;
            }
            let out = oauth.logout().await.unwrap();
            shown += &format!("{out:?}");
            for asked in world.asked(0, "/token") {
                let codes = ["code", "code_verifier", "refresh_token"];
                for secret in codes.iter().filter_map(|name| asked.get(*name)) {
                    assert!(!shown.contains(secret.as_str()), "{shown}");
                }
            }
            let states: Vec<String> = world
                .asked(0, "/authorize")
                .into_iter()
                .map(|mut asked| asked.remove("state").unwrap())
                .collect();
            assert!(states.iter().all(|state| !shown.contains(state.as_str())), "{shown}");
            let verifiers: Vec<String> = world
                .asked(0, "/token")
                .into_iter()
                .filter_map(|mut asked| asked.remove("code_verifier"))
                .collect();
            (shown, [states, verifiers].concat())
        })
    });
    let traced = told.0.lock().unwrap();
    assert!(traced.contains("logged in") && traced.contains("refreshed"), "it is traced at all");
    shown.0 += &traced;
    let (shown, others) = shown;
    assert!(!shown.contains(SECRET), "{}", &shown[shown.find(SECRET).unwrap().saturating_sub(300)..]);
    assert!(others.iter().all(|secret| !shown.contains(secret.as_str())));
}
