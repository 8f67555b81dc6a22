//! Who has money on a development network. Every key follows from a public name: everybody can sign for everyone, so
//! nothing here may ever hold real money.

use tg_types::{Amount, Wallet};

/// Orders jobs when no key is given.
pub const REQUESTOR: &str = "requestor";

/// Gives play money to whoever asks.
pub const FAUCET: &str = "faucet";

/// Registers the models that are built in.
pub const REGISTRAR: &str = "registrar";

/// Most that the faucet gives at once.
pub const FAUCET_MAX: Amount = Amount::from_tgrid(1_000);

/// The account of a name.
pub fn wallet(name: &str) -> Wallet {
    Wallet::from_seed(format!("TensorGrid development account {name}").as_bytes())
}

/// The name of an embedded provider's account.
pub fn provider(index: usize) -> String {
    format!("provider-{}", index + 1)
}

/// The name of an embedded validator's account.
pub fn validator(index: usize) -> String {
    format!("validator-{}", index + 1)
}

/// Names and balances at the start of a network with so many embedded providers.
pub fn funded(providers: usize) -> Vec<(String, Amount)> {
    let mut accounts = vec![
        (REQUESTOR.to_owned(), Amount::from_tgrid(10_000)),
        (FAUCET.to_owned(), Amount::from_tgrid(1_000_000)),
        (REGISTRAR.to_owned(), Amount::from_tgrid(1_000)),
    ];
    let providers = (0..providers).map(|index| (provider(index), Amount::from_tgrid(1_000)));
    accounts.extend(providers);
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_account_has_its_own_key() {
        let accounts = funded(6);
        let addresses: BTreeSet<_> = accounts
            .iter()
            .map(|(name, _)| wallet(name).address())
            .collect();
        assert_eq!(addresses.len(), accounts.len());
    }
}
