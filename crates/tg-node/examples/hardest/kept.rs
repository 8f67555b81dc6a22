//! The worst that searches found, kept: what each costs a validator now.
//!
//! Memory is what is really held; time is counted in the steps that are declared, since a test's clock is the machine's.

use tg_proof::cost::{MEMORY_MAX, STEPS_MAX};

use crate::measure::{Effort, Phase, declared, of_program};
use crate::program::{Gene, program};
use crate::{BYTES, WORK_MAX};

/// What was found to take most, by genes.
const WORST: [&str; 10] = [
    // Tables of columns times their openings are 1.8 million: the transcript took 115 MB while it was a list of bytes.
    "71c282d9 de78943c 9e7b36b6 383b50f9 8e1deff4 bfd57f0e a8ade416",
    // 14 million steps; 25 MB.
    "2242fe50 0e60b8ba de78943c 9e7b36b6 ef3b50f9 8e1deff4 bfd57fde a8ade417",
    // 10 million steps; 59 MB.
    "752636cc 3178d3a6 c3552744 f9044965 de78943c 9f7b36b6 8e1deff4 9eb92137",
    // Tables of 165,000 entries: weights of their cells took 73 MB in zero knowledge.
    "d7b54cd1 c7dcf9ec a6da8cb9 0d9b00f4 8165cbbf",
    // What the search finds since: most bytes,
    "a94ad29b 7af2369f 4a24d083 4f5b5b7d 612b90ec 31180c15 0e27dc68 312bc0ed",
    "a94ad29b 7af2369e 913d1012 505b5a7d a9d22ede 318c0c40 5528dc68 46b2a01c",
    "f34ad29b a10a8075 505b5bdf d01194b4 b7e159a9 8a7176d5 31180c40 7a6b6c23 53e47830",
    // of a model that is refused,
    "71e082da a10a8075 b2e6827d c3009973 aad12e0d 4afa5399 bb0258f6 a74bc75c 60e971db 1cb4b8ed 31bc0c40",
    // and most time.
    "a94ad29b a10a8075 505b5b7d aad12edd 4afa5399 b7e159a9 bb0258f6 8a4a7640 31180c40 c08e6ddc 53e47830",
    "a94ad29b 9bad1ad9 505b5bdf d01194b4 b8e159a9 bb029df6 8a4a78d5 7505c313 31180c40 53e47830",
];

/// Work of a proof that is made in the gate, in multiply-adds: some seconds. At full size all are made.
const WORK_GATE: u64 = 8_000_000_000;

fn measured(genes: &str) -> (Option<[u64; 3]>, Vec<Phase>) {
    let genes = genes.split(' ').map(|gene| u32::from_str_radix(gene, 16));
    let genes: Vec<Gene> = genes.map(|gene| gene.unwrap().to_be_bytes()).collect();
    let (program, weights) = program(&genes);
    let full = std::env::var_os("TENSORGRID_NIGHTLY").is_some();
    let work_max = if full { WORK_MAX } else { WORK_GATE };
    let phases = of_program(&program, weights, Effort { work_max });
    (declared(&program), phases)
}

/// None of the worst takes more memory than a validator has for one, nor declares more than it is charged for. Without
/// `TENSORGRID_NIGHTLY` those whose proofs take long are registered only.
#[test]
fn the_worst_that_were_found_cost_no_more_than_is_allowed() {
    for genes in WORST {
        let (declared, phases) = measured(genes);
        assert!(!phases.is_empty(), "{genes}");
        let bytes = phases.iter().map(|phase| phase.bytes).max();
        println!("{declared:?} {bytes:?} {genes}");
        for phase in &phases {
            assert!((phase.bytes as f64) <= BYTES, "{genes}: {phase:?}");
        }
        // Those that are refused are refused from their shapes, before anything of that size is held.
        let Some([steps, bytes, work]) = declared else {
            continue;
        };
        assert!(steps <= STEPS_MAX, "{genes}: {steps}");
        assert!(bytes <= MEMORY_MAX, "{genes}: {bytes}");
        let is_admitted = phases[0].verdict == "ModelAccepted";
        let proved = phases.iter().any(|phase| phase.what == "proof");
        assert!(
            proved || !is_admitted || work > WORK_GATE,
            "{genes}: no proof was looked at"
        );
    }
}
