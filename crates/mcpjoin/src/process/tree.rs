//! The processes that a child has started, found through `/proc`.
//!
//! Used by `child_state` and by the guard. A process belongs to a child's family when it carries the child's
//! [tag](super::env_tag) in its environment, is in the child's process group, has a member for a parent, or had one in an
//! earlier scan. Members are remembered by process id and start time. About any other process nothing can be proved.
//!
//! A scan that finds no member proves nothing unless it was complete. A process can fork and exit during the scan, and in the
//! middle of an `execve` its environment is empty: if it has also left its group and lost its parent, it looks like a
//! stranger. So
//!
//! - the list of processes is read again until it has no new entry: every process that lives at the last reading was
//!   examined while it lived;
//! - a process in the middle of an `execve` makes the scan incomplete, unless its parent proves that it is no member. So does
//!   a member that has exited since it was examined: it may have had a child.
//!
//! An incomplete scan is repeated a little later. The last scan of a family is a complete one without members, unless the time
//! that the [shutdown](super::child_state) allows for it is over.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::Survivor;
use super::env_tag::EnvTag;

/// How often one scan reads the list of processes at most. On a machine that starts so many processes that this is not
/// enough, the scan is incomplete.
const MAX_READINGS: usize = 8;

/// A handle of a process: it stays valid when the process id is reused, and becomes readable when the process exits.
pub(super) fn handle(pid: Pid) -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
}

/// A process, identified so that a reused process id is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pid: i32,
    /// The start time in clock ticks since the machine started.
    born: u64,
}

/// A living member of a child's family.
pub(super) struct Relative {
    pub(super) identity: Identity,
    name: String,
    /// The process is exiting.
    pub(super) exiting: bool,
    /// Becomes readable when the process exits.
    pub(super) handle: Option<OwnedFd>,
}

impl Relative {
    /// Sends a signal to this process and to no other.
    pub(super) fn signal(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            // An error means that it has exited or may not be signalled; the next scan shows which.
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = signal;
    }

    #[cfg(test)]
    pub(super) fn out_of_reach(pid: i32, name: &str) -> Self {
        Self { identity: Identity { pid, born: 0 }, name: name.into(), exiting: false, handle: None }
    }

    pub(super) fn survivor(&self) -> Survivor {
        Survivor { pid: self.identity.pid.unsigned_abs(), name: self.name.clone() }
    }
}

/// The tags that a process carries.
enum Tags {
    /// The tags in its environment.
    Held(Vec<u8>),
    /// None, or its environment may not be read: then it may not be signalled either.
    None,
    /// Unknown: it is in the middle of an `execve`, or no file descriptor was free to read its environment.
    Unknown,
}

/// A line of `/proc/<pid>/stat`, and the tags of the process.
struct Stat {
    pid: i32,
    name: String,
    dead: bool,
    parent: i32,
    group: i32,
    born: u64,
    /// The process is exiting: it has no memory any more.
    exiting: bool,
    /// A kernel thread, which has no memory of its own.
    kernel: bool,
    /// Its program is loaded completely: in an `execve` the kernel sets the address of the code last.
    loaded: bool,
    /// Start and end of the environment in its memory.
    environment: (u64, u64),
    tags: Tags,
}

/// Flags of a process, from `include/linux/sched.h`: it is exiting; it is a kernel thread.
const PF_EXITING: u64 = 0x0000_0004;
const PF_KTHREAD: u64 = 0x0020_0000;

/// The initial size of the buffer for a file. A line of `stat` has about 300 bytes.
const FILE_BYTES: usize = 1024;

/// Reads a file below `/proc/<pid>`; `None` when there is no such file. For `stat` that proves that the process has exited.
///
/// Such a file reports no size, so without an initial capacity it would be read in half a dozen pieces.
fn read(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    let file = File::open(format!("/proc/{pid}/{name}"));
    match file.and_then(|file| file.take(u64::MAX).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        // The process exited before the file was opened, or after.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Stat {
    /// Returns `None` when there is no such process.
    fn read(pid: i32) -> io::Result<Option<Self>> {
        Ok(read(pid, "stat")?.and_then(|line| Self::parse(pid, &line)))
    }

    /// Parses `pid (name) state ppid pgrp session ...`, where the name may contain any byte: proc_pid_stat(5).
    fn parse(pid: i32, line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // `fields` begins with field 3 of the manual page.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |field: Option<&str>| field.and_then(|field| field.parse::<u64>().ok());
        let flags = number(field(9)).unwrap_or_default();
        // The first thread of a process may end before the others.
        let alone = number(field(20)).is_none_or(|threads| threads <= 1);
        Some(Self {
            pid,
            name,
            dead: matches!(field(3)?, "Z" | "X" | "x") && alone,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            born: field(22)?.parse().ok()?,
            exiting: flags & PF_EXITING != 0 && alone,
            kernel: flags & PF_KTHREAD != 0,
            loaded: number(field(27)).is_some_and(|end_of_code| end_of_code != 0),
            environment: (number(field(50)).unwrap_or_default(), number(field(51)).unwrap_or_default()),
            tags: Tags::None,
        })
    }

    /// Reads the tags in its environment.
    ///
    /// The file is empty in the middle of an `execve`, and the read may end early when one begins. It is complete when it has
    /// the length that the kernel reports.
    fn read_tags(&mut self) {
        self.take_tags(read(self.pid, "environ"));
    }

    /// Takes the tags from the file `environ` as it was read.
    fn take_tags(&mut self, environment: io::Result<Option<Vec<u8>>>) {
        let environment = match environment {
            // Since Linux 6.16 a process that is exiting and has no memory any more is reported as if it did not exist.
            Ok(environment) => environment.unwrap_or_default(),
            // A process whose environment may not be read may not be signalled either, and that does not change.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return,
            Err(_) => {
                self.tags = Tags::Unknown;
                return;
            }
        };
        if !self.is_whole(&environment) {
            match Self::read(self.pid) {
                Ok(Some(now)) if now.dead => self.dead = true,
                Ok(None) => self.dead = true,
                // Its tag is gone with its memory. A family that knows it by group or parent waits for its end.
                Ok(Some(now)) if now.exiting => self.exiting = true,
                Ok(Some(now)) if now.kernel || now.is_whole(&environment) => {}
                _ => {
                    self.tags = Tags::Unknown;
                    return;
                }
            }
        }
        if let (false, Some(names)) = (self.dead, EnvTag::value_in(&environment)) {
            self.tags = Tags::Held(names.to_vec());
        }
    }

    /// Whether `environment` is all of its environment.
    fn is_whole(&self, environment: &[u8]) -> bool {
        let (start, end) = self.environment;
        self.loaded && start != 0 && end.checked_sub(start) == u64::try_from(environment.len()).ok()
    }

    fn has_tag(&self, tag: &EnvTag) -> bool {
        matches!(&self.tags, Tags::Held(names) if tag.is_in(names))
    }

    const fn identity(&self) -> Identity {
        Identity { pid: self.pid, born: self.born }
    }
}

/// All processes at one moment. A scan costs about ten microseconds for each process, so one scan serves all children that
/// shut down at the same time.
pub(super) struct Processes {
    stats: Vec<Stat>,
    completeness: Completeness,
    /// The supervised children: their families are known without their tags.
    roots: HashSet<i32>,
    /// This process and its ancestors: a process that loses its parent gets one of them.
    above: HashSet<i32>,
}

/// The processes whose environment is read.
pub(super) enum Scope {
    /// None: only parents are needed.
    Parents,
    /// The processes that are not older than all of these children, without the children themselves.
    Families { since: u64, roots: HashSet<i32> },
    /// All processes.
    All,
}

impl Scope {
    pub(super) fn families<'a>(families: impl Iterator<Item = &'a Family>) -> Self {
        let (mut since, mut roots) = (u64::MAX, HashSet::new());
        for family in families {
            since = since.min(family.born);
            roots.extend(family.root);
        }
        Self::Families { since, roots }
    }
}

/// How complete a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    /// It includes every process that was alive at its end.
    Whole,
    /// It may have missed processes; another scan may find them.
    Partial,
    /// It shows no process: there is no `/proc` here.
    None,
}

impl Processes {
    /// Scans the processes.
    pub(super) fn look(scope: Scope) -> Self {
        let (since, roots) = match scope {
            Scope::Parents => (u64::MAX, HashSet::new()),
            Scope::Families { since, roots } => (since, roots),
            Scope::All => (0, HashSet::new()),
        };
        let mut processes =
            Self { stats: Vec::new(), completeness: Completeness::Whole, roots, above: HashSet::new() };
        processes.read_all(since);
        let mut next = i32::try_from(std::process::id()).ok();
        while let Some(pid) = next.filter(|pid| processes.above.insert(*pid)) {
            next = processes.stats.iter().find(|stat| stat.pid == pid).map(|stat| stat.parent);
        }
        // In a process namespace of its own, a process does not see its ancestors outside.
        processes.above.insert(1);
        processes
    }

    fn read_all(&mut self, since: u64) {
        let mut known = HashSet::new();
        for _ in 0..MAX_READINGS {
            let new = match pids() {
                Ok(pids) => pids.into_iter().filter(|pid| known.insert(*pid)).collect::<Vec<_>>(),
                Err(error) => {
                    let missing = error.kind() == io::ErrorKind::NotFound;
                    self.completeness = if missing { Completeness::None } else { Completeness::Partial };
                    return;
                }
            };
            if new.is_empty() {
                return;
            }
            for pid in new {
                match Stat::read(pid) {
                    Ok(Some(mut stat)) => {
                        if stat.born >= since && !self.roots.contains(&pid) {
                            stat.read_tags();
                        }
                        self.stats.push(stat);
                    }
                    Ok(None) => {}
                    Err(_) => self.completeness = Completeness::Partial,
                }
            }
        }
        self.completeness = Completeness::Partial;
    }
}

/// The ids of all processes.
fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// The known members of one child's family, or of the families of all children of one process.
pub(super) struct Family {
    /// The child itself. Its process group has the same id.
    root: Option<i32>,
    born: u64,
    tag: EnvTag,
    seen: HashSet<Identity>,
}

/// How many members of one family are remembered. Members beyond it are found by their tag.
const MAX_MEMBERS: usize = 4096;

/// The members that a scan has found.
pub(super) struct Found {
    pub(super) living: Vec<Relative>,
    /// How complete the scan was: [`Completeness::Partial`] unless no member can have been missed.
    pub(super) completeness: Completeness,
}

impl Family {
    pub(super) fn new(root: Pid, tag: EnvTag) -> Self {
        let root = root.as_raw_nonzero().get();
        let born = Stat::read(root).ok().flatten().map_or(0, |stat| stat.born);
        Self { root: Some(root), born, tag, seen: HashSet::new() }
    }

    /// A family that is known by its tag alone, because the child is not supervised here.
    #[cfg(target_os = "linux")]
    pub(super) fn tagged(tag: EnvTag) -> Self {
        Self { root: None, born: 0, tag, seen: HashSet::new() }
    }

    /// Forgets the id of the child, which may belong to another process now, and so may a group of that id.
    pub(super) const fn lose_root(&mut self) {
        self.root = None;
    }

    /// Remembers the descendants of the child, found by their parents alone.
    pub(super) fn remember(&mut self, processes: &Processes) {
        self.members(processes, false);
    }

    /// Returns the living members, without the child itself.
    pub(super) fn living(&mut self, processes: &Processes) -> Found {
        let mut found = Found { living: Vec::new(), completeness: processes.completeness };
        let members = self.members(processes, true);
        let mut missed = self.may_have_missed(processes, &members);
        for stat in members.into_iter().filter(|stat| !stat.dead) {
            let handle = Pid::from_raw(stat.pid).and_then(handle);
            // The handle was opened by process id: it is that process only if the start time is still the same.
            let now = Stat::read(stat.pid).ok().flatten();
            match now.filter(|now| now.born == stat.born && !now.dead) {
                Some(now) => found.living.push(Relative {
                    identity: stat.identity(),
                    name: stat.name.clone(),
                    exiting: now.exiting,
                    handle,
                }),
                None => missed = true,
            }
        }
        if missed && found.completeness == Completeness::Whole {
            found.completeness = Completeness::Partial;
        }
        found
    }

    /// Whether a process whose tag could not be read may be a member. Its parent decides: a member, a process that adopts
    /// the children of members, or one that has exited meanwhile.
    fn may_have_missed(&self, processes: &Processes, members: &[&Stat]) -> bool {
        let unknown = processes.stats.iter().filter(|stat| matches!(stat.tags, Tags::Unknown));
        unknown.filter(|stat| Some(stat.pid) != self.root && stat.born >= self.born).any(|stat| {
            let parent = processes.stats.iter().find(|parent| parent.pid == stat.parent && !parent.dead);
            parent.is_none_or(|parent| {
                processes.above.contains(&parent.pid)
                    || matches!(parent.tags, Tags::Unknown)
                    || Some(parent.pid) == self.root
                    || members.iter().any(|member| member.pid == parent.pid)
            })
        })
    }

    /// Returns the members. A parent may come after its child in the list, so the search is repeated until it finds no new
    /// member.
    fn members<'a>(&mut self, processes: &'a Processes, environment: bool) -> Vec<&'a Stat> {
        // No member is older than the child.
        let others =
            || processes.stats.iter().filter(|stat| Some(stat.pid) != self.root && stat.born >= self.born);
        let mut members: HashSet<i32> = others()
            .filter(|stat| {
                self.root.is_some_and(|root| stat.group == root || stat.parent == root)
                    || self.seen.contains(&stat.identity())
                    || (environment && !stat.dead && stat.has_tag(&self.tag))
            })
            .map(|stat| stat.pid)
            .collect();
        loop {
            let before = members.len();
            for stat in others() {
                if members.contains(&stat.parent) {
                    members.insert(stat.pid);
                }
            }
            if members.len() == before {
                break;
            }
        }
        let members: Vec<_> = others().filter(|stat| members.contains(&stat.pid)).collect();
        let room = MAX_MEMBERS.saturating_sub(self.seen.len());
        self.seen.extend(members.iter().map(|stat| stat.identity()).take(room));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let line = b"42 (a) b (c) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2";
        let stat = Stat::parse(42, line).expect("a line");
        assert_eq!((stat.name.as_str(), stat.parent, stat.group, stat.born), ("a) b (c", 1, 40, 777));
        assert!(!stat.dead);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives() {
        let stat = |threads: u32| {
            let line = format!("42 (a) Z 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 777 1 2");
            Stat::parse(42, line.as_bytes()).expect("a line")
        };
        assert!(stat(1).dead);
        assert!(!stat(2).dead);
    }

    #[test]
    fn a_process_is_about_to_be_gone_when_the_kernel_says_so_of_its_last_thread() {
        let exiting = |flags: u64, threads: u32| {
            let line = format!("42 (a) S 1 40 39 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 {threads} 0 777 1 2");
            Stat::parse(42, line.as_bytes()).expect("a line").exiting
        };
        assert!(exiting(4_194_560 | PF_EXITING, 1));
        assert!(!exiting(4_194_560, 1) && !exiting(4_194_560 | PF_EXITING, 2));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_dies_between_two_looks_is_dead_and_one_that_lives_is_not() {
        assert_eq!(read(i32::MAX, "stat").expect("no error"), None);
        let of = |pid: u32| {
            let pid = i32::try_from(pid).expect("a pid");
            let mut stat = Stat::read(pid).expect("it is ours").expect("it runs");
            // As if the process had executed another program since.
            stat.environment = (1, 2);
            stat
        };
        let mut ourselves = of(std::process::id());
        ourselves.read_tags();
        assert!(!ourselves.dead && !matches!(ourselves.tags, Tags::Unknown));
        // As if its memory had gone first. Only `stat` proves that a process has exited.
        let mut without_memory = of(std::process::id());
        without_memory.take_tags(Ok(None));
        assert!(!without_memory.dead && matches!(without_memory.tags, Tags::Unknown));
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let mut stat = of(child.id());
        child.kill().expect("it is ours");
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(Pid::from_child(&child));
        rustix::process::waitid(id, options).expect("a zombie");
        stat.read_tags();
        child.wait().expect("it is ours");
        assert!(stat.dead);
    }

    #[test]
    fn a_scan_is_partial_while_a_process_may_belong_to_the_tree() {
        let stat = |pid: i32, parent: i32, group: i32, tags: Tags| {
            let line = format!("{pid} (a) S {parent} {group} 39 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2");
            Stat { tags, ..Stat::parse(pid, line.as_bytes()).expect("a line") }
        };
        let family = || Family { root: Some(1), born: 777, tag: EnvTag::of_a_child(), seen: HashSet::new() };
        let look = |stats: Vec<Stat>, above: &[i32]| {
            let above = above.iter().copied().collect();
            Processes { stats, completeness: Completeness::Whole, roots: HashSet::new(), above }
        };
        let completeness = |stats, above: &[i32]| family().living(&look(stats, above)).completeness;
        // Process ids that are not in use on this machine, so that no process is found.
        let [somebody, parent] = [i32::MAX - 1, i32::MAX];
        assert_eq!(completeness(vec![], &[]), Completeness::Whole);
        assert_eq!(
            completeness(vec![stat(somebody, 7, 7, Tags::Unknown)], &[]),
            Completeness::Partial,
            "it has no parent"
        );
        for (tags, above, expected) in [
            (Tags::None, &[][..], Completeness::Whole),
            (Tags::Unknown, &[], Completeness::Partial),
            (Tags::None, &[parent], Completeness::Partial),
        ] {
            let stats = vec![stat(somebody, parent, 7, Tags::Unknown), stat(parent, 8, 7, tags)];
            let grandparent = stat(8, 8, 7, Tags::None);
            let stats = stats.into_iter().chain([grandparent]).collect();
            assert_eq!(completeness(stats, above), expected, "{above:?}");
        }
        // An id that another, running process has.
        let ourselves = i32::try_from(std::process::id()).expect("a pid");
        let found = family().living(&look(vec![stat(ourselves, 7, 1, Tags::None)], &[]));
        assert!(found.living.is_empty() && found.completeness == Completeness::Partial);
        // If the group id is no longer the child's, the group may belong to another process.
        let processes = look(vec![stat(somebody, 7, 1, Tags::None)], &[]);
        assert_eq!(family().members(&processes, true).len(), 1);
        let mut lost = family();
        lost.lose_root();
        assert_eq!(lost.members(&processes, true).len(), 0);
    }

    #[test]
    fn the_number_of_remembered_members_of_a_process_tree_is_limited() {
        let members = 2..=MAX_MEMBERS as i32 + 2;
        // At first the parent is the child; then they have left it and its group.
        let [below, left] = [1, i32::MAX].map(|parent| {
            let stat = |pid: i32| {
                let line =
                    format!("{pid} (a) S {parent} {pid} 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2");
                Stat::parse(pid, line.as_bytes()).expect("a line")
            };
            let (stats, completeness) = (members.clone().map(stat).collect(), Completeness::Whole);
            Processes { stats, completeness, roots: HashSet::new(), above: HashSet::new() }
        });
        let mut family = Family { root: Some(1), born: 777, tag: EnvTag::of_a_child(), seen: HashSet::new() };
        assert_eq!(family.members(&left, false).len(), 0);
        assert_eq!(family.members(&below, false).len(), MAX_MEMBERS + 1);
        let known: Vec<i32> = family.members(&left, false).iter().map(|stat| stat.pid).collect();
        assert_eq!((known.len(), family.seen.len()), (MAX_MEMBERS, MAX_MEMBERS));
        assert!(known.into_iter().eq(members.take(MAX_MEMBERS)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_finds_ourselves_and_is_whole() {
        let processes = Processes::look(Scope::All);
        let own = i32::try_from(std::process::id()).expect("a pid");
        let stat = processes.stats.iter().find(|stat| stat.pid == own).expect("ourselves");
        assert!(!stat.dead && !stat.exiting && !stat.kernel && stat.loaded);
        assert!(matches!(stat.tags, Tags::Held(_) | Tags::None));
        assert_eq!(processes.completeness, Completeness::Whole);
    }
}
