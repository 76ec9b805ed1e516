//! Tests of `mcpjoin ping`.

use super::support::{legacy, line, run};

#[test]
fn c4_each_era_is_asked_in_its_own_way() {
    for (era, method) in [("legacy", "ping"), ("modern", "server/discover")] {
        let ran = line(&format!("ping --era {era} demo:")).exits(0);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.starts_with(&format!("mcpjoin-demo answered {method} in ")), "{}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), 1);
        assert_eq!(line(&format!("ping --json --era {era} demo:")).exits(0).json()["method"], method);
    }
}

#[test]
fn times_are_summed_up() {
    let ran = line("ping -n 3 -i 1ms demo:").exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[3].starts_with("3 answered, min/avg/max = "), "{lines:?}");
    let times = line("ping --count 3 --interval 1ms --json demo:").exits(0).json();
    let trips: Vec<f64> =
        times["roundTripsMs"].as_array().unwrap().iter().filter_map(|t| t.as_f64()).collect();
    let least = trips.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!((trips.len(), times["minMs"].as_f64()), (3, Some(least)), "{times}");
    assert!(
        times["minMs"].as_f64() <= times["avgMs"].as_f64()
            && times["avgMs"].as_f64() <= times["maxMs"].as_f64()
    );
}

/// Pings a legacy server with this body.
fn ping(options: &[&str], body: &str) -> super::support::Ran {
    let script = legacy(body);
    let mut words = vec!["ping", "--era", "legacy"];
    words.extend(options);
    words.extend(["sh", "-c", &script]);
    run(words)
}

#[test]
fn no_answer_is_exit_4() {
    let ran = ping(&["--timeout", "200ms"], "cat >/dev/null").exits(4);
    assert_eq!(ran.stdout, "");
    ran.says(&["(E_TIMEOUT)", "doing    ping", "200 ms"]);
    assert_eq!(ping(&["--json", "--timeout", "200ms"], "cat >/dev/null").exits(4).stdout, "");
    line("ping mcpjoin-no-such-program").exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
    ping(&[], "exit 3").exits(4).says(&["(E_SERVER_EXITED)"]);
    // The second ping gets no response, but the first one did.
    let once = r#"read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; read -r line; exit 0"#;
    let ran = ping(&["-n", "5", "-i", "1ms"], once).exits(4);
    assert!(
        ran.stdout.starts_with("shell answered ping in ") && ran.stdout.contains("\n1 answered, "),
        "{}",
        ran.stdout
    );
    ran.says(&["(E_SERVER_EXITED)"]);
}

#[test]
fn an_error_is_exit_5() {
    let error = r#"read -r line; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}'; cat >/dev/null"#;
    ping(&[], error).exits(5).says(&["(E_SERVER_ERROR)", "-32601"]);
}
