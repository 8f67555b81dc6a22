//! The worst models that a search found, measured again.

use crate::hardest::measure::{Effort, declared, of_program};
use crate::hardest::program::{Gene, program};

/// The worst that the search found by bytes and by processor time: genes, what the program declares (steps, bytes), and the
/// most bytes that a validator held.
const WORST: &str = include_str!("../data/hardest.txt");
/// What nobody may cost a validator.
const BYTES_MAX: u64 = 64 << 20;
/// Work of the proofs that are made here: of a second or two.
const WORK_MAX: u64 = 60_000_000_000;

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

fn genes(text: &str) -> Vec<Gene> {
    let words = text.split_whitespace();
    words
        .map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes())
        .collect()
}

/// Registration, evidence that is none, proofs and files of the worst models found: what is declared of them and what is
/// really held are what they were, and no more than 64 MiB.
#[test]
fn the_worst_models_that_a_search_found_cost_what_is_declared() {
    let lines = WORST.lines().filter(|line| !line.starts_with('#'));
    let mut seen = 0;
    for line in lines {
        let parts: Vec<&str> = line.split('|').collect();
        let (program, weights) = program(&genes(parts[0]));
        let known = numbers(parts[1]);
        let found = declared(&program).map(|[steps, bytes, _]| vec![steps, bytes]);
        assert_eq!(found.unwrap_or_default(), known, "{line}");
        let most = numbers(parts[2])[0];
        let phases = of_program(&program, weights, Effort { work_max: WORK_MAX });
        let dearest = phases.iter().max_by_key(|phase| phase.bytes).unwrap();
        assert!(dearest.bytes <= BYTES_MAX, "{line}: {dearest:?}");
        // To a tenth, as small lists grow by doubling.
        assert!(
            dearest.bytes.abs_diff(most) <= most / 10,
            "{line}: {dearest:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 10);
}
