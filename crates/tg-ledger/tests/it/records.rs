//! Encodings of everything the ledger stores: they round-trip, stop at their end, and name what is wrong.

use proptest::prelude::*;
use tg_ledger::{
    AbandonedBecause, Account, Bid, Block, BlockHeader, ConsensusKey, Decision, DisputeStep,
    EndReason, EndpointMeter, Evidence, GangRole, Genesis, Grant, Job, JobPhase, JobState,
    KeptStage, LatePhase, Lease, LeaseEnd, LeasePhase, LeaseProgress, LivenessReport, MemberVote,
    Model, ModelFacts, ModelState, Offer, OpenStage, Outcome, Owed, Parameters, PastDraw,
    Preemption, Provider, Recheck, RefusedBecause, Rent, ReplicaDraw, ReplicaStage, RetainedFile,
    Retention, Sealing, SealingStage, SeatSet, Session, SessionRisk, Settlement, Stars, Step,
    Storage, StoredQuestion, Subject, SyncCheck, SyncStage, TileDispute, Unpaid, UnverifiedJobs,
    Validator, Verdict, VoteRound, VoteState,
};
use tg_market::TrackRecord;
use tg_market::mig::{MigInstance, MigProfile};
use tg_market::reputation::{LeaseOutcome, Reputation};
use tg_types::sealing::{KEY_GRANT_BYTES, SEALING_KEY_BYTES};
use tg_types::{
    Address, Amount, BidId, BlockId, Decode, DecodeError, Digest, Encode, Height, JobId, KeyGrant,
    Label, LeaseId, ModelId, OfferId, ProgramId, QuestionId, SealingPublicKey, SessionScope,
    SharingMode, StateRoot, Tier, TileName, TimestampMs, Vote,
};

use crate::world::{World, genesis, parameters, receipt, terms};

/// A source of values for the fields of one record.
#[derive(Debug, Clone)]
struct Seeds {
    bytes: Vec<[u8; 32]>,
    numbers: Vec<u64>,
    at: std::cell::Cell<usize>,
}

impl Seeds {
    fn number(&self) -> u64 {
        let at = self.at.get();
        self.at.set(at + 1);
        self.numbers[at % self.numbers.len()].rotate_left(u32::try_from(at % 64).unwrap())
    }

    fn word(&self) -> [u8; 32] {
        let at = self.at.get();
        self.at.set(at + 1);
        self.bytes[at % self.bytes.len()]
    }

    fn address(&self) -> Address {
        Address::new(self.word()[..20].try_into().unwrap())
    }

    fn amount(&self) -> Amount {
        Amount::new(u128::from(self.number()) << (self.number() % 64))
    }

    fn small(&self, below: usize) -> usize {
        usize::try_from(self.number() % below as u64).unwrap()
    }

    fn u32(&self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    fn time(&self) -> TimestampMs {
        TimestampMs::new(self.number())
    }

    fn option<T>(&self, value: T) -> Option<T> {
        (self.number() % 2 == 1).then_some(value)
    }

    fn label(&self) -> Label {
        Label::lossy(&format!("check {}", self.number()))
    }
}

fn any_seeds() -> impl Strategy<Value = Seeds> {
    (
        proptest::collection::vec(any::<[u8; 32]>(), 3..8),
        proptest::collection::vec(any::<u64>(), 5..17),
    )
        .prop_map(|(bytes, numbers)| Seeds {
            bytes,
            numbers,
            at: std::cell::Cell::new(0),
        })
}

fn any_rent(seeds: &Seeds) -> Rent {
    Rent {
        payer: seeds.address(),
        deposit: seeds.amount(),
        paid_to: u128::from(seeds.number()),
        bytes: seeds.u32(),
    }
}

fn any_facts(seeds: &Seeds) -> ModelFacts {
    ModelFacts {
        program: ProgramId::new(seeds.word()),
        tier: tg_types::Tier::Tgx1,
        macs: seeds.number(),
        input_len: seeds.u32(),
        output_len: seeds.u32(),
        provable: seeds.number() % 2 == 1,
        proof_bytes: seeds.u32(),
        work: seeds.number(),
        memory: seeds.number(),
        trace_bytes: seeds.number(),
        read_bytes: seeds.number(),
        looks: seeds.number(),
    }
}

fn any_end(seeds: &Seeds) -> LeaseEnd {
    match seeds.small(14) {
        0 => LeaseEnd::Fulfilled,
        1 => LeaseEnd::Rejected {
            code: 77,
            check: seeds.label(),
        },
        2 => LeaseEnd::Late(LatePhase::Running),
        3 => LeaseEnd::Late(LatePhase::Committed),
        4 => LeaseEnd::Abandoned(AbandonedBecause::NotStarted),
        5 => LeaseEnd::Abandoned(AbandonedBecause::ProviderLost),
        6 => LeaseEnd::Preempted,
        7 => LeaseEnd::Released,
        8 => LeaseEnd::Declined(tg_types::DeclineReason::ModelMissing),
        9 => LeaseEnd::Unavailable,
        10 => LeaseEnd::Cancelled,
        11 => LeaseEnd::Late(LatePhase::Sealed),
        12 => LeaseEnd::Ungranted,
        _ => LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered),
    }
}

fn any_progress(seeds: &Seeds) -> LeaseProgress {
    let started_at = seeds.time();
    match seeds.small(6) {
        0 => LeaseProgress::Waiting,
        5 => LeaseProgress::Delivering {
            started_at,
            receipt: receipt(),
            storage: any_storage(seeds),
            deliver_by: seeds.time(),
        },
        4 => LeaseProgress::Sealed {
            started_at,
            seal: Digest::new(seeds.word()),
        },
        1 => LeaseProgress::Running { started_at },
        2 => LeaseProgress::Committed {
            started_at,
            receipt: receipt(),
        },
        _ => LeaseProgress::Verifying {
            started_at,
            receipt: receipt(),
            evidence: Evidence {
                digest: Digest::new(seeds.word()),
                size: seeds.u32(),
            },
            verify_by: seeds.time(),
        },
    }
}

fn any_session(seeds: &Seeds) -> Session {
    Session {
        key: seeds.word(),
        scope: SessionScope::ALL[seeds.small(2)],
        cap: seeds.amount(),
        spent: seeds.amount(),
        at_risk: seeds.amount(),
        expires: seeds.time(),
        first: seeds.number(),
        nonce: seeds.number(),
    }
}

fn sealing_key(seeds: &Seeds) -> SealingPublicKey {
    let byte = u8::try_from(seeds.small(13)).unwrap();
    SealingPublicKey::new(&[byte; SEALING_KEY_BYTES]).unwrap()
}

fn any_sealing(seeds: &Seeds) -> Sealing {
    let grant = KeyGrant::new([u8::try_from(seeds.small(256)).unwrap(); KEY_GRANT_BYTES]);
    let at = seeds.time();
    Sealing {
        key: sealing_key(seeds),
        declared: tg_types::DurationMs::new(seeds.number() % 100_000),
        stage: match seeds.small(4) {
            0 => SealingStage::AwaitsKey,
            1 => SealingStage::Granted { grant, at },
            2 => SealingStage::Questioned {
                grant,
                at,
                until: seeds.time(),
            },
            _ => SealingStage::Revealed {
                grant,
                at,
                secret: seeds.word(),
            },
        },
    }
}

fn any_grant(seeds: &Seeds) -> Grant {
    Grant {
        devices: u8::try_from(seeds.small(256)).unwrap(),
        gpu_milli: u16::try_from(seeds.small(1_001)).unwrap(),
        gpu_memory_mib: seeds.u32(),
        sharing: SharingMode::ALL[seeds.small(SharingMode::ALL.len())],
        partition: seeds.option(MigInstance {
            profile: MigProfile::G3,
            start: 4,
        }),
        from: seeds.time(),
    }
}

fn any_lease(seeds: &Seeds) -> Lease {
    Lease {
        id: LeaseId::new(seeds.word()),
        job: JobId::new(seeds.word()),
        offer: OfferId::new(seeds.word()),
        provider: seeds.address(),
        price: seeds.amount(),
        collateral: seeds.amount(),
        at_risk: seeds.amount(),
        gas: seeds.amount(),
        matched_at: seeds.time(),
        matched_height: Height::new(seeds.number()),
        start_by: seeds.time(),
        deadline: seeds.time(),
        phase: match seeds.small(2) {
            0 => LeasePhase::Live(any_progress(seeds)),
            _ => LeasePhase::Ended {
                reached: any_progress(seeds),
                end: any_end(seeds),
                at: seeds.time(),
                penalty: seeds.amount(),
            },
        },
        grant: any_grant(seeds),
        preemption: seeds.option(Preemption {
            at: seeds.time(),
            by: JobId::new(seeds.word()),
        }),
        role: match seeds.small(2) {
            0 => GangRole::Leads {
                members: (0..seeds.small(32))
                    .map(|_| LeaseId::new(seeds.word()))
                    .collect(),
            },
            _ => GangRole::Follows {
                lead: LeaseId::new(seeds.word()),
            },
        },
        meter: seeds.option(EndpointMeter {
            minute: seeds.amount(),
            vouchers: seeds.amount(),
            answered: seeds.number(),
            paid: seeds.amount(),
            ends_at: seeds.option(seeds.time()),
        }),
        check: seeds.option(any_check(seeds)),
        replicas: seeds.option(match seeds.small(3) {
            0 => ReplicaStage::Opening {
                open_by: seeds.time(),
            },
            1 => ReplicaStage::Agreed {
                deliver_by: seeds.time(),
            },
            _ => ReplicaStage::Differ,
        }),
        session: seeds.option(SessionRisk {
            key: seeds.word(),
            first: seeds.number(),
            amount: seeds.amount(),
        }),
        sealing: seeds.option(Box::new(any_sealing(seeds))),
    }
}

fn any_check(seeds: &Seeds) -> SyncCheck {
    let seed = Digest::new(seeds.word());
    let votes = (0..seeds.small(5)).map(|_| MemberVote {
        member: seeds.address(),
        state: match seeds.small(4) {
            0 => VoteState::Silent,
            1 => VoteState::Sealed(Digest::new(seeds.word())),
            2 => VoteState::Open(any_vote(seeds)),
            _ => VoteState::Refuted,
        },
    });
    let round = VoteRound {
        number: u8::try_from(seeds.small(256)).unwrap(),
        since: seeds.time(),
        opening_since: seeds.option(seeds.time()),
        votes: votes.collect(),
    };
    SyncCheck {
        from: Height::new(seeds.number()),
        since: seeds.time(),
        stage: match seeds.small(5) {
            0 => SyncStage::AwaitsSeed,
            1 => SyncStage::Challenged {
                seed,
                answer_by: seeds.time(),
            },
            2 => SyncStage::Opened {
                seed,
                storage: Storage::default(),
            },
            3 => SyncStage::Voting { seed, round },
            _ => SyncStage::Disputed {
                seed,
                round,
                accuser: seeds.address(),
                vote: any_vote(seeds),
                by_tile: seeds.option(Box::new(any_dispute(seeds))),
            },
        },
    }
}

fn any_dispute(seeds: &Seeds) -> TileDispute {
    let file = || Evidence {
        digest: Digest::new(seeds.word()),
        size: seeds.u32(),
    };
    let storage = Storage::default();
    let (claim, answer) = (file(), file());
    TileDispute {
        step: match seeds.small(5) {
            0 => DisputeStep::Claiming,
            1 => DisputeStep::Claimed { claim, storage },
            2 => DisputeStep::Answering { claim },
            3 => DisputeStep::Answered {
                claim,
                answer,
                storage,
            },
            _ => DisputeStep::Judged { claim, answer },
        },
        until: seeds.time(),
        held: seeds.amount(),
        waiting: (0..seeds.small(8)).map(|_| seeds.address()).collect(),
    }
}

fn any_vote(seeds: &Seeds) -> Vote {
    match seeds.small(3) {
        0 => Vote::Right {
            checksum: seeds.number(),
        },
        1 => Vote::WrongForm,
        _ => Vote::WrongTile(TileName {
            node: u32::try_from(seeds.small(1 << 20)).unwrap(),
            leaf: seeds.u32(),
        }),
    }
}

fn any_report(seeds: &Seeds) -> LivenessReport {
    let lost: std::collections::BTreeSet<_> =
        (0..seeds.small(20)).map(|_| seeds.address()).collect();
    LivenessReport {
        validator: seeds.address(),
        epoch: seeds.number(),
        lost: lost.into_iter().collect(),
    }
}

fn any_reputation(seeds: &Seeds) -> [Reputation; 3] {
    let mut reputation = [Reputation::default(); 3];
    for class in &mut reputation {
        for _ in 0..seeds.small(5) {
            class.observe(LeaseOutcome::Accepted);
            class.observe(LeaseOutcome::Late);
            class.rate(4, Amount::new(7));
        }
    }
    reputation
}

fn any_decision(seeds: &Seeds) -> Decision {
    let (job, lease) = (JobId::new(seeds.word()), LeaseId::new(seeds.word()));
    match seeds.small(6) {
        0 => Decision::Placed {
            job,
            lease,
            offer: OfferId::new(seeds.word()),
            price: seeds.amount(),
            devices: 3,
            from: seeds.time(),
        },
        1 => Decision::Refused { job },
        2 => Decision::Preempted { lease, by: job },
        3 => Decision::Cleared {
            slot: seeds.number(),
            class: 9,
            price: seeds.amount(),
        },
        4 => Decision::Lost { lease },
        _ => Decision::Reserved {
            job,
            offer: OfferId::new(seeds.word()),
            from: seeds.time(),
        },
    }
}

fn any_phase(seeds: &Seeds) -> JobPhase {
    let settlement = Settlement {
        price: seeds.amount(),
        members: seeds.amount(),
        verification_fee: seeds.amount(),
        refund: seeds.amount(),
        burned: seeds.amount(),
        bonus: seeds.amount(),
        compensation: seeds.amount(),
    };
    let lease = LeaseId::new(seeds.word());
    let unpaid = [
        Unpaid::TakenBack,
        Unpaid::Deadline,
        Unpaid::Attempts,
        Unpaid::NotAdmitted,
        Unpaid::Rent,
        Unpaid::NoKey,
        Unpaid::KeyShown,
    ];
    let stages = [
        OpenStage::Submitted,
        OpenStage::Queued,
        OpenStage::Leased(lease),
        OpenStage::Running(lease),
        OpenStage::Committed(lease),
        OpenStage::Verifying(lease),
        OpenStage::Disputed(lease),
        OpenStage::Delivering(lease),
    ];
    match seeds.small(3) {
        0 => JobPhase::Open {
            stage: stages[seeds.small(stages.len())],
            escrow: seeds.amount(),
        },
        1 => JobPhase::Paid {
            lease,
            settlement,
            stars: Stars::new(u8::try_from(seeds.small(6)).unwrap()),
        },
        _ => JobPhase::Unpaid {
            because: unpaid[seeds.small(unpaid.len())],
            settlement,
        },
    }
}

fn any_job(seeds: &Seeds) -> Job {
    let step = || Step {
        state: JobState::ALL[seeds.small(JobState::ALL.len())],
        height: Height::new(seeds.number()),
        at: seeds.time(),
        timestamp: seeds.time(),
    };
    Job {
        id: JobId::new(seeds.word()),
        sequence: seeds.number(),
        requestor: seeds.address(),
        order: World::bare().order(),
        macs: seeds.number(),
        phase: any_phase(seeds),
        history: (0..seeds.small(98)).map(|_| step()).collect(),
        verification_fee: seeds.amount(),
        earlier: (0..seeds.small(17))
            .map(|_| LeaseId::new(seeds.word()))
            .collect(),
        excluded: (0..seeds.small(17)).map(|_| seeds.address()).collect(),
        preemptions: 2,
        revealed_in: seeds.option(seeds.number()),
        owed: (0..seeds.small(5))
            .map(|_| Owed {
                lease: LeaseId::new(seeds.word()),
                provider: seeds.address(),
                amount: seeds.amount(),
            })
            .collect(),
        escrow_burned: seeds.amount(),
        served: seeds.amount(),
        storage: any_storage(seeds),
        declined: 3,
        rent: any_rent(seeds),
        retention: Retention {
            bytes: seeds.u32(),
            fee: seeds.amount(),
        },
        session: seeds.option(seeds.word()),
        draw: seeds.option(ReplicaDraw {
            from: Height::new(seeds.number()),
            since: seeds.time(),
            seed: seeds.option(Digest::new(seeds.word())),
            earlier: vec![PastDraw {
                since: seeds.time(),
                seed: Digest::new(seeds.word()),
            }],
        }),
    }
}

fn any_seats(seeds: &Seeds) -> SeatSet {
    SeatSet::from_bytes(&seeds.word()[..16]).unwrap()
}

fn any_retained(seeds: &Seeds) -> RetainedFile {
    RetainedFile {
        job: JobId::new(seeds.word()),
        requestor: seeds.address(),
        digest: Digest::new(seeds.word()),
        bytes: seeds.u32(),
        until: seeds.time(),
        held: any_seats(seeds),
        stage: match seeds.small(3) {
            0 => KeptStage::TooFew,
            1 => KeptStage::Held {
                state_by: seeds.time(),
            },
            _ => KeptStage::Noted,
        },
    }
}

fn any_question(seeds: &Seeds) -> StoredQuestion {
    StoredQuestion {
        id: QuestionId::new(seeds.word()),
        job: JobId::new(seeds.word()),
        digest: Digest::new(seeds.word()),
        longest: seeds.u32(),
        seat: seeds.address(),
        asker: seeds.address(),
        fee: seeds.amount(),
        missing_from: seeds.time(),
        until: seeds.time(),
        held: any_seats(seeds),
        missing: any_seats(seeds),
    }
}

fn any_storage(seeds: &Seeds) -> Storage {
    let seats = || any_seats(seeds);
    Storage {
        held: seats(),
        recheck: seeds.option(Recheck {
            until: seeds.time(),
            held: seats(),
            missing: seats(),
        }),
    }
}

fn any_model(seeds: &Seeds) -> Model {
    Model {
        id: ModelId::new(seeds.word()),
        owner: seeds.address(),
        public_blob: Digest::new(seeds.word()),
        weights_blob: Digest::new(seeds.word()),
        name: seeds.label(),
        registered_at: seeds.time(),
        registered_height: Height::new(seeds.number()),
        state: match seeds.small(4) {
            0 => ModelState::Pending,
            1 => ModelState::Active(any_facts(seeds)),
            2 => ModelState::Refused(RefusedBecause::NotDelivered),
            _ => ModelState::Refused(RefusedBecause::Check {
                code: 9,
                check: seeds.label(),
            }),
        },
        storage: any_storage(seeds),
        owners_paid: (0..seeds.small(4)).map(|_| seeds.address()).collect(),
        jobs: seeds.u32(),
        rent: any_rent(seeds),
    }
}

fn any_verdict(seeds: &Seeds) -> Verdict {
    Verdict {
        subject: match seeds.small(2) {
            0 => Subject::Model(ModelId::new(seeds.word())),
            _ => Subject::Lease(LeaseId::new(seeds.word())),
        },
        evidence: Digest::new(seeds.word()),
        outcome: match seeds.small(3) {
            0 => Outcome::LeaseAccepted,
            1 => Outcome::ModelAccepted(any_facts(seeds)),
            _ => Outcome::Rejected {
                code: 5,
                check: seeds.label(),
            },
        },
    }
}

fn any_header(seeds: &Seeds) -> BlockHeader {
    BlockHeader {
        version: 2,
        height: Height::new(seeds.number()),
        parent: BlockId::new(seeds.word()),
        timestamp: seeds.time(),
        time: seeds.time(),
        epoch: seeds.number(),
        base_fee: seeds.amount(),
        proposer: seeds.address(),
        seats: Digest::new(seeds.word()),
        next_seats: Digest::new(seeds.word()),
        body: Digest::new(seeds.word()),
        state_root: StateRoot::new(seeds.word()),
        reserved: tg_ledger::Reserved {
            l1_index: seeds.number(),
            outbox: Digest::new(seeds.word()),
            events: Digest::new(seeds.word()),
            seed: Digest::new(seeds.word()),
            key_generation: Digest::new(seeds.word()),
        },
    }
}

/// Round trip, every cut, one byte more.
fn check<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        let cut = T::from_bytes(&bytes[..end]);
        assert!(
            matches!(cut, Err(DecodeError::Truncated { .. })),
            "cut at {end}: {cut:?}"
        );
    }
    let mut longer = bytes;
    longer.push(7);
    assert_eq!(
        T::from_bytes(&longer),
        Err(DecodeError::Trailing { extra: 1 })
    );
}

proptest! {
    #![proptest_config(crate::config(48))]

    #[test]
    fn every_record_has_one_encoding(seeds in any_seeds()) {
        check(&any_job(&seeds));
        check(&any_lease(&seeds));
        check(&any_model(&seeds));
        check(&any_retained(&seeds));
        check(&any_question(&seeds));
        check(&any_verdict(&seeds));
        check(&any_header(&seeds));
        check(&Account {
            address: seeds.address(),
            balance: seeds.amount(),
            nonce: seeds.number(),
            open_jobs: seeds.u32(),
            offers: seeds.u32(),
            models: seeds.u32(),
            bids: seeds.u32(),
            sessions: (0..seeds.small(4)).map(|_| any_session(&seeds)).collect(),
            rent_to: u128::from(seeds.number()),
        });
        check(&Bid {
            id: BidId::new(seeds.word()),
            bidder: seeds.address(),
            commitment: Digest::new(seeds.word()),
            deposit: seeds.amount(),
            slot: seeds.number(),
        });
        check(&any_report(&seeds));
        check(&any_decision(&seeds));
        check(&Offer {
            id: OfferId::new(seeds.word()),
            provider: seeds.address(),
            terms: terms(seeds.number() % 1_000),
            slots_taken: 3,
            updated_at: seeds.time(),
            rent: any_rent(&seeds),
        });
        check(&Provider {
            address: seeds.address(),
            record: TrackRecord {
                accepted: seeds.u32(),
                rejected: seeds.u32(),
                late: seeds.u32(),
                abandoned: seeds.u32(),
            },
            reputation: any_reputation(&seeds),
            decayed_to: seeds.number(),
            is_offline: seeds.small(2) == 1,
            suspended_until: seeds.time(),
            earned: seeds.amount(),
            lost: seeds.amount(),
            credit: seeds.amount(),
            unstarted: 3,
            unstarted_since: seeds.time(),
            pledge: seeds.amount(),
            short_at: seeds.time(),
            short_of: seeds.amount(),
            next_lesson: seeds.number(),
            uses: seeds.u32(),
            sealing: seeds.option(sealing_key(&seeds)),
            rent: any_rent(&seeds),
        });
        check(&Validator {
            address: seeds.address(),
            key: ConsensusKey::new(seeds.word()),
            stake: seeds.amount(),
        });
        check(&Block {
            header: any_header(&seeds),
            transactions: vec![],
            verdicts: (0..seeds.small(4)).map(|_| any_verdict(&seeds)).collect(),
        });
    }
}

#[test]
fn the_beginning_has_one_encoding() {
    check(&genesis());
    check(&parameters());
    let refused = Parameters {
        unverified_jobs: UnverifiedJobs::Refused,
        ..parameters()
    };
    check(&refused);
    assert_ne!(refused.to_bytes(), parameters().to_bytes());
    check(&tg_ledger::development_domain());
    assert_eq!(Genesis::from_bytes(&genesis().to_bytes()), Ok(genesis()));
}

#[test]
fn unknown_tags_are_named() {
    fn check<T: Decode + std::fmt::Debug>(bytes: &[u8], field: &'static str) {
        let value = u64::from(*bytes.last().unwrap());
        assert_eq!(
            T::from_bytes(bytes).unwrap_err(),
            DecodeError::Invalid { field, value }
        );
    }
    check::<JobState>(&[13], "job state");
    check::<EndReason>(&[6], "end reason");
    check::<LeaseEnd>(&[10], "lease end");
    check::<LeaseEnd>(&[6, 4], "decline reason");
    check::<LeaseEnd>(&[2, 3], "late phase");
    check::<LeaseEnd>(&[3, 3], "abandoned because");
    check::<ModelState>(&[4], "model state");
    check::<Subject>(&[6], "subject");
    check::<Outcome>(&[8], "outcome");
    check::<UnverifiedJobs>(&[2], "unverified jobs");
    check::<Decision>(&[6], "decision");
    check::<Decision>(&[9], "decision");
    let mut facts = crate::world::facts().to_bytes();
    // Before the size of a proof, the work, the memory, the bytes of a trace and of what is read of it, and the looks.
    let provable = facts.len() - (4 + 5 * 8) - 1;
    facts[provable] = 2;
    let (field, value) = ("provable", 2);
    assert_eq!(
        ModelFacts::from_bytes(&facts).unwrap_err(),
        DecodeError::Invalid { field, value }
    );
}

#[test]
fn stars_of_a_job_are_one_to_five() {
    for number in 0..=u8::MAX {
        let stars = Stars::from_bytes(&[number]);
        if (1..=5).contains(&number) {
            assert_eq!(stars.map(Stars::get), Ok(number));
            continue;
        }
        let invalid = DecodeError::Invalid {
            field: "stars",
            value: u64::from(number),
        };
        assert_eq!(stars, Err(invalid));
    }
}

#[test]
fn counts_beyond_their_limit_are_refused_before_anything_is_read() {
    let seeds = Seeds {
        bytes: vec![[3; 32]],
        numbers: vec![2],
        at: std::cell::Cell::new(0),
    };
    let good = Job {
        earlier: vec![LeaseId::new([5; 32]); 51],
        ..any_job(&seeds)
    };
    check(&good);
    let many = Job {
        earlier: vec![LeaseId::new([5; 32]); 52],
        ..good.clone()
    };
    assert_eq!(
        Job::from_bytes(&many.to_bytes()).unwrap_err(),
        DecodeError::TooLong {
            field: "leases",
            count: 52,
            limit: 51
        }
    );
    let step = Step {
        state: JobState::Queued,
        height: Height::ZERO,
        at: TimestampMs::ZERO,
        timestamp: TimestampMs::ZERO,
    };
    let long = Job {
        history: vec![step; 361],
        ..good
    };
    assert_eq!(
        Job::from_bytes(&long.to_bytes()).unwrap_err(),
        DecodeError::TooLong {
            field: "history",
            count: 361,
            limit: 360
        }
    );
    // A block that promises more transactions than there are bytes is refused by its count.
    let mut block = any_header(&seeds).to_bytes();
    block.extend_from_slice(&1_000u32.to_le_bytes());
    block.extend_from_slice(&[0; 50]);
    assert!(matches!(
        Block::from_bytes(&block),
        Err(DecodeError::Truncated { .. })
    ));
}

/// The state machine of a job, row by row, as `docs/LEDGER.md` draws it.
#[test]
fn the_state_machine_is_the_documented_one() {
    use JobState::{
        Accepted, Cancelled, Committed, Delivering, Disputed, Expired, Leased, Paid, Queued,
        Refunded, Running, Submitted, Verifying,
    };
    let rows: [(JobState, &[JobState]); 13] = [
        (Submitted, &[Queued, Refunded, Expired, Cancelled]),
        (Queued, &[Submitted, Leased, Refunded, Expired, Cancelled]),
        (Leased, &[Queued, Running, Refunded, Cancelled]),
        (Running, &[Queued, Committed, Accepted, Refunded, Cancelled]),
        (
            Committed,
            &[Queued, Verifying, Delivering, Refunded, Disputed],
        ),
        (Delivering, &[Queued, Accepted, Refunded]),
        (
            Verifying,
            &[Queued, Delivering, Accepted, Refunded, Disputed],
        ),
        (Accepted, &[Paid]),
        (Paid, &[]),
        (Refunded, &[]),
        (Disputed, &[Queued, Verifying, Accepted, Refunded]),
        (Expired, &[]),
        (Cancelled, &[]),
    ];
    for (from, next) in rows {
        for to in JobState::ALL.iter().copied() {
            assert_eq!(from.may_become(to), next.contains(&to), "{from} -> {to}");
        }
        assert_eq!(from.is_final(), next.is_empty());
        assert_eq!(JobState::from_bytes(&from.to_bytes()), Ok(from));
    }
    for reason in EndReason::ALL {
        assert!(!reason.to_string().is_empty());
    }
}

#[test]
fn ends_are_told_in_words() {
    fn check(end: &LeaseEnd, name: &str, sentence: &str) {
        assert_eq!((end.as_str(), end.to_string().as_str()), (name, sentence));
    }
    check(&LeaseEnd::Fulfilled, "Fulfilled", "result accepted");
    check(
        &crate::world::rejected_end(),
        "Rejected",
        "evidence rejected by check sumcheck of layer 2 (code 7)",
    );
    check(
        &LeaseEnd::Late(LatePhase::Running),
        "Late",
        "late: no receipt in time",
    );
    check(
        &LeaseEnd::Abandoned(AbandonedBecause::NotStarted),
        "Abandoned",
        "never started",
    );
}

#[test]
fn a_committee_needs_more_than_two_thirds() {
    for members in 1..=16 {
        let round = VoteRound {
            number: 0,
            since: TimestampMs::ZERO,
            opening_since: None,
            votes: vec![
                MemberVote {
                    member: Address::new([1; 20]),
                    state: VoteState::Silent,
                };
                members
            ],
        };
        let enough = (0..=members).find(|count| round.is_enough(*count));
        assert_eq!(enough, Some(members * 2 / 3 + 1), "{members}");
    }
}

#[test]
fn inputs_have_the_length_of_the_model_or_one_up_to_it() {
    let facts = |tier| ModelFacts {
        tier,
        input_len: 8,
        ..crate::world::facts()
    };
    let taken = |tier| -> Vec<u32> { (0..12).filter(|it| facts(tier).takes(*it)).collect() };
    assert_eq!(taken(Tier::Tgx1), [8]);
    assert_eq!(taken(Tier::Tgf1), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(taken(Tier::Wasm1), taken(Tier::Tgf1));
}
