//! What both sides derive from a program: the plan and the commitment schemes.

use crate::algebra::layout::log2_ceil;
use crate::argument::commitment::{
    CommitmentError, CommittedTable, Pcs, Role, opening_protocol, scheme, stack_vars,
};
use crate::plan::{Plan, REGISTRATION_BATCHES, WeightUses};
use p3_sumcheck::OpeningProtocol;

/// Points at which each weight table is opened by an inference if one node reads it.
const INFERENCE_BATCHES: usize = 2;

/// What both sides derive from a program: the plan and the commitment schemes.
#[derive(Debug)]
pub struct ProofShape {
    /// The plan.
    pub plan: Plan,
    /// Scheme and opening schedule of each section of the witness.
    pub sections: Vec<(Pcs, OpeningProtocol)>,
    /// How the weights are committed, if there are some.
    pub weights: Option<WeightsShape>,
    /// Scheme and opening schedule of the pushforwards, if they are committed.
    pub pushforwards: Option<(Pcs, OpeningProtocol)>,
}

/// How weights are committed and opened.
#[derive(Debug)]
pub struct WeightsShape {
    /// Scheme, for inferences and for the registration.
    pub scheme: Pcs,
    /// Opening schedule in an inference.
    pub protocol: OpeningProtocol,
    /// Opening schedule in the registration.
    pub registration: OpeningProtocol,
}

impl WeightsShape {
    /// The shape of a plan's weights, if there are some.
    fn of(plan: &Plan) -> Result<Option<Self>, CommitmentError> {
        if plan.weights.is_empty() {
            return Ok(None);
        }
        let registered = plan.weight_tables(REGISTRATION_BATCHES, WeightUses::Once);
        let inferred = plan.weight_tables(INFERENCE_BATCHES, WeightUses::Each);
        let most = claims(&registered).max(claims(&inferred));
        Ok(Some(Self {
            scheme: scheme(Role::Weights, stack_vars(&registered), most)?,
            protocol: opening_protocol(&inferred),
            registration: opening_protocol(&registered),
        }))
    }
}

impl ProofShape {
    /// The schemes of a plan.
    ///
    /// # Errors
    /// If a commitment is too large.
    pub(crate) fn of(plan: Plan) -> Result<Self, CommitmentError> {
        let pushforwards = plan.pushforwards.as_ref().map(|layout| {
            let tables = layout.tables();
            let (vars, protocol) = (stack_vars(&tables), opening_protocol(&tables));
            let scheme = scheme(Role::Pushforwards, vars, claims(&tables))?;
            Ok::<_, CommitmentError>((scheme, protocol))
        });
        Ok(Self {
            pushforwards: pushforwards.transpose()?,
            sections: section_schemes(&plan)?,
            weights: WeightsShape::of(&plan)?,
            plan,
        })
    }
}

/// The schemes of the witness. The errors of several openings add up: each has as many bits more.
fn section_schemes(plan: &Plan) -> Result<Vec<(Pcs, OpeningProtocol)>, CommitmentError> {
    let role = if plan.is_anchored() {
        Role::Section(log2_ceil(plan.sections.len()))
    } else {
        Role::Witness
    };
    let of = |section| {
        let tables = plan.section_tables(section);
        let scheme = scheme(role, stack_vars(&tables), claims(&tables))?;
        Ok((scheme, opening_protocol(&tables)))
    };
    plan.sections.iter().map(of).collect()
}

fn claims(tables: &[CommittedTable]) -> usize {
    tables
        .iter()
        .map(|table| table.batches.iter().map(Vec::len).sum::<usize>())
        .sum()
}
