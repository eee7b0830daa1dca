//! How long to wait for a busy registry: as long as it asks for, or a pause that doubles.

use super::Progress;
use chrono::DateTime;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

/// How often something is tried while the registry is busy.
pub(super) const TRIES: u32 = 4;
/// The pause after the first try; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause. If a registry asks for more, a person would rather come back later.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The pause after so many tries; the registry may ask for a longer one.
pub(super) fn pause(tries: u32, asked: Option<Duration>) -> Duration {
    let doubled = PAUSE * 2_u32.pow(tries - 1);
    doubled.max(asked.unwrap_or_default())
}

/// The value of `Retry-After` as a time from now: seconds, or a date (RFC 9110, 10.2.3).
pub(super) fn asked(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // The usual form of a date in HTTP is one in mail as well.
    let date = SystemTime::from(DateTime::parse_from_rfc2822(value).ok()?);
    Some(date.duration_since(now).unwrap_or_default())
}

/// Waits, and lets others see for how long.
pub(super) async fn wait(time: Duration, progress: &Progress) {
    let note = |until| {
        let waits_until = progress.waits_until.lock();
        *waits_until.unwrap_or_else(PoisonError::into_inner) = until;
    };
    note(Some(Instant::now() + time));
    tokio::time::sleep(time).await;
    note(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_asks_for_seconds_or_for_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_767);
        let asked = |value| asked(value, now).map(|time| time.as_secs());
        assert_eq!(asked("120"), Some(120));
        assert_eq!(asked(" 0 "), Some(0));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(10));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
        for nonsense in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(asked(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn pauses_double_and_are_never_shorter_than_what_is_asked_for() {
        let seconds =
            |tries, asked: Option<u64>| pause(tries, asked.map(Duration::from_secs)).as_secs();
        assert_eq!([1, 2, 3].map(|tries| seconds(tries, None)), [1, 2, 4]);
        assert_eq!(seconds(1, Some(7)), 7);
        assert_eq!(seconds(3, Some(0)), 4);
    }
}
