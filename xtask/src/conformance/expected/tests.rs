//! The differences that the list must find.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Expectation, Expected, held};
use crate::conformance::suite::{Leg, Scenarios, Side};

const LIST: &str = r#"
[server."2025-11-25"]
required = ["ping"]
unscored = ["polling"]

[server."2026-07-28"]
required = ["caching"]
trivial = ["skills"]

[server."2026-07-28".impossible]
stub = "the suite skips it"

[client."2025-03-26"]
unscored = ["auth/old"]

[client."2026-07-28"]
required = ["auth/flow"]
"#;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn leg(side: Side, revision: &str) -> Leg {
    Leg { side, revision: revision.into() }
}

fn suite() -> Scenarios {
    let tagged = |all: &[(&str, &str)]| -> BTreeMap<String, Vec<String>> {
        all.iter().map(|(name, tag)| ((*name).to_owned(), vec![(*tag).to_owned()])).collect()
    };
    let server = tagged(&[
        ("ping", "2025-11-25"),
        ("polling", "2025-11-25"),
        ("caching", "2026-07-28"),
        ("skills", "extension"),
        ("stub", "extension"),
    ]);
    let client = tagged(&[("auth/old", "2025-03-26"), ("auth/flow", "2026-07-28")]);
    Scenarios {
        all: BTreeMap::from([(Side::Server, server), (Side::Client, client)]),
        scored: BTreeMap::from([
            (leg(Side::Server, "2025-11-25"), names(&["ping"])),
            (leg(Side::Server, "2026-07-28"), names(&["caching"])),
            (leg(Side::Client, "2026-07-28"), names(&["auth/flow"])),
        ]),
        unscored: BTreeMap::from([
            (leg(Side::Server, "2025-11-25"), names(&["polling"])),
            (leg(Side::Server, "2026-07-28"), names(&["stub"])),
        ]),
    }
}

fn faults(list: &str, suite: &Scenarios) -> Vec<String> {
    Expected::parse(list).unwrap().faults(suite)
}

#[test]
fn a_list_that_fits_has_no_faults() {
    assert_eq!(faults(LIST, &suite()), [""; 0]);
}

#[test]
fn a_scenario_that_is_not_listed_is_a_fault() {
    for (name, tag, told) in [
        ("new", "2026-07-28", "server 2026-07-28 new: the suite has it, and the list does not"),
        ("new", "extension", "server new: the suite has it, and the list does not"),
        ("new", "2025-03-26", "server new: the suite has it, and the list does not"),
        // Listed only for the other revision.
        ("ping", "2026-07-28", "server 2026-07-28 ping: the suite has it, and the list does not"),
    ] {
        let mut suite = suite();
        let all = suite.all.get_mut(&Side::Server).unwrap();
        all.entry(name.into()).or_default().push(tag.into());
        assert_eq!(faults(LIST, &suite), [told]);
    }
    let mut suite = suite();
    suite.unscored.get_mut(&leg(Side::Server, "2025-11-25")).unwrap().insert("stub".into());
    assert_eq!(faults(LIST, &suite), ["server 2025-11-25 stub: the suite has it, and the list does not"]);
}

#[test]
fn a_name_that_the_suite_does_not_have_is_a_fault() {
    let list = LIST.replace(r#"["ping"]"#, r#"["ping", "pong"]"#);
    assert_eq!(faults(&list, &suite()), ["server 2025-11-25 pong: the list has it, and the suite does not"]);
}

#[test]
fn nothing_is_listed_among_what_it_is_not() {
    let told = |name: &str| [format!("{name}: listed among what it is not")];
    let list =
        LIST.replace("required = [\"ping\"]\nunscored = [\"polling\"]", "unscored = [\"ping\", \"polling\"]");
    assert_eq!(faults(&list, &suite()), told("server 2025-11-25 ping"));
    let list =
        LIST.replace("required = [\"ping\"]\nunscored = [\"polling\"]", "required = [\"ping\", \"polling\"]");
    assert_eq!(faults(&list, &suite()), told("server 2025-11-25 polling"));
    let list = LIST.replace("required = [\"caching\"]\n", "").replace("stub =", "caching = \"no\"\nstub =");
    assert_eq!(faults(&list, &suite()), told("server 2026-07-28 caching"));
}

#[test]
fn a_list_that_says_something_else_is_refused() {
    for (from, to) in [
        ("[server.", "[proxy."),
        ("trivial", "flaky"),
        ("\"the suite skips it\"", "\"\""),
        ("\"the suite skips it\"", "true"),
        ("[\"ping\"]", "[\"ping\", \"ping\"]"),
        ("[\"ping\"]", "[\"ping\", \"polling\"]"),
        ("[\"ping\"]", "\"ping\""),
        ("[\"ping\"]", "[1]"),
    ] {
        assert!(Expected::parse(&LIST.replace(from, to)).is_err(), "{from} -> {to}");
    }
}

#[test]
fn a_listed_pass_that_fails_is_a_fault() {
    let red = ["no check succeeded".to_owned(), "the client ended with 1".to_owned()];
    for passes in [Expectation::Required, Expectation::Unscored, Expectation::Trivial] {
        assert_eq!(held(&passes, &[]), Ok(()));
        let told = held(&passes, &red).unwrap_err();
        assert!(told.contains("no check succeeded") && told.contains("ended with 1"), "{told}");
    }
}

#[test]
fn an_expected_failure_that_passes_is_a_fault() {
    let fails = Expectation::Impossible("because".into());
    assert_eq!(held(&fails, &["no check succeeded".into()]), Ok(()));
    assert!(held(&fails, &[]).unwrap_err().contains("out of date"));
}

/// Version alpha.12 requires 30 and 37 scenarios of a server, and 18 and 32 of a client.
#[test]
fn the_list_names_all_that_is_required() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let Expected(legs) = Expected::read(root).unwrap();
    let count = |side, revision: &str, wanted: fn(&Expectation) -> bool| {
        legs[&leg(side, revision)].values().filter(|expectation| wanted(expectation)).count()
    };
    let required = |expectation: &Expectation| *expectation == Expectation::Required;
    assert_eq!(count(Side::Server, "2025-11-25", required), 30);
    assert_eq!(count(Side::Server, "2026-07-28", required), 37);
    assert_eq!(count(Side::Client, "2025-11-25", required), 18);
    assert_eq!(count(Side::Client, "2026-07-28", required), 32);
    for (side, revision) in [(Side::Server, "2025-11-25"), (Side::Client, "2025-11-25")] {
        assert_eq!(count(side, revision, |expectation| !expectation.passes()), 0);
    }
}
