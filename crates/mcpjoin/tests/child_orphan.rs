//! What happens to a child when our own process is killed. The test kills a second run of this program, so it is a
//! program of its own and not a test harness.
#![cfg_attr(not(target_os = "linux"), allow(unused, reason = "the parent-death signal is Linux's"))]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

const NAME: &str = "d78_a_child_is_gone_when_our_process_is_killed";
const ROLE: &str = "MCPJOIN_TEST_ROLE";

fn main() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(ROLE).is_some() {
        own_a_child();
    } else if std::env::args().any(|arg| arg == "--list") {
        // What a test runner asks for.
        if !std::env::args().any(|arg| arg == "--ignored") {
            println!("{NAME}: test");
        }
    } else {
        kill_the_owner();
        println!("{NAME} ... ok");
    }
}

/// The second run: has a child that ignores the end of its input, and waits to be killed.
#[cfg(target_os = "linux")]
fn own_a_child() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let command = support::sh("exec sleep 1000");
        let handle = command.handle();
        let _link = command.start().await.expect("a shell");
        println!("{}", handle.pid().expect("a pid"));
        std::future::pending::<()>().await;
    });
}

#[cfg(target_os = "linux")]
fn kill_the_owner() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let mut owner = Command::new(std::env::current_exe().expect("our own program"))
        .env(ROLE, "owner")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second run");
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
