//! Tests of the pauses between starts.

use super::*;

#[test]
fn pauses_double_from_a_tenth_of_a_second_to_half_a_minute_and_none_is_like_another() {
    let restart = Restart::default();
    let mut all = Vec::new();
    for before in 0..200 {
        let least = Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(before));
        let least = least.min(Duration::from_secs(20));
        let pause = restart.pause(before);
        assert!(pause >= least && pause <= least * 3 / 2, "{before}: {pause:?}");
        all.push(pause);
    }
    assert!(all.iter().all(|pause| (100..=30_000).contains(&pause.as_millis())));
    let late = &all[10..];
    assert!(late.iter().any(|pause| *pause != late[0]), "no chance in it: {late:?}");
    // Whatever the settings are, no pause is longer than the maximum.
    for (first, longest) in [(1, 1), (5, 3), (0, 0), (1000, 1100)] {
        let (first, longest) = (Duration::from_secs(first), Duration::from_secs(longest));
        let restart = Restart::default().pauses(first, longest);
        for before in [0, 1, 2, 31, 32, u32::MAX] {
            let pause = restart.pause(before);
            assert!(pause <= longest && pause >= first.min(longest), "{pause:?}");
        }
    }
    let _ = Restart::default().pauses(Duration::MAX, Duration::MAX).pause(3);
}
