//! What a link asks of an `OAuth`, request by request.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::auth::played::{Played, answer, not_found, run};
use crate::auth::{UserAgentError, Visit};

/// Counts how often it is asked, and shows nobody anything.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl UserAgent for Counted {
    async fn visit(&self, _: Option<&str>) -> Result<Visit, UserAgentError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(UserAgentError::Other("nobody is there".into()))
    }
}

#[test]
fn nobody_is_asked_to_log_in_for_the_end_of_a_session() {
    run(async {
        let at = Played::new(|seen, _| match seen.line.as_str() {
            "POST /mcp" => answer("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            _ => not_found(),
        })
        .await;
        let asked = Counted::default();
        let oauth = OAuth::builder(at.url()).user_agent(asked.clone()).build().unwrap();
        for (method, times) in [("DELETE", 0), ("POST", 1)] {
            let challenge = AuthorizationChallenge {
                url: &at.url(),
                method,
                status: 401,
                www_authenticate: &["Bearer"],
                authorization: None,
                dpop_nonce: None,
                again: 0,
                repeatable: true,
            };
            let after = oauth.challenged(challenge).await;
            assert!(matches!(after, AfterChallenge::Fail(_)), "{after:?}");
            assert_eq!(asked.0.load(Ordering::SeqCst), times, "{method}");
        }
    });
}

#[test]
fn g144_what_a_server_wants_is_cut_where_it_is_shown() {
    let error = AuthError::Scopes { missing: vec!["scope".into(); 10_000] };
    assert!(error.to_string().len() < 300, "{error}");
}
