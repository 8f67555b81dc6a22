//! A validator's time.
//!
//! Blocks carry wall time, and a voter refuses blocks more than [`CLOCK_SKEW_MAX`](crate::limits::CLOCK_SKEW_MAX) from its
//! clock. Validators that share one wrong clock would agree on wrong times, so a validator compares its wall clock with
//! one that only counts (the *steady* clock): at start it notes the difference between them, and from then on
//!
//! - while the difference stays the same, time is the steady clock plus that difference, which follows the wall clock by at
//!   most [`SLEW_PER_SECOND`], more than clocks are corrected by;
//! - if the difference changes by more than [`CLOCK_JUMP_MAX`], the wall clock has *jumped*: the validator neither proposes
//!   nor votes for blocks, says so in its status, and continues to count from the old difference;
//! - if the wall clock returns, all is as before; if it keeps the new difference for [`CLOCK_SETTLES`], the validator accepts
//!   it (a clock that was wrong and was set, or a machine that slept).
//!
//! So a jump that lasts shorter than [`CLOCK_SETTLES`] changes no block's time. One that lasts longer on more than a third
//! of the validators is believed; if the clocks are then set back, blocks wait until the right time has reached theirs.
//! Nothing else depends on the wall clock: consensus and the network count with the steady one.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tg_types::TimestampMs;

/// How far the wall clock may come away from the steady one: half of what voters allow between their clocks.
pub const CLOCK_JUMP_MAX: Duration = Duration::from_millis(1_000);

/// How long a wall clock must keep a new distance before it is believed.
pub const CLOCK_SETTLES: Duration = Duration::from_secs(60);

/// How much of a deviation is taken over in a second.
pub const SLEW_PER_SECOND: Duration = Duration::from_millis(1);

const SECOND_MS: i128 = 1_000;

/// Reads the wall clock; given the steady time, so that simulations can make one up.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn(SystemTime) -> SystemTime + Send + Sync>);

impl WallClock {
    /// A clock of one's own: it is told the steady time.
    pub fn new(read: impl Fn(SystemTime) -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The clock of the operating system.
    #[must_use]
    pub fn system() -> Self {
        Self::new(|_| SystemTime::now())
    }

    /// The clock of the runtime, which simulations drive.
    #[must_use]
    pub fn of_runtime() -> Self {
        Self::new(|steady| steady)
    }

    pub(crate) fn read(&self, steady: SystemTime) -> SystemTime {
        (self.0)(steady)
    }
}

impl std::fmt::Debug for WallClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WallClock")
    }
}

/// What a look at both clocks says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The time to go by.
    pub(crate) now: TimestampMs,
    /// By how many milliseconds the wall clock has jumped; `None` while it is trusted.
    pub(crate) jumped: Option<i64>,
    /// Whether the time was set to a new one at this look.
    pub(crate) set: bool,
}

#[derive(Debug, Clone, Copy)]
struct Jump {
    by: i128,
    since: i128,
}

/// Wall and steady samples in, time out. All in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// Time less steady time.
    offset: i128,
    slewed_at: i128,
    jump: Option<Jump>,
}

impl Clock {
    /// Starts by believing the wall clock.
    pub(crate) fn new(wall: SystemTime, steady: SystemTime) -> Self {
        let steady = millis(steady);
        Self {
            offset: millis(wall) - steady,
            slewed_at: steady,
            jump: None,
        }
    }

    /// Looks at both clocks.
    pub(crate) fn read(&mut self, wall: SystemTime, steady: SystemTime) -> Reading {
        let (wall, steady) = (millis(wall), millis(steady));
        let apart = wall - (steady + self.offset);
        let bound = i128::try_from(CLOCK_JUMP_MAX.as_millis()).unwrap_or(0);
        let settles = i128::try_from(CLOCK_SETTLES.as_millis()).unwrap_or(0);
        let mut set = false;
        if apart.abs() <= bound {
            self.jump = None;
            self.slew(apart, steady);
        } else {
            let jump = match self.jump {
                Some(jump) if (apart - jump.by).abs() <= bound => jump,
                _ => Jump {
                    by: apart,
                    since: steady,
                },
            };
            self.jump = Some(jump);
            if steady - jump.since >= settles {
                self.offset += apart;
                self.slewed_at = steady;
                self.jump = None;
                set = true;
            }
        }
        let now = u64::try_from((steady + self.offset).max(0)).unwrap_or(u64::MAX);
        Reading {
            now: TimestampMs::new(now),
            jumped: self
                .jump
                .map(|jump| i64::try_from(jump.by).unwrap_or(i64::MAX)),
            set,
        }
    }

    /// The steady time at which it will be `at`.
    pub(crate) fn steady(&self, at: TimestampMs) -> SystemTime {
        let steady = i128::from(at.get()) - self.offset;
        let millis = u64::try_from(steady.max(0)).unwrap_or(u64::MAX);
        UNIX_EPOCH + Duration::from_millis(millis.min(u64::MAX / 4))
    }

    fn slew(&mut self, apart: i128, steady: i128) {
        let seconds = (steady - self.slewed_at) / SECOND_MS;
        if seconds > 0 {
            let step = i128::try_from(SLEW_PER_SECOND.as_millis()).unwrap_or(0);
            let most = seconds.saturating_mul(step);
            self.offset += apart.clamp(-most, most);
            self.slewed_at = steady;
        }
    }
}

fn millis(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i128::try_from(since.as_millis()).unwrap_or(i128::MAX / 4),
        Err(before) => -i128::try_from(before.duration().as_millis()).unwrap_or(i128::MAX / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000_000;
    const HOUR: i64 = 3_600_000;

    fn at(ms: i64) -> SystemTime {
        let ms = u64::try_from(START.cast_signed() + ms).unwrap_or(0);
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn clock() -> Clock {
        Clock::new(at(0), at(0))
    }

    /// Reads every 100 ms from `from` to `to` with the wall clock `off` away; returns the last reading.
    fn run(clock: &mut Clock, from: i64, to: i64, off: impl Fn(i64) -> i64) -> Reading {
        let mut reading = clock.read(at(from + off(from)), at(from));
        let mut time = from;
        while time < to {
            time += 100;
            reading = clock.read(at(time + off(time)), at(time));
        }
        reading
    }

    fn after(reading: Reading) -> i64 {
        reading.now.get().cast_signed() - START.cast_signed()
    }

    #[test]
    fn a_short_jump_of_an_hour_changes_no_time() {
        for off in [HOUR, -HOUR, 1_500, -30_000] {
            let mut clock = clock();
            let reading = run(&mut clock, 0, 10_000, |_| 0);
            assert_eq!((after(reading), reading.jumped), (10_000, None));
            let reading = run(&mut clock, 10_100, 15_000, |_| off);
            assert_eq!((after(reading), reading.jumped), (15_000, Some(off)));
            let reading = run(&mut clock, 15_100, 20_000, |_| 0);
            assert_eq!((after(reading), reading.jumped), (20_000, None));
            assert!(!reading.set);
        }
    }

    #[test]
    fn a_clock_that_keeps_its_new_time_is_believed() {
        let mut clock = clock();
        run(&mut clock, 0, 1_000, |_| 0);
        let reading = run(&mut clock, 1_100, 31_000, |_| -30_000);
        assert_eq!((after(reading), reading.jumped), (31_000, Some(-30_000)));
        // A second jump starts the wait anew.
        let reading = run(&mut clock, 31_100, 91_000, |_| 24 * HOUR);
        assert_eq!((after(reading), reading.jumped), (91_000, Some(24 * HOUR)));
        let reading = clock.read(at(91_100 + 24 * HOUR), at(91_100));
        assert!(reading.set);
        assert_eq!((after(reading), reading.jumped), (91_100 + 24 * HOUR, None));
        let soon = reading.now.get() + 500;
        assert_eq!(clock.steady(TimestampMs::new(soon)), at(91_600));
    }

    #[test]
    fn a_clock_that_never_settles_is_never_believed() {
        let mut clock = clock();
        // It runs away by two seconds in each second.
        let reading = run(&mut clock, 0, 600_000, |time| 2 * time);
        assert!(reading.jumped.is_some());
        // What was taken over before it was noticed.
        assert!((after(reading) - 600_000).abs() <= 1);
    }

    #[test]
    fn a_clock_that_is_slewed_is_followed() {
        let mut clock = clock();
        // A deviation of 800 ms goes away at a thousandth.
        let reading = run(&mut clock, 0, 1_000_000, |_| 800);
        assert_eq!(reading.jumped, None);
        assert_eq!(after(reading), 1_000_800);
        let reading = run(&mut clock, 1_000_100, 1_010_000, |_| 0);
        assert_eq!(reading.jumped, None);
        let ahead = after(reading) - 1_010_000;
        assert!((785..=795).contains(&ahead), "{ahead}");
    }

    #[test]
    fn times_before_1970_do_not_break_it() {
        let early = UNIX_EPOCH - Duration::from_secs(10);
        let mut clock = Clock::new(early, at(0));
        assert_eq!(clock.read(early, at(0)).now, TimestampMs::ZERO);
    }
}
