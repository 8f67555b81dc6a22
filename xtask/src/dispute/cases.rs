//! What is tried: who works, who accuses, who withholds, and who must pay for it.

/// Who accuses, where it is not a watcher of its own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseAccuser {
    /// `tensorgrid job challenge`, which claims what a right run gives.
    Command,
    /// The example `dispute_party`, and what it claims.
    Party(&'static str),
}

/// Who is killed when it has to answer, and started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KilledParty {
    /// The honest provider.
    Provider,
    /// The validator that accused.
    Watcher,
}

/// Who must lose in the end. Nobody else may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CasePayer {
    /// The provider loses its collateral, and has nothing of the job.
    Provider,
    /// The challenger loses the fee, half of it to the provider, which is paid.
    Challenger,
}

/// A dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DisputeCase {
    /// In words, for the table.
    pub(crate) name: &'static str,
    /// How the result is checked.
    pub(crate) verify: &'static str,
    /// How the provider cheats; nothing if it is honest.
    pub(crate) cheat: Option<&'static str>,
    /// Who accuses beside a watcher that finds the result wrong.
    pub(crate) accuser: Option<CaseAccuser>,
    /// Who is killed in its turn.
    pub(crate) killed: Option<KilledParty>,
    /// Who must pay.
    pub(crate) payer: CasePayer,
    /// Whether it is about an attention, which not every model has.
    pub(crate) needs_attention: bool,
}

impl DisputeCase {
    /// Whether somebody shows nothing when it has to, so that nobody looks at anything.
    pub(crate) fn is_withheld(&self) -> bool {
        let word = match (self.payer, self.cheat, self.accuser) {
            (CasePayer::Provider, Some(cheat), _) => cheat.trim_start_matches("right-"),
            (CasePayer::Challenger, _, Some(CaseAccuser::Party(claim))) => claim,
            _ => "",
        };
        // In mode `sync` no provider has to answer.
        matches!(word, "silent" | "unstored" | "hidden") && self.verify == "optimistic"
    }
}

/// A provider that cheats.
const CHEAT: DisputeCase = DisputeCase {
    name: "",
    verify: "optimistic",
    cheat: None,
    accuser: None,
    killed: None,
    payer: CasePayer::Provider,
    needs_attention: false,
};

/// An honest provider that is accused.
const ACCUSED: DisputeCase = DisputeCase {
    payer: CasePayer::Challenger,
    ..CHEAT
};

/// All cases.
pub(crate) const CASES: [DisputeCase; 18] = [
    DisputeCase {
        name: "right result; a product is claimed to be another",
        accuser: Some(CaseAccuser::Party("product")),
        ..ACCUSED
    },
    DisputeCase {
        name: "right result; scores of an attention are claimed to be others",
        accuser: Some(CaseAccuser::Party("scores")),
        needs_attention: true,
        ..ACCUSED
    },
    DisputeCase {
        name: "right result; a softmax is claimed to be another",
        accuser: Some(CaseAccuser::Party("softmax")),
        needs_attention: true,
        ..ACCUSED
    },
    DisputeCase {
        name: "wrong result; a right product is shown as if it were wrong",
        cheat: Some("product"),
        ..CHEAT
    },
    DisputeCase {
        name: "wrong result; right scores are shown as if they were wrong",
        cheat: Some("scores"),
        needs_attention: true,
        ..CHEAT
    },
    DisputeCase {
        name: "wrong result; a right softmax is shown as if it were wrong",
        cheat: Some("softmax"),
        needs_attention: true,
        ..CHEAT
    },
    DisputeCase {
        name: "right result; the claim (`job challenge`) says the same as the receipt",
        accuser: Some(CaseAccuser::Command),
        ..ACCUSED
    },
    DisputeCase {
        name: "right result, claimed falsely; the provider is killed in its turn",
        accuser: Some(CaseAccuser::Party("product")),
        killed: Some(KilledParty::Provider),
        ..ACCUSED
    },
    DisputeCase {
        name: "wrong result; the validator that accused is killed in its turn",
        cheat: Some("product"),
        killed: Some(KilledParty::Watcher),
        ..CHEAT
    },
    DisputeCase {
        name: "wrong result; the provider withholds its answer",
        cheat: Some("silent"),
        ..CHEAT
    },
    DisputeCase {
        name: "wrong result; the provider names an answer that nobody can get",
        cheat: Some("unstored"),
        ..CHEAT
    },
    DisputeCase {
        name: "right result, challenged; the provider withholds its answer",
        cheat: Some("right-silent"),
        accuser: Some(CaseAccuser::Command),
        ..CHEAT
    },
    DisputeCase {
        name: "right result, challenged; it names an answer that nobody can get",
        cheat: Some("right-unstored"),
        accuser: Some(CaseAccuser::Command),
        ..CHEAT
    },
    DisputeCase {
        name: "right result; the challenger withholds its claim",
        accuser: Some(CaseAccuser::Party("silent")),
        ..ACCUSED
    },
    DisputeCase {
        name: "right result; the challenger names a claim that nobody can get",
        accuser: Some(CaseAccuser::Party("unstored")),
        ..ACCUSED
    },
    DisputeCase {
        name: "wrong result, challenged by its requestor as well; a right product is shown",
        cheat: Some("product"),
        accuser: Some(CaseAccuser::Command),
        ..CHEAT
    },
    DisputeCase {
        name: "right result; the provider withholds the result itself",
        cheat: Some("right-hidden"),
        ..CHEAT
    },
    DisputeCase {
        name: "mode `sync`: wrong result",
        verify: "sync",
        cheat: Some("silent"),
        ..CHEAT
    },
];
