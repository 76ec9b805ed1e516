//! Checks that the scan for leftover processes finds an existing one. Without this check, an empty result in the other
//! tests would show nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use interop::{MARK, running};

#[test]
fn the_scan_for_processes_finds_one_that_is_left() {
    let mark = format!("control-{}", std::process::id());
    let mut left =
        Command::new("cat").env(MARK, &mark).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // `spawn` may return before the new program has its environment; its first output comes after that.
    left.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    left.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(running(&mark).unwrap(), ["cat"]);
    drop(left.stdin.take());
    assert!(left.wait().unwrap().success());
    assert!(running(&mark).unwrap().is_empty());
}
