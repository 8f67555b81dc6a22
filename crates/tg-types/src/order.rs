//! What the parties sign: job orders, offer terms and receipts.

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::id::{ModelId, ProgramId};
use crate::label::Label;
use crate::mode::{ModeSet, Tier, VerificationMode};
use crate::resources::{JobNeeds, Machine, Pricing};
use crate::signed_struct::signed_struct;
use crate::time::{DurationMs, TimestampMs};

signed_struct! {
    /// What a requestor asks for.
    #[derive(Debug, Clone, PartialEq, Eq)]
    JobOrder [JobNeeds] {
        /// The model to run.
        model: ModelId => "bytes32 model",
        /// BLAKE3 of the quantised input bytes.
        input: Digest => "bytes32 input",
        /// How many bytes the input has.
        input_len: u32 => "uint32 inputLen",
        /// How the result is checked.
        mode: VerificationMode => "uint8 mode",
        /// The most that the provider is paid; the verification fee is paid on top.
        max_price: Amount => "uint128 maxPrice",
        /// The time after which an answer is not accepted: ledger time, milliseconds since 1970.
        deadline: TimestampMs => "uint64 deadline",
        /// How many leases may fail before the escrow is returned.
        max_attempts: u8 => "uint8 maxAttempts",
        /// For how long validators keep the answer after it is paid; zero if they need not.
        retention: DurationMs => "uint64 retention",
        /// What the job needs of a machine, and how it is to be matched.
        needs: JobNeeds => "JobNeeds needs",
    }
}

signed_struct! {
    /// What a provider offers, and for how much.
    #[derive(Debug, Clone, PartialEq, Eq)]
    OfferTerms [Machine] {
        /// The provider's description of its hardware; not checked.
        hardware: Label => "string hardware",
        /// Price of any job.
        price_base: Amount => "uint128 priceBase",
        /// Price of each million multiply-accumulates, on top of `price_base`.
        price_per_mmac: Amount => "uint128 pricePerMmac",
        /// Declared time of any job beside its work: downloading, proving and submitting.
        latency_base_ms: DurationMs => "uint64 latencyBaseMs",
        /// Declared speed in million multiply-accumulates per second, proving included.
        speed_mmac_per_s: u64 => "uint64 speedMmacPerS",
        /// Memory that a job may use; 0 if the offer is for served models only, which run on a server of the provider's own.
        memory_bytes: u64 => "uint64 memoryBytes",
        /// How many leases may run at the same time.
        slots: u16 => "uint16 slots",
        /// The collateral that is locked for each lease, and lost with a wrong or late result.
        collateral_per_lease: Amount => "uint128 collateralPerLease",
        /// Verification modes the provider can serve.
        modes: ModeSet => "uint8 modes",
        /// The machine.
        machine: Machine => "Machine machine",
        /// Price of a second of one whole GPU, on top of the rest, for the GPU time that a job states.
        price_per_gpu_second: Amount => "uint128 pricePerGpuSecond",
        /// Whether that price may rise with demand.
        pricing: Pricing => "uint8 pricing",
    }
}

/// How many base prices a minute of an endpoint costs: as many jobs as fit into a minute one after the other, at the 1.5 s that each takes
/// over blocks. A requestor that holds a machine without using it thus pays what others could have paid for it (ADR 30).
pub const BASE_PRICES_PER_MINUTE: u64 = 40;

impl OfferTerms {
    /// The price of a minute of an endpoint without GPU time, however many requests are sent in it; `None` above [`Amount::MAX`].
    #[must_use]
    pub fn minute_price(&self) -> Option<Amount> {
        self.price_base
            .checked_mul_div_ceil(BASE_PRICES_PER_MINUTE, 1)
    }

    /// The price of a job of `macs` multiply-accumulates, rounded up to whole millions; `None` above [`Amount::MAX`].
    #[must_use]
    pub fn price(&self, macs: u64) -> Option<Amount> {
        let work = self
            .price_per_mmac
            .checked_mul_div_ceil(macs.div_ceil(1_000_000), 1)?;
        self.price_base.checked_add(work)
    }

    /// The declared time of a job of `macs` multiply-accumulates; the maximum duration if the speed is zero.
    #[must_use]
    pub fn duration(&self, macs: u64) -> DurationMs {
        // macs / (speed * 10^6 / s) seconds = macs / (speed * 10^3) milliseconds.
        let per_ms = u128::from(self.speed_mmac_per_s) * 1000;
        if per_ms == 0 {
            return DurationMs::new(u64::MAX);
        }
        let work = u64::try_from(u128::from(macs).div_ceil(per_ms)).unwrap_or(u64::MAX);
        self.latency_base_ms.saturating_add(DurationMs::new(work))
    }
}

signed_struct! {
    /// A provider's commitment to its result: which program turned which input into which output.
    #[derive(Debug, Clone, PartialEq, Eq)]
    Receipt [] {
        /// The program that ran.
        program: ProgramId => "bytes32 program",
        /// The model it belongs to.
        model: ModelId => "bytes32 model",
        /// BLAKE3 of the input bytes.
        input: Digest => "bytes32 input",
        /// BLAKE3 of the output bytes.
        output: Digest => "bytes32 output",
        /// The digest of the trace, or in modes `sync` (of runs that are run whole) and `optimistic` a commitment to it ([`TraceForm`](crate::TraceForm)).
        trace: Digest => "bytes32 trace",
        /// The execution semantics.
        tier: Tier => "uint8 tier",
    }
}
