//! Requests over stdio, with the given concurrency and duration.

use std::io::{IoSlice, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, writev};
use serde_json::{Value, json};

use crate::latency::Latencies;
use crate::messages::{HEAD, id, progress_token};
use crate::plan::Plan;
use crate::server::{Server, cpu_of_tree, never_block, own_cpu};
use crate::work::Work;

/// The longest accepted reply, in bytes.
const LONGEST: usize = 256 << 20;
/// A call of this size or more is written directly and not copied.
const LARGE: usize = 16 * 1024;
/// The largest amount of small calls that is gathered for one write, in bytes.
const GATHERED: usize = 64 * 1024;
/// The number of replies of each kind that are checked in full; the later ones are checked by id and length.
const CHECKED: u64 = 3;

impl Server {
    /// Loads the server, and returns its costs.
    pub(crate) fn load(mut self, plan: &Plan, work: &Work) -> Result<Value, String> {
        let stdin = self.child.stdin.take().ok_or("standard input is closed")?;
        let stdout = self.child.stdout.take().ok_or("standard output is closed")?;
        never_block(&stdin)?;
        never_block(&stdout)?;
        let mut sender = Sender::new(stdin, plan.at_once, work);
        let mut receiver = Receiver { stdout, buffer: vec![0; 1 << 20], start: 0, looked: 0, end: 0 };
        receiver.buffer[..self.read.len()].copy_from_slice(&self.read);
        receiver.end = self.read.len();
        let mut tally = Tally {
            replies: 0,
            stray: 0,
            of_kind: vec![(0, 0); work.kinds()],
            latencies: Latencies::default(),
        };

        let began = Instant::now();
        let limit = plan.warm + plan.measured + Duration::from_secs(20);
        let mut window: Option<Window> = None;
        loop {
            let elapsed = began.elapsed();
            match &window {
                None if elapsed >= plan.warm && tally.replies > 0 => {
                    tally.latencies.clear();
                    window = Some(Window {
                        began: Instant::now(),
                        cpu: self.cpu_with(plan),
                        own: own_cpu(),
                        before: tally.replies,
                    });
                }
                Some(open) if elapsed >= plan.warm + plan.measured && tally.replies > open.before => {
                    return Ok(self.figures(plan, open, tally));
                }
                _ if elapsed > limit => return Err(format!("no progress after {} replies", tally.replies)),
                _ => {}
            }
            let blocked = sender.send()?;
            let answered = receiver.receive(&mut sender, &mut tally)?;
            if !answered && (blocked || sender.to_send == 0) {
                let mut ready = [
                    PollFd::new(&receiver.stdout, PollFlags::IN),
                    PollFd::new(&sender.stdin, if blocked { PollFlags::OUT } else { PollFlags::empty() }),
                ];
                let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
                poll(&mut ready, Some(&patience)).map_err(|error| error.to_string())?;
            }
        }
    }

    fn cpu_with(&self, plan: &Plan) -> Duration {
        self.cpu() + plan.beside.map_or(Duration::ZERO, cpu_of_tree)
    }

    fn figures(&self, plan: &Plan, window: &Window, mut tally: Tally) -> Value {
        let wall = window.began.elapsed().as_secs_f64();
        let cpu = (self.cpu_with(plan) - window.cpu).as_secs_f64();
        let own = (own_cpu() - window.own).as_secs_f64();
        let calls = (tally.replies - window.before) as f64;
        json!({
            "calls": calls,
            "per_second": calls / wall,
            "p50_us": tally.latencies.below(0.5),
            "p99_us": tally.latencies.below(0.99),
            "cpu_us": cpu * 1e6 / calls,
            "generator_cpu_us": own * 1e6 / calls,
            "peak_kib": self.peak(),
            "opened_ms": self.opened.as_secs_f64() * 1e3,
            "stray": tally.stray,
        })
    }
}

/// The measured period.
struct Window {
    began: Instant,
    cpu: Duration,
    own: Duration,
    /// The number of replies before it.
    before: u64,
}

/// Checks and counts the replies.
struct Tally {
    replies: u64,
    stray: u64,
    /// Of each kind of request, the replies that were checked in full, and the length of the last of them, in bytes.
    of_kind: Vec<(u64, usize)>,
    latencies: Latencies,
}

impl Tally {
    fn reply(&mut self, line: &[u8], sender: &mut Sender<'_>, now: Instant) -> Result<(), String> {
        let Some((id, sent)) = id(line).and_then(|id| Some((id, sender.sent_at(id)?))) else {
            if let Some(token) = progress_token(line) {
                let place = sender.place(token);
                sender.reported[place] = token;
                return Ok(());
            }
            self.stray += 1;
            if self.replies == 0 && self.stray > 8 {
                return Err(format!(
                    "no reply to a call: {}",
                    String::from_utf8_lossy(&line[..line.len().min(200)])
                ));
            }
            return Ok(());
        };
        let kind = sender.work.kind(id);
        let request = sender.work.request(kind);
        let (checked, length) = &mut self.of_kind[kind];
        if *checked < CHECKED || line.len() + 8 < *length {
            request.check(line)?;
            *checked += 1;
            *length = line.len();
        }
        if request.before_token.is_some() && sender.reported[sender.place(id)] != id {
            return Err("a reply without the progress that was asked for".into());
        }
        self.latencies.push(sent, now);
        self.replies += 1;
        sender.to_send += 1;
        Ok(())
    }
}

struct Sender<'a> {
    stdin: ChildStdin,
    work: &'a Work,
    /// The number of calls that may be made but are not written yet.
    to_send: usize,
    next: u64,
    /// The start times of the last calls, by the lower bits of their ids.
    sent: Vec<Instant>,
    /// The tokens of the last progress notifications, by their lower bits.
    reported: Vec<u64>,
    queue: Vec<u8>,
    written: usize,
    /// How much of its shared tail is written, during a large call.
    in_tail: Option<(&'a [u8], usize)>,
}

impl<'a> Sender<'a> {
    fn new(stdin: ChildStdin, at_once: usize, work: &'a Work) -> Self {
        // A large call may be answered long after smaller ones that came later.
        let places = (at_once * 64).next_power_of_two();
        Self {
            stdin,
            work,
            to_send: at_once,
            next: 1,
            sent: vec![Instant::now(); places],
            reported: vec![0; places],
            queue: Vec::with_capacity(4 * GATHERED),
            written: 0,
            in_tail: None,
        }
    }

    fn place(&self, id: u64) -> usize {
        usize::try_from(id).unwrap_or_default() & (self.sent.len() - 1)
    }

    fn sent_at(&self, id: u64) -> Option<Instant> {
        (1..self.next).contains(&id).then(|| self.sent[self.place(id)])
    }

    /// Makes and writes calls; true when the server's pipe is full.
    fn send(&mut self) -> Result<bool, String> {
        self.compose();
        while self.written < self.queue.len() || self.in_tail.is_some() {
            let head = &self.queue[self.written..];
            let tail = self.in_tail.map_or(&[][..], |(tail, at)| &tail[at..]);
            let count = match writev(&self.stdin, &[IoSlice::new(head), IoSlice::new(tail)]) {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(format!("the server takes no more calls: {error}")),
            };
            let of_head = count.min(head.len());
            self.written += of_head;
            if let Some((tail, at)) = self.in_tail {
                let at = at + count - of_head;
                self.in_tail = (at < tail.len()).then_some((tail, at));
            }
        }
        self.queue.clear();
        self.written = 0;
        Ok(false)
    }

    /// Small calls together. A large one ends the queue, and nothing is behind it until it is written.
    fn compose(&mut self) {
        while self.to_send > 0 && self.in_tail.is_none() && self.queue.len() < GATHERED {
            let request = self.work.request(self.work.kind(self.next));
            self.queue.extend_from_slice(HEAD);
            write!(self.queue, "{}", self.next).expect("memory takes everything");
            if let Some(before) = &request.before_token {
                self.queue.extend_from_slice(before);
                write!(self.queue, "{}", self.next).expect("memory takes everything");
            }
            if request.tail.len() > LARGE {
                self.in_tail = Some((&request.tail, 0));
            } else {
                self.queue.extend_from_slice(&request.tail);
            }
            let place = self.place(self.next);
            self.sent[place] = Instant::now();
            self.next += 1;
            self.to_send -= 1;
        }
    }
}

struct Receiver {
    stdout: ChildStdout,
    buffer: Vec<u8>,
    /// The bytes that were read are between `start` and `end`; there is no line feed before `looked`.
    start: usize,
    looked: usize,
    end: usize,
}

impl Receiver {
    /// Reads the available bytes; false when there are none.
    fn receive(&mut self, sender: &mut Sender<'_>, tally: &mut Tally) -> Result<bool, String> {
        self.make_room()?;
        let count = match read(&self.stdout, &mut self.buffer[self.end..]) {
            Ok(0) => return Err(format!("the server has ended after {} replies", tally.replies)),
            Ok(count) => count,
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        };
        self.end += count;
        let now = Instant::now();
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.looked..self.end]) {
            let feed = self.looked + at;
            let line = &self.buffer[self.start..feed];
            if line.len() > 1 {
                tally.reply(line, sender, now)?;
            }
            self.start = feed + 1;
            self.looked = self.start;
        }
        self.looked = self.end;
        if self.start == self.end {
            (self.start, self.looked, self.end) = (0, 0, 0);
        }
        Ok(true)
    }

    fn make_room(&mut self) -> Result<(), String> {
        if self.end < self.buffer.len() {
            return Ok(());
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.looked -= self.start;
            self.start = 0;
        } else if self.buffer.len() < LONGEST {
            self.buffer.resize(2 * self.buffer.len(), 0);
        } else {
            return Err("a reply is longer than 256 MiB".into());
        }
        Ok(())
    }
}
