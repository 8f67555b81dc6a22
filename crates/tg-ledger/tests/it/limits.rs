//! The ledger's bounds hold.

use tg_ledger::gas::{LANE_GAS_MAX, gas_of};
use tg_ledger::limits::{
    BLOCK_BYTES_MAX, LEASES_PER_BLOCK_MAX, MODELS_PER_ACCOUNT_MAX, OFFERS_PER_ACCOUNT_MAX,
    OPEN_JOBS_PER_ACCOUNT_MAX,
};
use tg_ledger::{JobState, TransactionError};
use tg_types::{Amount, Encode, ModelId, SignedTransaction, Transaction, TransactionKind};

use crate::world::{World, address, register, terms, wallet};

/// Signs many transactions in a row.
fn series(
    world: &World,
    name: &str,
    count: u64,
    make: impl Fn(u64) -> Transaction,
) -> Vec<SignedTransaction> {
    let nonce = world.state.nonce(&address(name));
    let signer = wallet(name);
    (0..count)
        .map(|index| signer.sign(make(index), nonce + index, world.state.domain()))
        .collect()
}

#[test]
fn offers_of_one_account() {
    let mut world = World::new();
    let count = u64::from(OFFERS_PER_ACCOUNT_MAX);
    let post = |_| Transaction::PostOffer { terms: terms(30) };
    let posts = series(&world, "cheap", count, post);
    assert_eq!(world.block(posts, vec![]).refused, []);
    assert_eq!(
        world.refusal("cheap", post(0)),
        TransactionError::TooManyOffersOfAccount {
            limit: OFFERS_PER_ACCOUNT_MAX
        }
    );
}

#[test]
fn models_of_one_account() {
    let mut world = World::bare();
    let count = u64::from(MODELS_PER_ACCOUNT_MAX);
    let named = |index: u64| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&index.to_be_bytes());
        let Transaction::RegisterModel {
            public_blob,
            weights_blob,
            name,
            ..
        } = register()
        else {
            panic!("not a registration");
        };
        Transaction::RegisterModel {
            model: ModelId::new(id),
            public_blob,
            weights_blob,
            name,
        }
    };
    let registrations = series(&world, "bob", count, named);
    assert_eq!(world.block(registrations, vec![]).refused, []);
    assert_eq!(
        world.refusal("bob", named(count)),
        TransactionError::TooManyModelsOfAccount {
            limit: MODELS_PER_ACCOUNT_MAX
        }
    );
}

#[test]
fn transactions_open_jobs_and_leases_of_one_block() {
    let mut genesis = crate::world::genesis();
    genesis.parameters.base_fee_min = Amount::new(1);
    genesis.parameters.verification_fee_zk = Amount::new(1);
    let mut world = World::with(&genesis);
    world.activate_model(crate::world::facts());
    let mut order = world.order();
    order.max_price = Amount::new(2_000_000_000_000);
    let submit = |_| Transaction::SubmitJob {
        order: order.clone(),
    };
    let each = LANE_GAS_MAX / gas_of(TransactionKind::SubmitJob);
    let mut left = u64::from(OPEN_JOBS_PER_ACCOUNT_MAX);
    while left > 0 {
        let jobs = series(&world, "alice", left, submit);
        let proposed = world.block(jobs, vec![]);
        // The paid lane of the block is full; what did not fit stays with the proposer.
        let taken = proposed.block.transactions.len() as u64;
        assert_eq!(taken, left.min(each));
        left -= taken;
        assert_eq!(proposed.left.len() as u64, left);
        assert_eq!(proposed.refused, []);
        assert!(proposed.block.to_bytes().len() <= BLOCK_BYTES_MAX);
    }
    assert_eq!(
        world.refusal("alice", submit(0)),
        TransactionError::TooManyOpenJobsOfAccount {
            limit: OPEN_JOBS_PER_ACCOUNT_MAX
        }
    );
    let mut wide = terms(0);
    wide.slots = tg_types::limits::SLOTS_MAX;
    wide.collateral_per_lease = world.state.parameters().collateral_min;
    world.post("cheap", wide);
    assert_eq!(leased(&world), LEASES_PER_BLOCK_MAX);
    // The next block goes on where this one stopped.
    world.idle();
    assert_eq!(leased(&world), 2 * LEASES_PER_BLOCK_MAX);
    let oldest: Vec<_> = world
        .state
        .live_leases()
        .map(|(job, _)| job.sequence)
        .collect();
    let expected: Vec<_> = (0..2 * LEASES_PER_BLOCK_MAX as u64).collect();
    assert_eq!(oldest, expected);
}

fn leased(world: &World) -> usize {
    let jobs = world.state.jobs().iter();
    jobs.filter(|job| job.state() == JobState::Leased).count()
}
