//! Disputes about runs of float models, over real validators: each ends at one node.

use tg_float::job::FloatAnswer;
use tg_float::job::trace::{ExpectedFloatClaim, FloatFault};
use tg_ledger::State;
use tg_types::{Decode as _, Encode as _, JobOrder, LeaseId, Receipt};

use crate::counted_dispute::{DisputedRun, one_part_decides};
use crate::floats::{Float, register};

impl DisputedRun for Float {
    fn input(&self) -> &[u8] {
        &self.input
    }

    fn order(&self, state: &State) -> JobOrder {
        Self::order(self, state)
    }

    fn honest(&self) -> (Receipt, Vec<u8>, u64) {
        let (receipt, answer) = Self::honest(self);
        let work = FloatAnswer::from_bytes(&answer).unwrap().work;
        (receipt, answer, work)
    }

    fn lie(&self) -> Vec<u8> {
        Self::lie(self, |answer| *answer.output.last_mut().unwrap() ^= 1).1
    }

    fn claim(&self) -> Vec<u8> {
        self.model.claim(&self.input).to_bytes()
    }

    fn false_claim(&self) -> Vec<u8> {
        let mut claim = self.model.claim(&self.input);
        claim.answer.work -= 1;
        if let Some(last) = claim.record.0.last_mut() {
            last.work -= 1;
        }
        claim.to_bytes()
    }

    fn fault(
        &self,
        claim: &[u8],
        (lease, receipt, delivered): (&LeaseId, &Receipt, &[u8]),
    ) -> Vec<u8> {
        let expected = ExpectedFloatClaim {
            lease,
            input: &self.input,
            receipt,
            delivered,
        };
        let fault = self.model.fault_of(claim, expected).unwrap();
        assert!(matches!(fault, FloatFault::Node { .. }), "{fault:?}");
        fault.to_bytes()
    }

    fn evasion(&self) -> Vec<u8> {
        FloatFault::LargeNode { node: 1 }.to_bytes()
    }
}

/// Of the second the run ends at a node that has not enough work.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_decides_between_a_watcher_and_a_liar_and_between_a_provider_and_a_false_claim() {
    let runs = [Float::small(), Float::large()];
    let model = Float::small();
    one_part_decides(runs, async |network, handle| {
        register(network, handle, &model).await;
    })
    .await;
}
