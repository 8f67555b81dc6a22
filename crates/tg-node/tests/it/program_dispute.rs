//! Disputes about runs of programs, over real validators: each ends at one call.

use tg_ledger::State;
use tg_types::{Encode as _, JobOrder, LeaseId, Receipt, Tier};
use tg_wasm::ProgramAnswer;
use tg_wasm::limits::{FUEL_MAX, LONG_PAGES_MAX, REPEATED_FUEL_MAX};
use tg_wasm::trace::{ExpectedProgramClaim, ProgramFault};
use tg_wasm::{ProgramFile, RunLimits};

use crate::counted_dispute::{DisputedRun, one_part_decides};
use crate::programs::{Program, order_of, register};

impl DisputedRun for Program {
    fn input(&self) -> &[u8] {
        &self.input
    }

    fn order(&self, state: &State) -> JobOrder {
        order_of(self, state)
    }

    fn honest(&self) -> (Receipt, Vec<u8>, u64) {
        let (receipt, answer) = Self::honest(self);
        let fuel = ProgramAnswer::decode(&answer).unwrap().fuel;
        (receipt, answer, fuel)
    }

    fn lie(&self) -> Vec<u8> {
        Self::lie(self, |answer| answer.output[0] ^= 1).1
    }

    fn claim(&self) -> Vec<u8> {
        self.program.claim(&self.input).unwrap().to_bytes()
    }

    fn false_claim(&self) -> Vec<u8> {
        let mut claim = self.program.claim(&self.input).unwrap();
        claim.answer.fuel -= 1;
        claim.to_bytes()
    }

    fn fault(&self, claim: &[u8], (lease, receipt, _): (&LeaseId, &Receipt, &[u8])) -> Vec<u8> {
        let expected = ExpectedProgramClaim {
            lease,
            input: &self.input,
            receipt,
        };
        let fault = self.program.fault_of(claim, expected).unwrap().unwrap();
        assert!(matches!(fault, ProgramFault::Call { .. }), "{fault:?}");
        fault.to_bytes()
    }

    fn evasion(&self) -> Vec<u8> {
        ProgramFault::LargeCall { call: 1 }.to_bytes()
    }
}

/// The second run ends in a call for which there is not enough fuel.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_decides_between_a_watcher_and_a_liar_and_between_a_provider_and_a_false_claim() {
    let runs = [Program::chunked(), Program::endless()];
    let program = Program::pi();
    one_part_decides(runs, async |network, handle| {
        let facts = register(network, handle, &program).await;
        assert!(facts.is_disputed_by_tile(0));
    })
    .await;
}

/// What a file may say is what the ledger has a dispute for: the bounds of both stand in two crates.
#[test]
fn every_program_that_there_is_may_be_watched() {
    let module = Program::module();
    for (fuel, is_repeated) in [
        (REPEATED_FUEL_MAX, true),
        (REPEATED_FUEL_MAX + 1, false),
        (FUEL_MAX, false),
    ] {
        let limits = RunLimits {
            fuel,
            pages: RunLimits::pages_max(fuel),
            ..RunLimits::default()
        };
        assert_eq!(limits.pages == LONG_PAGES_MAX, !is_repeated);
        let facts = Program::facts(&ProgramFile::new(module.clone(), limits).encode());
        assert_eq!((facts.tier, facts.macs), (Tier::Wasm1, fuel));
        let usual = tg_ledger::REPEATED_MACS_USUAL;
        assert!(facts.is_disputed_by_tile(usual));
        assert_eq!(facts.is_recomputable(usual), is_repeated);
    }
}
