//! Sealed inputs as the run knows them: by which key each was sealed, and what a right answer to it is.

use tg_privacy::{JobKey, SealedFor};
use tg_types::{Digest, LeaseId, ModelId, Wallet};

/// A sealed input.
#[derive(Debug, Clone)]
pub(crate) struct SealedOrder {
    /// What opens it.
    pub(crate) key: JobKey,
    /// Whether its requestor grants the key, shows it where a provider is wrong, and looks at the answer.
    pub(crate) is_watched: bool,
}

impl SealedOrder {
    /// Seals an input for a model, and gives what validators have of it.
    pub(crate) fn seal(
        wallet: &Wallet,
        model: ModelId,
        (plain, is_watched): (&[u8], bool),
    ) -> (Self, Vec<u8>) {
        let salt = *Digest::of_blob(plain).as_bytes();
        let key = JobKey::of(wallet, &salt);
        let purpose = SealedFor {
            model,
            requestor: wallet.address(),
        };
        let sealed = key.seal_input(&salt, &purpose, plain);
        let sealed = sealed.expect("an input is not too long for the cipher");
        (Self { key, is_watched }, sealed)
    }

    /// The name of what a provider hands in that answers this for a lease.
    pub(crate) fn answer(&self, lease: &LeaseId, answer: &[u8]) -> Digest {
        let sealed = self.key.seal_answer(lease, answer);
        Digest::of_blob(&sealed.expect("an answer is not too long for the cipher"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_opened_by_its_key_for_its_model_and_requestor_only() {
        let (wallet, model) = (Wallet::from_seed(b"requestor"), ModelId::new([3; 32]));
        let (order, sealed) = SealedOrder::seal(&wallet, model, (&[7; 20][..], true));
        let overhead = tg_types::sealing::SEALED_INPUT_OVERHEAD as usize;
        assert_eq!(sealed.len(), 20 + overhead);
        let purpose = |model| SealedFor {
            model,
            requestor: wallet.address(),
        };
        let opened = order.key.open_input(&purpose(model), &sealed);
        assert_eq!(opened.expect("it is its key"), [7; 20]);
        let other = purpose(ModelId::new([4; 32]));
        assert!(order.key.open_input(&other, &sealed).is_err());
        let [first, second] = [[1; 32], [2; 32]].map(LeaseId::new);
        assert_eq!(order.answer(&first, &[9]), order.answer(&first, &[9]));
        assert_ne!(order.answer(&first, &[9]), order.answer(&second, &[9]));
        assert_ne!(order.answer(&first, &[9]), order.answer(&first, &[8]));
    }
}
