//! What time it is, as far as that can be told without asking anybody.
//!
//! Called by `environment`. Certificates and tokens are good for a time: where the clock is wrong, all of them are bad.

use std::path::Path;
use std::time::Duration;

use super::{EnvironmentCheck as Check, Looked, World};

/// The first of January 2026: this program is younger.
const EARLIEST: Duration = Duration::from_secs(1_767_225_600);
/// The first of January 2100.
const LATEST: Duration = Duration::from_secs(4_102_444_800);
/// A file that was changed so much later than now comes from a clock that was right.
const FUTURE: Duration = Duration::from_secs(86_400);
/// What the system changes in the course of its life.
const FILES: [&str; 10] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/resolv.conf",
    "/etc/mtab",
    "/etc/ld.so.cache",
    "/var/lib/dpkg/status",
    "/var/lib/rpm",
    "/var/log",
    "/var/log/wtmp",
    "/var/log/syslog",
    "/var/tmp",
];

pub(super) fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    let now = world.now();
    let year = year(now);
    let meaning = "every certificate seems not to hold yet, or to have run out, and so does every token";
    let advice = "set the clock: timedatectl set-ntp true";
    let mut later: Vec<&str> = FILES.into_iter().filter(|file| comes_from_the_future(world, file)).collect();
    if (EARLIEST..LATEST).contains(&now) {
        looked.pass(Check::ClockYear);
        // One alone may have been unpacked with a wrong time.
        if later.len() >= 2 {
            later.truncate(3);
            let seen =
                format!("by the clock it is the year {year}, and {} were changed later", later.join(", "));
            looked.fail(Check::ClockFiles, "clock-behind", seen, meaning, advice);
        } else {
            looked.pass(Check::ClockFiles);
        }
    } else {
        let seen = format!("by the clock it is the year {year}");
        looked.fail(Check::ClockYear, "clock-wrong", seen, meaning, advice);
        looked.not_run(Check::ClockFiles, "the clock is wrong");
    }
    looked.detail = format!("the year {year}, and no file from the future");
    looked
}

/// The year of our calendar at so much time after 1970.
fn year(now: Duration) -> u64 {
    const DAY: u64 = 86_400;
    let day = now.as_secs() / DAY;
    // The days before a year: exact from 1970 on, since the first day of 1970 is the day 719,162 after the year 0.
    let before =
        |year: u64| 365 * (year - 1) + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - 719_162;
    // A year too many at most.
    let guess = 1970 + day / 365;
    (1970..=guess).rev().find(|year| before(*year) <= day).unwrap_or(1970)
}

fn comes_from_the_future(world: &World, file: &str) -> bool {
    world.changed(Path::new(file)).is_some_and(|changed| changed > world.now().saturating_add(FUTURE))
}
