use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_node::evidence::{CheckError, EvidenceChecker};
use tg_node::interim::{EvidenceTask, Genesis, Outcome};
use tg_node::key::ValidatorKey;
use tg_node::validator::{EmbeddedConfig, spawn_validators};
use tg_node::blob::BlobStore;
use tg_types::*;

struct NoChecks;
impl EvidenceChecker for NoChecks {
    fn check(&self, _: &EvidenceTask, _: &BlobStore) -> Result<Outcome, CheckError> {
        unreachable!()
    }
}

#[tokio::test]
async fn transfers_become_final() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<_> = (0..4).map(ValidatorKey::from_seed).collect();
    let a = Wallet::from_seed(b"a");
    let b = Wallet::from_seed(b"b");
    let domain = ChainDomain { chain_id: 1, verifying_contract: Address::default(), salt: [0; 32] };
    let genesis = Genesis {
        domain: domain.clone(),
        timestamp: TimestampMs::new(1),
        validators: keys.iter().map(ValidatorKey::public).collect(),
        accounts: vec![(a.address(), Amount::from_tgrid(100))],
    };
    let t = Instant::now();
    let v = spawn_validators(EmbeddedConfig::new(genesis, keys, folder.path().to_path_buf(), Arc::new(NoChecks))).unwrap();
    eprintln!("opened {:?}", t.elapsed());
    let mut sub = v.handle(0).subscribe();
    for n in 0..200 {
        v.handle((n % 4) as usize).submit(a.sign(Transaction::Transfer { to: b.address(), amount: Amount::new(1) }, n, &domain)).await.unwrap();
    }
    let mut txs = 0;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        let f = sub.recv().await.unwrap();
        txs += f.block.transactions.len();
        eprintln!("{:?} height {} txs {} {:?}", t.elapsed(), f.block.header.height, f.block.transactions.len(), v.handle(0).status());
        if txs == 200 && f.block.header.height.get() > 20 { break; }
    }
    assert_eq!(txs, 200);
    let t = Instant::now();
    v.shutdown();
    eprintln!("shutdown {:?}", t.elapsed());
}
