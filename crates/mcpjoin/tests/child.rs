//! Tests of a server as a child process: how it starts, how it can misbehave, and how it ends. They cover the cases D
//! of the adversarial catalogue and the requirements on processes, with shell scripts as children.
#![cfg(target_os = "linux")]

use mcpjoin_test_support as support;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::proto::session::{Inbound, ProcessExit, TransportEndKind};
use mcpjoin::transport::{ChildCommand, Direction, Forced, Inspected, SpawnErrorKind};
use support::{
    READY, bare, big, end, lives, note, params, poll_once, run, run_on_threads, sh, takes_less_than,
};

/// Writes a message `{"pid":…}` with the process id of the shell's last background job.
const TELL: &str = r#"printf '{"jsonrpc":"2.0","method":"pid","params":{"pid":%d}}\n' $!;"#;
/// The same for use between single quotes.
const TELL_IN_QUOTES: &str =
    r#"printf "{\"jsonrpc\":\"2.0\",\"method\":\"pid\",\"params\":{\"pid\":%d}}\n" $!;"#;

fn pid(params: &serde_json::Value) -> u32 {
    u32::try_from(params["pid"].as_u64().expect("a number")).expect("a pid")
}

/// The time limit for noticing a death, 0.5 s, plus the start of a shell; below the 2 s of the first shutdown step.
const SOON: Duration = Duration::from_millis(1500);

async fn failure(command: ChildCommand) -> (SpawnErrorKind, String) {
    takes_less_than(Duration::from_millis(200), async || {
        let start = Instant::now();
        command.clone().start().await.expect_err("it started");
        start.elapsed()
    })
    .await;
    let error = command.start().await.expect_err("it started");
    let text = error.to_string();
    (error.kind, text)
}

#[test]
fn r7_r77_arguments_environment_and_directory_reach_the_child() {
    run(async {
        let script = r#"printf '{"jsonrpc":"2.0","method":"x","params":{"a":"%s","b":"%s","c":"%s","home":"%s"}}\n' "$1" "$B" "$PWD" "$HOME""#;
        let command =
            sh(script).args(["zero", "$(rm -rf x); `y` 'z'"]).env("B", "b & c").current_dir("/usr/bin");
        let mut link = bare(command.start().await.expect("a shell"));
        let said = params(&mut link).await;
        assert_eq!(said["a"], "$(rm -rf x); `y` 'z'");
        assert_eq!(said["b"], "b & c");
        assert_eq!(said["c"], "/usr/bin");
        assert_eq!(said["home"], std::env::var("HOME").unwrap_or_default());
        assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Code(0)));
    });
}

#[test]
fn a_tap_of_a_command_sees_every_link_that_it_makes() {
    run(async {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let script = r#"printf '{"jsonrpc":"2.0","method":"x","params":{"n":%d}}\n' "$N""#;
        let command = sh(script).inspected(move |way, crossed| {
            if let Inspected::Line(line) = crossed {
                kept.lock().expect("nobody panics").push((way, String::from_utf8_lossy(line).into_owned()));
            }
        });
        for number in ["1", "2"] {
            let mut link = bare(command.clone().env("N", number).start().await.expect("a shell"));
            params(&mut link).await;
            end(&mut link).await;
        }
        let line =
            |n: u32| (Direction::In, format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"n":{n}}}}}"#));
        assert_eq!(*seen.lock().expect("nobody panics"), [line(1), line(2)]);
    });
}

#[test]
fn r8_a_program_that_cannot_be_started_says_why() {
    run(async {
        let (kind, text) = failure(ChildCommand::new("mcpjoin-no-such-program")).await;
        assert!(matches!(&kind, SpawnErrorKind::NotFound { searched } if !searched.is_empty()), "{kind:?}");
        assert!(text.contains("mcpjoin-no-such-program") && text.contains("/usr/bin"), "{text}");

        let (kind, text) = failure(ChildCommand::new("./nope/sh").arg("secret")).await;
        assert!(matches!(&kind, SpawnErrorKind::NotFound { searched } if searched.is_empty()), "{kind:?}");
        assert!(!text.contains("secret"), "{text}");

        let (kind, _) = failure(ChildCommand::new("/etc/passwd")).await;
        assert!(matches!(kind, SpawnErrorKind::NotExecutable { .. }), "{kind:?}");
        let (kind, _) = failure(ChildCommand::new("/usr/bin/")).await;
        assert!(matches!(kind, SpawnErrorKind::IsDirectory { .. }), "{kind:?}");
        let (kind, _) = failure(sh("true").current_dir("/no/such/place")).await;
        assert!(matches!(kind, SpawnErrorKind::WorkingDirectory { .. }), "{kind:?}");
        let (kind, _) = failure(sh("true").current_dir("/etc/passwd")).await;
        assert!(matches!(kind, SpawnErrorKind::WorkingDirectory { .. }), "{kind:?}");
        let (kind, _) = failure(ChildCommand::new("")).await;
        assert!(matches!(kind, SpawnErrorKind::NotFound { .. }), "{kind:?}");
        let (kind, _) = failure(sh("a\0b")).await;
        assert!(matches!(kind, SpawnErrorKind::System(_)), "{kind:?}");
        let (kind, _) = failure(ChildCommand::new("sh").env_clear().env("PATH", "::")).await;
        assert!(matches!(kind, SpawnErrorKind::NotFound { .. }), "{kind:?}");
    });
}

#[test]
fn r8_a_script_without_its_interpreter_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("mcpjoin-script-{}", std::process::id()));
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (kind, _) = run(failure(ChildCommand::new(&path)));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(kind, SpawnErrorKind::NoInterpreter { .. }), "{kind:?}");
}

#[test]
fn r11_f11_an_exit_is_reported_with_its_status_and_standard_error() {
    run(async {
        takes_less_than(SOON, async || {
            let mut link =
                bare(sh("echo one >&2; echo 'last words' >&2; exit 3").start().await.expect("a shell"));
            let start = Instant::now();
            let end = end(&mut link).await;
            let took = start.elapsed();
            assert_eq!(end.kind, TransportEndKind::EndOfStream);
            assert_eq!(end.exit, Some(ProcessExit::Code(3)));
            assert_eq!(&end.stderr[..], b"one\nlast words\n");
            let text = end.to_string();
            assert!(text.contains("exit code 3") && text.contains("last words"), "{text}");
            took
        })
        .await;

        let mut link = bare(sh("kill -9 $$").start().await.expect("a shell"));
        assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Signal(9)));
    });
}

#[test]
fn r11_an_exit_is_reported_while_a_grandchild_holds_the_pipes() {
    run(async {
        let script = format!(
            "sleep 1000 & {TELL} printf '{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{{}}}}'; exit 3"
        );
        takes_less_than(SOON, async || {
            let mut link = bare(sh(&script).start().await.expect("a shell"));
            let grandchild = pid(&params(&mut link).await);
            let start = Instant::now();
            // A last line without a newline is a message too.
            assert_eq!(params(&mut link).await, serde_json::json!({}));
            assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Code(3)));
            let took = start.elapsed();
            assert_eq!(link.close().await.exit, Some(ProcessExit::Code(3)));
            assert!(!lives(grandchild));
            took
        })
        .await;
    });
}

#[test]
fn d_a_closed_standard_output_is_the_end_even_when_the_child_lives_on() {
    run(async {
        takes_less_than(2 * SOON, async || {
            let mut link = bare(sh("exec >&-; exec sleep 1000").start().await.expect("a shell"));
            let start = Instant::now();
            assert_eq!(end(&mut link).await.exit, None);
            start.elapsed()
        })
        .await;
    });
}

#[test]
fn r18_r20_f8_a_polite_child_leaves_by_itself_and_at_once() {
    run(async {
        // Nothing is left behind, so closing takes less than the 0.5 s that leftover processes are given.
        takes_less_than(Duration::from_millis(450), async || {
            let command = sh("cat; exit 0").shutdown(support::DEADLINE, support::DEADLINE);
            let handle = command.handle();
            let mut link = bare(command.start().await.expect("a shell"));
            link.send(note(r#"{"echo":true}"#)).await.expect("a reader");
            assert_eq!(params(&mut link).await["echo"], true);
            assert!(handle.is_running());
            let start = Instant::now();
            assert_eq!(link.close().await.exit, Some(ProcessExit::Code(0)));
            let took = start.elapsed();
            let report = handle.report().expect("a report");
            assert_eq!((report.forced, report.survivors.len()), (Forced::No, 0));
            assert!(!handle.is_running());
            assert!(!lives(handle.pid().expect("a pid")));
            took
        })
        .await;
    });
}

#[test]
fn r21_d71_who_ignores_the_end_of_input_gets_sigterm_after_two_seconds() {
    run(async {
        takes_less_than(Duration::from_millis(3500), async || {
            let command = sh("exec sleep 1000");
            let handle = command.handle();
            let mut link = bare(command.start().await.expect("a shell"));
            let start = Instant::now();
            assert_eq!(link.close().await.exit, Some(ProcessExit::Signal(15)));
            let took = start.elapsed();
            assert!(took >= Duration::from_secs(2), "{took:?}");
            assert_eq!(handle.report().expect("a report").forced, Forced::Terminated);
            took
        })
        .await;
    });
}

#[test]
fn d72_d74_who_ignores_sigterm_is_killed_and_closing_takes_five_seconds_at_most() {
    run(async {
        let script = format!(r#"trap "" TERM; sleep 1000 & {TELL} while :; do sleep 1000; done"#);
        takes_less_than(Duration::from_secs(5), async || {
            let command = sh(&script);
            let handle = command.handle();
            let mut link = bare(command.start().await.expect("a shell"));
            let grandchild = pid(&params(&mut link).await);
            let start = Instant::now();
            assert_eq!(link.close().await.exit, Some(ProcessExit::Signal(9)));
            let took = start.elapsed();
            assert!(took >= Duration::from_secs(4), "{took:?}");
            let report = handle.report().expect("a report");
            assert_eq!((report.forced, report.survivors.len()), (Forced::Killed, 0));
            assert!(!lives(grandchild));
            took
        })
        .await;
    });
}

#[test]
fn d74_a_grandchild_that_ignores_sigterm_and_holds_the_pipes_is_ended() {
    run(async {
        let script = format!(r#"(trap "" TERM; exec sleep 1000) & {TELL} cat >/dev/null"#);
        takes_less_than(Duration::from_secs(3), async || {
            let mut link = bare(sh(&script).start().await.expect("a shell"));
            let grandchild = pid(&params(&mut link).await);
            let start = Instant::now();
            assert_eq!(link.close().await.exit, Some(ProcessExit::Code(0)));
            let took = start.elapsed();
            assert!(!lives(grandchild));
            took
        })
        .await;
    });
}

#[test]
fn what_a_child_leaves_behind_is_asked_to_go_before_it_is_killed() {
    run(async {
        let script =
            format!(r#"(trap "echo asked >&2; exit" TERM; sleep 1000 & {READY} wait) & cat >/dev/null"#);
        let command = sh(&script);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        params(&mut link).await;
        let end = link.close().await;
        // `wait` is where a signal runs the trap at once. Only `echo`, a part of the shell, stands between the signal and the end:
        // a machine that is busy starts no process within the grace period.
        assert!(end.stderr.ends_with(b"asked\n"), "{:?}", end.stderr);
        let left = handle.report().expect("a report").left_behind;
        assert!(left.iter().any(|left| left.name == "sh"), "{left:?}");
    });
}

#[test]
fn an_exit_is_reported_while_a_hidden_process_holds_the_pipes() {
    run(async {
        // The grandchild has no mark in its environment, no common process group and no parent: it survives the child.
        let script = format!("env -i setsid /bin/sleep 1000 & {TELL} exit 3");
        let mut link = bare(sh(&script).start().await.expect("a shell"));
        let stranger = pid(&params(&mut link).await);
        let exit = end(&mut link).await.exit;
        link.close().await;
        kill(stranger);
        assert_eq!(exit, Some(ProcessExit::Code(3)));
    });
}

/// Kills a process that this library does not find.
fn kill(stranger: u32) {
    let stranger = rustix::process::Pid::from_raw(stranger.cast_signed()).expect("a pid");
    let _ = rustix::process::kill_process(stranger, rustix::process::Signal::KILL);
}

#[test]
fn an_exit_is_told_while_a_process_that_nobody_finds_floods_the_output() {
    run(async {
        let script = "env -i setsid /usr/bin/yes $(printf %0100d 0) & echo $! >&2; read line; exit 3";
        let command = sh(script);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        assert!(matches!(link.recv().await, Inbound::Malformed { .. }), "it floods");
        link.send(note("{}")).await.expect("a reader");
        let told = tokio::time::timeout(5 * SOON, async {
            loop {
                if let Inbound::Closed { cause } = link.recv().await {
                    return cause;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        let stderr = handle.stderr();
        kill(String::from_utf8_lossy(&stderr).trim().parse().expect("a pid"));
        assert_eq!(told.expect("an end").exit, Some(ProcessExit::Code(3)));
    });
}

#[test]
fn closing_ends_while_a_process_that_nobody_finds_floods_standard_error() {
    run(async {
        let script = format!("env -i setsid /usr/bin/yes >&2 & {TELL} read line; exit 3");
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let command = sh(&script).stderr(move |_| {
            let _ = tell.send(());
        });
        let mut link = bare(command.start().await.expect("a shell"));
        let stranger = pid(&params(&mut link).await);
        told.recv().await.expect("it floods");
        link.send(note("{}")).await.expect("a reader");
        let exit = end(&mut link).await.exit;
        let closed = tokio::time::timeout(5 * SOON, link.close()).await;
        kill(stranger);
        assert_eq!(exit, Some(ProcessExit::Code(3)));
        assert_eq!(closed.expect("an end").exit, Some(ProcessExit::Code(3)));
    });
}

#[test]
fn d73_a_wrapper_and_the_server_behind_it_are_ended() {
    run(async {
        let script = format!("sleep 1000 & {TELL} wait");
        let command = sh(&script).shutdown(Duration::from_millis(50), Duration::from_secs(2));
        let mut link = bare(command.start().await.expect("a shell"));
        let grandchild = pid(&params(&mut link).await);
        assert!(lives(grandchild));
        link.close().await;
        assert!(!lives(grandchild));
    });
}

#[test]
fn d75_who_calls_setsid_is_found() {
    run(async {
        // The first has lost its parent and keeps our mark; the second has neither the mark nor the process group.
        let script = format!(
            r#"sh -c 'setsid sleep 1000 & {TELL_IN_QUOTES}'; env -i setsid /bin/sleep 1000 & {TELL} cat >/dev/null"#
        );
        let command = sh(&script);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        let marked = pid(&params(&mut link).await);
        let unmarked = pid(&params(&mut link).await);
        assert!(lives(marked) && lives(unmarked));
        link.close().await;
        let report = handle.report().expect("a report");
        assert_eq!(report.survivors, []);
        assert!(!lives(marked) && !lives(unmarked));
    });
}

/// Closing a child lists the processes. For another child, which has forked since, that list is out of date.
#[test]
fn d75_who_calls_setsid_is_found_however_many_are_started_and_closed_meanwhile() {
    run(async {
        // The grandchild has neither the mark nor the process group. Only its parent identifies it, and that exits at once.
        let script = format!("env -i setsid /bin/sleep 1000 & {TELL} cat >/dev/null");
        let each = (0..12).map(|_| async {
            let mut left = Vec::new();
            for _ in 0..12 {
                let mut link = bare(sh(&script).start().await.expect("a shell"));
                let unmarked = pid(&params(&mut link).await);
                link.close().await;
                left.extend(Some(unmarked).filter(|pid| lives(*pid)));
            }
            left
        });
        let left = futures_util::future::join_all(each).await.concat();
        assert_eq!(left, [0; 0]);
    });
}

#[test]
fn r9_r45_d68_d69_f5_a_flood_on_standard_error_blocks_nothing() {
    run(async {
        let told = Arc::new(Mutex::new((0_usize, 0_usize)));
        let sink = Arc::clone(&told);
        let script = format!(
            "head -c 67108864 /dev/zero | tr '\\0' '\\377' >&2; {READY} read line; \
             head -c 1048576 /dev/zero >&2; printf '\\033[31mred\\n' >&2; {READY} cat >/dev/null"
        );
        let command = sh(&script).stderr(move |line| {
            let mut told = sink.lock().unwrap();
            *told = (told.0 + line.len(), told.1.max(line.len()));
        });
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        params(&mut link).await;
        link.send(note("{}")).await.expect("a reader");
        params(&mut link).await;
        let end = link.close().await;
        assert_eq!(end.stderr.len(), 64 * 1024);
        assert!(end.stderr.ends_with(b"\0\x1b[31mred\n"));
        assert_eq!(handle.stderr(), end.stderr);
        let (bytes, longest) = *told.lock().unwrap();
        assert_eq!(bytes, 67_108_864 + 1_048_576 + "\x1b[31mred".len());
        assert_eq!(longest, 8 * 1024);
    });
}

#[test]
fn d68_standard_error_is_read_while_the_link_is_not_polled() {
    run(async {
        let command = sh("head -c 4194304 /dev/zero >&2; echo done >&2; exit 5");
        let handle = command.handle();
        let link = command.start().await.expect("a shell");
        let report = handle.ended().await.expect("a report");
        assert_eq!(report.exit, Some(ProcessExit::Code(5)));
        let end = end(&mut bare(link)).await;
        assert!(end.stderr.ends_with(b"done\n"));
    });
}

#[test]
fn d68_a_closed_child_ends_with_all_of_its_standard_error() {
    run_on_threads(async {
        let (release, released) = std::sync::mpsc::channel();
        let released = Mutex::new(released);
        let command =
            sh(&format!("echo first >&2; {READY} cat >/dev/null; echo last >&2")).stderr(move |line| {
                if line == b"first" {
                    // This thread may be the one that waits for input and output: another one must take that over.
                    tokio::task::block_in_place(|| {
                        released.lock().unwrap().recv().expect("the test goes on");
                    });
                }
            });
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        params(&mut link).await;
        let exited = async {
            handle.ended().await.expect("a report");
            release.send(()).expect("the callback waits");
        };
        let (end, ()) = tokio::join!(link.close(), exited);
        assert_eq!(&end.stderr[..], b"first\nlast\n");
    });
}

#[test]
fn d69_a_callback_that_panics_stops_only_itself() {
    run(async {
        let command = sh("echo one >&2; echo two >&2").stderr(|_| panic!("in the callback"));
        let mut link = bare(command.start().await.expect("a shell"));
        assert_eq!(&end(&mut link).await.stderr[..], b"one\ntwo\n");
    });
}

#[test]
fn d70_a_child_that_never_reads_delays_only_its_sender() {
    run(async {
        let command = sh("exec sleep 1000").shutdown(Duration::ZERO, support::DEADLINE);
        let mut link = bare(command.start().await.expect("a shell"));
        let big = big(64 * 1024);
        let mut pushed = 0_u32;
        loop {
            while link.has_room() {
                link.push(big.clone());
                pushed += 1;
            }
            // The flush is pending for ever once the pipe is full: no event reports that, so the test uses a timeout.
            if tokio::time::timeout(Duration::from_millis(200), link.flush()).await.is_err()
                && !link.has_room()
            {
                break;
            }
        }
        // The limit is 1 MiB of pipe and 256 KiB of our own buffer, however much the caller would like to send.
        assert!(pushed < 30, "{pushed}");
        assert!(link.sent() <= 1024 * 1024);
        // The child receives SIGTERM at once, so it is not killed.
        assert_eq!(link.close().await.exit, Some(ProcessExit::Signal(15)));
    });
}

#[test]
fn d_a_child_that_floods_its_output_can_still_be_closed() {
    run(async {
        takes_less_than(Duration::from_secs(5), async || {
            let command = sh("trap '' TERM; yes '{}' & wait; exit 0");
            let mut link = bare(command.start().await.expect("a shell"));
            assert!(matches!(link.recv().await, Inbound::Malformed { .. }));
            let start = Instant::now();
            link.close().await;
            start.elapsed()
        })
        .await;
    });
}

#[test]
fn r75_d79_f10_dropping_the_link_ends_everything() {
    let script = format!("sleep 1000 & {TELL} cat >/dev/null");
    // The link is dropped inside a runtime.
    run(async {
        takes_less_than(Duration::from_millis(500), async || {
            let command = sh(&script);
            let handle = command.handle();
            let mut link = bare(command.start().await.expect("a shell"));
            let grandchild = pid(&params(&mut link).await);
            let start = Instant::now();
            drop(link);
            let took = start.elapsed();
            let report = handle.ended().await.expect("a report");
            assert_eq!((report.forced, report.survivors.len()), (Forced::Killed, 0));
            assert!(!lives(grandchild) && !lives(handle.pid().expect("a pid")));
            took
        })
        .await;
    });
    // The link is dropped outside, after the runtime has ended.
    let (handle, link, grandchild) = run(async {
        let command = sh(&script);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        let grandchild = pid(&params(&mut link).await);
        (handle, link, grandchild)
    });
    assert!(lives(grandchild));
    drop(link);
    run(handle.ended()).expect("a report");
    assert!(!lives(grandchild) && !lives(handle.pid().expect("a pid")));
    // The link is dropped with the task that owns it, when its runtime shuts down.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let command = sh(&script);
    let handle = command.handle();
    let (told, grandchild) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let mut link = bare(command.start().await.expect("a shell"));
        told.send(pid(&params(&mut link).await)).expect("a listener");
        link.recv().await
    });
    let grandchild = grandchild.recv_timeout(support::DEADLINE).expect("a pid");
    drop(runtime);
    run(handle.ended()).expect("a report");
    assert!(!lives(grandchild) && !lives(handle.pid().expect("a pid")));
    // The link is dropped by a panic.
    let command = sh(&script);
    let handle = command.handle();
    let panicked = std::thread::spawn(move || {
        run(async {
            let _link = command.start().await.expect("a shell");
            panic!("on purpose");
        })
    });
    assert!(panicked.join().is_err());
    run(handle.ended()).expect("a report");
    assert!(!lives(handle.pid().expect("a pid")));
}

#[test]
fn d80_a_closing_that_is_abandoned_goes_on() {
    run(async {
        let command = sh("exec sleep 1000").shutdown(Duration::from_millis(100), support::DEADLINE);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        assert!(poll_once(&mut Box::pin(link.close())).is_pending());
        let report = handle.ended().await.expect("a report");
        assert_eq!((report.exit, report.forced), (Some(ProcessExit::Signal(15)), Forced::Terminated));
        drop(link);
    });
}

#[test]
fn d81_a_stopped_child_can_be_closed() {
    run(async {
        takes_less_than(Duration::from_secs(5), async || {
            let command = sh(&format!("{READY} kill -STOP $$; sleep 1000"));
            let handle = command.handle();
            let mut link = bare(command.start().await.expect("a shell"));
            params(&mut link).await;
            let start = Instant::now();
            assert!(link.close().await.exit.is_some());
            let took = start.elapsed();
            assert_ne!(handle.report().expect("a report").forced, Forced::No);
            took
        })
        .await;
    });
}

#[test]
fn d82_writing_to_a_child_that_has_closed_its_input_fails_with_the_exit_status() {
    run(async {
        // The child ends on a signal, which the test sends after it has written.
        let script = format!("trap 'exit 7' USR1; exec <&-; {READY} while :; do sleep 1000 & wait; done");
        let command = sh(&script);
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        params(&mut link).await;
        let error = link.send(note("{}")).await.expect_err("nobody reads");
        assert!(matches!(error.kind, TransportEndKind::Failed(_)), "{error:?}");
        let pid = handle.pid().expect("a pid").to_string();
        assert!(std::process::Command::new("kill").args(["-USR1", &pid]).status().expect("kill").success());
        // The error of sending is reported once; the link still reads what the child has written.
        link.send(note("{}")).await.expect("told already");
        assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Code(7)));
    });
}

#[test]
fn d83_the_child_gets_three_file_descriptors() {
    run(async {
        // The standard library has not opened this descriptor, so it lacks the close-on-exec flag.
        let leaking = rustix::io::dup(std::io::stdin()).expect("a descriptor");
        // The script uses no pipeline, because the shell would have its pipes open.
        let mut link = bare(sh("ls /proc/$$/fd; true").start().await.expect("a shell"));
        let mut files = Vec::new();
        while let Inbound::Malformed { excerpt, .. } = link.recv().await {
            files.push(excerpt);
        }
        assert_eq!(files, ["0", "1", "2"]);
        drop(leaking);
    });
}

#[test]
fn d84_a_cleared_environment_holds_what_was_asked_for() {
    run(async {
        let command = ChildCommand::new("/usr/bin/env").env_clear().env("ONE", "1");
        let mut link = bare(command.start().await.expect("env"));
        let mut names = Vec::new();
        while let Inbound::Malformed { excerpt, .. } = link.recv().await {
            names.push(String::from_utf8_lossy(&excerpt).split('=').next().unwrap_or_default().to_owned());
        }
        names.sort();
        assert_eq!(names, ["MCPJOIN_CHILD", "ONE"]);
        let text = format!("{:?}", sh("secret-script").env("TOKEN", "secret-value"));
        assert!(text.contains("TOKEN") && !text.contains("secret"), "{text}");
    });
}

#[test]
fn r7_d84_a_child_inherits_our_environment_and_never_sees_what_another_was_given() {
    run(async {
        let environment = async |command: ChildCommand| {
            let mut link = bare(command.start().await.expect("env"));
            let mut lines = Vec::new();
            while let Inbound::Malformed { excerpt, .. } = link.recv().await {
                lines.push(String::from_utf8_lossy(&excerpt).into_owned());
            }
            lines
        };
        let env = || ChildCommand::new("/usr/bin/env");
        let path = format!("PATH={}", std::env::var("PATH").expect("a path"));
        let first = environment(env().env("TOKEN", "first-secret")).await;
        assert!(first.contains(&"TOKEN=first-secret".to_owned()));
        assert!(first.iter().any(|line| path.starts_with(line.as_str()) && line.starts_with("PATH=")));
        let second = environment(env().env("OTHER", "second-secret")).await;
        assert!(second.contains(&"OTHER=second-secret".to_owned()));
        assert!(!second.iter().any(|line| line.contains("first-secret")), "{second:?}");
        let removed = environment(env().env_remove("PATH")).await;
        assert!(!removed.is_empty() && !removed.iter().any(|line| line.starts_with("PATH=")), "{removed:?}");
    });
}

#[test]
fn d86_a_child_that_was_reaped_elsewhere_is_not_signalled_by_its_id() {
    use rustix::process::{Pid, WaitOptions, waitpid};
    run(async {
        // The child exits after it has written; the process it leaves behind is known by its process group and its mark.
        let command = sh(&format!("sleep 1000 & {TELL} exit 0"));
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        let pid_of_child = handle.pid().expect("a pid");
        let id = Pid::from_raw(pid_of_child.cast_signed()).expect("a pid");
        // The host reaps any child it can. Either the host or our keeper reaps it first; both get a result.
        let stolen = loop {
            match waitpid(Some(id), WaitOptions::NOHANG) {
                Ok(Some(_)) => break true,
                Ok(None) => tokio::task::yield_now().await,
                Err(_) => break false,
            }
        };
        let grandchild = pid(&params(&mut link).await);
        link.close().await;
        let report = handle.report().expect("a report");
        assert!(stolen || report.exit == Some(ProcessExit::Code(0)));
        assert!(matches!(report.exit, None | Some(ProcessExit::Code(0))));
        assert_eq!(report.survivors, []);
        assert!(!lives(grandchild));
    });
}

#[test]
fn d87_a_child_outlives_the_thread_that_asked_for_it() {
    /// Sends a message when its thread is about to end.
    struct Last(std::sync::mpsc::Sender<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::from_millis(1))
        .enable_all()
        .build()
        .unwrap();
    let (sender, last) = std::sync::mpsc::channel();
    let command = sh("exec cat");
    let handle = command.handle();
    let current = runtime.handle().clone();
    // The child starts on a thread of the blocking pool, which ends when it has been idle for a while.
    let starting = runtime.spawn_blocking(move || {
        LAST.with(|slot| *slot.borrow_mut() = Some(Last(sender)));
        (std::thread::current().id(), current.block_on(command.start()).expect("a shell"))
    });
    let (thread, link) = runtime.block_on(starting).expect("no panic");
    assert_ne!(thread, std::thread::current().id());
    last.recv_timeout(support::DEADLINE).expect("the thread ends");
    runtime.block_on(async {
        let mut link = bare(link);
        link.send(note(r#"{"echo":true}"#)).await.expect("a reader");
        assert_eq!(params(&mut link).await["echo"], true);
        assert!(handle.is_running());
        assert_eq!(link.close().await.exit, Some(ProcessExit::Code(0)));
    });
}

#[test]
fn a_child_is_started_afresh() {
    run(async {
        let command = sh(&format!("{READY} read line; exit 4"));
        let handle = command.handle();
        let mut link = bare(command.start().await.expect("a shell"));
        assert!(link.caps().reopens);
        let first = handle.pid();
        params(&mut link).await;
        link.send(note("{}")).await.expect("a reader");
        assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Code(4)));
        link.reopen().await.expect("a second run");
        assert_ne!(handle.pid(), first);
        params(&mut link).await;
        link.send(note("{}")).await.expect("a reader");
        assert_eq!(end(&mut link).await.exit, Some(ProcessExit::Code(4)));
    });
}
