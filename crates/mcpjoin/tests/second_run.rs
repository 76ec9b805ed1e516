//! Tests that need a view from outside a process: this program runs itself a second time, and kills that process or talks
//! to it. It is a program of its own and not a test harness for that reason.
#![cfg_attr(not(target_os = "linux"), allow(unused, reason = "written for Linux's /proc"))]
#![allow(clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what is printed is what is tested")]

use mcpjoin_test_support as support;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use mcpjoin::proto::session::{Inbound, Outbound, Route};
use mcpjoin::transport::Link;

const ROLE: &str = "MCPJOIN_TEST_ROLE";

const CASES: &[(&str, fn())] = &[
    ("d78_a_child_is_gone_when_our_process_is_killed", kill_the_owner),
    ("r38_r42_f34_over_pipes_only_messages_reach_standard_output", over_pipes),
    ("f34_over_sockets_which_stay_blocking_for_others", over_sockets),
    ("f34_over_files", over_files),
    ("d85_without_file_descriptors_starting_fails_and_leaks_nothing", out_of_files),
    ("d85_without_file_descriptors_closing_ends_the_group_and_says_that_it_could_not_look", blind),
    #[cfg(target_os = "linux")]
    ("a_guard_that_is_dismissed_is_gone", dismissed),
];

fn main() {
    #[cfg(target_os = "linux")]
    if mcpjoin::guard::stand(std::env::args_os()) {
        return;
    }
    match std::env::var(ROLE).as_deref() {
        Ok("owner") => return own_a_child(),
        Ok("server") => return serve(),
        Ok("starved") => return starve(),
        Ok("blind") => return close_blindly(),
        _ => {}
    }
    let args: Vec<_> = std::env::args().skip(1).collect();
    // A test runner asks for this list.
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in CASES.iter().filter(|_| !args.iter().any(|arg| arg == "--ignored")) {
            println!("{name}: test");
        }
        return;
    }
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    let mut passed = 0;
    for (name, case) in CASES.iter().filter(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted))) {
        case();
        println!("test {name} ... ok");
        passed += 1;
    }
    // The last line has the form of the standard runner's, for tools that count; a case that fails has ended the process.
    let left = CASES.len() - passed;
    println!("\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; {left} filtered out");
}

#[cfg(target_os = "linux")]
fn dismissed() {
    let guard = mcpjoin::guard::Guard::start().expect("a process more");
    let folder = format!("/proc/{}", guard.pid());
    let name = std::fs::read_to_string(format!("{folder}/cmdline")).expect("it runs");
    assert!(name.starts_with("mcpjoin: guard\0"), "{name:?}");
    drop(guard);
    assert!(!std::path::Path::new(&folder).exists(), "not even a zombie is left");
}

fn again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("our own program"));
    command.env(ROLE, role);
    command
}

/// In the second process: starts a child that ignores the end of its input, and waits to be killed.
fn own_a_child() {
    support::run(async {
        let command = support::sh("exec sleep 1000");
        let handle = command.handle();
        let _link = command.start().await.expect("a shell");
        println!("{}", handle.pid().expect("a pid"));
        std::future::pending::<()>().await;
    });
}

fn kill_the_owner() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let mut owner = again("owner").stdout(Stdio::piped()).spawn().expect("a second run");
    let mut line = String::new();
    BufReader::new(owner.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let child: i32 = line.trim().parse().expect("a pid");
    assert!(support::lives(child.unsigned_abs()));
    let handle = pidfd_open(Pid::from_raw(child).expect("a pid"), PidfdFlags::empty()).expect("a process");
    owner.kill().expect("a process");
    owner.wait().expect("a process");
    let two_seconds = Timespec::try_from(Duration::from_secs(2)).expect("a time");
    let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&two_seconds)).expect("a handle");
    assert_eq!(ended, 1, "the child lives on");
    assert!(!support::lives(child.unsigned_abs()));
}

/// In the second process: sends every message back, and prints text that must not reach the connection.
fn serve() {
    support::run(async {
        println!("before the link");
        let mut link = support::bare(Link::stdio().expect("standard streams"));
        assert!(Link::stdio().is_err(), "twice");
        println!("a stray line");
        let stray = Command::new("echo").arg("of a child").status().expect("echo");
        assert!(stray.success());
        loop {
            match link.recv().await {
                Inbound::Message { message, .. } => {
                    link.send(Outbound::Message { message, route: Route::Session }).await.expect("a reader");
                }
                Inbound::Closed { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        link.close().await;
        println!("after the link");
    });
}

const BEFORE: &str = "before the link\n";

/// Two messages, one of them larger than any pipe.
fn messages() -> String {
    let line =
        |text: &str| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{{\"x\":\"{text}\"}}}}\n");
    line("small") + &line(&"x".repeat(2 * 1024 * 1024))
}

fn assert_stray(stderr: &str) {
    assert_eq!(stderr, "a stray line\nof a child\nafter the link\n");
}

fn over_pipes() {
    let mut server = again("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a second run");
    let mut stdin = server.stdin.take().expect("a pipe");
    let sending = std::thread::spawn(move || stdin.write_all(messages().as_bytes()).expect("a reader"));
    let output = server.wait_with_output().expect("an end");
    sending.join().expect("sent");
    assert_stray(&String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    assert!(output.stdout == (BEFORE.to_owned() + &messages()).into_bytes());
}

fn over_sockets() {
    use rustix::fs::{OFlags, fcntl_getfl};
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    // Another holder of the same descriptor.
    let shared = theirs.try_clone().expect("a descriptor");
    let stdin = OwnedFd::from(theirs.try_clone().expect("a descriptor"));
    let mut server = again("server")
        .stdin(stdin)
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a second run");
    let mut writing = ours.try_clone().expect("a descriptor");
    let sending = std::thread::spawn(move || {
        writing.write_all(messages().as_bytes()).expect("a reader");
        writing.shutdown(std::net::Shutdown::Write).expect("a socket");
    });
    let mut received = vec![0; BEFORE.len() + messages().len()];
    (&ours).read_exact(&mut received).expect("an echo");
    sending.join().expect("sent");
    assert!(received == (BEFORE.to_owned() + &messages()).into_bytes());
    let mut stderr = String::new();
    server.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert!(server.wait().expect("an end").success(), "{stderr}");
    assert_stray(&stderr);
    assert!(!fcntl_getfl(&shared).expect("flags").contains(OFlags::NONBLOCK));
}

fn over_files() {
    let path = |name: &str| std::env::temp_dir().join(format!("mcpjoin-{name}-{}", std::process::id()));
    let (input, output) = (path("input"), path("output"));
    std::fs::write(&input, messages()).expect("a file");
    let mut written = File::options().read(true).append(true).create(true).open(&output).expect("a file");
    let server = again("server")
        .stdin(File::open(&input).expect("a file"))
        .stdout(written.try_clone().expect("a descriptor"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a second run");
    let end = server.wait_with_output().expect("an end");
    std::fs::remove_file(&input).expect("a file");
    std::fs::remove_file(&output).expect("a file");
    assert_stray(&String::from_utf8_lossy(&end.stderr));
    assert!(end.status.success());
    let mut text = String::new();
    written.seek(SeekFrom::Start(0)).expect("a file");
    written.read_to_string(&mut text).expect("text");
    assert!(text == BEFORE.to_owned() + &messages());
}

fn out_of_files() {
    let output = again("starved").output().expect("a second run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// In the second process: runs out of file descriptors at each place where one is needed, and then has them again.
fn starve() {
    use mcpjoin::transport::SpawnErrorKind;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let open = || std::fs::read_dir("/proc/self/fd").expect("/proc").count();
    let closed = async || {
        let mut link = support::bare(support::sh("cat").start().await.expect("a shell"));
        link.close().await;
    };
    // After this, the shared resources exist.
    support::run(closed());
    let inventory = support::settled();
    support::run(async {
        let usual = getrlimit(Resource::Nofile);
        let before = open();
        let mut failures = 0;
        for spare in 0..32 {
            // The count itself used one descriptor.
            let current = Some((before - 1 + spare) as u64);
            setrlimit(Resource::Nofile, Rlimit { current, maximum: usual.maximum }).expect("a lower limit");
            let command = support::sh("cat");
            let handle = command.handle();
            let started = command.start().await;
            setrlimit(Resource::Nofile, usual).expect("the limit from before");
            match started {
                Ok(link) => {
                    drop(link);
                    handle.ended().await.expect("a report");
                }
                Err(error) => {
                    assert!(matches!(error.kind, SpawnErrorKind::System(_)), "{error}");
                    failures += 1;
                }
            }
        }
        assert!((5..32).contains(&failures), "{failures}");
        closed().await;
    });
    assert_eq!(support::settled(), inventory);
}

fn blind() {
    let output = again("blind").output().expect("a second run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// In the second process: has no file descriptor for reading `/proc` while a child is closed.
fn close_blindly() {
    use mcpjoin::transport::Forced;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    support::run(async {
        let usual = getrlimit(Resource::Nofile);
        let none = || setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: usual.maximum });
        // The grandchild holds the pipes open and is in the process group.
        let tell = r#"printf '{"jsonrpc":"2.0","method":"pid","params":{"pid":%d}}\n' $!;"#;
        let command = support::sh(&format!("sleep 1000 & {tell} exec cat >/dev/null"));
        let handle = command.handle();
        let mut link = support::bare(command.start().await.expect("a shell"));
        let grandchild = support::params(&mut link).await["pid"].as_u64().expect("a number");
        let grandchild = u32::try_from(grandchild).expect("a pid");
        none().expect("a lower limit");
        link.close().await;
        setrlimit(Resource::Nofile, usual).expect("the limit from before");
        let report = handle.report().expect("a report");
        assert_eq!((report.forced, report.complete), (Forced::No, false));
        // Its end was not observed, so it may take a moment.
        let began = std::time::Instant::now();
        while support::lives(grandchild) {
            assert!(began.elapsed() < support::DEADLINE, "it lives on");
            tokio::task::yield_now().await;
        }
        // With free descriptors, closing works as usual.
        let command = support::sh("exec cat");
        let handle = command.handle();
        let mut link = support::bare(command.start().await.expect("a shell"));
        link.close().await;
        assert!(handle.report().expect("a report").complete);
    });
}
