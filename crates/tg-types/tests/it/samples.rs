//! One transaction of each kind, the same as in `tests/data/eip712.py`, and strategies for random ones.

use proptest::prelude::*;
use tg_types::chain::{Equivocation, SignedVote, VoteKind};
use tg_types::sealing::{KEY_GRANT_BYTES, SEALING_KEY_BYTES};
use tg_types::{
    Address, Amount, Authorization, BidId, BlockId, CapacityTier, ChainDomain, DealingLog,
    DeclineReason, Digest, DurationMs, Fees, GpuLink, GpuModel, GpuModelSet, JobClass, JobId,
    JobNeeds, JobOrder, KeyGrant, Label, LeaseId, Machine, ModeSet, ModelId, OfferId, OfferTerms,
    OpenedVote, Pricing, ProgramId, QuestionId, Receipt, RegionSet, SealedVote, SealingPublicKey,
    SessionScope, SharingMode, SharingSet, Signature, SignedTransaction, SignedVoucher,
    StorageSubject, Tier, TierSet, TileName, TimestampMs, Transaction, VerificationMode, Vote,
    Voucher, Wallet,
};

pub(crate) const NONCE: u64 = 7;

pub(crate) const FEES: Fees = Fees {
    max_fee_per_gas: Amount::new(4_000_000_007),
    max_tip_per_gas: Amount::new(3_000_001),
};

/// A transaction of the sample wallet with the sample nonce and fees.
pub(crate) fn signed(transaction: Transaction) -> SignedTransaction {
    wallet().sign_with_fees(transaction, NONCE, FEES, &domain())
}

/// The signature of a transaction that an account's own key signed.
pub(crate) fn own(signed: &mut SignedTransaction) -> &mut Signature {
    match &mut signed.authorization {
        Authorization::Account(signature) => signature,
        Authorization::Session(_) => panic!("a wallet signs for its account"),
    }
}

pub(crate) fn domain() -> ChainDomain {
    ChainDomain {
        chain_id: 31_337,
        verifying_contract: Address::new([0xc0; 20]),
        salt: [0x5a; 32],
    }
}

pub(crate) fn wallet() -> Wallet {
    Wallet::from_secret(&[0x42; 32]).unwrap()
}

pub(crate) fn machine() -> Machine {
    Machine {
        gpu_count: 4,
        gpu: GpuModel::A100M80,
        gpu_memory_mib: 81_920,
        capability: 80,
        tensor_cores: true,
        link: GpuLink::Nvswitch,
        sharing: SharingSet::ANY,
        cpu_milli: 96_000,
        memory_mib: 786_432,
        disk_gib: 4_000,
        region: 3,
        coordinate_us: [1_500, -2_500],
        tiers: TierSet::of(&[CapacityTier::OnDemand, CapacityTier::Reserved]),
    }
}

pub(crate) fn needs() -> JobNeeds {
    JobNeeds {
        class: JobClass::Training,
        gpus: 1,
        gpu_milli: 500,
        gpu_memory_mib: 20_000,
        models: GpuModelSet::of(&[
            GpuModel::A100M40,
            GpuModel::A100M80,
            GpuModel::H100,
            GpuModel::H200,
        ]),
        capability_min: 80,
        tensor_cores: true,
        link_min: GpuLink::Nvlink,
        isolation: SharingMode::Mps,
        cpu_milli: 4_000,
        memory_mib: 16_384,
        disk_gib: 100,
        regions: RegionSet::from_bits(0b1001),
        reference: DurationMs::new(90_000),
        gang: 2,
        neighbourhood_us: 2_000,
        guaranteed: false,
        priority: 2,
        preemptible: true,
        tier: CapacityTier::Spot,
        value_at_risk: Amount::from_tgrid(3),
    }
}

pub(crate) fn terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::new("2 CPU cores").unwrap(),
        price_base: Amount::new(10_000_000_000_000_000),
        price_per_mmac: Amount::new(3_000_000_000_000_000),
        latency_base_ms: DurationMs::new(250),
        speed_mmac_per_s: 4_000,
        memory_bytes: 1 << 30,
        slots: 2,
        collateral_per_lease: Amount::new(100_000_000_000_000_000),
        modes: ModeSet::of(&[VerificationMode::None, VerificationMode::Proof]),
        machine: machine(),
        price_per_gpu_second: Amount::new(400_000_000_000_000),
        pricing: Pricing::Dynamic,
    }
}

pub(crate) fn order() -> JobOrder {
    JobOrder {
        model: ModelId::new([0x11; 32]),
        input: Digest::new([0x31; 32]),
        input_len: 784,
        mode: VerificationMode::Proof,
        max_price: Amount::new(50_000_000_000_000_000),
        deadline: TimestampMs::new(1_800_000_000_000),
        max_attempts: 3,
        retention: DurationMs::from_secs(86_400),
        needs: needs(),
    }
}

pub(crate) fn receipt() -> Receipt {
    Receipt {
        program: ProgramId::new([0x10; 32]),
        model: ModelId::new([0x11; 32]),
        input: Digest::new([0x31; 32]),
        output: Digest::new([0x34; 32]),
        trace: Digest::new([0x35; 32]),
        tier: Tier::Tgx1,
    }
}

#[expect(clippy::too_many_lines, reason = "one sample for each kind")]
pub(crate) fn transactions() -> Vec<Transaction> {
    let lease = LeaseId::new([0x33; 32]);
    vec![
        Transaction::Transfer {
            to: Address::new([0xa1; 20]),
            amount: Amount::new(1_500_000_000_000_000_000),
        },
        Transaction::RegisterModel {
            model: ModelId::new([0x11; 32]),
            public_blob: Digest::new([0x12; 32]),
            weights_blob: Digest::new([0x13; 32]),
            name: Label::new("lenet-28").unwrap(),
        },
        Transaction::PostOffer { terms: terms() },
        Transaction::WithdrawOffer {
            offer: OfferId::new([0x21; 32]),
        },
        Transaction::SubmitJob { order: order() },
        Transaction::CancelJob {
            job: JobId::new([0x32; 32]),
        },
        Transaction::StartLease { lease },
        Transaction::CommitReceipt {
            lease,
            receipt: receipt(),
        },
        Transaction::SubmitEvidence {
            lease,
            evidence: Digest::new([0x36; 32]),
            size: 123_456,
        },
        Transaction::UpdateOffer {
            offer: OfferId::new([0x21; 32]),
            terms: terms(),
        },
        Transaction::CommitBid {
            commitment: Digest::new([0x41; 32]),
            deposit: Amount::new(10_000_000_000_000_000),
        },
        Transaction::RevealBid {
            bid: BidId::new([0x42; 32]),
            salt: Digest::new([0x43; 32]),
            order: order(),
        },
        Transaction::RateJob {
            job: JobId::new([0x32; 32]),
            stars: 4,
        },
        Transaction::ReportLiveness {
            epoch: 9,
            lost: vec![Address::new([0xa2; 20]), Address::new([0xa3; 20])],
            back: vec![Address::new([0xa4; 20])],
        },
        Transaction::ReportStorage {
            held: vec![
                JobId::new([0x32; 32]).into(),
                ModelId::new([0x11; 32]).into(),
                lease.into(),
            ],
            missing: vec![
                JobId::new([0x38; 32]).into(),
                StorageSubject::Answer(JobId::new([0x38; 32])),
                QuestionId::new([0x39; 32]).into(),
            ],
        },
        Transaction::DeclineLease {
            lease,
            reason: DeclineReason::InputMissing,
        },
        Transaction::CommitPart {
            lease,
            receipt: receipt(),
        },
        Transaction::RaiseJob {
            job: JobId::new([0x32; 32]),
            max_price: Amount::new(30_000_000_000_000_000),
            max_attempts: 5,
        },
        Transaction::PayRent {
            record: Digest::new([0x51; 32]),
            amount: Amount::new(2_500_000_000_000_000),
        },
        Transaction::RegisterSessionKey {
            key: [0x77; 32],
            scope: SessionScope::Order,
            cap: Amount::new(5_000_000_000_000_000_007),
            expires: TimestampMs::new(1_900_000_000_000),
        },
        Transaction::RevokeSessionKey { key: [0x77; 32] },
        Transaction::JoinValidators {
            key: [0x66; 32],
            endpoint: Label::new("seat-5.example.org:7100").unwrap(),
            possession: [0x67; 64],
        },
        Transaction::LeaveValidators { key: [0x66; 32] },
        Transaction::ReportEquivocation {
            proof: equivocation(),
        },
        Transaction::PostDealing {
            round: 3,
            log: DealingLog::new(vec![0x71; 40]).unwrap(),
        },
        Transaction::CommitVotes {
            votes: [(0x33, 0x72), (0x34, 0x73)]
                .map(|(lease, commitment)| SealedVote {
                    lease: LeaseId::new([lease; 32]),
                    commitment: Digest::new([commitment; 32]),
                })
                .to_vec(),
        },
        Transaction::RevealVotes {
            votes: opened_votes(),
        },
        Transaction::ChallengeResult { lease },
        Transaction::ReadyForProtocol { version: 4 },
        Transaction::SettleEndpoint {
            lease,
            voucher: Some(voucher()),
            ends: true,
        },
        Transaction::SealResult {
            lease,
            seal: Digest::new([0x74; 32]),
        },
        Transaction::OpenResult {
            lease,
            receipt: receipt(),
            salt: Digest::new([0x75; 32]),
        },
        Transaction::ArgueResult {
            lease,
            file: Digest::new([0x76; 32]),
            size: 70_000,
        },
        Transaction::AskStored {
            job: JobId::new([0x32; 32]),
            seat: Address::new([0xA2; 20]),
        },
        Transaction::RegisterSealingKey {
            key: sealing_key(0x41),
        },
        Transaction::GrantKey {
            lease,
            grant: KeyGrant::new([0x42; KEY_GRANT_BYTES]),
        },
        Transaction::RevealKey {
            lease,
            key: [0x43; 32],
        },
    ]
}

/// A sealing key of equal bytes; the low half of a byte is below 13.
pub(crate) fn sealing_key(byte: u8) -> SealingPublicKey {
    SealingPublicKey::new(&[byte; SEALING_KEY_BYTES]).unwrap()
}

/// A voucher of a lease, signed with a key that is written out in `eip712.py` too.
pub(crate) fn voucher() -> SignedVoucher {
    Voucher {
        lease: LeaseId::new([0x33; 32]),
        answered: 7,
        amount: Amount::new(1_500_000_000_000_000_000),
        asks: Digest::new([0x81; 32]),
    }
    .sign(&wallet(), &domain())
}

/// A vote of each kind.
pub(crate) fn opened_votes() -> Vec<OpenedVote> {
    let tile = TileName { node: 4, leaf: 9 };
    let votes = [
        Vote::Right { checksum: 77 },
        Vote::WrongForm,
        Vote::WrongTile(tile),
        Vote::WrongRun,
    ];
    let opened = (0..).zip(votes).map(|(at, vote)| OpenedVote {
        lease: LeaseId::new([0x33 + at; 32]),
        vote,
        salt: Digest::new([0x74 + at; 32]),
    });
    opened.collect()
}

/// Votes that nobody signed.
pub(crate) fn equivocation() -> Equivocation {
    let vote = |kind, block: u8, signature: u8| SignedVote {
        kind,
        epoch: 1,
        view: 300,
        parent_view: 299,
        block: BlockId::new([block; 32]),
        signature: [signature; 64],
    };
    Equivocation {
        seat: [0x61; 32],
        first: vote(VoteKind::Notarize, 0x62, 0x63),
        second: vote(VoteKind::Notarize, 0x64, 0x65),
    }
}

pub(crate) fn any_label() -> impl Strategy<Value = Label> {
    "\\PC{0,16}".prop_map(|text| Label::lossy(&text))
}

fn any_machine() -> impl Strategy<Value = Machine> {
    (
        (
            any::<u8>(),
            0..12u8,
            any::<u32>(),
            any::<u16>(),
            any::<bool>(),
        ),
        (0..3u8, 0..8u8, any::<u32>(), any::<u32>(), any::<u32>()),
        (any::<u8>(), any::<i32>(), any::<i32>(), 0..8u8),
    )
        .prop_map(|(gpu, host, place)| Machine {
            gpu_count: gpu.0,
            gpu: GpuModel::from_tag(gpu.1).unwrap(),
            gpu_memory_mib: gpu.2,
            capability: gpu.3,
            tensor_cores: gpu.4,
            link: GpuLink::from_tag(host.0).unwrap(),
            sharing: SharingSet::from_bits(host.1),
            cpu_milli: host.2,
            memory_mib: host.3,
            disk_gib: host.4,
            region: place.0,
            coordinate_us: [place.1, place.2],
            tiers: TierSet::from_bits(place.3),
        })
}

fn any_needs() -> impl Strategy<Value = JobNeeds> {
    (
        (
            0..3u8,
            any::<u8>(),
            any::<u16>(),
            any::<u32>(),
            any::<u16>(),
        ),
        (any::<u16>(), any::<bool>(), 0..3u8, 0..4u8, any::<u32>()),
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()),
        (any::<u16>(), any::<u32>(), any::<bool>(), any::<u8>()),
        (any::<bool>(), 0..3u8, any::<u128>()),
    )
        .prop_map(|(gpu, kind, host, how, tier)| JobNeeds {
            class: JobClass::from_tag(gpu.0).unwrap(),
            gpus: gpu.1,
            gpu_milli: gpu.2,
            gpu_memory_mib: gpu.3,
            models: GpuModelSet::from_bits(gpu.4),
            capability_min: kind.0,
            tensor_cores: kind.1,
            link_min: GpuLink::from_tag(kind.2).unwrap(),
            isolation: SharingMode::from_tag(kind.3).unwrap(),
            cpu_milli: kind.4,
            memory_mib: host.0,
            disk_gib: host.1,
            regions: RegionSet::from_bits(host.2),
            reference: DurationMs::new(host.3),
            gang: how.0,
            neighbourhood_us: how.1,
            guaranteed: how.2,
            priority: how.3,
            preemptible: tier.0,
            tier: CapacityTier::from_tag(tier.1).unwrap(),
            value_at_risk: Amount::new(tier.2),
        })
}

fn any_terms() -> impl Strategy<Value = OfferTerms> {
    (
        (any_label(), any::<u128>(), any::<u128>(), any::<u64>()),
        (
            any::<u64>(),
            any::<u64>(),
            any::<u16>(),
            any::<u128>(),
            0..4u8,
        ),
        (any_machine(), any::<u128>(), any::<bool>()),
    )
        .prop_map(
            |((hardware, base, per_mmac, latency), rest, gpu)| OfferTerms {
                hardware,
                price_base: Amount::new(base),
                price_per_mmac: Amount::new(per_mmac),
                latency_base_ms: DurationMs::new(latency),
                speed_mmac_per_s: rest.0,
                memory_bytes: rest.1,
                slots: rest.2,
                collateral_per_lease: Amount::new(rest.3),
                modes: ModeSet::of(
                    &VerificationMode::ALL
                        .into_iter()
                        .filter(|mode| rest.4 & 1 << mode.tag() != 0)
                        .collect::<Vec<_>>(),
                ),
                machine: gpu.0,
                price_per_gpu_second: Amount::new(gpu.1),
                pricing: match gpu.2 {
                    true => Pricing::Dynamic,
                    false => Pricing::Fixed,
                },
            },
        )
}

fn any_order() -> impl Strategy<Value = JobOrder> {
    (
        any::<[u8; 32]>(),
        any::<[u8; 32]>(),
        any::<u32>(),
        any::<bool>(),
        any::<u128>(),
        any::<u64>(),
        (any::<u8>(), any::<u64>()),
        any_needs(),
    )
        .prop_map(|it| JobOrder {
            model: ModelId::new(it.0),
            input: Digest::new(it.1),
            input_len: it.2,
            mode: match it.3 {
                true => VerificationMode::Proof,
                false => VerificationMode::None,
            },
            max_price: Amount::new(it.4),
            deadline: TimestampMs::new(it.5),
            max_attempts: it.6.0,
            retention: DurationMs::new(it.6.1),
            needs: it.7,
        })
}

fn any_addresses() -> impl Strategy<Value = Vec<Address>> {
    proptest::collection::vec(any::<[u8; 20]>().prop_map(Address::new), 0..4)
}

fn any_subjects() -> impl Strategy<Value = Vec<StorageSubject>> {
    let subject = (0..5u8, any::<[u8; 32]>()).prop_map(|(kind, id)| match kind {
        0 => StorageSubject::Job(JobId::new(id)),
        1 => StorageSubject::Model(ModelId::new(id)),
        2 => StorageSubject::Lease(LeaseId::new(id)),
        3 => StorageSubject::Answer(JobId::new(id)),
        _ => StorageSubject::Question(QuestionId::new(id)),
    });
    proptest::collection::vec(subject, 0..4)
}

#[expect(clippy::too_many_lines, reason = "one strategy for each kind")]
pub(crate) fn any_transaction() -> impl Strategy<Value = Transaction> {
    let id = || any::<[u8; 32]>();
    prop_oneof![
        (any::<[u8; 20]>(), any::<u128>()).prop_map(|(to, amount)| Transaction::Transfer {
            to: Address::new(to),
            amount: Amount::new(amount),
        }),
        (id(), id(), id(), any_label()).prop_map(|(model, public, weights, name)| {
            Transaction::RegisterModel {
                model: ModelId::new(model),
                public_blob: Digest::new(public),
                weights_blob: Digest::new(weights),
                name,
            }
        }),
        any_terms().prop_map(|terms| Transaction::PostOffer { terms }),
        (id(), any_terms()).prop_map(|(offer, terms)| Transaction::UpdateOffer {
            offer: OfferId::new(offer),
            terms
        }),
        (id(), any::<u128>()).prop_map(|(commitment, deposit)| Transaction::CommitBid {
            commitment: Digest::new(commitment),
            deposit: Amount::new(deposit),
        }),
        (id(), id(), any_order()).prop_map(|(bid, salt, order)| Transaction::RevealBid {
            bid: BidId::new(bid),
            salt: Digest::new(salt),
            order,
        }),
        (id(), any::<u8>()).prop_map(|(job, stars)| Transaction::RateJob {
            job: JobId::new(job),
            stars,
        }),
        (id(), any::<u128>()).prop_map(|(record, amount)| Transaction::PayRent {
            record: Digest::new(record),
            amount: Amount::new(amount),
        }),
        (id(), any::<u64>()).prop_map(|(seat, view)| {
            let mut proof = equivocation();
            (proof.seat, proof.second.view) = (seat, view);
            Transaction::ReportEquivocation { proof }
        }),
        (id(), 0..3usize, any::<u8>()).prop_map(|(key, host, byte)| {
            Transaction::JoinValidators {
                key,
                endpoint: Label::new(["a:1", "10.0.0.7:7100", ""][host]).unwrap(),
                possession: [byte; 64],
            }
        }),
        id().prop_map(|key| Transaction::LeaveValidators { key }),
        (any::<u64>(), any_addresses(), any_addresses())
            .prop_map(|(epoch, lost, back)| { Transaction::ReportLiveness { epoch, lost, back } }),
        (any_subjects(), any_subjects())
            .prop_map(|(held, missing)| Transaction::ReportStorage { held, missing }),
        (id(), 0..4usize).prop_map(|(lease, reason)| Transaction::DeclineLease {
            lease: LeaseId::new(lease),
            reason: DeclineReason::ALL[reason],
        }),
        (id(), id()).prop_map(|(lease, output)| Transaction::CommitPart {
            lease: LeaseId::new(lease),
            receipt: Receipt {
                output: Digest::new(output),
                ..receipt()
            },
        }),
        (id(), any::<u128>(), any::<u8>()).prop_map(|(job, price, max_attempts)| {
            Transaction::RaiseJob {
                job: JobId::new(job),
                max_price: Amount::new(price),
                max_attempts,
            }
        }),
        (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..64)).prop_map(|(round, log)| {
            Transaction::PostDealing {
                round,
                log: DealingLog::new(log).unwrap(),
            }
        }),
        proptest::collection::vec((id(), id()), 0..4).prop_map(|votes| Transaction::CommitVotes {
            votes: votes
                .into_iter()
                .map(|(lease, commitment)| SealedVote {
                    lease: LeaseId::new(lease),
                    commitment: Digest::new(commitment),
                })
                .collect(),
        }),
        proptest::collection::vec((id(), 0..u64::MAX, id()), 0..4).prop_map(|votes| {
            Transaction::RevealVotes {
                votes: votes
                    .into_iter()
                    .map(|(lease, number, salt)| OpenedVote {
                        lease: LeaseId::new(lease),
                        vote: Vote::from_number(number, 0)
                            .unwrap_or(Vote::Right { checksum: number }),
                        salt: Digest::new(salt),
                    })
                    .collect(),
            }
        }),
        any_order().prop_map(|order| Transaction::SubmitJob { order }),
        id().prop_map(|id| Transaction::WithdrawOffer {
            offer: OfferId::new(id)
        }),
        id().prop_map(|id| Transaction::CancelJob {
            job: JobId::new(id)
        }),
        id().prop_map(|id| Transaction::StartLease {
            lease: LeaseId::new(id)
        }),
        any::<u16>().prop_map(|version| Transaction::ReadyForProtocol { version }),
        id().prop_map(|id| Transaction::ChallengeResult {
            lease: LeaseId::new(id)
        }),
        (id(), any::<[u8; 20]>()).prop_map(|(job, seat)| Transaction::AskStored {
            job: JobId::new(job),
            seat: Address::new(seat),
        }),
        (0..13u8).prop_map(|byte| Transaction::RegisterSealingKey {
            key: sealing_key(byte),
        }),
        (id(), any::<u8>()).prop_map(|(lease, byte)| Transaction::GrantKey {
            lease: LeaseId::new(lease),
            grant: KeyGrant::new([byte; KEY_GRANT_BYTES]),
        }),
        (id(), id()).prop_map(|(lease, key)| Transaction::RevealKey {
            lease: LeaseId::new(lease),
            key,
        }),
        (id(), id(), any::<u32>()).prop_map(|(lease, file, size)| Transaction::ArgueResult {
            lease: LeaseId::new(lease),
            file: Digest::new(file),
            size,
        }),
        (id(), any::<bool>(), any::<u128>(), any::<u64>()).prop_map(
            |(key, orders, cap, expires)| Transaction::RegisterSessionKey {
                key,
                scope: match orders {
                    true => SessionScope::Order,
                    false => SessionScope::Serve,
                },
                cap: Amount::new(cap),
                expires: TimestampMs::new(expires),
            }
        ),
        id().prop_map(|key| Transaction::RevokeSessionKey { key }),
        (id(), id()).prop_map(|(lease, seal)| Transaction::SealResult {
            lease: LeaseId::new(lease),
            seal: Digest::new(seal),
        }),
        (id(), id(), id()).prop_map(|(lease, output, salt)| Transaction::OpenResult {
            lease: LeaseId::new(lease),
            receipt: Receipt {
                output: Digest::new(output),
                ..receipt()
            },
            salt: Digest::new(salt),
        }),
        (id(), any::<bool>(), any::<bool>()).prop_map(|(id, has_voucher, ends)| {
            Transaction::SettleEndpoint {
                lease: LeaseId::new(id),
                voucher: has_voucher.then(voucher),
                ends,
            }
        }),
        (id(), id(), id(), id()).prop_map(|(lease, input, output, trace)| {
            Transaction::CommitReceipt {
                lease: LeaseId::new(lease),
                receipt: Receipt {
                    input: Digest::new(input),
                    output: Digest::new(output),
                    trace: Digest::new(trace),
                    ..receipt()
                },
            }
        }),
        (id(), id(), any::<u32>()).prop_map(|(lease, evidence, size)| {
            Transaction::SubmitEvidence {
                lease: LeaseId::new(lease),
                evidence: Digest::new(evidence),
                size,
            }
        }),
    ]
}
