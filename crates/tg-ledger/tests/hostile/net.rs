//! The network: two copies of the state, one that proposes and one that only applies, and everybody who acts on it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tg_lab::synthetic::Draws;
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{
    Applicant, Head, Proposal, Proposed, RentCategory, ReplicaStage, SealingStage, State, Subject,
    SyncStage, Verdict, VerdictError, apply, propose,
};
use tg_types::{
    Address, Amount, BlockId, Decode, Digest, Encode, JobId, SignedTransaction, StateRoot,
    TimestampMs, Wallet,
};

use crate::audit::Auditor;
use crate::books::{Books, Sums, holdings};
use crate::coverage::Coverage;
use crate::files::{Files, HONEST, ONE};
use crate::garbage::{scramble, spam, tamper};
use crate::makers::Maker;
use crate::outbox::Outbox;
use crate::providers::{Hardware, Provider, offers_of, work_of};
use crate::requestors::Requestor;
use crate::season::Season;
use crate::validators::Seat;
use crate::voter::Voter;

/// Thousandths of a TGRID.
pub(crate) const fn milli(amount: u64) -> Amount {
    Amount::new(amount as u128 * 1_000_000_000_000_000)
}

/// A name that nothing else has.
pub(crate) fn digest(draws: &mut Draws) -> Digest {
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&draws.below(u64::MAX).to_le_bytes());
    }
    Digest::new(bytes)
}

/// Whose side somebody is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Does what the rules ask for.
    Honest,
    /// One alliance of everybody else.
    Hostile,
}

/// Blocks of a window, over which losses are compared.
pub(crate) const WINDOW: u64 = 1_000;

/// Blocks of a window in which hostile actors act; in the rest what they began comes to its end.
const HOSTILE_BLOCKS: u64 = 650;

/// What everybody knows when they act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) season: Season,
    pub(crate) now: TimestampMs,
    /// Whether the hostile ones act in these blocks.
    pub(crate) is_hostile: bool,
}

impl Moment {
    /// Whether hostile actors act at a height: not in every fourth window.
    pub(crate) const fn is_hostile_at(height: u64) -> bool {
        !Self::is_quiet(height / WINDOW) && height % WINDOW < HOSTILE_BLOCKS
    }

    /// Whether nobody hostile acts in a window.
    pub(crate) const fn is_quiet(window: u64) -> bool {
        window % 4 == 2
    }
}

/// What the holders of lost files are: a mark that no validator has.
const LOST: u8 = 0x80;

/// Blocks between two full looks at the state.
const FULL_LOOK: u64 = 100;

/// Blocks between two states that are written down and read back.
const WRITE_DOWN: u64 = 2_000;

/// The network.
#[derive(Debug)]
pub(crate) struct Net {
    season: Season,
    draws: Draws,
    state: Rc<State>,
    /// What a validator has that never proposes.
    voter: State,
    files: Files,
    seats: Vec<Seat>,
    makers: Vec<Maker>,
    providers: Vec<Provider>,
    requestors: Vec<Requestor>,
    spammer: Wallet,
    dust: u64,
    auditor: Auditor,
    pub(crate) books: Books,
    pub(crate) coverage: Coverage,
    genesis: BlockId,
    /// What everybody had at the beginning.
    first: BTreeMap<Address, u128>,
    /// Blocks with a transaction in them, and all transactions.
    pub(crate) busy: (u64, u64),
    /// Inputs that were lost and come back.
    lost: Vec<Digest>,
    /// What each window came to.
    pub(crate) windows: Vec<Sums>,
}

/// Bonds for a seat, and takes the bond back before the epoch ends, over and over.
fn seek_a_seat(account: &Wallet, genesis: &BlockId, state: &State, out: &mut Outbox<'_>) {
    let voter = Voter::new(99);
    let address = account.address();
    let waits = |it: &Applicant| it.validator.address == address;
    let waits = state.seats().applicants.iter().any(waits);
    let transaction = match state.head().height.get() % EPOCH_BLOCKS {
        5 if !waits => tg_types::Transaction::JoinValidators {
            key: voter.public,
            endpoint: tg_types::Label::lossy("localhost:7100"),
            possession: voter.possession(genesis, &address),
        },
        20.. if waits => tg_types::Transaction::LeaveValidators { key: voter.public },
        _ => return,
    };
    out.send(account, transaction);
}

fn participants() -> (Vec<Provider>, Vec<Requestor>, Vec<Maker>) {
    use Hardware::{Cpu, Gpu};
    use Side::{Honest, Hostile};
    let providers = vec![
        Provider::new("carla", Honest, Cpu, (30, 500)),
        Provider::new("dmitri", Honest, Cpu, (35, 500)),
        Provider::new("edda", Honest, Cpu, (40, 500)),
        Provider::new("fatou", Honest, Gpu, (30, 500)),
        Provider::new("goran", Honest, Gpu, (40, 1_000)),
        Provider::new("rogue one", Hostile, Cpu, (2, 10)),
        Provider::new("rogue two", Hostile, Cpu, (10, 60)),
        Provider::new("rogue three", Hostile, Cpu, (30, 500)),
        Provider::new("rogue four", Hostile, Gpu, (10, 60)),
        Provider::new("rogue five", Hostile, Gpu, (25, 500)),
    ];
    let requestors = vec![
        Requestor::new("alice", Honest),
        Requestor::new("bob", Honest),
        Requestor::new("chen", Honest),
        Requestor::new("dora", Honest),
        Requestor::new("mallory", Hostile),
        Requestor::new("marvin", Hostile),
        Requestor::new("morgana", Hostile),
    ];
    let makers = vec![Maker::new("maker", Honest), Maker::new("forger", Hostile)];
    (providers, requestors, makers)
}

impl Net {
    pub(crate) fn new(season: Season) -> Self {
        let (providers, requestors, makers) = participants();
        let seats: Vec<Seat> = (0..4).map(Seat::new).collect();
        let spammer = Wallet::from_seed(b"spammer");
        let mut books = Books::default();
        let mut accounts = Vec::new();
        for (address, side) in providers
            .iter()
            .map(|it| (it.wallet.address(), it.side))
            .chain(requestors.iter().map(|it| (it.wallet.address(), it.side)))
            .chain(makers.iter().map(|it| (it.wallet.address(), it.side)))
            .chain([(spammer.address(), Side::Hostile)])
        {
            books.enrol(address, side);
            accounts.push(address);
        }
        let voters = seats
            .iter()
            .map(|it| (it.wallet.address(), it.voter.public));
        let voters: Vec<_> = voters.collect();
        for seat in &seats {
            books.enrol(seat.wallet.address(), seat.side);
        }
        let genesis = season.genesis(&accounts, &voters);
        let state = State::genesis(&genesis).expect("the genesis is sound");
        let first = holdings(&state);
        Self {
            season,
            draws: Draws::new(season.seed),
            voter: state.clone(),
            state: Rc::new(state),
            files: Files::default(),
            seats,
            makers,
            providers,
            requestors,
            spammer,
            dust: 0,
            auditor: Auditor::new(&genesis),
            books,
            coverage: Coverage::default(),
            genesis: genesis.id(),
            first,
            busy: (0, 0),
            lost: Vec::new(),
            windows: Vec::new(),
        }
    }

    pub(crate) fn root(&self) -> StateRoot {
        self.state.root()
    }

    fn height(&self) -> u64 {
        self.state.head().height.get()
    }

    /// The block time of the next block: mostly within a second of the season, sometimes after a gap of up to an hour.
    fn tick(&mut self) -> TimestampMs {
        let usual = 100 + self.draws.below(900);
        let ms = match self.draws.below(400) {
            0 => 1_000 + self.draws.below(9_000),
            1 => 10_000 + self.draws.below(3_600_000),
            _ => usual,
        };
        let head = self.state.head();
        TimestampMs::new(head.timestamp.get() + self.season.ms(ms))
    }

    /// What everybody signs.
    fn collect<'a>(&mut self, moment: &Moment, state: &'a State) -> Outbox<'a> {
        let mut out = Outbox::new(state);
        let (work, offers) = (work_of(state), offers_of(state));
        let nothing = (Vec::new(), Vec::new());
        let (files, draws) = (&mut self.files, &mut self.draws);
        for provider in &mut self.providers {
            provider.settle_in(state);
            let address = provider.wallet.address();
            let work = work.get(&address).unwrap_or(&nothing.0);
            let offers = offers.get(&address).unwrap_or(&nothing.1);
            if moment.is_hostile && draws.below(20) == 0 && provider.is_spent(state) {
                let next = provider.whitewash(offers, &mut out);
                self.books.enrol(next, Side::Hostile);
                continue;
            }
            provider.act(moment, (work, offers), files, draws, &mut out);
        }
        let models = self.makers[0].usable(state);
        let traps: Vec<_> = self.makers[1].usable(state);
        for requestor in &mut self.requestors {
            requestor.act(moment, (&models, &traps), files, draws, &mut out);
        }
        for maker in &mut self.makers {
            maker.act(moment, files, draws, &mut out);
        }
        for seat in &self.seats {
            seat.act(moment, files, draws, &mut out);
        }
        // Late, as a seat without a stake is paid nothing for leading from there on.
        let [honest, .., hostile] = self.seats.as_slice() else {
            unreachable!("there are four");
        };
        let is_late = state.head().height.get() > self.season.blocks * 3 / 4;
        if moment.is_hostile && is_late && hostile.has_stake(state) {
            let proof = hostile.contradicting_votes(&self.genesis);
            let report = tg_types::Transaction::ReportEquivocation { proof };
            out.send(&honest.wallet, report);
        }
        if draws.below(300) == 0 {
            let to = self.requestors[1].wallet.clone();
            self.requestors[0].gift(&to, &mut out);
        }
        seek_a_seat(&self.spammer, &self.genesis, state, &mut out);
        if moment.is_hostile && draws.below(150) == 0 {
            self.dust += 1;
            let to = Address::new(digest(draws).as_bytes()[..20].try_into().expect("20 bytes"));
            let amount = state.parameters().account_min;
            let transfer = tg_types::Transaction::Transfer { to, amount };
            out.send(&self.spammer, transfer);
        }
        out
    }

    /// Files that are lost by nobody's fault, and found again. Nothing changes while validators are asked for it: an answer
    /// that was true when it was given counts for whoever declines until the question is closed.
    fn mishaps(&mut self, moment: &Moment) {
        let state = Rc::clone(&self.state);
        let waiting = state.submitted_jobs().chain(state.queued_jobs());
        let open = waiting.chain(state.live_leases().map(|(job, _)| job));
        let asked = open.filter(|it| it.storage.recheck.is_some());
        let asked: BTreeSet<Digest> = asked.map(|it| it.order.input).collect();
        let is_asked = |id: &tg_types::ModelId| {
            let model = state.model(id);
            model.is_some_and(|it| it.storage.recheck.is_some())
        };
        // Nor is a file found while a provider, or a member of a gang that runs, may look for it: that it declines may be on
        // its way.
        let leased = state.live_leases().map(|(job, _)| job);
        let (sought, wanted): (BTreeSet<Digest>, BTreeSet<tg_types::ModelId>) =
            leased.map(|it| (it.order.input, it.order.model)).unzip();
        let draws = &mut self.draws;
        if !moment.is_hostile || draws.below(60) == 0 {
            let stays = |it: &Digest| asked.contains(it) || sought.contains(it);
            for input in self.lost.extract_if(.., |it| !stays(it)) {
                self.files.inputs.entry(input).and_modify(|it| *it = HONEST);
            }
            for (id, truth) in &mut self.files.models {
                if truth.holders == LOST && !is_asked(id) && !wanted.contains(id) {
                    truth.holders = HONEST;
                }
            }
        }
        if moment.is_hostile && draws.below(40) == 0 {
            // Often while a provider looks for it.
            let is_free =
                |it: &&Digest| self.files.inputs.contains_key(*it) && !asked.contains(*it);
            let awaited: Vec<Digest> = sought.iter().filter(is_free).copied().collect();
            let inputs = self.files.inputs.keys().filter(|it| !asked.contains(it));
            let inputs: Vec<Digest> = match draws.below(2) {
                0 if !awaited.is_empty() => awaited,
                _ => inputs.copied().collect(),
            };
            if !inputs.is_empty() {
                // All stores lose it, or all but one.
                let input = *draws.pick(&inputs);
                self.files.inputs.insert(input, *draws.pick(&[0, ONE]));
                self.lost.push(input);
            }
        }
        if moment.is_hostile && draws.below(250) == 0 {
            let model = self.makers[0].models.first().filter(|it| !is_asked(it));
            if let Some(truth) = model.and_then(|it| self.files.models.get_mut(it)) {
                truth.holders = LOST;
            }
        }
    }

    /// One block.
    pub(crate) fn step(&mut self) {
        let state = Rc::clone(&self.state);
        let timestamp = self.tick();
        let moment = Moment {
            season: self.season,
            now: state.time_at(timestamp),
            is_hostile: Moment::is_hostile_at(self.height() + 1),
        };
        self.mishaps(&moment);
        let senders = self.collect(&moment, &state).into_senders();
        let proposal = self.proposal(&moment, timestamp, senders);
        if self.draws.below(60) == 0 {
            self.give_up_a_branch(&state, &proposal);
        }
        let mut garbage = Vec::new();
        if self.draws.below(20) == 0 {
            garbage.push(spam(&self.spammer, &state, &mut self.draws));
        }
        let mut whole = proposal;
        // Before everything: what its sender's own transactions would change has not happened yet.
        let nonsense = garbage.iter().map(|it| it.signed.clone());
        whole.transactions.splice(0..0, nonsense);
        let proposed = propose(&state, whole).expect("a proposal is a block");
        for it in &garbage {
            let found = proposed.refused.iter().find(|(bad, _)| *bad == it.signed);
            assert_eq!(
                found.map(|it| it.1.code()),
                Some(it.code),
                "{:?}",
                it.signed
            );
        }
        self.accept(&state, proposed);
    }

    /// What the leader of the turn puts in its block: a hostile one leaves out what it can.
    fn proposal(
        &mut self,
        moment: &Moment,
        timestamp: TimestampMs,
        mut senders: Vec<Vec<SignedTransaction>>,
    ) -> Proposal {
        let turn = self.height() as usize % self.seats.len();
        let (leader, side) = (self.seats[turn].wallet.address(), self.seats[turn].side);
        // In any order, but each account's own in the order of nonces.
        for at in (1..senders.len()).rev() {
            let other = self.draws.below(at as u64 + 1) as usize;
            senders.swap(at, other);
        }
        let mut verdicts = self.files.verdicts(&self.state);
        if side == Side::Hostile && moment.is_hostile && self.draws.below(3) > 0 {
            verdicts.clear();
            let books = &self.books;
            senders.retain(|it| {
                it.first()
                    .is_some_and(|it| books.side(&it.sender) == Side::Hostile)
            });
        }
        Proposal {
            proposer: leader,
            timestamp,
            transactions: senders.into_iter().flatten().collect(),
            verdicts,
        }
    }

    /// Blocks that do not become final: another one follows on their parent, as if they had never been.
    fn give_up_a_branch(&mut self, state: &State, proposal: &Proposal) {
        let root = state.root();
        let mut tip = state.clone();
        let mut next = proposal.clone();
        for _ in 0..1 + self.draws.below(3) {
            let kept = self.draws.below(next.transactions.len() as u64 + 1) as usize;
            next.transactions.truncate(kept);
            let made = propose(&tip, next).expect("a proposal is a block");
            let (applied, _) = apply(&tip, &made.block).expect("it holds");
            assert_eq!(applied.root(), made.state.root());
            if self.draws.below(6) == 0 {
                for code in tamper(&tip, &made.block) {
                    self.coverage.note(code);
                }
            }
            if let Some(error) = scramble(&made.block, &mut self.draws) {
                let name = format!("{error:?}");
                let name = name.split([' ', '(']).next().unwrap_or_default();
                self.coverage.note(&format!("decoding: {name}"));
            }
            tip = applied;
            let later = TimestampMs::new(tip.head().timestamp.get() + self.season.ms(500));
            next = Proposal::empty(proposal.proposer, later);
        }
        assert_eq!(state.root(), root, "what is given up changes nothing");
        self.coverage.note("branches given up");
    }

    /// Takes a block, as the voter does, and looks at what it did.
    fn accept(&mut self, before: &State, proposed: Proposed) {
        let Proposed {
            block,
            state,
            events,
            refused,
            refused_verdicts,
            left: _,
        } = proposed;
        let (voter, seen) = apply(&self.voter, &block).expect("the block holds");
        assert_eq!(voter.root(), state.root());
        assert_eq!(voter.head(), state.head());
        assert_eq!(seen, events);
        // A seed that nobody waits for any more: the job that it would draw was taken back in this block.
        let is_stale =
            |(verdict, _): &(Verdict, VerdictError)| matches!(verdict.subject, Subject::Seed(_));
        assert!(
            refused_verdicts.iter().all(is_stale),
            "{refused_verdicts:?}"
        );
        self.busy.0 += u64::from(!block.transactions.is_empty());
        self.busy.1 += block.transactions.len() as u64;
        for (signed, error) in &refused {
            let side = self.books.side(&signed.sender);
            self.coverage.note(&format!(
                "refused {side:?} {} {}",
                error.code(),
                signed.transaction.kind()
            ));
        }
        self.auditor.read(&state, &block.transactions, &events);
        self.auditor.agree_on_accounts(&state);
        self.coverage.read(before, &state, &events);
        let files = &self.files;
        let trap = |model: &_| files.models.get(model).is_some_and(|it| !it.can_be_served);
        let honest = self.requestors.iter().filter(|it| it.side == Side::Honest);
        let taken_back: BTreeSet<JobId> = honest
            .flat_map(|it| it.taken_back.iter().copied())
            .collect();
        self.books.read(before, &state, &events, trap, &taken_back);
        self.check_ends(before, &state);
        assert!(state.money().is_conserved());
        self.voter = voter;
        self.state = Rc::new(state);
        if self.height().is_multiple_of(FULL_LOOK) {
            self.look();
        }
        if self.height().is_multiple_of(WINDOW) {
            self.end_window();
        }
    }

    /// No open job is past its deadline, and no lease past its windows, unless an outage keeps them open.
    fn check_ends(&mut self, before: &State, state: &State) {
        use tg_ledger::JobState;
        let Head {
            height,
            time,
            outage,
            ..
        } = state.head();
        let parameters = state.parameters();
        let is_open = outage.is_some_and(|it| {
            let blocks = height.get() - it.height.get();
            blocks <= 1 || time <= it.time.saturating_add(parameters.outage_grace)
        });
        let mut waiting = state.submitted_jobs().chain(state.queued_jobs());
        let mut is_late = waiting.any(|it| it.order.deadline < time);
        for (job, lease) in state.live_leases() {
            is_late |= match job.state() {
                JobState::Leased => match lease.sealing.as_ref().map(|it| &it.stage) {
                    Some(SealingStage::Questioned { until, .. }) => *until < time,
                    // Validators look at the key that was shown.
                    Some(SealingStage::Revealed { .. }) => false,
                    _ => lease.start_by < time,
                },
                // Its provider has some time for a last claim.
                _ if lease.meter.is_some() => {
                    let wait = state.parameters().verification_timeout;
                    lease.deadline.saturating_add(wait) < time
                }
                // The seed is the validators' to sign, and a committee is asked until it answers.
                _ if lease.check.is_some() => match &lease.check.as_ref().unwrap().stage {
                    SyncStage::Challenged { answer_by, .. } => *answer_by < time,
                    SyncStage::Contestable { until, .. } => *until < time,
                    SyncStage::Opened { .. } => lease.verify_by().is_some_and(|it| it < time),
                    _ => false,
                },
                JobState::Verifying => lease.verify_by().is_some_and(|it| it < time),
                JobState::Delivering => lease.delivery().is_some_and(|(by, _)| by < time),
                JobState::Committed | JobState::Disputed if lease.replicas.is_some() => {
                    match lease.replicas.unwrap() {
                        ReplicaStage::Opening { open_by } => open_by < time,
                        ReplicaStage::Agreed { deliver_by } => deliver_by < time,
                        // Validators run it until they have.
                        ReplicaStage::Differ => false,
                    }
                }
                _ => lease.deadline < time,
            };
        }
        is_late |= state.retained().iter().any(|it| it.until < time);
        is_late |= state.questions().iter().any(|it| it.until < time);
        if is_open && is_late {
            self.coverage.note("an outage kept a window open");
        }
        assert!(is_open || !is_late, "something outlived its time");
        assert!(before.totals().burned <= state.totals().burned);
    }

    /// Counts everything anew, by a walk over every record.
    fn look(&mut self) {
        let state = Rc::clone(&self.state);
        self.auditor.agree(&state);
        let now = holdings(&state);
        let found: u128 = now.values().sum();
        let minted = state.totals().minted.get();
        assert_eq!(
            found + state.totals().burned.get(),
            minted,
            "money came or went"
        );
        self.books.check_honest(&self.first, &now);
        let had = self.books.wealth(&self.first, Side::Hostile);
        let has = self.books.wealth(&now, Side::Hostile);
        let earned = self.books.total.earned + self.books.window.earned;
        assert!(
            has <= had + earned,
            "the alliance gained {}",
            has - had - earned
        );
        for category in RentCategory::ALL {
            assert!(state.category_len(category) <= category.capacity());
        }
        self.files.sweep(&state);
        self.requestors.iter_mut().for_each(|it| it.forget(&state));
        if self.height().is_multiple_of(WRITE_DOWN) {
            let read = State::from_bytes(&self.voter.to_bytes()).expect("a state is readable");
            assert_eq!(read.root(), state.root());
            self.voter = read;
            self.coverage.note("states written down and read back");
        }
    }

    /// Honest parties lose less in a window than it costs the hostile ones. A quiet window, in which some leases of the one
    /// before still end, counts with that.
    fn end_window(&mut self) {
        let number = self.height() / WINDOW - 1;
        let mut window = self.books.turn();
        if Moment::is_quiet(number) {
            window = window.plus(self.windows.pop().unwrap_or_default());
        }
        assert!(window.factor_milli() <= 1_000, "window {number}: {window}");
        self.windows.push(window);
    }
}
