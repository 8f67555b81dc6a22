//! A small network and its accounts.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_ledger::{
    ConsensusKey, Evidence, EvidenceTask, Genesis, Outcome, Parameters, SampleTask, State,
    Validator,
};
use tg_node::{
    BlobStore, CheckError, EmbeddedConfig, EvidenceChecker, NodeHandle, ProofChecker, ValidatorKey,
    Validators, spawn_validators,
};
use tg_types::{Address, Amount, SignedTransaction, TimestampMs, Transaction, Vote, Wallet};

/// For networks in which no evidence is shown.
#[derive(Debug)]
pub(crate) struct NoEvidence;

impl EvidenceChecker for NoEvidence {
    fn vote(&self, _: &SampleTask, _: &BlobStore) -> Result<Vote, CheckError> {
        Err(CheckError::NotHere)
    }

    fn claim(&self, _: &SampleTask, _: &BlobStore) -> Result<Evidence, CheckError> {
        Err(CheckError::NotHere)
    }

    fn check(&self, task: &EvidenceTask, _: &BlobStore) -> Result<Outcome, CheckError> {
        panic!("no evidence was expected, got {task:?}");
    }
}

/// Validator keys, funded wallets and the genesis they belong to.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) keys: Vec<ValidatorKey>,
    pub(crate) wallets: Vec<Wallet>,
    pub(crate) genesis: Genesis,
}

impl Network {
    pub(crate) fn new(validators: u64) -> Self {
        let keys: Vec<ValidatorKey> = (0..validators).map(ValidatorKey::from_seed).collect();
        let wallets: Vec<Wallet> = (0..4u8)
            .map(|number| Wallet::from_seed(&[number]))
            .collect();
        let mut accounts: Vec<(Address, Amount)> = wallets
            .iter()
            .map(|wallet| (wallet.address(), Amount::from_tgrid(1_000)))
            .collect();
        accounts.sort_unstable_by_key(|(address, _)| *address);
        let mut voters: Vec<Validator> = keys
            .iter()
            .map(|key| Validator {
                address: Wallet::from_seed(&key.public()).address(),
                key: ConsensusKey::new(key.public()),
                stake: Amount::from_tgrid(1),
            })
            .collect();
        voters.sort_unstable_by_key(|voter| voter.address);
        let genesis = Genesis {
            domain: tg_ledger::development_domain(),
            // Drawn parts are checked where a test says nothing else: the models of tests are small.
            parameters: Parameters {
                whole_run_macs_max: 0,
                ..Parameters::development()
            },
            timestamp: TimestampMs::new(1),
            accounts,
            validators: voters,
        };
        Self {
            keys,
            wallets,
            genesis,
        }
    }

    /// The ledger accounts of the validators, in the order of their keys.
    pub(crate) fn validator_wallets(&self) -> impl Iterator<Item = Wallet> {
        self.keys.iter().map(|key| Wallet::from_seed(&key.public()))
    }

    pub(crate) fn config(&self, directory: &Path) -> EmbeddedConfig {
        EmbeddedConfig::new(
            self.genesis.clone(),
            self.keys.clone(),
            directory.to_path_buf(),
            Arc::new(NoEvidence),
        )
    }

    /// Starts validators that verify evidence.
    pub(crate) fn start_checking(&self, directory: &Path) -> Validators {
        let mut config = self.config(directory);
        config.checker = Arc::new(ProofChecker::default());
        spawn_validators(config).unwrap()
    }

    pub(crate) fn start(&self, directory: &Path) -> Validators {
        spawn_validators(self.config(directory)).unwrap()
    }

    /// A transfer of one base unit from a wallet to the next one.
    pub(crate) fn transfer(&self, from: usize, nonce: u64) -> SignedTransaction {
        let to = self.wallets[(from + 1) % self.wallets.len()].address();
        let transaction = Transaction::Transfer {
            to,
            amount: Amount::new(1),
        };
        self.wallets[from].sign(transaction, nonce, &self.genesis.domain)
    }

    pub(crate) fn nonce(&self, state: &State, wallet: usize) -> u64 {
        state.nonce(&self.wallets[wallet].address())
    }
}

/// Waits until `holds` on the final state of a validator, or fails after half a minute.
pub(crate) async fn wait_for(handle: &NodeHandle, what: &str, holds: impl Fn(&State) -> bool) {
    let start = Instant::now();
    while !holds(&handle.snapshot().state) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what} did not happen: {:?}",
            handle.status()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that two validators have the same blocks up to the lower of their heights, and conserve money.
pub(crate) fn assert_agree<'a>(handles: impl IntoIterator<Item = &'a NodeHandle>) -> u64 {
    let handles: Vec<&NodeHandle> = handles.into_iter().collect();
    for handle in &handles {
        let money = handle.snapshot().state.money();
        assert!(money.is_conserved(), "{money:?}");
    }
    let common = handles
        .iter()
        .map(|handle| handle.status().height)
        .min()
        .unwrap();
    for height in 1..=common {
        let first = handles[0].block(height).unwrap().unwrap();
        for other in &handles[1..] {
            let block = other.block(height).unwrap().unwrap();
            assert_eq!(block, first, "blocks of height {height} differ");
        }
    }
    common
}
