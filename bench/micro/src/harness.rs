//! Measurement on a machine with other load: the candidates take turns in short rounds, CPU time is recorded besides
//! wall-clock time, and the result is the median of all rounds, with its spread.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The approximate duration of one candidate's turn.
const TURN: Duration = Duration::from_millis(20);

/// The cost of one operation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) median: f64,
    /// The tenth and the ninetieth percentile of the rounds.
    low: f64,
    high: f64,
}

impl Cost {
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |share: f64| rounds[((rounds.len() - 1) as f64 * share).round() as usize];
        Self { median: at(0.5), low: at(0.1), high: at(0.9) }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, divisor) = match self.median {
            median if median < 10_000.0 => ("ns", 1.0),
            median if median < 10_000_000.0 => ("us", 1e3),
            _ => ("ms", 1e6),
        };
        let digits = if self.median / divisor < 100.0 { 1 } else { 0 };
        let [median, low, high] = [self.median, self.low, self.high].map(|ns| ns / divisor);
        write!(f, "{median:.digits$} {unit} ({low:.digits$} to {high:.digits$})")
    }
}

/// Measures operations that run only on this thread: CPU time of each, in turns.
pub(crate) fn compare(rounds: usize, candidates: &mut [&mut dyn FnMut()]) -> Vec<Cost> {
    let times: Vec<u32> = candidates.iter_mut().map(|operation| times_in_a_turn(operation)).collect();
    let mut costs = vec![Vec::with_capacity(rounds); candidates.len()];
    for _ in 0..rounds {
        for ((operation, times), costs) in candidates.iter_mut().zip(&times).zip(&mut costs) {
            let before = thread_time();
            for _ in 0..*times {
                operation();
            }
            costs.push((thread_time() - before).as_nanos() as f64 / f64::from(*times));
        }
    }
    costs.into_iter().map(Cost::of).collect()
}

fn times_in_a_turn(operation: &mut dyn FnMut()) -> u32 {
    let began = Instant::now();
    let mut times = 0;
    while began.elapsed() < TURN {
        operation();
        times += 1;
    }
    times
}

fn thread_time() -> Duration {
    since(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    since(ClockId::ProcessCPUTime)
}

fn since(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}
