//! Random markets: machines, orders of every lane, providers that work, dawdle or vanish, validators that report.
//!
//! [`World::block`] checks every block: money and collateral counted record by record and from the events alone, no
//! machine promised twice, the stock rebuilt equal to the one kept up to date, proposer and voter agreeing.

use proptest::prelude::*;
use tg_ledger::{EndReason, JobState, LeaseEnd, Schedule, State, apply};
use tg_types::transaction::bid_commitment;
use tg_types::{
    Amount, CapacityTier, Digest, DurationMs, Encode, GpuModel, GpuModelSet, JobClass, JobNeeds,
    JobOrder, Lane, LeaseId, Pricing, SharingMode, SignedTransaction, TimestampMs, Transaction,
    bid_id,
};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{PEOPLE, World, address, commit, genesis, part, tgrid, wallet};

const MODELS: [GpuModel; 3] = [GpuModel::T4, GpuModel::A100M80, GpuModel::H100];

/// One random block: who orders what, and how busy the providers are.
#[derive(Debug, Clone)]
struct Turn {
    orders: Vec<(u8, u64, u64, u8)>,
    diligence: u8,
    wait: u64,
    report: Option<(u8, u8)>,
    update: Option<(u8, u64)>,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    (
        proptest::collection::vec((0..9u8, 1..90u64, 1..12u64, 0..6u8), 0..4),
        0..4u8,
        prop_oneof![3 => 0..3_000u64, 1 => 10_000..90_000u64],
        proptest::option::weighted(0.2, (0..4u8, 0..3u8)),
        proptest::option::weighted(0.1, (0..3u8, 1..40u64)),
    )
        .prop_map(|(orders, diligence, wait, report, update)| Turn {
            orders,
            diligence,
            wait,
            report,
            update,
        })
}

fn needs(kind: u8, seconds: u64) -> JobNeeds {
    let whole = gpu_needs(1, seconds);
    match kind {
        0 => JobNeeds::ANY_MACHINE,
        1 => whole,
        2 => JobNeeds {
            gpu_milli: 300,
            gpu_memory_mib: 5_000,
            isolation: SharingMode::Mps,
            ..whole
        },
        3 => JobNeeds {
            gang: 2,
            neighbourhood_us: 1_000,
            ..whole
        },
        4 => JobNeeds {
            guaranteed: true,
            tier: CapacityTier::Reserved,
            ..whole
        },
        5 => JobNeeds {
            class: JobClass::Batch,
            ..whole
        },
        6 => JobNeeds {
            preemptible: true,
            tier: CapacityTier::Spot,
            ..whole
        },
        7 => JobNeeds {
            priority: 4,
            gpus: 2,
            ..whole
        },
        _ => JobNeeds {
            models: GpuModelSet::of(&[GpuModel::H100]),
            class: JobClass::Training,
            ..whole
        },
    }
}

/// A market in the making: the world, and the bids that are still sealed.
struct Market {
    world: World,
    sealed: Vec<(&'static str, tg_types::BidId, JobOrder, Digest, u64)>,
    nonces: std::collections::BTreeMap<String, u64>,
    signed: Vec<SignedTransaction>,
    salts: u8,
}

impl Market {
    fn new(machines: &[(u8, u8, u64)]) -> Self {
        let mut world = World::new();
        for ((model, gpus, milli), name) in machines.iter().zip(["cheap", "middle", "dear"]) {
            let mut terms = gpu_terms(MODELS[usize::from(*model)], *gpus, *milli);
            terms.collateral_per_lease = Amount::from_tgrid(3);
            terms.pricing = match milli % 2 {
                0 => Pricing::Fixed,
                _ => Pricing::Dynamic,
            };
            world.post(name, terms);
        }
        Self {
            world,
            sealed: Vec::new(),
            nonces: std::collections::BTreeMap::new(),
            signed: Vec::new(),
            salts: 0,
        }
    }

    fn send(&mut self, name: &str, transaction: Transaction) -> SignedTransaction {
        let sender = wallet(name);
        let known = self.world.state.nonce(&sender.address());
        let nonce = self.nonces.entry(name.to_owned()).or_insert(known);
        let signed = sender.sign(transaction, *nonce, self.world.state.domain());
        *nonce += 1;
        self.signed.push(signed.clone());
        signed
    }

    fn order(&mut self, (kind, seconds, price, who): (u8, u64, u64, u8)) {
        let name = ["alice", "bob", "mallory"][usize::from(who) % 3];
        let order = JobOrder {
            max_price: Amount::from_tgrid(price),
            deadline: TimestampMs::new(self.world.time + 1_000 * (60 + 40 * u64::from(who))),
            max_attempts: 2,
            ..self.world.order_for(needs(kind, seconds))
        };
        if order.needs.lane() != Lane::Auction {
            self.send(name, Transaction::SubmitJob { order });
            return;
        }
        self.salts = self.salts.wrapping_add(1);
        let salt = Digest::new([self.salts; 32]);
        let commit = Transaction::CommitBid {
            commitment: bid_commitment(&order, &salt, &address(name)),
            deposit: tgrid(20),
        };
        let signed = self.send(name, commit);
        let state = &self.world.state;
        let id = bid_id(signed.id(state.domain()));
        let slot = state
            .parameters()
            .slot(TimestampMs::new(self.world.time + 1_000));
        self.sealed.push((name, id, order, salt, slot));
    }

    /// Opens what can be opened in the next block; every fourth bidder forgets.
    fn reveal(&mut self) {
        let next = TimestampMs::new(self.world.time + 1_000);
        let slot = self.world.state.parameters().slot(next);
        for (name, bid, order, salt, made) in std::mem::take(&mut self.sealed) {
            let forgets = salt.as_bytes()[0].is_multiple_of(4);
            if made == slot {
                self.sealed.push((name, bid, order, salt, made));
            } else if made + 1 == slot && !forgets {
                self.send(name, Transaction::RevealBid { bid, salt, order });
            }
        }
    }

    fn work(&mut self, diligence: u8) {
        let next = TimestampMs::new(self.world.time + 1_000);
        let mut wishes = Vec::new();
        for (job, lease) in self.world.state.live_members() {
            let lazy = lease.id.as_bytes()[0] & 3 >= diligence;
            if lazy || lease.grant.from > next {
                continue;
            }
            let lease_id = lease.id;
            match job.state() {
                JobState::Leased if lease.started_at().is_none() => {
                    wishes.push((lease.provider, Transaction::StartLease { lease: lease_id }));
                }
                JobState::Running if lease.lead().is_some() && lease.receipt().is_none() => {
                    wishes.push((lease.provider, part(lease_id)));
                }
                JobState::Running if lease.lead().is_none() => {
                    let parts = lease.members().iter();
                    let missing =
                        |it: &&LeaseId| self.world.state.lease(it).unwrap().receipt().is_none();
                    if parts.filter(missing).count() == 0 {
                        wishes.push((lease.provider, commit(lease_id)));
                    }
                }
                _ => {}
            }
        }
        for (provider, wish) in wishes {
            let name = PEOPLE.into_iter().find(|it| address(it) == provider);
            self.send(name.unwrap(), wish);
        }
    }

    fn report(&mut self, (validator, which): (u8, u8)) {
        let state = &self.world.state;
        let name = format!("validator {validator}");
        let target = address(["cheap", "middle", "dear"][usize::from(which)]);
        let reports = state.liveness_reports();
        let known = reports.get(&address(&name));
        let is_lost = known.is_some_and(|it| it.lost.contains(&target));
        let epoch = Schedule::epoch(state.head().height.next());
        let (lost, back) = match is_lost {
            true => (vec![], vec![target]),
            false => (vec![target], vec![]),
        };
        self.send(&name, Transaction::ReportLiveness { epoch, lost, back });
    }

    fn turn(&mut self, turn: &Turn) {
        self.world.time += turn.wait;
        for order in &turn.orders {
            self.order(*order);
        }
        self.reveal();
        self.work(turn.diligence);
        if let Some(report) = turn.report {
            self.report(report);
        }
        if let Some((which, milli)) = turn.update {
            let name = ["cheap", "middle", "dear"][usize::from(which)];
            let offers = self.world.state.offers();
            let found = offers
                .iter()
                .find(|it| it.provider == address(name))
                .cloned();
            if let Some(offer) = found {
                let mut terms = offer.terms.clone();
                terms.price_per_gpu_second = tgrid(milli);
                let id = offer.id;
                self.send(name, Transaction::UpdateOffer { offer: id, terms });
            }
        }
        let signed = std::mem::take(&mut self.signed);
        self.nonces.clear();
        self.world.block(signed, vec![]);
        self.check();
    }

    /// What holds in every block beside money and machines.
    fn check(&self) {
        let state = &self.world.state;
        for job in state.jobs().iter() {
            let leases = job.leases();
            let leases = leases.iter().filter_map(|id| state.lease(id));
            for lead in leases {
                let gang: Vec<_> = state.gang_of(lead).collect();
                assert_eq!(gang.len(), usize::from(job.order.needs.gang));
                let price = gang
                    .iter()
                    .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.price));
                assert!(price <= job.order.max_price, "charged above the maximum");
                let fulfilled = gang
                    .iter()
                    .filter(|it| it.end() == Some(&LeaseEnd::Fulfilled))
                    .count();
                assert!(fulfilled == 0 || fulfilled == gang.len());
                let preempted = lead.end() == Some(&LeaseEnd::Preempted);
                assert!(!preempted || job.order.needs.preemptible);
            }
            if job.end() == Some(EndReason::NotAdmitted) {
                assert!(job.order.needs.guaranteed && job.leases().is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::config(96))]

    #[test]
    fn nothing_is_lost_and_nothing_promised_twice(
        machines in proptest::collection::vec((0..3u8, 1..5u8, 1..60u64), 1..4),
        turns in proptest::collection::vec(any_turn(), 4..18),
    ) {
        let mut market = Market::new(&machines);
        for turn in &turns {
            market.turn(turn);
        }
        // A stored state gives the same next block, and so does every voter from genesis on.
        let state = &market.world.state;
        let again = <State as tg_types::Decode>::from_bytes(&state.to_bytes()).unwrap();
        prop_assert_eq!(again.stock(), state.stock());
        prop_assert_eq!(again.root(), state.root());
        let mut replica = State::genesis(&genesis()).unwrap();
        for block in &market.world.blocks {
            replica = apply(&replica, block).unwrap().0;
        }
        prop_assert_eq!(replica.schedule(), state.schedule());
        prop_assert!(state.parameters().preempt_grace > DurationMs::ZERO);
    }
}

/// The markets above reach what they are meant to reach.
#[test]
fn random_markets_reach_every_lane_and_end() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(crate::config(1));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..48 {
        let machines = proptest::collection::vec((0..3u8, 1..5u8, 1..60u64), 2..4);
        let turns = proptest::collection::vec(any_turn(), 18..30);
        let (machines, turns) = (machines, turns).new_tree(&mut runner).unwrap().current();
        let mut market = Market::new(&machines);
        turns.iter().for_each(|turn| market.turn(turn));
        let state = &market.world.state;
        for job in state.jobs().iter() {
            let lane = job.order.needs.lane();
            seen.insert(format!("{lane} {}", job.state()));
            let leases = job.leases();
            let leases = leases.iter().filter_map(|id| state.lease(id));
            seen.extend(
                leases
                    .filter_map(tg_ledger::Lease::end)
                    .map(ToString::to_string),
            );
            seen.extend(job.end().map(|it| it.to_string()));
        }
    }
    for wanted in [
        "posted Paid",
        "gang Paid",
        "deadline Paid",
        "auction Paid",
        "another member of the gang failed",
        "validators could not reach the provider",
        "no offer could guarantee its deadline",
        "never started",
    ] {
        assert!(seen.contains(wanted), "{wanted} is missing in {seen:?}");
    }
}
