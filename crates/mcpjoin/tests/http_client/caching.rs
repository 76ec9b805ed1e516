//! Tests of which clients share a cached result over HTTP, where the link knows the user of each request.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use mcpjoin::Client;
use mcpjoin::client::Cache;
use mcpjoin::transport::{AuthorizationRequest, Credentials, CredentialsError, HttpConnect};
use serde_json::json;

use crate::scripted::{Scripted, Seen, Talk, builder, modern, run};

/// A server whose list has this cache scope.
async fn server(scope: &'static str) -> Scripted {
    Scripted::new(move |seen: Seen, talk: Talk| async move {
        match seen.about().as_str() {
            "tools/list" => {
                let list =
                    json!({"resultType": "complete", "ttlMs": 600_000, "cacheScope": scope, "tools": []});
                talk.json(&seen.result(&list)).await
            }
            _ => modern(seen, talk).await,
        }
    })
    .await
}

async fn connect(cache: &Cache, link: HttpConnect) -> Client {
    builder().cache(cache.clone()).connect(link.build().unwrap()).await.unwrap()
}

async fn list(client: &Client) {
    client.list_tools().all().await.unwrap();
}

fn lists(server: &Scripted) -> usize {
    server.abouts().iter().filter(|about| *about == "tools/list").count()
}

#[test]
fn private_results_are_shared_by_the_same_authorization_header_and_no_other() {
    run(async {
        let server = server("private").await;
        let cache = Cache::new();
        let with = |token: &str| server.link().header("Authorization", format!("Bearer {token}"));
        for (token, asked) in [("ada", 1), ("ada", 1), ("bob", 2), ("ada", 2)] {
            list(&connect(&cache, with(token)).await).await;
            assert_eq!(lists(&server), asked, "{token}");
        }
        // Other headers may mean another user, too.
        list(&connect(&cache, with("ada").header("X-Tenant", "b")).await).await;
        assert_eq!(lists(&server), 3);
        // Without such a header the user is unknown: only the same connection uses the entry.
        for asked in [4, 5] {
            let client = connect(&cache, server.link()).await;
            list(&client).await;
            list(&client).await;
            assert_eq!(lists(&server), asked);
        }
        assert!(!format!("{cache:?}").contains("ada"));
    });
}

#[test]
fn public_results_are_shared_by_all_who_reach_the_same_place() {
    run(async {
        let (one, other) = (server("public").await, server("public").await);
        let cache = Cache::new();
        list(&connect(&cache, one.link().header("Authorization", "Bearer ada")).await).await;
        list(&connect(&cache, one.link()).await).await;
        assert_eq!(lists(&one), 1);
        // The other server has the same name and version, but another address.
        list(&connect(&cache, other.link()).await).await;
        assert_eq!(lists(&other), 1);
    });
}

/// Credentials whose user can change: the second field is the user from the next request on.
#[derive(Clone, Default)]
struct Somebody(Arc<Mutex<Option<&'static str>>>, Arc<Mutex<Option<&'static str>>>);

impl Credentials for Somebody {
    async fn authorization(
        &self,
        _: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        if let Some(becomes) = self.1.lock().unwrap().take() {
            *self.0.lock().unwrap() = Some(becomes);
        }
        Ok(Some(HeaderValue::from_static("Bearer secret")))
    }

    fn cache_partition(&self) -> Option<String> {
        self.0.lock().unwrap().map(str::to_owned)
    }
}

#[test]
fn what_credentials_cannot_name_is_not_kept_and_what_changes_is_not_given_on() {
    run(async {
        let server = server("private").await;
        let somebody = Somebody::default();
        let client = connect(&Cache::new(), server.link().credentials(somebody.clone())).await;
        for (name, asked) in [
            (None, 1),
            (None, 2),
            (Some("ada"), 3),
            (Some("ada"), 3),
            (Some("bob"), 4),
            (None, 5),
            (Some("ada"), 5),
        ] {
            *somebody.0.lock().unwrap() = name;
            list(&client).await;
            assert_eq!(lists(&server), asked, "{name:?}");
        }
        // The user has changed between the request and the response: the result belongs to no known user.
        *somebody.0.lock().unwrap() = Some("cy");
        *somebody.1.lock().unwrap() = Some("dora");
        list(&client).await;
        for (name, asked) in [("cy", 7), ("dora", 8), ("dora", 8)] {
            *somebody.0.lock().unwrap() = Some(name);
            list(&client).await;
            assert_eq!(lists(&server), asked, "{name}");
        }
    });
}

/// Credentials without a user name.
struct Nobody;

impl Credentials for Nobody {
    async fn authorization(
        &self,
        _: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        Ok(Some(HeaderValue::from_static("Bearer secret")))
    }
}

#[test]
fn credentials_without_a_partition_cache_no_private_result() {
    run(async {
        let server = server("private").await;
        let client = connect(&Cache::new(), server.link().credentials(Nobody)).await;
        for asked in [1, 2] {
            list(&client).await;
            assert_eq!(lists(&server), asked);
        }
    });
}
