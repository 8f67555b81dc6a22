//! Whether seats change hands as they must, and blocks are final by those who sit: from the events of blocks and the sets of states,
//! without asking what the code takes for the set, for the quorum or for the time of a bond.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::limits::{EPOCH_BLOCKS, SEATS_MIN};
use tg_ledger::{Event, Genesis, QuestionEnd, State, Validator};
use tg_node::Finalized;
use tg_types::chain::TrustRoot;
use tg_types::{Address, Amount, BlockId, DurationMs, TimestampMs};

/// Validators that vote, after the block of a height that is a multiple of [`EPOCH_BLOCKS`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct SeatedSet {
    /// How many changes there were before: the epoch that its votes name.
    epoch: u64,
    /// Accounts and keys.
    seats: BTreeMap<Address, [u8; 32]>,
}

/// What is known of seats and bonds.
#[derive(Debug)]
pub(crate) struct SeatChecks {
    genesis: BlockId,
    unbonding: DurationMs,
    /// Validators that do as the protocol says.
    honest: BTreeSet<Address>,
    /// Those of them that give their seat back.
    leavers: BTreeSet<Address>,
    /// The sets, by the height after which they vote.
    sets: BTreeMap<u64, SeatedSet>,
    /// How many seats there were, from a ledger time on.
    sizes: Vec<(TimestampMs, usize)>,
    /// What each has at stake, by what it bonded and what was proved against it.
    stakes: BTreeMap<Address, Amount>,
    /// Who asked to leave.
    leaving: BTreeSet<Address>,
    /// When the seats ended whose bonds are not back.
    ended: BTreeMap<Address, TimestampMs>,
    /// Certificates that were looked at, or wait for their set.
    certified: BTreeSet<u64>,
    waiting: BTreeMap<u64, (BlockId, Vec<u8>)>,
}

fn seats_of<'a>(validators: impl Iterator<Item = &'a Validator>) -> BTreeMap<Address, [u8; 32]> {
    let seats = validators.map(|it| (it.address, *it.key.as_bytes()));
    seats.collect()
}

/// What an event takes of a validator's stake.
fn taken(event: &Event) -> Option<(&Address, Amount)> {
    match event {
        Event::ValidatorSlashed {
            validator,
            burned,
            reward,
            ..
        } => Some((validator, burned.saturating_add(*reward))),
        Event::AccusationRefuted { validator, burned }
        | Event::VoteRefuted {
            validator, burned, ..
        } => Some((validator, *burned)),
        Event::AnswerQuestionEnded {
            seat,
            end: QuestionEnd::Missing { burned, returned },
            ..
        } => Some((seat, burned.saturating_add(*returned))),
        _ => None,
    }
}

impl SeatChecks {
    pub(crate) fn new(
        genesis: &Genesis,
        honest: BTreeSet<Address>,
        leavers: BTreeSet<Address>,
    ) -> Self {
        let seats = seats_of(genesis.validators.iter());
        let stakes = genesis.validators.iter();
        Self {
            genesis: genesis.id(),
            unbonding: genesis.parameters.unbonding,
            honest,
            leavers,
            sizes: vec![(TimestampMs::new(0), seats.len())],
            sets: BTreeMap::from([(0, SeatedSet { epoch: 0, seats })]),
            stakes: stakes.map(|it| (it.address, it.stake)).collect(),
            leaving: BTreeSet::new(),
            ended: BTreeMap::new(),
            certified: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// The fewest seats that there were at any time since then.
    pub(crate) fn least_since(&self, since: TimestampMs) -> usize {
        let next = self.sizes.iter().skip(1).map(|(from, _)| Some(*from));
        let spans = self.sizes.iter().zip(next.chain([None]));
        let there = spans.filter(|(_, until)| until.is_none_or(|until| until >= since));
        let sizes = there.map(|((_, size), _)| *size);
        sizes.min().unwrap_or(0)
    }

    /// Looks at the next block.
    pub(crate) fn look(&mut self, block: &Finalized) -> Result<(), String> {
        let (height, state) = (block.block.header.height.get(), &block.state);
        for event in block.events.iter() {
            self.note(event, state.head().time)?;
        }
        self.change(height, state)?;
        self.bonds(state)
    }

    /// Notes what an event does to a stake. Bonds come back whole, and no earlier than they may.
    fn note(&mut self, event: &Event, now: TimestampMs) -> Result<(), String> {
        if let Some((validator, amount)) = taken(event) {
            let stake = self.stakes.entry(*validator).or_default();
            *stake = stake.saturating_sub(amount);
            return Ok(());
        }
        match event {
            Event::SeatBonded { validator, amount } => {
                self.stakes.insert(*validator, *amount);
            }
            Event::SeatLeaving { validator } => {
                self.leaving.insert(*validator);
            }
            Event::StakeReturned { validator, amount } => {
                let bonded = self.stakes.remove(validator).unwrap_or_default();
                if bonded != *amount {
                    return Err(format!(
                        "{validator} bonded {bonded}, and has {amount} back"
                    ));
                }
                let sits = self.newest().seats.contains_key(validator);
                let until =
                    (self.ended.remove(validator)).map(|it| it.saturating_add(self.unbonding));
                if sits || until.is_some_and(|until| now < until) {
                    return Err(format!(
                        "{validator} has its bond back at {now}, which answers for its votes until {until:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn newest(&self) -> &SeatedSet {
        let newest = self.sets.values().next_back();
        newest.expect("genesis has a set")
    }

    /// Looks whether the set changed, and might.
    fn change(&mut self, height: u64, state: &State) -> Result<(), String> {
        let (before, after) = (self.newest().clone(), seats_of(state.validators().iter()));
        let changed = before.seats != after;
        if height.is_multiple_of(EPOCH_BLOCKS) {
            let set = SeatedSet {
                epoch: before.epoch + u64::from(changed),
                seats: after.clone(),
            };
            self.sets.insert(height, set);
        } else if changed {
            return Err("the set of validators changes within an epoch".to_owned());
        }
        if !changed {
            return Ok(());
        }
        let now = state.head().time;
        self.sizes.push((now, after.len()));
        let joined = after.keys().filter(|it| !before.seats.contains_key(*it));
        let joined: Vec<&Address> = joined.collect();
        let left = before.seats.keys().filter(|it| !after.contains_key(*it));
        let kept = |it: &Address| before.seats.get(it) == after.get(it);
        let stays = after.keys().filter(|it| before.seats.contains_key(*it));
        if let Some(other) = stays.copied().find(|it| !kept(it)) {
            return Err(format!("{other} has another key"));
        }
        if after.len() < SEATS_MIN.min(before.seats.len()) || 3 * joined.len() >= after.len() {
            let (count, joined) = (after.len(), joined.len());
            return Err(format!("{joined} of {count} seats are new"));
        }
        let stake_of = |it: &Address| self.stakes.get(it).copied().unwrap_or_default();
        if let Some(stranger) = joined.iter().find(|it| stake_of(it).is_zero()) {
            return Err(format!("{stranger} sits without a bond"));
        }
        for address in left {
            let has_stake = !stake_of(address).is_zero();
            if has_stake && !self.leaving.contains(address) {
                return Err(format!(
                    "{address} loses its seat, and did not give it back"
                ));
            }
            if has_stake {
                self.ended.insert(*address, now);
            }
        }
        Ok(())
    }

    /// Whether all that is at stake is there, and no bond is kept for too long.
    fn bonds(&self, state: &State) -> Result<(), String> {
        let there = state.validators().iter().chain(state.seats().bonds());
        let there: BTreeMap<Address, Amount> = there.map(|it| (it.address, it.stake)).collect();
        let expected = self.stakes.iter().filter(|(_, it)| !it.is_zero());
        for (address, stake) in expected {
            let found = there.get(address).copied().unwrap_or_default();
            if found != *stake {
                return Err(format!("{address} has {found} at stake and bonded {stake}"));
            }
        }
        let now = state.head().time;
        let late = self.ended.iter();
        let mut late = late.filter(|(_, since)| since.saturating_add(self.unbonding) <= now);
        match late.next() {
            Some((address, since)) => Err(format!(
                "the bond of {address}, whose seat ended at {since}, is not back at {now}"
            )),
            None => Ok(()),
        }
    }

    /// Whether an honest validator lost a seat that it did not give back, or anything that it has at stake. Where more than may be are bribed
    /// (`outvoted`), they may say of what it says of a result that it is false, and it loses what that puts up: nothing else.
    pub(crate) fn honest_lost(&self, block: &Finalized, outvoted: bool) -> Result<(), String> {
        let bond = block.state.accusation_bond();
        let is_voted_down = |event: &Event| {
            outvoted && matches!(event, Event::AccusationRefuted { burned, .. } if *burned <= bond)
        };
        for event in block.events.iter() {
            if let Some((validator, amount)) = taken(event)
                && self.honest.contains(validator)
                && !amount.is_zero()
                && !is_voted_down(event)
            {
                return Err(format!(
                    "{validator}, a validator, lost {amount}: {event:?}"
                ));
            }
            let Event::SeatsChanged { left, .. } = event else {
                continue;
            };
            let mut lost = left.iter().filter(|it| self.honest.contains(*it));
            if let Some(lost) = lost.find(|it| !self.leavers.contains(*it)) {
                return Err(format!("{lost} lost its seat"));
            }
        }
        Ok(())
    }

    /// Whether nobody showed yet that the block of a height is final.
    pub(crate) fn wants_certificate(&self, height: u64) -> bool {
        !self.certified.contains(&height)
    }

    /// A validator shows what makes its block final.
    pub(crate) fn certified(&mut self, height: u64, block: BlockId, bytes: Vec<u8>) {
        if self.certified.insert(height) {
            self.waiting.insert(height, (block, bytes));
        }
    }

    /// Looks at the certificates of blocks whose set is known, if all blocks up to a height are.
    pub(crate) fn look_at_certificates(&mut self, checked: u64) -> Result<(), String> {
        let end = |height: u64| (height - 1) / EPOCH_BLOCKS * EPOCH_BLOCKS;
        while let Some(first) = self.waiting.first_entry()
            && end(*first.key()) <= checked
        {
            let (height, (block, bytes)) = first.remove_entry();
            self.is_final(height, block, &bytes, end(height))
                .map_err(|what| format!("block {height} is final, and {what}"))?;
        }
        Ok(())
    }

    fn is_final(&self, height: u64, block: BlockId, bytes: &[u8], end: u64) -> Result<(), String> {
        let set = (self.sets.get(&end)).ok_or_else(|| format!("no set votes on {height}"))?;
        let keys = set.seats.values().copied().collect();
        let root = TrustRoot::new(self.genesis, keys).map_err(|it| it.to_string())?;
        let shown = root.check(bytes).map_err(|it| it.to_string())?;
        if (shown.block, shown.epoch) != (block, set.epoch) {
            return Err(format!(
                "{} of epoch {} is shown, in epoch {}",
                shown.block, shown.epoch, set.epoch
            ));
        }
        Ok(())
    }
}
