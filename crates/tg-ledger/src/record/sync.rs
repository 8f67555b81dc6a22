//! The check of one result of mode `sync` or `optimistic`: from the seed that draws its tiles to the votes of the committee that computed
//! them again; in mode `optimistic` from the seed that draws a watcher to the end of the time in which anybody may challenge.
//!
//! ```text
//!  receipt ──► AwaitsSeed ──► Challenged ──► Opened ──► Voting ──► accepted
//!              (seed of the    (provider      (n - f     │  ▲  └──► again with other members
//!               receipt's       opens the      hold the  ▼  │
//!               block)          tiles)         opening)  Disputed ──► rejected
//!                                          (optimistic: Voting ──► Contestable ──► accepted)
//! ```
//! A dispute about a run that is too much for every validator to run again has steps of its own (`dispute`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tg_types::{Address, Digest, Height, TimestampMs, Vote, fields, variants};

use crate::canary::{LedgerCanary, is_armed};
use crate::limits::VALIDATORS_MAX;
use crate::record::{Storage, TileDispute};

/// What validators do about the result of one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncCheck {
    /// The block in which the receipt was committed: its seed draws the tiles.
    pub from: Height,
    /// When it was committed.
    pub since: TimestampMs,
    /// Where it stands.
    pub stage: SyncStage,
}

/// Where the check of a result stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncStage {
    /// The validators have not signed the seed of the receipt's block yet.
    AwaitsSeed,
    /// The tiles are drawn; the provider has to open them.
    Challenged {
        /// The seed.
        seed: Digest,
        /// Until when it must have.
        answer_by: TimestampMs,
    },
    /// The provider named its opening; validators fetch it.
    Opened {
        /// The seed.
        seed: Digest,
        /// Who holds it.
        storage: Storage,
    },
    /// A committee votes.
    Voting {
        /// The seed.
        seed: Digest,
        /// Its members and their votes.
        round: VoteRound,
    },
    /// A member, or whoever challenges, says what is wrong; every validator looks at that.
    Disputed {
        /// The seed.
        seed: Digest,
        /// The members and their votes so far.
        round: VoteRound,
        /// Who says so.
        accuser: Address,
        /// What.
        vote: Vote,
        /// How far the dispute is, if it ends at one tile; else every validator runs the program again, or looks at the tile that is named.
        by_tile: Option<Box<TileDispute>>,
    },
    /// The watcher of a result of mode `optimistic` found it right; it is accepted unless somebody challenges it.
    Contestable {
        /// The seed.
        seed: Digest,
        /// The watchers and their votes.
        round: VoteRound,
        /// Until when it may be challenged.
        until: TimestampMs,
    },
}

/// One drawing of a committee, and its votes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteRound {
    /// How many committees were drawn before it.
    pub number: u8,
    /// Since when members may seal their votes.
    pub since: TimestampMs,
    /// Since when they may open them, once nobody may seal any more.
    pub opening_since: Option<TimestampMs>,
    /// One for each member, in the order of addresses.
    pub votes: Vec<MemberVote>,
}

/// What a member of a committee said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberVote {
    /// The member.
    pub member: Address,
    /// What it said.
    pub state: VoteState,
}

/// How far a member's vote came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteState {
    /// It said nothing.
    Silent,
    /// It sealed a vote.
    Sealed(Digest),
    /// It opened its vote.
    Open(Vote),
    /// It accused the provider, and every validator found that it was wrong.
    Refuted,
}

/// What follows from the votes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoteStep {
    /// Nothing yet.
    Wait,
    /// Whoever sealed a vote opens it.
    Open,
    /// More than two thirds found it right and computed the same, and nobody found it wrong.
    Accept,
    /// Too few answered: other members are drawn.
    Redraw,
    /// A member names what is wrong.
    Dispute(Address, Vote),
}

/// How long members have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VoteWindows {
    /// Until a step ends whoever is missing.
    pub(crate) longest: tg_types::DurationMs,
    /// Until it ends if more than two thirds answered.
    pub(crate) patience: tg_types::DurationMs,
}

fields! { SyncCheck { from, since, stage } }

variants! {
    SyncStage: "stage of a check" {
        0 = AwaitsSeed {},
        1 = Challenged { seed, answer_by },
        2 = Opened { seed, storage },
        3 = Voting { seed, round },
        4 = Disputed { seed, round, accuser, vote, by_tile },
        5 = Contestable { seed, round, until },
    }
}

fields! {
    VoteRound {
        number,
        since,
        opening_since,
        votes: seq("votes", VALIDATORS_MAX, 21),
    }
}

fields! { MemberVote { member, state } }

variants! {
    VoteState: "vote" {
        0 = Silent {},
        1 = Sealed(commitment),
        2 = Open(vote),
        3 = Refuted {},
    }
}

impl SyncStage {
    /// The seed, once it is known.
    #[must_use]
    pub const fn seed(&self) -> Option<Digest> {
        match self {
            Self::AwaitsSeed => None,
            Self::Challenged { seed, .. }
            | Self::Opened { seed, .. }
            | Self::Voting { seed, .. }
            | Self::Disputed { seed, .. }
            | Self::Contestable { seed, .. } => Some(*seed),
        }
    }

    /// The committee's votes, once one was drawn.
    #[must_use]
    pub const fn round(&self) -> Option<&VoteRound> {
        match self {
            Self::AwaitsSeed | Self::Challenged { .. } | Self::Opened { .. } => None,
            Self::Voting { round, .. }
            | Self::Disputed { round, .. }
            | Self::Contestable { round, .. } => Some(round),
        }
    }

    /// Who holds the file that validators have to hold before it goes on.
    pub(crate) const fn storage_mut(&mut self) -> Option<&mut Storage> {
        match self {
            Self::Opened { storage, .. } => Some(storage),
            Self::Disputed {
                by_tile: Some(dispute),
                ..
            } => dispute.step.storage_mut(),
            _ => None,
        }
    }

    /// The dispute, if there is one that ends at a tile.
    #[must_use]
    pub const fn tile_dispute(&self) -> Option<&TileDispute> {
        match self {
            Self::Disputed {
                by_tile: Some(dispute),
                ..
            } => Some(dispute),
            _ => None,
        }
    }

    /// The name that users read.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::AwaitsSeed => "waits for the seed of its block",
            Self::Challenged { .. } => "the provider opens the drawn tiles",
            Self::Opened { .. } => "validators fetch the opening",
            Self::Voting { .. } => "a committee votes",
            Self::Disputed {
                by_tile: Some(dispute),
                ..
            } => dispute.step.as_str(),
            Self::Disputed { .. } => "every validator looks at what is disputed",
            Self::Contestable { .. } => "found right, and may be challenged",
        }
    }
}

impl VoteRound {
    /// A round of these members, which nobody answered yet.
    pub(crate) fn new(number: u8, members: Vec<Address>, since: TimestampMs) -> Self {
        let silent = |member| MemberVote {
            member,
            state: VoteState::Silent,
        };
        Self {
            number,
            since,
            opening_since: None,
            votes: members.into_iter().map(silent).collect(),
        }
    }

    /// What a member said; `None` if it is no member.
    #[must_use]
    pub fn vote(&self, member: &Address) -> Option<&VoteState> {
        let found = self.votes.iter().find(|it| it.member == *member);
        found.map(|it| &it.state)
    }

    /// Notes what a member said.
    pub(crate) fn note(&mut self, member: &Address, state: VoteState) {
        if let Some(vote) = self.votes.iter_mut().find(|it| it.member == *member) {
            vote.state = state;
        }
    }

    /// Who found it right and computed the same: the largest group of one checksum, of equal ones that of the lowest.
    #[must_use]
    pub fn right(&self) -> Vec<Address> {
        let mut groups: BTreeMap<u64, Vec<Address>> = BTreeMap::new();
        for MemberVote { member, state } in &self.votes {
            if let VoteState::Open(Vote::Right { checksum }) = state {
                let group = match is_armed(LedgerCanary::AnyChecksum) {
                    true => 0,
                    false => *checksum,
                };
                groups.entry(group).or_default().push(*member);
            }
        }
        let largest = groups
            .into_iter()
            .max_by_key(|(checksum, members)| (members.len(), Reverse(*checksum)));
        largest.map_or_else(Vec::new, |(_, members)| members)
    }

    /// Who was asked and said nothing that counts: it did not open a vote, or its vote is none of those that were accepted.
    #[must_use]
    pub(crate) fn absent(&self, accepted: &[Address]) -> Vec<Address> {
        let is_absent = |it: &&MemberVote| match it.state {
            VoteState::Silent | VoteState::Sealed(_) => true,
            VoteState::Open(Vote::Right { .. }) => {
                !accepted.is_empty() && !accepted.contains(&it.member)
            }
            VoteState::Open(_) | VoteState::Refuted => false,
        };
        self.votes
            .iter()
            .filter(is_absent)
            .map(|it| it.member)
            .collect()
    }

    /// Whether so many are more than two thirds of the committee.
    #[must_use]
    pub fn is_enough(&self, count: usize) -> bool {
        if is_armed(LedgerCanary::HalfCommittee) {
            return 2 * count >= self.votes.len();
        }
        3 * count > 2 * self.votes.len()
    }

    /// What follows: from what was said alone while transactions come, at `now` from how long it lasts too.
    pub(crate) fn step(&self, now: Option<TimestampMs>, windows: VoteWindows) -> VoteStep {
        let waited = |since: TimestampMs| {
            now.is_some_and(|now| now >= since.saturating_add(windows.patience))
        };
        let is_over =
            |since: TimestampMs| now.is_some_and(|now| now > since.saturating_add(windows.longest));
        let states = || self.votes.iter().map(|it| it.state);
        let accusation = self.votes.iter().find_map(|it| match it.state {
            VoteState::Open(Vote::Right { .. })
            | VoteState::Silent
            | VoteState::Sealed(_)
            | VoteState::Refuted => None,
            VoteState::Open(vote) => Some((it.member, vote)),
        });
        if let Some((accuser, vote)) = accusation {
            return VoteStep::Dispute(accuser, vote);
        }
        let sealed = states()
            .filter(|it| matches!(it, VoteState::Sealed(_)))
            .count();
        let Some(opening) = self.opening_since else {
            let all = sealed == self.votes.len();
            return if all || self.is_enough(sealed) && waited(self.since) {
                VoteStep::Open
            } else if is_over(self.since) {
                VoteStep::Redraw
            } else {
                VoteStep::Wait
            };
        };
        if self.is_enough(self.right().len()) && (sealed == 0 || waited(opening)) {
            VoteStep::Accept
        } else if sealed == 0 || is_over(opening) {
            VoteStep::Redraw
        } else {
            VoteStep::Wait
        }
    }
}
