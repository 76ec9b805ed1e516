//! The thread that keeps all children of this process.

use std::cell::LazyCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::process::Pid;
use tokio::sync::oneshot;

use super::command::{SpawnError, SpawnErrorKind, Spec};
use super::kept::{Kept, TICK};
use super::mark::Mark;
use super::tree::{Family, Scope, World};
use super::{Grace, Process, Shared, spawn as start};

/// A child that has been started, and our side of its pipes.
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

/// How to reach the thread.
#[derive(Clone)]
struct Keeper {
    orders: Sender<Order>,
    /// A byte in here ends the thread's wait. When it is full the wait ends anyway.
    bell: Arc<OwnedFd>,
}

/// Started with the first child and never stopped: the kernel kills every child when it ends.
static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

fn keeper() -> io::Result<Keeper> {
    let mut slot = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keeper) = &*slot {
        return Ok(keeper.clone());
    }
    let (orders, incoming) = mpsc::channel();
    let (heard, bell) = pipe()?;
    thread::Builder::new()
        .name("mcpjoin-child".into())
        .stack_size(256 * 1024)
        .spawn(move || keep(&incoming, &heard))?;
    let keeper = Keeper { orders, bell: Arc::new(bell) };
    *slot = Some(keeper.clone());
    Ok(keeper)
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
    let (heard, bell) = rustix::pipe::pipe()?;
    for end in [&heard, &bell] {
        fcntl_setfd(end, FdFlags::CLOEXEC)?;
        fcntl_setfl(end, OFlags::NONBLOCK)?;
    }
    Ok((heard, bell))
}

impl Keeper {
    fn tell(&self, order: Order) {
        // The thread never ends, so neither fails; and if it had ended, the kernel would have killed the children.
        if self.orders.send(order).is_ok() {
            let _ = write(&*self.bell, &[0]);
        }
    }
}

/// Starts a child.
///
/// When the future is dropped while the child is being started, the child is killed as soon as it is there.
pub(crate) async fn spawn(spec: Arc<Spec>) -> Result<Spawned, SpawnError> {
    let keeper = keeper().map_err(|error| spec.error(SpawnErrorKind::System(error)))?;
    let (reply, started) = oneshot::channel();
    keeper.tell(Order::Spawn(Arc::clone(&spec), reply));
    started.await.unwrap_or_else(|_| {
        Err(spec.error(SpawnErrorKind::System(io::Error::other("the thread that starts children has ended"))))
    })
}

/// Begins the ladder for a child.
pub(super) fn close(shared: &Arc<Shared>, grace: Grace, stdin: Option<OwnedFd>) {
    order(Order::Close(Arc::clone(shared), grace, stdin));
}

/// Hands over a child whose group has been killed: to look for the rest, and to wait for it.
pub(super) fn kill(shared: &Arc<Shared>) {
    order(Order::Kill(Arc::clone(shared)));
}

fn order(order: Order) {
    // Whoever has a child has a keeper.
    if let Ok(keeper) = keeper() {
        keeper.tell(order);
    }
}

/// The thread.
fn keep(orders: &Receiver<Order>, heard: &OwnedFd) {
    let mut children: Vec<Kept> = Vec::new();
    loop {
        let (starting, ending): (Vec<_>, Vec<_>) =
            orders.try_iter().partition(|order| matches!(order, Order::Spawn(..)));
        // One look for all who are to be ended, after each of them was asked for: what a child has started since an older
        // one would be a stranger, once its parent is gone. So nothing that takes its time comes between, either.
        let world = LazyCell::new(|| World::look(Scope::Parents));
        for order in ending.into_iter().chain(starting) {
            let now = Instant::now();
            match order {
                Order::Spawn(spec, reply) => {
                    let outcome = launch(&spec, &mut children);
                    // Nobody waits any more: the child goes with what it is returned in.
                    drop(reply.send(outcome));
                    // Starting takes its time, and a death is told soon, however many are to be started.
                    children.iter_mut().for_each(Kept::look);
                }
                Order::Close(shared, grace, stdin) => {
                    if let Some(kept) = find(&mut children, &shared) {
                        kept.close(now, &world, grace, stdin);
                    }
                }
                Order::Kill(shared) => {
                    if let Some(kept) = find(&mut children, &shared) {
                        kept.kill(now, &world);
                    }
                }
            }
        }
        let now = Instant::now();
        children.iter_mut().for_each(Kept::look);
        // After everybody has been looked at: whoever was started by a child that has ended is in it.
        let scope = Scope::families(children.iter().map(Kept::family));
        let world = LazyCell::new(|| World::look(scope));
        children.retain_mut(|kept| !kept.advance(now, &world));
        wait(&children, heard);
    }
}

fn find<'a>(children: &'a mut [Kept], shared: &Arc<Shared>) -> Option<&'a mut Kept> {
    children.iter_mut().find(|kept| Arc::ptr_eq(&kept.shared, shared))
}

/// Waits until somebody rings, a process ends or something is due.
fn wait(children: &[Kept], heard: &OwnedFd) {
    let now = Instant::now();
    let due = children.iter().filter_map(|kept| kept.due(now)).min();
    let timeout =
        due.map(|due| due.saturating_duration_since(now)).and_then(|left| Timespec::try_from(left).ok());
    let mut handles = vec![PollFd::new(heard, PollFlags::IN)];
    handles.extend(
        children
            .iter()
            .flat_map(Kept::handles)
            .map(|handle| PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)),
    );
    match poll(&mut handles, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        // More handles than this process may open, or no memory: everybody is looked at again a little later.
        Err(_) => thread::sleep(TICK),
    }
    let mut rings = [0; 64];
    while read(heard, &mut rings).is_ok_and(|count| count == rings.len()) {}
}

/// Children that get large pipes: each takes 2 MiB of the 64 MiB that Linux lets a user have, after which the
/// user's new pipes shrink to a page or two.
#[cfg(target_os = "linux")]
const WITH_LARGE_PIPES: usize = 8;

fn launch(spec: &Spec, children: &mut Vec<Kept>) -> Result<Spawned, SpawnError> {
    let mark = Mark::of_a_child();
    let (child, pipes) = start::start(spec, &mark)?;
    #[cfg(target_os = "linux")]
    if children.len() < WITH_LARGE_PIPES {
        // Measured: 22 to 32 % more calls per second from 64 KiB on. Where it is not allowed, nothing is lost.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipes.stdin, 1024 * 1024);
        let _ = rustix::pipe::fcntl_setpipe_size(&pipes.stdout, 1024 * 1024);
    }
    let shared = Arc::new(Shared::new(Pid::from_child(&child)));
    let family = Family::new(shared.pid, mark);
    children.push(Kept::new(Arc::clone(&shared), child, family));
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
    fn so_many_children_have_large_pipes() {
        let (usual, _writer) = pipe().expect("a pipe");
        let size = fcntl_getpipe_size(&usual).expect("a size");
        let Ok(large) = fcntl_setpipe_size(&usual, 1024 * 1024) else { return };
        let program = "cat".into();
        let (args, env) = (Vec::new(), std::collections::BTreeMap::new());
        let spec = Spec { program, args, env, env_clear: false, current_dir: None, new_session: false };
        let mut children = Vec::new();
        let spawned: Vec<Spawned> =
            (0..=WITH_LARGE_PIPES).map(|_| launch(&spec, &mut children).expect("cat")).collect();
        let sizes = |of: fn(&Spawned) -> &OwnedFd| -> Vec<usize> {
            spawned.iter().map(|spawned| fcntl_getpipe_size(of(spawned)).expect("a size")).collect()
        };
        let mut wanted = vec![large; WITH_LARGE_PIPES];
        wanted.push(size);
        assert_eq!(sizes(|spawned| &spawned.stdin), wanted);
        assert_eq!(sizes(|spawned| &spawned.stdout), wanted);
        // The end of their input is theirs.
        drop(spawned);
        while !children.is_empty() {
            children.iter_mut().for_each(Kept::look);
            let world = LazyCell::new(|| World::look(Scope::Parents));
            children.retain_mut(|kept| !kept.advance(Instant::now(), &world));
            thread::yield_now();
        }
    }
}
