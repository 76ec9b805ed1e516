//! The supervisor: the thread that starts, watches and reaps all children of this process.
//!
//! Used by the rest of `process`. See [the module](super) for why it is a thread. It holds one
//! [`ChildState`] for each child.

use std::cell::LazyCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;
use std::{io, thread};

use crate::sync::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::process::Pid;
use tokio::sync::oneshot;

use super::child_state::{ChildState, POLL_INTERVAL};
use super::command::{SpawnError, SpawnErrorKind, Spec};
use super::env_tag::EnvTag;
use super::tree::{Family, Processes, Scope};
use super::{Grace, Process, Shared, spawn as start};

/// A child that was started, with our ends of its pipes.
pub(crate) struct Spawned {
    pub(crate) process: Process,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

type Started = oneshot::Sender<Result<Spawned, SpawnError>>;

enum Order {
    Spawn(Arc<Spec>, Started),
    Close(Arc<Shared>, Grace, Option<OwnedFd>),
    Kill(Arc<Shared>),
}

/// Sends orders to the thread.
#[derive(Clone)]
struct Supervisor {
    orders: Sender<Order>,
    /// A byte written here ends the thread's wait. When the pipe is full, the wait ends anyway.
    wake_writer: Arc<OwnedFd>,
}

/// Started with the first child and never stopped: the kernel kills every child when this thread ends.
static SUPERVISOR: Mutex<Option<Supervisor>> = Mutex::new(None);

fn supervisor() -> io::Result<Supervisor> {
    let mut slot = SUPERVISOR.lock();
    if let Some(supervisor) = &*slot {
        return Ok(supervisor.clone());
    }
    let (orders, incoming) = mpsc::channel();
    let (wake_reader, wake_writer) = pipe()?;
    thread::Builder::new()
        .name("mcpjoin-child".into())
        .stack_size(256 * 1024)
        .spawn(move || supervise(&incoming, &wake_reader))?;
    let supervisor = Supervisor { orders, wake_writer: Arc::new(wake_writer) };
    *slot = Some(supervisor.clone());
    Ok(supervisor)
}

#[cfg(not(target_vendor = "apple"))]
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

#[cfg(target_vendor = "apple")]
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::{FdFlags, fcntl_setfd};
    let (wake_reader, wake_writer) = rustix::pipe::pipe()?;
    for end in [&wake_reader, &wake_writer] {
        fcntl_setfd(end, FdFlags::CLOEXEC)?;
        fcntl_setfl(end, OFlags::NONBLOCK)?;
    }
    Ok((wake_reader, wake_writer))
}

impl Supervisor {
    fn send(&self, order: Order) {
        // The thread never ends, so neither call fails; if it had ended, the kernel would have killed the children.
        if self.orders.send(order).is_ok() {
            let _ = write(&*self.wake_writer, &[0]);
        }
    }
}

/// Starts a child.
///
/// When the future is dropped while the child is being started, the child is killed as soon as it runs.
pub(crate) async fn spawn(spec: Arc<Spec>) -> Result<Spawned, SpawnError> {
    let supervisor = supervisor().map_err(|error| spec.error(SpawnErrorKind::System(error)))?;
    let (reply, started) = oneshot::channel();
    supervisor.send(Order::Spawn(Arc::clone(&spec), reply));
    started.await.unwrap_or_else(|_| {
        Err(spec.error(SpawnErrorKind::System(io::Error::other("the thread that starts children has ended"))))
    })
}

/// Begins the shutdown of a child.
pub(super) fn close(shared: &Arc<Shared>, grace: Grace, stdin: Option<OwnedFd>) {
    order(Order::Close(Arc::clone(shared), grace, stdin));
}

/// Takes over a child whose group has been killed: ends its other processes and reaps it.
pub(super) fn kill(shared: &Arc<Shared>) {
    order(Order::Kill(Arc::clone(shared)));
}

fn order(order: Order) {
    // A child exists, so the supervisor was started.
    if let Ok(supervisor) = supervisor() {
        supervisor.send(order);
    }
}

/// The loop of the thread.
fn supervise(orders: &Receiver<Order>, wake_reader: &OwnedFd) {
    let mut children: Vec<ChildState> = Vec::new();
    loop {
        let (starting, ending): (Vec<_>, Vec<_>) =
            orders.try_iter().partition(|order| matches!(order, Order::Spawn(..)));
        // One scan for all children that are to be ended, after each order was received: processes that a child has started
        // since an older scan would look like strangers once their parent is gone. So nothing slow may come in between.
        let processes = LazyCell::new(|| Processes::look(Scope::Parents));
        for order in ending.into_iter().chain(starting) {
            let now = Instant::now();
            match order {
                Order::Spawn(spec, reply) => {
                    let outcome = launch(&spec, &mut children);
                    // The caller has been dropped: the child is killed when the unsent outcome is dropped.
                    drop(reply.send(outcome));
                    // Starting takes time, and an exit is reported soon, however many children are to be started.
                    children.iter_mut().for_each(ChildState::look);
                }
                Order::Close(shared, grace, stdin) => {
                    if let Some(child) = find(&mut children, &shared) {
                        child.close(now, &processes, grace, stdin);
                    }
                }
                Order::Kill(shared) => {
                    if let Some(child) = find(&mut children, &shared) {
                        child.kill(now, &processes);
                    }
                }
            }
        }
        let now = Instant::now();
        children.iter_mut().for_each(ChildState::look);
        // After all children were observed: the scan then includes the processes of each child that has exited.
        let scope = Scope::families(children.iter().map(ChildState::family));
        let processes = LazyCell::new(|| Processes::look(scope));
        children.retain_mut(|child| !child.advance(now, &processes));
        wait(&children, wake_reader);
    }
}

fn find<'a>(children: &'a mut [ChildState], shared: &Arc<Shared>) -> Option<&'a mut ChildState> {
    children.iter_mut().find(|child| Arc::ptr_eq(&child.shared, shared))
}

/// Waits until an order is sent, a process exits or a step is due.
fn wait(children: &[ChildState], wake_reader: &OwnedFd) {
    let now = Instant::now();
    let due = children.iter().filter_map(|child| child.due(now)).min();
    let timeout =
        due.map(|due| due.saturating_duration_since(now)).and_then(|left| Timespec::try_from(left).ok());
    let mut handles = vec![PollFd::new(wake_reader, PollFlags::IN)];
    handles.extend(
        children
            .iter()
            .flat_map(ChildState::handles)
            .map(|handle| PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)),
    );
    match poll(&mut handles, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        // More handles than this process may open, or no memory: all children are checked again a little later.
        Err(_) => thread::sleep(POLL_INTERVAL),
    }
    let mut wake_bytes = [0; 64];
    while read(wake_reader, &mut wake_bytes).is_ok_and(|count| count == wake_bytes.len()) {}
}

/// How many children get large pipes. Each takes 2 MiB of the 64 MiB that Linux allows a user; beyond it the user's new
/// pipes shrink to a page or two.
#[cfg(target_os = "linux")]
const MAX_LARGE_PIPES: usize = 8;

/// What a large pipe holds.
pub(crate) const LARGE_PIPE_BYTES: usize = 1024 * 1024;

fn launch(spec: &Spec, children: &mut Vec<ChildState>) -> Result<Spawned, SpawnError> {
    let tag = EnvTag::of_a_child();
    let (child, pipes) = start::start(spec, &tag)?;
    #[cfg(target_os = "linux")]
    if children.len() < MAX_LARGE_PIPES {
        // Measured: 22 to 32 % more calls per second from 64 KiB on. An error means that it is not allowed, which is harmless.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipes.stdin, LARGE_PIPE_BYTES);
        let _ = rustix::pipe::fcntl_setpipe_size(&pipes.stdout, LARGE_PIPE_BYTES);
    }
    let shared = Arc::new(Shared::new(Pid::from_child(&child)));
    let family = Family::new(shared.pid, tag);
    children.push(ChildState::new(Arc::clone(&shared), child, family));
    Ok(Spawned {
        process: Process { shared },
        stdin: pipes.stdin,
        stdout: pipes.stdout,
        stderr: pipes.stderr,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

    use super::*;

    #[test]
    fn the_number_of_children_with_large_pipes_is_limited() {
        let (usual, _writer) = pipe().expect("a pipe");
        let size = fcntl_getpipe_size(&usual).expect("a size");
        let large = fcntl_setpipe_size(&usual, LARGE_PIPE_BYTES);
        let large = large.expect("a pipe of 1 MiB: see /proc/sys/fs/pipe-max-size");
        let program = "cat".into();
        let (args, env) = (Vec::new(), std::collections::BTreeMap::new());
        let spec = Spec { program, args, env, env_clear: false, current_dir: None, new_session: false };
        let mut children = Vec::new();
        let spawned: Vec<Spawned> =
            (0..=MAX_LARGE_PIPES).map(|_| launch(&spec, &mut children).expect("cat")).collect();
        let sizes = |of: fn(&Spawned) -> &OwnedFd| -> Vec<usize> {
            spawned.iter().map(|spawned| fcntl_getpipe_size(of(spawned)).expect("a size")).collect()
        };
        let mut wanted = vec![large; MAX_LARGE_PIPES];
        wanted.push(size);
        assert_eq!(sizes(|spawned| &spawned.stdin), wanted);
        assert_eq!(sizes(|spawned| &spawned.stdout), wanted);
        // Dropping our ends of their pipes ends their input.
        drop(spawned);
        while !children.is_empty() {
            children.iter_mut().for_each(ChildState::look);
            let processes = LazyCell::new(|| Processes::look(Scope::Parents));
            children.retain_mut(|child| !child.advance(Instant::now(), &processes));
            thread::yield_now();
        }
    }
}
