//! Tests of sealed states: their keys, format, lifetime, and secrecy.

use std::time::Duration;

use super::{KEY_ID_BYTES, Keys, MAX_CLOCK_SKEW, OpenError, Purpose, STATE_LIFETIME, StateKey};

const REQUEST: [u8; 32] = [7; 32];
const NOW: Duration = Duration::from_secs(1_785_196_800);

fn key(byte: u8) -> StateKey {
    StateKey::from_bytes([byte; 32])
}

fn keys(own: u8, accepted: &[u8]) -> Keys {
    Keys::new(Some(key(own)), accepted.iter().map(|byte| key(*byte)).collect())
}

fn sealed(keys: &Keys, content: &str) -> String {
    keys.seal(Purpose::Answers, &REQUEST, content, NOW).expect("random numbers")
}

fn open(keys: &Keys, state: &str, now: Duration) -> Result<String, OpenError> {
    keys.open(Purpose::Answers, &REQUEST, state, Some(now))
}

#[test]
fn a_state_opens_under_its_key_purpose_and_request_alone() {
    let (ours, other) = (keys(1, &[]), keys(2, &[]));
    let state = sealed(&ours, "content");
    assert_eq!(open(&ours, &state, NOW), Ok("content".into()));
    assert_eq!(open(&keys(1, &[2]), &state, NOW), Ok("content".into()), "another replica");
    assert_eq!(open(&other, &state, NOW), Err(OpenError::Foreign));
    assert_eq!(ours.open(Purpose::ByHand, &REQUEST, &state, Some(NOW)), Err(OpenError::Foreign));
    assert_eq!(ours.open(Purpose::Answers, &[8; 32], &state, Some(NOW)), Err(OpenError::Foreign));
}

#[test]
fn every_byte_of_a_state_counts() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let ours = keys(1, &[]);
    let state = URL_SAFE_NO_PAD.decode(sealed(&ours, "content")).expect("ours");
    for place in 0..state.len() {
        let mut changed = state.clone();
        changed[place] ^= 1;
        assert_eq!(open(&ours, &URL_SAFE_NO_PAD.encode(changed), NOW), Err(OpenError::Foreign), "{place}");
        let cut = URL_SAFE_NO_PAD.encode(&state[..place]);
        assert_eq!(open(&ours, &cut, NOW), Err(OpenError::Foreign), "{place}");
    }
    let longer = URL_SAFE_NO_PAD.encode([&state[..], b"x"].concat());
    assert_eq!(open(&ours, &longer, NOW), Err(OpenError::Foreign));
    assert_eq!(open(&ours, "not base64!", NOW), Err(OpenError::Foreign));
}

#[test]
fn nothing_of_the_content_is_readable_and_no_two_states_are_alike() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let ours = keys(1, &[]);
    let (one, two) = (sealed(&ours, "a secret answer"), sealed(&ours, "a secret answer"));
    assert_ne!(one, two);
    let bytes = URL_SAFE_NO_PAD.decode(&one).expect("ours");
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    assert!(!one.contains("secret"));
}

#[test]
fn an_accepted_key_opens_and_does_not_seal() {
    let (before, rotated, after) = (keys(1, &[]), keys(2, &[1]), keys(2, &[]));
    let old = sealed(&before, "old");
    assert_eq!(open(&rotated, &old, NOW), Ok("old".into()));
    assert_eq!(open(&after, &old, NOW), Err(OpenError::Foreign));
    let new = sealed(&rotated, "new");
    assert_eq!(open(&after, &new, NOW), Ok("new".into()));
    assert_eq!(open(&before, &new, NOW), Err(OpenError::Foreign));
}

#[test]
fn a_state_lives_for_ten_minutes_of_the_clock_that_reads_it_and_clocks_may_differ_by_one() {
    let ours = keys(1, &[]);
    let state = sealed(&ours, "content");
    let millisecond = Duration::from_millis(1);
    assert_eq!(open(&ours, &state, NOW + STATE_LIFETIME), Ok("content".into()));
    assert_eq!(open(&ours, &state, NOW + STATE_LIFETIME + millisecond), Err(OpenError::Expired));
    assert_eq!(open(&ours, &state, NOW - MAX_CLOCK_SKEW), Ok("content".into()));
    assert_eq!(open(&ours, &state, NOW - MAX_CLOCK_SKEW - millisecond), Err(OpenError::Foreign));
    assert_eq!(ours.open(Purpose::Answers, &REQUEST, &state, None), Ok("content".into()));
    assert_eq!((STATE_LIFETIME, MAX_CLOCK_SKEW), (Duration::from_secs(600), Duration::from_secs(60)));
}

#[test]
fn the_format_and_the_keys_of_version_1_stay() {
    // Replicas of different builds share states: a change here needs a new version.
    assert_eq!(
        super::hex(&key(1).derive("answers")),
        "21520049ed62a786845c5376095f88484540a44bb0f16065ca3b9cc50ddc2734"
    );
    assert_eq!(super::hex(&key(1).id()), "e286cb50");
    assert_eq!(key(1).id().len(), KEY_ID_BYTES);
    let state = "AeKGy1B71aRo8mac6Kytpjf8_tV9ZzeRCuedPNC0teJ3R2YPnWjVCKkXRxdCyAFfKfpqSlSETs012njS";
    assert_eq!(open(&keys(1, &[]), state, NOW), Ok("content".into()));
}

#[test]
fn the_id_of_a_task_and_its_replica_are_known_to_who_has_the_key() {
    let (ours, other) = (keys(1, &[]), keys(2, &[]));
    for (replica, length) in [("", 64), ("a", 66), ("é2", 70)] {
        let id = ours.task_id(replica).expect("random numbers");
        assert_eq!(id.len(), length);
        assert_ne!(id, ours.task_id(replica).expect("random numbers"));
        assert_eq!(ours.task_owner(&id).as_deref(), Some(replica));
        assert_eq!(keys(2, &[1]).task_owner(&id).as_deref(), Some(replica));
        assert_eq!(other.task_owner(&id), None);
        for place in 0..id.len() {
            let mut changed = id.clone();
            changed.replace_range(place..=place, if id.as_bytes()[place] == b'0' { "1" } else { "0" });
            assert_eq!(ours.task_owner(&changed), None, "{place}");
            assert_eq!(ours.task_owner(&id[..place]), None, "{place}");
        }
        assert_eq!(ours.task_owner(&id.to_uppercase()), None);
        assert_eq!(ours.task_owner(&format!("{id}00")), None);
    }
}

#[test]
fn a_key_and_what_holds_it_show_nothing() {
    let builder = crate::Server::builder("s", "1").state_key(key(0xab)).accept_state_key(key(0xcd));
    for shown in [format!("{:?}", key(0xab)), format!("{builder:?}"), format!("{:?}", builder.build())] {
        assert!(
            !["abab", "cdcd", "171, 171", "205, 205"].iter().any(|digits| shown.contains(digits)),
            "{shown}"
        );
    }
}

#[test]
fn without_a_key_each_server_has_one_of_its_own() {
    let (one, two) = (Keys::new(None, Vec::new()), Keys::new(None, Vec::new()));
    let state = sealed(&one, "content");
    assert_eq!(open(&one, &state, NOW), Ok("content".into()));
    assert_eq!(open(&two, &state, NOW), Err(OpenError::Foreign));
}
