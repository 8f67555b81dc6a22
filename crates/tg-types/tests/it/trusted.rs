//! From where a client follows a chain: what is young, what is resumed, and the past that former seats make up.

use tg_types::chain::{
    AnswerError, BlockHeader, Checkpoint, CheckpointBlock, CheckpointError, FinalityProof,
    LeafHead, LeafKey, LeafPath, Link, NetworkTrust, Reserved, SeatChange, SeatChanges,
    StateAnswer, StateProof, TrustRoot, TrustedHead, kind,
};
use tg_types::{
    Address, Amount, BlockId, Digest, Domain, DurationMs, Height, StateRoot, TimestampMs, Writer,
    keccak256_of,
};

use crate::voter::{Voter, certificate};

/// When genesis was.
const GENESIS_MS: u64 = 1_700_000_000_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// Bonds answer for so long.
const UNBONDING: DurationMs = DurationMs::new(21 * DAY_MS);

/// Seats with the keys of these seeds.
fn voters(seeds: std::ops::Range<u8>) -> Vec<Voter> {
    seeds.map(Voter::new).collect()
}

/// A set as headers name it: account, key and stake of each.
fn set(voters: &[Voter]) -> Vec<u8> {
    let mut writer = Writer::new();
    let members: Vec<[u8; 68]> = voters
        .iter()
        .map(|voter| {
            let parts = [&[7; 20][..], &voter.public, &[1; 16]];
            parts.concat().try_into().unwrap()
        })
        .collect();
    writer.seq(&members);
    writer.into_bytes()
}

fn root(voters: &[Voter]) -> TrustRoot {
    let keys = voters.iter().map(|voter| voter.public).collect();
    TrustRoot::new(BlockId::new([9; 32]), keys).unwrap()
}

fn trust(voters: &[Voter]) -> NetworkTrust {
    NetworkTrust {
        root: root(voters),
        seats: set(voters),
        timestamp: TimestampMs::new(GENESIS_MS),
        unbonding: UNBONDING,
    }
}

/// Whose balance the tests ask for.
fn key() -> LeafKey {
    LeafKey::of(kind::ACCOUNT, &[5; 20])
}

/// A state of somebody's choice, in which the account has so much.
fn state(amount: u128) -> (StateRoot, StateProof) {
    let path = LeafPath {
        index: 0,
        link: Link {
            key: key(),
            next_key: LeafKey::new([0; 32]),
            next_index: 0,
        },
        siblings: [[0; 32]; 32],
    };
    let head = LeafHead {
        kind: kind::ACCOUNT,
        state: 0,
        owner: Address::new([5; 20]),
        amount: Amount::new(amount),
        payer: Address::new([5; 20]),
        deposit: Amount::ZERO,
    };
    let content = [4; 32];
    let root = path.root(&head.body(&content));
    let proof = StateProof::Present {
        path,
        head,
        content,
    };
    (root, proof)
}

/// A block of a height and time in days after genesis, after which `seats` vote, in whose state the account has `amount`.
fn header(height: u64, days: u64, seats: &[u8], amount: u128) -> BlockHeader {
    BlockHeader {
        version: 7,
        height: Height::new(height),
        parent: BlockId::new([1; 32]),
        timestamp: TimestampMs::new(GENESIS_MS + days * DAY_MS),
        time: TimestampMs::new(GENESIS_MS),
        epoch: 0,
        base_fee: Amount::new(1),
        proposer: Address::new([2; 20]),
        seats: Digest::new(keccak256_of(Domain::SeatSet, seats)),
        next_seats: Digest::default(),
        body: Digest::default(),
        state_root: state(amount).0,
        reserved: Reserved::default(),
    }
}

fn proof(voters: &[Voter], header: BlockHeader) -> FinalityProof {
    FinalityProof {
        certificate: certificate(&root(voters), voters, header.id()),
        headers: vec![header],
    }
}

fn change(old: &[Voter], new: &[Voter], (height, days): (u64, u64)) -> SeatChange {
    let seats = set(new);
    SeatChange {
        proof: proof(old, header(height, days, &seats, 0)),
        seats,
    }
}

/// What `voters` say that the account has at a height.
fn answer(voters: &[Voter], (height, days): (u64, u64), amount: u128) -> StateAnswer {
    let FinalityProof {
        certificate,
        headers,
    } = proof(voters, header(height, days, &set(voters), amount));
    StateAnswer {
        certificate,
        headers,
        proof: state(amount).1,
    }
}

fn told(head: &mut TrustedHead, answer: &StateAnswer) -> Result<u128, AnswerError> {
    let shown = head.check(answer, &key())?;
    Ok(shown.found.unwrap().0.amount.get())
}

const fn after_genesis(days: u64) -> TimestampMs {
    TimestampMs::new(GENESIS_MS + days * DAY_MS)
}

/// All of genesis left after a week, and have their bonds back. Three of the four then sign a chain of their own, from genesis on,
/// in which they are rich; each signature holds.
#[test]
fn two_thirds_of_unbonded_seats_that_forge_a_history_are_refused() {
    let (former, present) = (voters(1..5), voters(11..15));
    let trust = trust(&former);
    let forged = answer(&former[..3], (9_000, 60), 1_000_000);
    let certificate = certificate(&root(&former), &former[..3], forged.headers[0].id());
    let forged = StateAnswer {
        certificate,
        ..forged
    };
    // Nothing but the age of what is known tells it from the truth.
    let mut naive = trust.genesis();
    assert_eq!(told(&mut naive, &forged), Ok(1_000_000));
    let today = after_genesis(60);
    let old = trust.genesis().check_age(today, trust.period());
    let old = old.unwrap_err();
    assert_eq!(old.age, DurationMs::new(60 * DAY_MS));
    assert_eq!(old.period, DurationMs::new(20 * DAY_MS));
    assert!(
        trust
            .genesis()
            .check_age(after_genesis(20), trust.period())
            .is_ok()
    );
    // With a checkpoint of the true chain it is refused, and so is every history that leads to it.
    let true_change = change(&former, &present, (64, 7));
    let block = header(8_000, 59, &true_change.seats, 5);
    let begun = CheckpointBlock {
        header: block,
        seats: true_change.seats.clone(),
    };
    let checkpoint = begun.checkpoint();
    let mut head = trust.begin_at(&checkpoint, &begun).unwrap();
    assert_eq!(head.check_age(today, trust.period()), Ok(()));
    told(&mut head, &forged).unwrap_err();
    let forged_change = change(&former, &voters(21..25), (8_064, 59));
    head.learn(&SeatChanges(vec![forged_change])).unwrap_err();
    assert_eq!(told(&mut head, &answer(&present, (9_000, 60), 5)), Ok(5));
    // Whoever followed while bonds were held knows the present seats.
    let mut follower = trust.genesis();
    follower.learn(&SeatChanges(vec![true_change])).unwrap();
    told(&mut follower, &answer(&present, (3_000, 25), 6)).unwrap();
    told(&mut follower, &forged).unwrap_err();
    assert_eq!(
        follower.check_age(after_genesis(45), trust.period()),
        Ok(())
    );
    assert!(
        follower
            .check_age(after_genesis(46), trust.period())
            .is_err()
    );
}

#[test]
fn a_checkpoint_that_does_not_fit_the_chain_is_refused() {
    let (first, second) = (voters(1..5), voters(2..6));
    let trust = trust(&first);
    let seats = set(&second);
    let begun = CheckpointBlock {
        header: header(70, 3, &seats, 1),
        seats: seats.clone(),
    };
    let checkpoint = begun.checkpoint();
    assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint));
    let head = trust.begin_at(&checkpoint, &begun).unwrap();
    assert_eq!(head.checkpoint(), checkpoint);
    assert_eq!(head.root(), &root(&second));
    // Another block there.
    let other = CheckpointBlock {
        header: header(70, 3, &seats, 2),
        ..begun.clone()
    };
    let refused = trust.begin_at(&checkpoint, &other);
    assert!(
        matches!(refused, Err(CheckpointError::Block { .. })),
        "{refused:?}"
    );
    // The block, and a height that is not its own.
    let wrong = Checkpoint {
        height: Height::new(71),
        ..checkpoint
    };
    let refused = trust.begin_at(&wrong, &begun);
    assert!(
        matches!(refused, Err(CheckpointError::Height { .. })),
        "{refused:?}"
    );
    // Other validators than those that the block names, those of genesis among them.
    for seats in [set(&first), Vec::new(), vec![1; 40]] {
        let other = CheckpointBlock {
            seats,
            ..begun.clone()
        };
        assert_eq!(
            trust.begin_at(&checkpoint, &other),
            Err(CheckpointError::Seats)
        );
    }
    // Those of genesis are known.
    let early = CheckpointBlock {
        header: header(7, 1, &set(&first), 1),
        seats: Vec::new(),
    };
    let head = trust.begin_at(&early.checkpoint(), &early).unwrap();
    assert_eq!(head.root(), &trust.root);
    // A checkpoint of a network with the same validators and another genesis: no answer holds.
    let foreign = NetworkTrust {
        root: TrustRoot::new(BlockId::new([8; 32]), trust.root.seats().to_vec()).unwrap(),
        ..trust
    };
    let mut head = foreign.begin_at(&early.checkpoint(), &early).unwrap();
    told(&mut head, &answer(&first, (8, 1), 3)).unwrap_err();
}

#[test]
fn a_client_resumes_where_it_was() {
    let (first, second) = (voters(1..5), voters(2..6));
    let trust = trust(&first);
    let mut head = trust.genesis();
    told(&mut head, &answer(&first, (5, 0), 3)).unwrap();
    let before = head.checkpoint();
    assert_eq!(before.height, Height::new(5));
    let joined = change(&first, &second, (64, 2));
    head.learn(&SeatChanges(vec![joined.clone()])).unwrap();
    told(&mut head, &answer(&second, (70, 3), 4)).unwrap();
    // A later run reads what this one kept: it knows the newest block and the seats, and takes neither back.
    let mut later = TrustedHead::from_file(&head.to_file()).unwrap();
    assert_eq!(later, head);
    assert_eq!(later.checkpoint().height, Height::new(70));
    assert_eq!(later.timestamp(), after_genesis(3));
    assert_eq!(later.changed(), Height::new(64));
    told(&mut later, &answer(&second, (71, 3), 4)).unwrap();
    // An old answer is true of its time, and makes nothing older.
    told(&mut later, &answer(&second, (65, 2), 4)).unwrap();
    assert_eq!(later.checkpoint().height, Height::new(71));
    // Nobody is taken at his word for blocks before the change: not the set before, nor the present one.
    for voters in [&first, &second] {
        for (height, view) in [(64, 2), (63, 1)] {
            let refused = told(&mut later, &answer(voters, (height, view), 9));
            let superseded = AnswerError::Superseded {
                height,
                changed: 64,
            };
            assert_eq!(refused, Err(superseded));
        }
    }
    told(&mut later, &answer(&first, (65, 2), 9)).unwrap_err();
    // The block of the change is known by its id, whoever shows it.
    let at_change = StateAnswer {
        certificate: Vec::new(),
        headers: joined.proof.headers.clone(),
        proof: state(0).1,
    };
    assert_eq!(told(&mut later, &at_change), Ok(0));
    // Changes that are known, and two blocks of one height.
    let again = later.learn(&SeatChanges(vec![change(&second, &first, (64, 2))]));
    assert_eq!(again, Err(AnswerError::Order { height: 64 }));
    let fork = told(&mut later, &answer(&second, (71, 3), 8));
    assert!(
        matches!(fork, Err(AnswerError::Fork { height: 71, .. })),
        "{fork:?}"
    );
    assert!(later.learn(&SeatChanges(vec![joined])).is_err());
}
