//! Which tests are asked about the mutants of a crate.

/// A part of a package's tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    /// The package.
    pub package: &'static str,
    /// Its binary.
    pub target: SuiteTarget,
    /// Parts of names of the tests that run; none: all.
    pub only: &'static [&'static str],
    /// Parts of names of those that do not.
    pub without: &'static [&'static str],
}

/// A binary of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuiteTarget {
    /// Those beside the code.
    Lib,
    /// An integration binary.
    Test(&'static str),
}

/// A crate whose tests are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// The crate.
    pub package: &'static str,
    /// Its tests, the quickest binary first.
    pub suites: &'static [Suite],
}

const fn all_of(package: &'static str, target: SuiteTarget) -> Suite {
    Suite {
        package,
        target,
        only: &[],
        without: &[],
    }
}

/// The prover's tests that take more than nine seconds of a core each, two thirds of the time of all.
const SLOW_OF_THE_PROVER: &[&str] = &[
    "tests::chains::random_chains",
    "tests::every::",
    "tests::forms::every_form_proves_in_zero_knowledge",
    "tests::fuzz::changed_proofs_in_zero_knowledge",
    "hiding::tests::revealed_elements",
    "tests::isolate::",
    "tests::mutate::every_message_of_an_opening_in_rounds",
    "tests::parts::outputs_of_a_list_are_bound_each",
    "tests::private::every_message_is_bound",
    "tests::private::statistics::",
    "tests::values::every_wrong_cell",
    "tests::zk::every_message_is_bound",
    "tests::zk::statistics::",
];

/// The crates.
pub const MEASURED: &[Measured] = &[
    Measured {
        package: "tg-market",
        suites: &[
            all_of("tg-market", SuiteTarget::Lib),
            all_of("tg-lab", SuiteTarget::Test("it")),
            all_of("tg-ledger", SuiteTarget::Test("it")),
        ],
    },
    Measured {
        package: "tg-ledger",
        suites: &[
            all_of("tg-ledger", SuiteTarget::Test("it")),
            all_of("tg-ledger", SuiteTarget::Lib),
        ],
    },
    Measured {
        package: "tg-proof",
        suites: &[
            all_of("tg-proof", SuiteTarget::Lib),
            all_of("tg-proof", SuiteTarget::Test("it")),
            Suite {
                package: "tg-prover",
                target: SuiteTarget::Lib,
                only: &[],
                without: SLOW_OF_THE_PROVER,
            },
        ],
    },
];
