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
    // What an hour of the search finds since (4,597 candidates): most bytes, all of models that are refused,
    "718616b0 7ca5df43 c80cdce1 8dbdcbee 831de422 f16a7507 a960c66d",
    "718616b0 7ca4df43 c80cdce1 8dbdcbee 831de422 a960c66d",
    "728716b0 4839eed3 c80c94e1 8dbdcbee 4aeb8c52",
    // and most time.
    "df9ab76a 28ea111b 7c53b1b9 a27c69c2 9a9bc6d1 50a07b0f 02ba238f dd137d9a",
    "449ab76a 7c53b1c7 a27c69ad 937a54fd b2091c53 c6dbd4a9",
    "df9ab76a 86ad78c8 7c53b1b9 a27c69c2 9a9bc6d1 b3091c54 01ba238f dd137d9a",
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
            let declared = phase.declared.unwrap();
            assert!(phase.bytes <= declared, "{genes}: {phase:?}");
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
