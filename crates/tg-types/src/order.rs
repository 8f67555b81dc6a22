//! What the parties sign: job orders, offer terms and receipts.

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::id::{ModelId, ProgramId};
use crate::label::Label;
use crate::mode::{ModeSet, Tier, VerificationMode};
use crate::resources::{JobNeeds, Machine, Pricing};
use crate::time::{DurationMs, TimestampMs};

/// What a requestor asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOrder {
    /// The model to run.
    pub model: ModelId,
    /// BLAKE3 of the quantised input bytes.
    pub input: Digest,
    /// How many bytes the input has.
    pub input_len: u32,
    /// How the result is checked.
    pub mode: VerificationMode,
    /// The most that is paid to the provider; the verification fee comes on top.
    pub max_price: Amount,
    /// When the answer is worth nothing any more, in block time.
    pub deadline: TimestampMs,
    /// How many leases may fail before the escrow goes back.
    pub max_attempts: u8,
    /// What it needs of a machine, and how it wants to be matched.
    pub needs: JobNeeds,
}

impl Encode for JobOrder {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            model,
            input,
            input_len,
            mode,
            max_price,
            deadline,
            max_attempts,
            needs,
        } = self;
        model.encode(writer);
        input.encode(writer);
        writer.u32(*input_len);
        mode.encode(writer);
        max_price.encode(writer);
        deadline.encode(writer);
        writer.u8(*max_attempts);
        needs.encode(writer);
    }
}

impl Decode for JobOrder {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            model: ModelId::decode(reader)?,
            input: Digest::decode(reader)?,
            input_len: reader.u32()?,
            mode: VerificationMode::decode(reader)?,
            max_price: Amount::decode(reader)?,
            deadline: TimestampMs::decode(reader)?,
            max_attempts: reader.u8()?,
            needs: JobNeeds::decode(reader)?,
        })
    }
}

/// What a provider offers, and for how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferTerms {
    /// What the provider says it computes on; nothing of it is checked.
    pub hardware: Label,
    /// Price of any job.
    pub price_base: Amount,
    /// Price of each million multiply-accumulates, on top of `price_base`.
    pub price_per_mmac: Amount,
    /// Declared time of any job: pulling, proving and handing in.
    pub latency_base_ms: DurationMs,
    /// Declared speed in million multiply-accumulates per second, proving included.
    pub speed_mmac_per_s: u64,
    /// Memory that a job may use.
    pub memory_bytes: u64,
    /// Leases at one time.
    pub slots: u16,
    /// What is locked for each lease, and lost with a wrong or a late result.
    pub collateral_per_lease: Amount,
    /// Verification modes the provider can serve.
    pub modes: ModeSet,
    /// The machine.
    pub machine: Machine,
    /// Price of a second of one whole GPU, on top of the rest, for the GPU time that a job states.
    pub price_per_gpu_second: Amount,
    /// Whether that price may rise with demand.
    pub pricing: Pricing,
}

impl OfferTerms {
    /// The price of a job of `macs` multiply-accumulates, each begun million in full; `None` above [`Amount::MAX`].
    #[must_use]
    pub fn price(&self, macs: u64) -> Option<Amount> {
        let work = self
            .price_per_mmac
            .checked_mul_div_ceil(macs.div_ceil(1_000_000), 1)?;
        self.price_base.checked_add(work)
    }

    /// The declared time of a job of `macs` multiply-accumulates; the longest span if the speed is zero.
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

impl Encode for OfferTerms {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            hardware,
            price_base,
            price_per_mmac,
            latency_base_ms,
            speed_mmac_per_s,
            memory_bytes,
            slots,
            collateral_per_lease,
            modes,
            machine,
            price_per_gpu_second,
            pricing,
        } = self;
        hardware.encode(writer);
        price_base.encode(writer);
        price_per_mmac.encode(writer);
        latency_base_ms.encode(writer);
        writer.u64(*speed_mmac_per_s);
        writer.u64(*memory_bytes);
        writer.u16(*slots);
        collateral_per_lease.encode(writer);
        modes.encode(writer);
        machine.encode(writer);
        price_per_gpu_second.encode(writer);
        pricing.encode(writer);
    }
}

impl Decode for OfferTerms {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            hardware: Label::decode(reader)?,
            price_base: Amount::decode(reader)?,
            price_per_mmac: Amount::decode(reader)?,
            latency_base_ms: DurationMs::decode(reader)?,
            speed_mmac_per_s: reader.u64()?,
            memory_bytes: reader.u64()?,
            slots: reader.u16()?,
            collateral_per_lease: Amount::decode(reader)?,
            modes: ModeSet::decode(reader)?,
            machine: Machine::decode(reader)?,
            price_per_gpu_second: Amount::decode(reader)?,
            pricing: Pricing::decode(reader)?,
        })
    }
}

/// What a provider commits to: which program turned which input into which output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The program that ran.
    pub program: ProgramId,
    /// The model it belongs to.
    pub model: ModelId,
    /// BLAKE3 of the input bytes.
    pub input: Digest,
    /// BLAKE3 of the output bytes.
    pub output: Digest,
    /// Root of the execution trace.
    pub trace: Digest,
    /// The execution semantics.
    pub tier: Tier,
}

impl Encode for Receipt {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            program,
            model,
            input,
            output,
            trace,
            tier,
        } = self;
        program.encode(writer);
        model.encode(writer);
        input.encode(writer);
        output.encode(writer);
        trace.encode(writer);
        tier.encode(writer);
    }
}

impl Decode for Receipt {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            program: ProgramId::decode(reader)?,
            model: ModelId::decode(reader)?,
            input: Digest::decode(reader)?,
            output: Digest::decode(reader)?,
            trace: Digest::decode(reader)?,
            tier: Tier::decode(reader)?,
        })
    }
}
