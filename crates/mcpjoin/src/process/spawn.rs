//! Starts one child, on the supervisor's thread. The only `unsafe` code of this crate is here.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use super::command::{SpawnError, SpawnErrorKind, Spec};
use super::env_tag::{EnvTag, VARIABLE};

/// Our ends of a child's pipes.
pub(super) struct Pipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Where `close_range` is missing, file descriptors from 3 up to this are closed in the child. The lowest free number is
/// always used first, so higher ones are rare.
const MAX_FD: i32 = 4096;

/// Starts a child in a process group of its own (or in a session of its own, where `spec` says so), with pipes for its
/// standard streams and no other file descriptor.
pub(super) fn start(spec: &Spec, tag: &EnvTag) -> Result<(Child, Pipes), SpawnError> {
    let path = spec.resolve().map_err(|kind| spec.error(kind))?;
    let mut command = Command::new(&path);
    command
        .arg0(&spec.program)
        .args(&spec.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if !spec.new_session {
        command.process_group(0);
    }
    if spec.env_clear {
        command.env_clear();
    }
    for (name, value) in &spec.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(VARIABLE, tag.value(spec));
    if let Some(folder) = &spec.current_dir {
        command.current_dir(folder);
    }
    before_exec(&mut command, spec.new_session);
    let mut child = command.spawn().map_err(|error| {
        // The file existed a moment ago: its interpreter or loader is missing.
        spec.error(match error.kind() {
            io::ErrorKind::NotFound => SpawnErrorKind::NoInterpreter { path },
            io::ErrorKind::PermissionDenied => SpawnErrorKind::NotExecutable { path },
            _ => SpawnErrorKind::System(error),
        })
    })?;
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            Ok((child, Pipes { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() }))
        }
        // All three were requested, so this does not happen; if it did, no process may be left running.
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            Err(spec.error(SpawnErrorKind::System(io::Error::other("the child has no pipes"))))
        }
    }
}

/// Runs in the child between fork and exec.
#[allow(unsafe_code, reason = "`pre_exec` has no safe form")]
fn before_exec(command: &mut Command, new_session: bool) {
    #[cfg(target_os = "linux")]
    let parent = rustix::process::getpid();
    let prepare = move || {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Signal, getppid, set_parent_process_death_signal};
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // Our process may have died before the signal was requested: then it would never be sent.
            if getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
            }
        }
        if new_session {
            // The leader of a session also leads its process group.
            rustix::process::setsid()?;
        }
        close_on_exec();
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, because another thread may have held
    // any lock at the fork. `prepare` makes system calls (prctl, getppid, setsid, fcntl) on plain integers: it neither
    // allocates nor locks, and an `io::Error` from a number is that number.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Gives the guard its three standard streams and no other file descriptor.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "`pre_exec` has no safe form")]
pub(super) fn without_descriptors(command: &mut Command) {
    let prepare = || {
        close_on_exec();
        Ok(())
    };
    // SAFETY: as in `before_exec`: system calls on plain integers, neither allocations nor locks.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Closes every file descriptor above 2 at the exec. Those that the standard library opened have the flag already; those that
/// the host program opened or inherited may not. Until the exec they stay open.
#[allow(
    unsafe_code,
    reason = "`close_range` has no safe form, and a descriptor known by its number has no owner"
)]
fn close_on_exec() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: three integers go in, no memory is touched. With this flag nothing is closed before the exec, so
        // the pipe by which the standard library reports a failed exec goes on working.
        let done =
            unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if done == 0 {
            return;
        }
    }
    // Linux before 5.11, other systems, and sandboxes that refuse unknown system calls.
    for number in 3..MAX_FD {
        // SAFETY: the value lives for two system calls in a process of one thread, so nobody closes the number in
        // between, and a number that is not open is answered with an error and nothing else.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(fd) {
            let _ = fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
}
