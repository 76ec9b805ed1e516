//! Tests of when a link calls its credentials, and with which arguments.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};

use crate::scripted::{Scripted, Seen, Talk, builder, call, modern, run};

/// Credentials that log each call.
#[derive(Clone, Default)]
struct Noting {
    notes: Arc<Mutex<Vec<String>>>,
    fails: Option<CredentialsError>,
}

impl Noting {
    fn note(&self, what: String) {
        self.notes.lock().unwrap().push(what);
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

impl Credentials for Noting {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        self.note(format!("authorization {}", request.method));
        Ok(Some(HeaderValue::from_static("DPoP token")))
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        self.note(format!("proof {} {}", request.method, authorization.to_str().unwrap()));
        Some(HeaderValue::from_static("proof"))
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        self.note(format!("answered {dpop_nonce}"));
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        let AuthorizationChallenge { status, dpop_nonce, again, repeatable, .. } = challenge;
        assert_eq!(challenge.authorization.unwrap(), "DPoP token");
        self.note(format!("challenged {status} {dpop_nonce:?} {again} {repeatable}"));
        match &self.fails {
            Some(error) => AfterChallenge::Fail(error.clone()),
            None => AfterChallenge::Retry,
        }
    }
}

#[test]
fn a_proof_goes_with_each_request_and_a_nonce_costs_a_round_of_its_own_once() {
    run(async {
        let script = |seen: Seen, talk: Talk| async move {
            assert_eq!(seen.header("dpop"), Some("proof"));
            assert_eq!(seen.header("authorization"), Some("DPoP token"));
            let wants = [("WWW-Authenticate", "DPoP error=\"use_dpop_nonce\""), ("DPoP-Nonce", "n")];
            talk.answer(401, &wants, "").await
        };
        let server = Scripted::new(script).await;
        let credentials = Noting::default();
        let link = server.link().credentials(credentials.clone()).build().unwrap();
        builder().connect(link).await.unwrap_err();
        let round = |again: u32, repeatable| {
            let challenged = format!("challenged 401 Some(\"n\") {again} {repeatable}");
            ["authorization POST".to_owned(), "proof POST DPoP token".into(), "answered n".into(), challenged]
        };
        let expected = [round(0, true), round(0, true), round(1, true), round(2, false)].concat();
        assert_eq!(credentials.notes(), expected);

        // A nonce that is too long to send back is ignored.
        let script = |seen: Seen, talk: Talk| async move {
            let long = "n".repeat(5000);
            match seen.about().as_str() {
                "tools/call" => talk.answer(401, &[("DPoP-Nonce", &long)], "").await,
                _ => modern(seen, talk).await,
            }
        };
        let server = Scripted::new(script).await;
        let link = server.link().credentials(credentials.clone()).build().unwrap();
        let client = builder().connect(link).await.unwrap();
        credentials.notes();
        call(&client, "a").await.unwrap_err();
        let notes = credentials.notes();
        assert!(notes.iter().any(|note| note == "challenged 401 None 0 true"), "{notes:?}");
        assert!(!notes.iter().any(|note| note.starts_with("answered")), "{notes:?}");
    });
}

#[test]
fn credentials_that_know_why_let_the_message_fail_with_their_words() {
    run(async {
        for (status, says) in [(401, "not authorized: log in"), (403, "forbidden: log in")] {
            // During the detection of the era: the client tries nothing else.
            let server = Scripted::new(move |_, talk: Talk| talk.status(status)).await;
            let fails = Some(CredentialsError::new("log in"));
            let credentials = Noting { fails: fails.clone(), ..Noting::default() };
            let link = server.link().credentials(credentials).build().unwrap();
            let error = builder().connect(link).await.unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert_eq!(server.seen().len(), 1);

            // Later, for one call only.
            let script = move |seen: Seen, talk: Talk| async move {
                match seen.body.contains("secret_tool") {
                    true => talk.status(status).await,
                    false => modern(seen, talk).await,
                }
            };
            let server = Scripted::new(script).await;
            let link = server.link().credentials(Noting { fails, ..Noting::default() }).build().unwrap();
            let client = builder().connect(link).await.unwrap();
            let error = call(&client, "secret_tool").await.unwrap_err();
            assert!(error.contains(says), "{error}");
            assert_eq!(call(&client, "open_tool").await.unwrap(), "open_tool");
        }
    });
}

/// Credentials that give up, and remember the challenge.
#[derive(Clone, Default)]
struct Reading(Arc<Mutex<Vec<String>>>);

impl Credentials for Reading {
    async fn authorization(
        &self,
        _: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        Ok(Some(HeaderValue::from_static("Bearer token")))
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        *self.0.lock().unwrap() = challenge.www_authenticate.iter().map(ToString::to_string).collect();
        AfterChallenge::GiveUp
    }
}

#[test]
fn a_challenge_in_the_language_of_its_server_is_no_lost_one() {
    run(async {
        let script = |seen: Seen, mut talk: Talk| async move {
            if seen.about() != "tools/call" {
                return modern(seen, talk).await;
            }
            let head =
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nWWW-Authenticate: Bearer scope=\"write\", \
                error=\"insufficient_scope\", error_description=\"acc\xc3\xa8s refus\xe9\"\r\n\r\n";
            talk.raw(head).await;
            Some(talk)
        };
        let server = Scripted::new(script).await;
        let credentials = Reading::default();
        let link = server.link().credentials(credentials.clone()).build().unwrap();
        let client = builder().connect(link).await.unwrap();
        call(&client, "a").await.unwrap_err();
        let expected = "Bearer scope=\"write\", error=\"insufficient_scope\", \
            error_description=\"acc\u{e8}s refus\u{fffd}\"";
        assert_eq!(*credentials.0.lock().unwrap(), [expected]);
    });
}
