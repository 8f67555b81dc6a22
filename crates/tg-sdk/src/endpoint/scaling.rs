//! How many replicas a group of endpoints has: a pure function of what waits, of what each replica does, and of the time.
//!
//! [`Scaling::step`] is asked again and again and names one step at a time; whoever asked does it and tells what came of it
//! ([`Scaling::opened`], [`Scaling::not_opened`]). No clock is read here: time is a number of milliseconds that only grows.
//!
//! 1. Below the least number of replicas one is opened.
//! 2. While more requests are unanswered than the queue bound for each replica allows, for as long as the rules say, another one is opened, up
//!    to the most.
//! 3. A replica above the least number that nothing was asked for as long as the rules say is closed: the one that was used last longest ago.
//! 4. After one could not be opened nothing is opened for a while, each time for longer.

use tg_types::JobId;

/// Most replicas of a group: a gateway serves 256 leases of one account.
pub const REPLICAS_MAX: usize = 64;

/// Wait after the first replica that could not be opened, and the longest one.
const RETRY_FIRST_MS: u64 = 1_000;
const RETRY_MAX_MS: u64 = 30_000;

/// When replicas are opened and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalingRules {
    /// Replicas that there are always.
    pub min: usize,
    /// Replicas that there are at most.
    pub max: usize,
    /// Unanswered requests for each replica beyond which another one is opened.
    pub queue_max: usize,
    /// For how long there have to be so many.
    pub queue_ms: u64,
    /// How long a replica above the least number may be asked nothing.
    pub idle_ms: u64,
}

/// What one replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLoad {
    /// Its job.
    pub job: JobId,
    /// Requests that it was asked and has not answered.
    pub unanswered: usize,
    /// When it last had one.
    pub used_ms: u64,
}

/// What a group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLoad<'a> {
    /// Requests that no replica was asked yet.
    pub waiting: usize,
    /// Its replicas, without those that are being given up.
    pub replicas: &'a [ReplicaLoad],
}

impl GroupLoad<'_> {
    fn unanswered(&self) -> usize {
        let asked = self.replicas.iter().map(|it| it.unanswered);
        asked.fold(self.waiting, usize::saturating_add)
    }
}

/// Why a replica is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// There are fewer than the group always has.
    Fewer,
    /// Too many requests waited for too long.
    Queue,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalingStep {
    /// Nothing.
    Stay,
    /// Open one more replica.
    Open(OpenReason),
    /// Close this one: nothing was asked of it for long.
    Close(JobId),
}

/// What is remembered between steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    rules: ScalingRules,
    /// Since when too many requests wait.
    above_since: Option<u64>,
    /// Not opened before this.
    retry_at: u64,
    /// How often in a row one could not be opened.
    failures: u32,
}

impl Scaling {
    /// A group of which nothing is known.
    ///
    /// # Panics
    /// If the rules have no replica at all, or a least number above the most.
    #[must_use]
    pub fn new(rules: ScalingRules) -> Self {
        assert!(
            (1..=rules.max).contains(&rules.min) && rules.max <= REPLICAS_MAX,
            "checked where the rules were read"
        );
        Self {
            rules,
            above_since: None,
            retry_at: 0,
            failures: 0,
        }
    }

    /// The next step at a time.
    pub fn step(&mut self, now_ms: u64, load: GroupLoad<'_>) -> ScalingStep {
        let rules = self.rules;
        let count = load.replicas.len();
        let bound = rules.queue_max.saturating_mul(count);
        if load.unanswered() > bound {
            self.above_since.get_or_insert(now_ms);
        } else {
            self.above_since = None;
        }
        let may_open = now_ms >= self.retry_at;
        if count < rules.min {
            return match may_open {
                true => ScalingStep::Open(OpenReason::Fewer),
                false => ScalingStep::Stay,
            };
        }
        if let Some(since) = self.above_since {
            let is_long = now_ms.saturating_sub(since) >= rules.queue_ms;
            return match is_long && may_open && count < rules.max {
                true => ScalingStep::Open(OpenReason::Queue),
                false => ScalingStep::Stay,
            };
        }
        if count > rules.min
            && let Some(job) = self.idle(now_ms, load.replicas)
        {
            return ScalingStep::Close(job);
        }
        ScalingStep::Stay
    }

    /// The replica that was used last longest ago, if that is long ago.
    fn idle(&self, now_ms: u64, replicas: &[ReplicaLoad]) -> Option<JobId> {
        let idle = replicas.iter().filter(|it| {
            it.unanswered == 0 && now_ms.saturating_sub(it.used_ms) >= self.rules.idle_ms
        });
        let longest = idle.min_by_key(|it| (it.used_ms, it.job));
        longest.map(|it| it.job)
    }

    /// Takes note that one was opened: the queue is looked at anew, as it takes the new one a while to shorten it.
    pub const fn opened(&mut self) {
        self.above_since = None;
        self.retry_at = 0;
        self.failures = 0;
    }

    /// Takes note that none could be opened.
    pub fn not_opened(&mut self, now_ms: u64) {
        let wait = RETRY_FIRST_MS.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now_ms.saturating_add(wait.min(RETRY_MAX_MS));
    }

    /// Takes note that what stood in the way may be gone: there is more money.
    pub const fn retry(&mut self) {
        self.retry_at = 0;
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ScalingRules = ScalingRules {
        min: 1,
        max: 3,
        queue_max: 4,
        queue_ms: 2_000,
        idle_ms: 10_000,
    };

    fn replica(name: u8, unanswered: usize, used_ms: u64) -> ReplicaLoad {
        ReplicaLoad {
            job: JobId::new([name; 32]),
            unanswered,
            used_ms,
        }
    }

    fn step(scaling: &mut Scaling, now_ms: u64, load: (usize, &[ReplicaLoad])) -> ScalingStep {
        let (waiting, replicas) = load;
        scaling.step(now_ms, GroupLoad { waiting, replicas })
    }

    #[test]
    fn the_least_number_is_opened_at_once_and_again_after_a_loss() {
        let mut scaling = Scaling::new(ScalingRules { min: 2, ..RULES });
        let fewer = ScalingStep::Open(OpenReason::Fewer);
        assert_eq!(step(&mut scaling, 0, (0, &[])), fewer);
        scaling.opened();
        assert_eq!(step(&mut scaling, 1, (0, &[replica(1, 0, 0)])), fewer);
        let both = [replica(1, 0, 0), replica(2, 0, 0)];
        // The least number stays, however long nothing is asked.
        assert_eq!(step(&mut scaling, u64::MAX, (0, &both)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, u64::MAX, (0, &both[..1])), fewer);
    }

    #[test]
    fn a_queue_opens_one_only_if_it_stays() {
        let mut scaling = Scaling::new(RULES);
        let one = [replica(1, 4, 0)];
        // At the bound is not above it.
        assert_eq!(step(&mut scaling, 0, (0, &one)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 9_000, (0, &one)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 9_000, (1, &one)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 10_999, (1, &one)), ScalingStep::Stay);
        // A moment below it, and the time begins again.
        assert_eq!(step(&mut scaling, 10_999, (0, &one)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 11_000, (1, &one)), ScalingStep::Stay);
        let queue = ScalingStep::Open(OpenReason::Queue);
        assert_eq!(step(&mut scaling, 13_000, (1, &one)), queue);
        scaling.opened();
        let two = [replica(1, 4, 0), replica(2, 4, 0)];
        // The bound is for each replica, and the new one has its time.
        assert_eq!(step(&mut scaling, 13_001, (1, &two)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 15_000, (1, &two)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 15_001, (1, &two)), queue);
        let three = [two[0], two[1], replica(3, 4, 0)];
        assert_eq!(step(&mut scaling, 60_000, (99, &three)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 90_000, (99, &three)), ScalingStep::Stay);
    }

    #[test]
    fn what_was_asked_nothing_for_long_is_closed_one_after_the_other() {
        let mut scaling = Scaling::new(RULES);
        let three = [
            replica(1, 0, 5_000),
            replica(2, 0, 4_000),
            replica(3, 1, 1_000),
        ];
        assert_eq!(step(&mut scaling, 13_999, (0, &three)), ScalingStep::Stay);
        let second = ScalingStep::Close(JobId::new([2; 32]));
        assert_eq!(step(&mut scaling, 14_000, (0, &three)), second);
        let two = [three[0], three[2]];
        assert_eq!(step(&mut scaling, 14_999, (0, &two)), ScalingStep::Stay);
        let first = ScalingStep::Close(JobId::new([1; 32]));
        assert_eq!(step(&mut scaling, 15_000, (0, &two)), first);
        // The last one stays.
        let last = [replica(3, 0, 1_000)];
        assert_eq!(step(&mut scaling, 99_000, (0, &last)), ScalingStep::Stay);
    }

    #[test]
    fn nothing_is_closed_while_too_much_waits() {
        let mut scaling = Scaling::new(ScalingRules { max: 2, ..RULES });
        // One that answers nothing does not take from the other.
        let two = [replica(1, 20, 50_000), replica(2, 0, 0)];
        assert_eq!(step(&mut scaling, 50_000, (0, &two)), ScalingStep::Stay);
        assert_eq!(step(&mut scaling, 60_000, (0, &two)), ScalingStep::Stay);
    }

    #[test]
    fn what_cannot_be_opened_is_tried_again_ever_more_rarely() {
        let mut scaling = Scaling::new(RULES);
        let open = ScalingStep::Open(OpenReason::Fewer);
        let mut now = 0;
        for wait in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert_eq!(step(&mut scaling, now, (0, &[])), open, "{wait}");
            scaling.not_opened(now);
            let before = now + wait - 1;
            assert_eq!(step(&mut scaling, before, (0, &[])), ScalingStep::Stay);
            now += wait;
        }
        scaling.not_opened(now);
        assert_eq!(step(&mut scaling, now, (0, &[])), ScalingStep::Stay);
        scaling.retry();
        assert_eq!(step(&mut scaling, now, (0, &[])), open);
        scaling.opened();
        assert_eq!(step(&mut scaling, now, (0, &[])), open);
    }

    /// Whatever happens: never below or above the bounds by a step, and a step that was done once is not asked for again at once.
    #[test]
    fn any_course_stays_within_the_bounds() {
        for seed in 0..200_u64 {
            let mut scaling = Scaling::new(ScalingRules { min: 2, ..RULES });
            let (mut replicas, mut now, mut name, mut random) = (Vec::new(), 0, 0_u8, seed);
            for _ in 0..400 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let dice = random >> 33;
                now += dice % 3_000;
                for (index, it) in replicas.iter_mut().enumerate() {
                    let it: &mut ReplicaLoad = it;
                    it.unanswered = ((dice >> index) % 9) as usize;
                    if it.unanswered > 0 {
                        it.used_ms = now;
                    }
                }
                let waiting = ((dice >> 8) % 5) as usize;
                match step(&mut scaling, now, (waiting, &replicas)) {
                    ScalingStep::Stay => {}
                    ScalingStep::Open(_) if dice.is_multiple_of(7) => scaling.not_opened(now),
                    ScalingStep::Open(reason) => {
                        assert_eq!(
                            reason == OpenReason::Fewer,
                            replicas.len() < 2,
                            "seed {seed}"
                        );
                        name = name.wrapping_add(1);
                        replicas.push(replica(name, 0, now));
                        scaling.opened();
                    }
                    ScalingStep::Close(job) => {
                        let at = replicas.iter().position(|it| it.job == job);
                        let closed = replicas.remove(at.expect("it is one of them"));
                        assert_eq!(closed.unanswered, 0, "seed {seed}");
                        assert!(replicas.len() >= 2, "seed {seed}");
                    }
                }
                assert!(replicas.len() <= 3, "seed {seed}");
                if dice.is_multiple_of(31) && !replicas.is_empty() {
                    // One is lost.
                    replicas.remove(0);
                }
            }
        }
    }
}
