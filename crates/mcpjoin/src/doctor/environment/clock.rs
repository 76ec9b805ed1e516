//! What time it is, as far as that can be told without asking anybody.
//!
//! Called by `environment`. Certificates and tokens are good for a time: where the clock is wrong, all of them are bad.

use std::path::Path;
use std::time::{Duration, SystemTime};

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
    let now = world.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let year = 1970 + now.as_secs() / 31_556_952;
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

fn comes_from_the_future(world: &World, file: &str) -> bool {
    let changed = world.metadata(Path::new(file)).and_then(|metadata| metadata.modified().ok());
    changed.is_some_and(|changed| changed.duration_since(world.now()).is_ok_and(|later| later > FUTURE))
}
