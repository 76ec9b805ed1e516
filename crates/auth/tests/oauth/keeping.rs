//! Tests of logins in a file store: they outlive the process, and several processes share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use mcpjoin::transport::Credentials as _;
use mcpjoin_auth::{
    FileStore, MemoryStore, Secret, StoreError, StoreLock, TokenStore, UserAgent, UserAgentError, Visit,
};
use mcpjoin_test_support::Folder;
use tokio::sync::Notify;

use super::authority::World;
use super::flow::connect;
use crate::scripted::{call, run};

#[test]
fn a_login_is_found_again_and_removed_by_a_logout() {
    run(async {
        let world = World::new().await;
        let folder = Folder::new();
        let store = || FileStore::at(folder.path());
        let login = world.asking().store(store()).build().unwrap().login().await.unwrap();
        assert_eq!(store().servers().await.unwrap().servers, [world.url()]);
        let later = world.builder().store(store()).build().unwrap();
        assert_eq!(later.status().await.unwrap().unwrap().issuer, login.issuer);
        let client = connect(&world, &later).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(world.asked(0, "/token").len(), 1);
        // A file that cannot be read is reported, is no login, and does not prevent a new login.
        store().save(&world.url(), Secret::new("{\"tokens\":\"hush\"")).await.unwrap();
        let error = later.status().await.unwrap_err().to_string();
        assert!(error.contains("log in again") && !error.contains("hush"), "{error}");
        world.asking().store(store()).build().unwrap().login().await.unwrap();
        assert!(later.status().await.unwrap().is_some());
        assert!(later.logout().await.unwrap().stored);
        assert!(store().servers().await.unwrap().servers.is_empty());
        assert_eq!(world.refresh_tokens(), 1, "that of the login that was overwritten");
    });
}

#[test]
fn g140_i180_two_that_share_a_file_refresh_once_and_the_file_stays_whole() {
    run(async {
        let world = World::new().await;
        let folder = Folder::new();
        let store = || FileStore::at(folder.path());
        world.asking().store(store()).build().unwrap().login().await.unwrap();
        let client_of = async || {
            let oauth = world.builder().store(store()).build().unwrap();
            connect(&world, &oauth).await.unwrap()
        };
        let clients = [client_of().await, client_of().await];
        for round in 1..=5 {
            world.revoke_access();
            let calls = clients.iter().flat_map(|client| (0..10).map(move |_| call(client, "a")));
            for outcome in join_all(calls).await {
                assert_eq!(outcome.unwrap(), "a");
            }
            assert_eq!(world.grants(0, "refresh_token"), round);
            assert_eq!((world.refresh_tokens(), world.access_tokens()), (1, 1));
        }
        assert!(world.builder().store(store()).build().unwrap().status().await.unwrap().unwrap().refreshable);
    });
}

/// A store whose `load` waits for the signal `go` after it has read, if `waits` is set.
#[derive(Clone, Default)]
struct Slow {
    store: MemoryStore,
    waits: Arc<AtomicBool>,
    go: Arc<Notify>,
}

impl TokenStore for Slow {
    async fn load(&self, server: &str) -> Result<Option<Secret>, StoreError> {
        let found = self.store.load(server).await;
        if self.waits.swap(false, Ordering::SeqCst) {
            self.go.notified().await;
        }
        found
    }

    async fn save(&self, server: &str, text: Secret) -> Result<(), StoreError> {
        self.store.save(server, text).await
    }

    async fn remove(&self, server: &str) -> Result<bool, StoreError> {
        self.store.remove(server).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        self.store.lock(server).await
    }
}

#[test]
fn i180_what_was_read_before_a_logout_or_a_login_counts_no_longer() {
    run(async {
        let world = World::new().await;
        let store = Slow::default();
        let oauth = world.asking().store(store.clone()).build().unwrap();
        for logs_out in [true, false] {
            oauth.login().await.unwrap();
            let before = oauth.cache_partition();
            store.waits.store(true, Ordering::SeqCst);
            let mut status = Box::pin(oauth.status());
            assert!((&mut status).now_or_never().is_none());
            if logs_out {
                oauth.logout().await.unwrap();
            } else {
                oauth.login().await.unwrap();
            }
            let after = oauth.cache_partition();
            assert_ne!(after, before);
            store.go.notify_one();
            assert_eq!(status.await.unwrap().is_some(), !logs_out);
            assert_eq!(oauth.cache_partition(), after);
        }
    });
}

#[test]
fn a_logout_revokes_the_tokens_that_another_process_refreshed_while_it_waited() {
    run(async {
        let world = World::new().await;
        let store = MemoryStore::default();
        let oauth = world.asking().store(store.clone()).build().unwrap();
        oauth.login().await.unwrap();
        let lock = store.lock(&world.url()).await.unwrap();
        let mut logout = Box::pin(oauth.logout());
        assert!((&mut logout).now_or_never().is_none());
        let text = store.load(&world.url()).await.unwrap().unwrap();
        let mut text: serde_json::Value = serde_json::from_str(text.expose()).unwrap();
        text["tokens"]["refresh_token"] = "hush-newer".into();
        store.save(&world.url(), Secret::new(text.to_string())).await.unwrap();
        drop(lock);
        assert!(logout.await.unwrap().stored);
        assert_eq!(world.asked(0, "/revoke")[0]["token"], "hush-newer");
    });
}

/// A user who does not come back from the browser.
struct Away;

impl UserAgent for Away {
    async fn visit(&self, before: Option<&str>) -> Result<Visit, UserAgentError> {
        let redirect_uri = before.unwrap_or("http://127.0.0.1:1/callback").to_owned();
        let nobody = Err(UserAgentError::NobodyCame { after: Duration::from_secs(300) });
        Ok(Visit::new(redirect_uri, |_| async move { nobody }))
    }
}

#[test]
fn a_client_whose_login_page_was_not_finished_is_registered_again_by_the_next_login() {
    run(async {
        let world = World::new().await;
        let folder = Folder::new();
        let store = || FileStore::at(folder.path());
        world.asking().store(store()).build().unwrap().login().await.unwrap();
        let client = || world.asked(0, "/authorize").pop().unwrap()["client_id"].clone();
        let first = client();
        // The authorization server may have shown that it does not know the client, which it must not tell by a redirect.
        let away = world.builder().user_agent(Away).store(store()).build().unwrap();
        let error = away.login().await.unwrap_err().to_string();
        assert!(error.contains("no response from the browser"), "{error}");
        // The login that is there is not touched, and is refreshed with its client.
        assert!(away.status().await.unwrap().unwrap().refreshable);
        world.revoke_access();
        let connected = connect(&world, &world.builder().store(store()).build().unwrap()).await.unwrap();
        assert_eq!(call(&connected, "a").await.unwrap(), "a");
        assert_eq!(world.grants(0, "refresh_token"), 1);
        for is_other in [true, false] {
            let before = client();
            world.asking().store(store()).build().unwrap().login().await.unwrap();
            assert_eq!(client() != before, is_other, "{first}");
        }
    });
}
