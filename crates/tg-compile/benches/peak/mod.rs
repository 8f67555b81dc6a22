//! What the processor reaches with the instructions of an AVX2 product alone, all operands in registers: what the rows
//! `gemm_i8` and `gemm_u7` at that level are a part of.

use crate::report::Report;
use tg_exec::kernels::{Cpu, SimdLevel};

/// Multiply-adds of a row.
const MULTIPLY_ADDS: usize = 1 << 27;
/// Multiply-adds of one pass of a loop.
const PASS: usize = 256;

/// Runs a sequence so many times. The processor must have its instructions.
type RegisterLoop = unsafe fn(usize);

/// One row for each sequence of instructions.
pub(crate) fn rows(report: &Report) {
    let Some(cpu) = Cpu::with_level(SimdLevel::Avx2, 1) else {
        return;
    };
    let sequences: [(&str, RegisterLoop); 2] = [("gemm_i8", pairs), ("gemm_u7", naturals)];
    for (kind, sequence) in sequences {
        let name = report.name(&format!("{kind} peak"), cpu.level());
        let operations = 2.0 * MULTIPLY_ADDS as f64;
        // SAFETY: the level is available.
        let time = report.time(&name, || unsafe { sequence(MULTIPLY_ADDS / PASS) });
        if let Some(time) = time {
            report.line(&name, 1, operations, time, None);
        }
    }
}

macro_rules! sequence {
    ($name:ident, $($instruction:literal),+) => {
        /// # Safety
        /// The processor has AVX2.
        unsafe fn $name(passes: usize) {
            // SAFETY: registers alone are read and written, all of them named.
            unsafe {
                std::arch::asm!(
                    "2:", $($instruction,)+ $($instruction,)+ $($instruction,)+ $($instruction,)+
                    "dec {0}", "jnz 2b",
                    inout(reg) passes => _,
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                    out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _,
                );
            }
        }
    };
}

sequence!(
    pairs,
    "vpmaddwd ymm6, ymm0, ymm1",
    "vpaddd ymm2, ymm2, ymm6",
    "vpmaddwd ymm7, ymm0, ymm1",
    "vpaddd ymm3, ymm3, ymm7",
    "vpmaddwd ymm8, ymm0, ymm1",
    "vpaddd ymm4, ymm4, ymm8",
    "vpmaddwd ymm9, ymm0, ymm1",
    "vpaddd ymm5, ymm5, ymm9"
);
sequence!(
    naturals,
    "vpmaddubsw ymm6, ymm0, ymm1",
    "vpmaddubsw ymm7, ymm0, ymm1",
    "vpmaddwd ymm6, ymm6, ymm9",
    "vpmaddwd ymm7, ymm7, ymm9",
    "vpaddd ymm2, ymm2, ymm6",
    "vpaddd ymm3, ymm3, ymm7"
);
