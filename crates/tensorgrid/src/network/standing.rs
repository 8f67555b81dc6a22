//! What a process says of itself: where it stands and what it waits for.

use std::time::Duration;

use tg_node::Status;

/// Blocks that it may be behind before it says so.
const BEHIND_MIN: u64 = 3;

/// Silence of the chain after which it says so: several leaders in turn that make no block.
const STILL_AFTER: Duration = Duration::from_secs(15);

/// Where a validator stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValidatorState {
    /// Too few others are connected to make blocks.
    Waiting,
    /// Others have blocks that it lacks.
    Behind,
    /// Its wall clock has jumped.
    ClockJumped,
    /// It does not know what it signed, and signs nothing for a while.
    Abstaining,
    /// A quorum is connected, and no block becomes final.
    Still,
    /// Blocks become final.
    Final,
}

impl ValidatorState {
    /// Where the validator of `status` stands, `silent` after the last final block that it saw.
    pub(crate) const fn of(status: &Status, silent: Duration) -> Self {
        if status.peers < needed(status) {
            Self::Waiting
        } else if status.clock_jumped_ms.is_some() {
            Self::ClockJumped
        } else if status.peer_height >= status.height + BEHIND_MIN {
            Self::Behind
        } else if status.abstains_until.is_some() {
            Self::Abstaining
        } else if silent.as_millis() >= STILL_AFTER.as_millis() {
            Self::Still
        } else {
            Self::Final
        }
    }

    /// One word for programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Behind => "behind",
            Self::ClockJumped => "clock_jumped",
            Self::Abstaining => "abstaining",
            Self::Still => "still",
            Self::Final => "final",
        }
    }

    /// A line for people.
    pub(crate) fn line(self, status: &Status) -> String {
        let Status { height, peers, .. } = status;
        let others = status.validators - 1;
        let here = format!("{peers} of {others} other validators are here");
        let abstains = match status.abstains_until {
            None => String::new(),
            Some(0) => "; its votes are lost: it votes again some blocks later".to_owned(),
            Some(until) => format!("; its votes are lost: it votes again after height {until}"),
        };
        match self {
            Self::Waiting => format!(
                "waiting at height {height}: {here}, {} are needed{abstains}",
                needed(status)
            ),
            Self::Behind => format!(
                "catching up: height {height} of {}{abstains}",
                status.peer_height
            ),
            Self::ClockJumped => format!(
                "height {height} is final; the wall clock jumped: no votes until it is right again"
            ),
            Self::Abstaining => format!("height {height} is final, {here}{abstains}"),
            Self::Still => format!("no block after height {height} for a while, though {here}"),
            Self::Final => format!("height {height} is final, {here}"),
        }
    }
}

/// How long sources may take to answer before they are said to be away.
const ASKING_MAX: Duration = Duration::from_secs(5);

/// Where a gateway stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayState {
    /// No source has answered yet.
    Asking,
    /// None of its sources answers.
    Alone,
    /// Sources have blocks that it lacks.
    Behind,
    /// Sources answer, and have no new block.
    Still,
    /// Blocks become final.
    Final,
}

impl GatewayState {
    /// Where the gateway of `status` stands, `silent` after the last final block that it saw.
    pub(crate) const fn of(status: &Status, silent: Duration) -> Self {
        if status.peers == 0 && silent.as_millis() < ASKING_MAX.as_millis() {
            Self::Asking
        } else if status.peers == 0 {
            Self::Alone
        } else if status.peer_height >= status.height + BEHIND_MIN {
            Self::Behind
        } else if silent.as_millis() >= STILL_AFTER.as_millis() {
            Self::Still
        } else {
            Self::Final
        }
    }

    /// One word for programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Alone => "alone",
            Self::Behind => "behind",
            Self::Still => "still",
            Self::Final => "final",
        }
    }

    /// A line for people.
    pub(crate) fn line(self, status: &Status) -> String {
        let Status { height, peers, .. } = status;
        let sources = match peers {
            1 => "1 source answers".to_owned(),
            _ => format!("{peers} sources answer"),
        };
        match self {
            Self::Asking => format!("height {height}: asking its sources"),
            Self::Alone => format!("height {height}: none of its sources answers"),
            Self::Behind => format!(
                "catching up: height {height} of {}, {sources}",
                status.peer_height
            ),
            Self::Still => format!("no block after height {height} for a while, though {sources}"),
            Self::Final => format!("height {height} is final, {sources}"),
        }
    }
}

/// How many others make a quorum together with this validator.
pub(crate) const fn needed(status: &Status) -> usize {
    let faults = (status.validators - 1) / 3;
    status.validators - faults - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_types::TimestampMs;

    fn status() -> Status {
        Status {
            validator: [0; 32],
            height: 7,
            timestamp: TimestampMs::ZERO,
            view: 9,
            peers: 2,
            validators: 4,
            peer_height: 7,
            mempool: 0,
            equivocators: Vec::new(),
            running: true,
            stopped: None,
            abstains_until: None,
            clock_jumped_ms: None,
        }
    }

    #[test]
    fn a_gateway_says_what_it_waits_for() {
        let check = |status: &Status, silent: Duration, standing: GatewayState, words: &str| {
            assert_eq!(GatewayState::of(status, silent), standing);
            let line = standing.line(status);
            assert!(line.contains(words), "{line}");
        };
        let now = Duration::ZERO;
        let two = "2 sources answer";
        check(&status(), now, GatewayState::Final, two);
        check(&status(), STILL_AFTER, GatewayState::Still, "no block");
        let mut behind = status();
        behind.peer_height = 10;
        check(&behind, now, GatewayState::Behind, "height 7 of 10");
        behind.peers = 0;
        check(&behind, now, GatewayState::Asking, "asking");
        check(
            &behind,
            ASKING_MAX,
            GatewayState::Alone,
            "none of its sources",
        );
    }

    #[test]
    fn it_says_what_it_waits_for() {
        let now = Duration::ZERO;
        let check = |status: &Status, silent: Duration, standing: ValidatorState, words: &str| {
            assert_eq!(ValidatorState::of(status, silent), standing);
            let line = standing.line(status);
            assert!(line.contains(words), "{line}");
        };
        let here = "2 of 3 other validators are here";
        check(&status(), now, ValidatorState::Final, here);
        check(
            &status(),
            STILL_AFTER,
            ValidatorState::Still,
            "no block after height 7",
        );
        let mut alone = status();
        alone.peers = 1;
        check(
            &alone,
            now,
            ValidatorState::Waiting,
            "1 of 3 other validators are here, 2 are needed",
        );
        let mut behind = status();
        behind.peer_height = 10;
        check(&behind, now, ValidatorState::Behind, "height 7 of 10");
        behind.abstains_until = Some(64);
        check(&behind, now, ValidatorState::Behind, "after height 64");
        let mut lost = status();
        lost.abstains_until = Some(64);
        check(
            &lost,
            STILL_AFTER,
            ValidatorState::Abstaining,
            "after height 64",
        );
        let mut jumped = status();
        jumped.clock_jumped_ms = Some(-5_000);
        check(&jumped, now, ValidatorState::ClockJumped, "clock");
    }
}
