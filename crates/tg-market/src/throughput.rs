//! How fast a GPU does a class of work, so that cost, not a rule, sends small inference to consumer GPUs.
//!
//! The table holds peak rates published by the vendor (dense, no sparsity; data sheets of T4, V100 PCIe, P100 PCIe,
//! A10, L4, A100 PCIe 40 GB and SXM 80 GB, H100 SXM, H200 SXM, GeForce RTX 3090 and 4090; NVIDIA, 2016 to 2023). A
//! class of work takes the rate that limits it: exact integer inference the int8 rate of the tensor cores (of the
//! dot-product units on P100, which has none: its fp32 rate), token generation the memory bandwidth, training the
//! fp16 rate with fp32 accumulation. Peaks are not what jobs reach; what they reach relative to the table is learned
//! for each class and model from the durations of accepted receipts ([`Correction`]).

use std::collections::BTreeMap;

use tg_types::{Decode, DecodeError, DurationMs, Encode, Reader, Writer};

/// What limits a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// Integer inference in batches.
    IntegerInference,
    /// Token by token generation.
    Generation,
    /// Training.
    Training,
}

/// A GPU model of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuClass {
    /// Tesla T4.
    T4,
    /// Tesla P100, PCIe, 16 GB.
    P100,
    /// Tesla V100, PCIe.
    V100,
    /// A10.
    A10,
    /// L4.
    L4,
    /// GeForce RTX 3090.
    Rtx3090,
    /// GeForce RTX 4090.
    Rtx4090,
    /// A100, PCIe, 40 GB.
    A100M40,
    /// A100, SXM, 80 GB.
    A100M80,
    /// H100, SXM, 80 GB.
    H100,
    /// H200, SXM, 141 GB.
    H200,
}

/// int8 operations, fp16 operations (both 10^12 a second, times ten), memory bandwidth (10^9 bytes a second).
struct Peak {
    int8_tenths: u32,
    fp16_tenths: u32,
    bandwidth: u32,
}

impl GpuClass {
    /// Every model.
    pub const ALL: [Self; 11] = [
        Self::T4,
        Self::P100,
        Self::V100,
        Self::A10,
        Self::L4,
        Self::Rtx3090,
        Self::Rtx4090,
        Self::A100M40,
        Self::A100M80,
        Self::H100,
        Self::H200,
    ];

    const fn peak(self) -> Peak {
        let (int8_tenths, fp16_tenths, bandwidth) = match self {
            Self::T4 => (1_300, 650, 320),
            Self::P100 => (93, 187, 732),
            Self::V100 => (560, 1_120, 900),
            Self::A10 => (2_500, 1_250, 600),
            Self::L4 => (2_420, 1_210, 300),
            Self::Rtx3090 => (2_840, 710, 936),
            Self::Rtx4090 => (6_606, 1_652, 1_008),
            Self::A100M40 => (6_240, 3_120, 1_555),
            Self::A100M80 => (6_240, 3_120, 2_039),
            Self::H100 => (19_790, 9_890, 3_350),
            Self::H200 => (19_790, 9_890, 4_800),
        };
        Peak {
            int8_tenths,
            fp16_tenths,
            bandwidth,
        }
    }

    /// Rate of `kind` in thousandths of a T4's, at least 1.
    #[must_use]
    pub const fn relative_milli(self, kind: WorkKind) -> u32 {
        let own = self.peak();
        let base = Self::T4.peak();
        let (rate, unit) = match kind {
            WorkKind::IntegerInference => (own.int8_tenths, base.int8_tenths),
            WorkKind::Generation => (own.bandwidth, base.bandwidth),
            WorkKind::Training => (own.fp16_tenths, base.fp16_tenths),
        };
        let milli = rate as u64 * 1_000 / unit as u64;
        if milli == 0 { 1 } else { milli as u32 }
    }
}

/// What jobs reach relative to the table, in thousandths, from accepted receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    milli: u32,
}

impl Default for Correction {
    fn default() -> Self {
        Self { milli: 1_000 }
    }
}

impl Correction {
    /// Most and least it may become: one receipt, or a liar, does not turn the table upside down.
    pub const BOUNDS: (u32, u32) = (50, 4_000);

    /// A correction of `milli` thousandths, kept within [`Self::BOUNDS`].
    #[must_use]
    pub fn of_milli(milli: u32) -> Self {
        Self {
            milli: milli.clamp(Self::BOUNDS.0, Self::BOUNDS.1),
        }
    }

    /// In thousandths.
    #[must_use]
    pub const fn milli(&self) -> u32 {
        self.milli
    }

    /// Learns from a receipt: the time the table predicts and the time it took. Moves a sixteenth of the way, and by no more than what a
    /// receipt that took no time, or for ever, would move it down: a 21st up or down.
    pub fn learn(&mut self, predicted: DurationMs, took: DurationMs) {
        let ratio = u128::from(predicted.get().max(1)) * 1_000 / u128::from(took.get().max(1));
        // Stops: a few receipts of somebody that orders from itself, by which the honest machines of a model are all too slow.
        let milli = u128::from(self.milli);
        let seen = ratio.clamp(milli / 4, milli + milli * 3 / 4) as u32;
        let (low, high) = Self::BOUNDS;
        let gap = i64::from(seen) - i64::from(self.milli);
        // Away from zero, so that a small gap is closed too.
        let move_by = gap / 16 + gap.signum() * i64::from(gap % 16 != 0);
        let moved = i64::from(self.milli) + move_by;
        self.milli = moved.clamp(i64::from(low), i64::from(high)) as u32;
    }
}

/// The table with what receipts taught about it, for each class of work and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThroughputMatrix {
    corrections: BTreeMap<(WorkKind, GpuClass), Correction>,
}

impl ThroughputMatrix {
    /// What jobs of `kind` reach on `gpu` relative to the table.
    #[must_use]
    pub fn correction(&self, gpu: GpuClass, kind: WorkKind) -> Correction {
        let known = self.corrections.get(&(kind, gpu));
        known.copied().unwrap_or_default()
    }

    /// Learns from an accepted receipt that work of `t4` took `took` on `gpu`. The order of receipts matters, so it is
    /// the order of the blocks.
    pub fn learn(&mut self, gpu: GpuClass, kind: WorkKind, t4: DurationMs, took: DurationMs) {
        let table = duration_on(gpu, kind, t4, &Correction::default());
        let correction = self.corrections.entry((kind, gpu)).or_default();
        correction.learn(table, took);
    }
}

impl WorkKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::IntegerInference, Self::Generation, Self::Training];
}

impl Encode for ThroughputMatrix {
    fn encode(&self, writer: &mut Writer) {
        let Self { corrections } = self;
        writer.count(corrections.len());
        for ((kind, gpu), correction) in corrections {
            writer.u8(*kind as u8);
            writer.u8(*gpu as u8);
            writer.u32(correction.milli);
        }
    }
}

/// What [`ThroughputMatrix::learn`] can have made, and nothing else.
impl Decode for ThroughputMatrix {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let most = WorkKind::ALL.len() * GpuClass::ALL.len();
        let count = reader.count("throughput", most, 6)?;
        let mut corrections = BTreeMap::new();
        for _ in 0..count {
            let (kind, gpu, milli) = (reader.u8()?, reader.u8()?, reader.u32()?);
            let invalid = DecodeError::Invalid {
                field: "throughput",
                value: u64::from(milli),
            };
            let kind = WorkKind::ALL.get(usize::from(kind)).copied();
            let gpu = GpuClass::ALL.get(usize::from(gpu)).copied();
            let (Some(kind), Some(gpu)) = (kind, gpu) else {
                return Err(invalid);
            };
            let correction = Correction::of_milli(milli);
            let rises = corrections
                .last_key_value()
                .is_none_or(|(last, _)| *last < (kind, gpu));
            if !rises || correction.milli != milli {
                return Err(invalid);
            }
            corrections.insert((kind, gpu), correction);
        }
        Ok(Self { corrections })
    }
}

/// Time that work of `t4` (its time on a T4) takes on `gpu`, rounded up.
#[must_use]
pub fn duration_on(
    gpu: GpuClass,
    kind: WorkKind,
    t4: DurationMs,
    correction: &Correction,
) -> DurationMs {
    let rate = u128::from(gpu.relative_milli(kind)) * u128::from(correction.milli());
    let ms = (u128::from(t4.get()) * 1_000_000).div_ceil(rate.max(1));
    DurationMs::new(u64::try_from(ms).unwrap_or(u64::MAX))
}
