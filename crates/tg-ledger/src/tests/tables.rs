//! Tables against a plain sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tg_types::{Address, Amount};

use crate::record::Account;
use crate::table::Table;
use crate::tree::{BodyChanges, LeafKey, kind};

#[derive(Debug, Clone)]
enum Change {
    Put([u8; 2], u64),
    Remove([u8; 2]),
    Fork,
}

fn address(name: [u8; 2]) -> Address {
    let mut bytes = [0; 20];
    bytes[0] = name[0];
    bytes[19] = name[1];
    Address::new(bytes)
}

fn any_change() -> impl Strategy<Value = Change> {
    let name = || (0..4u8, 0..4u8).prop_map(|(first, last)| [first * 80, last]);
    prop_oneof![
        4 => (name(), any::<u64>()).prop_map(|(name, money)| Change::Put(name, money)),
        2 => name().prop_map(Change::Remove),
        1 => Just(Change::Fork),
    ]
}

fn assert_same(table: &Table<Account>, plain: &BTreeMap<Address, u64>) {
    let ours: Vec<_> = table
        .iter()
        .map(|it| (it.address, it.balance.get()))
        .collect();
    let theirs: Vec<_> = plain
        .iter()
        .map(|(key, it)| (*key, u128::from(*it)))
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(table.len(), plain.len());
    assert_eq!(table.is_empty(), plain.is_empty());
    let money = plain.values().map(|it| u128::from(*it)).sum();
    assert_eq!(table.money(), Amount::new(money));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x7ab1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_is_a_sorted_map_that_counts_money(
        changes in proptest::collection::vec(any_change(), 0..60),
    ) {
        let (mut table, mut plain) = (Table::<Account>::default(), BTreeMap::new());
        let mut forks = Vec::new();
        let mut leaves = BodyChanges::new();
        for change in changes {
            match change {
                Change::Put(name, money) => {
                    let account = Account::new(address(name), Amount::new(money.into()));
                    table.put(account);
                    plain.insert(address(name), money);
                }
                Change::Remove(name) => {
                    table.remove(&address(name));
                    plain.remove(&address(name));
                }
                Change::Fork => {
                    forks.push((table.clone(), plain.clone()));
                    table.take_changes(&mut leaves);
                }
            }
            assert_same(&table, &plain);
        }
        table.take_changes(&mut leaves);
        leaves.retain(|_, body| body.is_some());
        prop_assert_eq!(leaves.len(), plain.len());
        let key = |address: &Address| LeafKey::of(kind::ACCOUNT, address.as_ref());
        prop_assert!(plain.keys().all(|address| leaves.contains_key(&key(address))));
        for (table, plain) in forks {
            assert_same(&table, &plain);
        }
    }
}
