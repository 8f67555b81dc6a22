//! All messages of a proof up to its openings: those of the nodes, of the lookup argument, and what shows committed
//! pushforwards.

use super::walk::{ShownElements, Walk};
use super::{LookupCheck, VerifyError};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, EXTENSION_DEGREE, basis, eq_at};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::{MessageSize, PublicWork, Theorem, WalkCount};
use crate::argument::ajtai;
use crate::argument::commitment::Pcs;
use crate::argument::sumcheck::{self, SumShape};
use crate::plan::cost::Added;
use crate::plan::modes::Modes;
use crate::plan::{Plan, PlanError, PushforwardLayout, ReaderGroup, SectionSize, TensorPlan};
use crate::verify::lookup::{self, ClaimsIn, LookupMessages};
use crate::verify::messages::{CommittedPushforwards, NodeProof, Pushforwards};
use crate::verify::places::WalkPlaces;
use crate::verify::pushforward::{PushforwardWeights, ShownPushforwards};
use tg_ir::CheckedProgram;

/// The messages of a proof up to its openings.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentMessages<'a> {
    /// Of the nodes.
    pub(super) nodes: &'a [NodeProof],
    /// Of the lookup argument, if there is one.
    pub(super) lookup: Option<LookupMessages<'a>>,
}

/// What is left to be opened after all messages.
pub(super) struct Argued<A: Arithmetic> {
    /// How much the nodes have sent.
    pub(super) nodes: MessageSize,
    /// What the lookup argument leaves.
    pub(super) lookup: Option<ClaimsIn<A>>,
    /// The challenge that makes one claim of all on committed pushforwards.
    pub(super) beta: E,
    /// Where the columns of pushforwards are shown, and their values per chunk; not in zero knowledge.
    pub(super) shown: Option<ShownPushforwards<A>>,
    /// The points at which the input, then each output, opens its commitment, if the statement names them.
    pub(super) opened_at: Vec<Option<E>>,
    /// The points at which inputs within the program's are compared or open their commitments.
    pub(super) parts_at: Vec<E>,
}

const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);
const PULLED: VerifyError = VerifyError::Lookup(LookupCheck::Pulled);

impl<A: Arithmetic> Walk<'_, A> {
    /// Checks all messages; a count has none.
    pub(super) fn argue(
        &mut self,
        sent: Option<SentMessages<'_>>,
        scheme: Option<&Pcs>,
    ) -> Result<Argued<A>, VerifyError> {
        let plan = self.plan;
        let lookup = sent.map(|sent| sent.lookup);
        // Stops: a lookup argument about nothing, columns that no argument reads.
        if lookup.is_some_and(|lookup| lookup.is_some() != plan.looks_up()) {
            return Err(MESSAGES);
        }
        // Stops: readers that no argument shows, whose values a prover would choose.
        let tables = plan.witness.len();
        let shown = |group: &ReaderGroup| !group.witness.is_empty() && group.witness.end <= tables;
        if !plan.groups.iter().all(shown) {
            return Err(MESSAGES);
        }
        let lookup = lookup.flatten();
        self.run(sent.map(|sent| sent.nodes))?;
        let mut argued = Argued {
            nodes: self.channel.tally.size,
            lookup: None,
            beta: E::default(),
            shown: None,
            opened_at: Vec::new(),
            parts_at: Vec::new(),
        };
        self.channel
            .tally
            .come_to(WalkPlaces::of(self.program).lookup());
        if plan.looks_up() {
            let with = (plan, scheme);
            let claims = lookup::verify(&mut self.channel, with, &self.pulled, lookup)?;
            if let Some(layout) = &plan.pushforwards {
                let columns = plan.tables.iter().map(|table| table.columns.len());
                argued.beta = self.channel.draw(Theorem::Pushforwards, columns.sum());
                if !plan.hidden {
                    let sent = lookup.and_then(|lookup| match &lookup.proof.pushforwards {
                        Pushforwards::Committed(committed) => Some(committed.as_ref()),
                        Pushforwards::Clear(_) | Pushforwards::Hidden(_) => None,
                    });
                    argued.shown = Some(self.shown(layout, &claims, argued.beta, sent)?);
                }
            }
            argued.lookup = Some(claims);
        }
        for tensor in plan.statement_tensors() {
            // Two polynomials below the ring's degree are compared.
            let named = tensor.filter(|tensor| tensor.salt.is_some());
            let at = named.map(|tensor| self.opened(tensor.elements(), tensor));
            argued.opened_at.push(at);
            let Some(tensor) = tensor else { continue };
            for part in &tensor.parts {
                let elements = part.places.len() * tensor.columns.layout.batch;
                let at = match part.salt {
                    Some(_) => self.opened(elements, tensor),
                    None => self.compared(elements * tensor.coding.kind().bytes()),
                };
                argued.parts_at.push(at);
            }
        }
        Ok(argued)
    }

    /// The point at which a commitment of so many elements of a tensor is opened.
    fn opened(&mut self, elements: usize, tensor: &TensorPlan) -> E {
        let weights = elements * tensor.coding.kind().bytes() + (1 << ajtai::BLINDING_VARS);
        let work = PublicWork::tables(weights as u64);
        self.channel.tally.compute(work);
        self.channel.draw(Theorem::TensorCommitments, ajtai::DEGREE)
    }

    /// The point at which so many public bytes are compared with committed ones, as polynomials.
    fn compared(&mut self, bytes: usize) -> E {
        let work = PublicWork::tables(bytes as u64);
        self.channel.tally.compute(work);
        self.channel.draw(Theorem::PublicParts, bytes)
    }

    /// One sum of the pushforwards times the weights of all claims on them, which ends in their columns at one point.
    fn shown(
        &mut self,
        layout: &PushforwardLayout,
        claims: &ClaimsIn<A>,
        beta: E,
        sent: Option<&CommittedPushforwards>,
    ) -> Result<ShownPushforwards<A>, VerifyError> {
        let plan = self.plan;
        let owed = claims.pushforwards.as_ref().ok_or(MESSAGES)?;
        if sent.is_some_and(|sent| sent.columns.len() != layout.chunks.len()) {
            return Err(MESSAGES);
        }
        let sum = owed.combined(beta);
        let of_sum = SumShape {
            rounds: layout.vars,
            degree: 2,
            theorem: Theorem::Pushforwards,
        };
        let rounds = sent.map(|sent| &sent.sumcheck);
        let channel = &mut self.channel;
        let (point, last) = sumcheck::verify(channel, rounds, of_sum, sum).ok_or(PULLED)?;
        channel.tally.send(0, 1);
        let mut columns = Vec::with_capacity(layout.chunks.len());
        let mut value = A::Value::from(E::default());
        for (index, chunk) in layout.chunks.iter().enumerate() {
            let own = sent.map(|sent| sent.columns[index].as_slice());
            let own = channel.array(own, EXTENSION_DEGREE).ok_or(MESSAGES)?;
            let weight = channel.public(PublicWork::EQ, |look| {
                let point = A::coordinates(look, &point);
                eq_at(
                    &point[..point.len() - chunk.vars],
                    chunk.start >> chunk.vars,
                )
            });
            let terms = own.iter().enumerate();
            let element: A::Value = terms.map(|(i, own)| own.clone() * basis(i)).sum();
            value = value + element * weight;
            columns.push(own);
        }
        // What it takes is charged with the tables.
        let weight = channel.public(PublicWork::default(), |look| {
            let sums_at = A::coordinates(look, &claims.point);
            let weights = PushforwardWeights::new(plan, layout, sums_at, beta);
            weights.at(A::coordinates(look, &point))
        });
        // Stops: values that no entry of a public table gives, pushforwards that are not those of the sum.
        channel.equal(last, value * weight).ok_or(PULLED)?;
        Ok(ShownPushforwards { point, columns })
    }

    /// With debug assertions: that this run has noted what the plan's own has.
    ///
    /// # Panics
    /// If it has not, which is a mistake of ours.
    pub(super) fn debug_check_count(&self, argued: &Argued<A>) {
        if cfg!(debug_assertions) {
            let WalkCount {
                secrets: _,
                nodes,
                rest,
                charges,
            } = &self.plan.counted;
            let tally = &self.channel.tally;
            assert_eq!(*nodes, argued.nodes, "messages of the nodes");
            assert_eq!(*rest, tally.size.after(*nodes), "the other messages");
            assert_eq!(*charges, tally.charges, "what is drawn");
        }
    }
}

impl Plan {
    /// Derives the plan of a proof about one input.
    ///
    /// # Errors
    /// [`PlanError`] names the node that cannot be proved and why.
    pub fn new(program: CheckedProgram<'_>) -> Result<Self, PlanError> {
        Self::batched(program, 1)
    }

    /// Derives the plan of a proof about a batch of inputs.
    ///
    /// # Errors
    /// [`PlanError`] names the node that cannot be proved and why.
    pub fn batched(program: CheckedProgram<'_>, batch: usize) -> Result<Self, PlanError> {
        Self::sectioned(program, batch, SectionSize::default())
    }

    /// The same with sections of another size.
    ///
    /// # Errors
    /// Those of [`Plan::batched`].
    pub fn sectioned(
        program: CheckedProgram<'_>,
        batch: usize,
        size: SectionSize,
    ) -> Result<Self, PlanError> {
        Self::uncounted(program, batch, size)?.count(program)
    }

    /// Derives the plan of a proof in zero knowledge about a batch of inputs.
    ///
    /// # Errors
    /// Those of [`Plan::batched`], and [`PlanError::CommittedTensor`] for a tensor that is too large to be named by a
    /// commitment.
    pub fn hidden(
        program: CheckedProgram<'_>,
        batch: usize,
        modes: Modes,
    ) -> Result<Self, PlanError> {
        Self::uncounted_hidden(program, batch, modes)?.count(program)
    }

    /// The same with weights that nobody sees.
    ///
    /// # Errors
    /// Those of [`Plan::hidden`].
    pub fn private(
        program: CheckedProgram<'_>,
        batch: usize,
        modes: Modes,
    ) -> Result<Self, PlanError> {
        let plan = Self {
            private_weights: true,
            ..Self::uncounted_hidden(program, batch, modes)?
        };
        plan.count(program)
    }

    /// Counts the walk over a plan, whose size is within its limits, in time of its nodes, relations and readers.
    fn count(mut self, program: CheckedProgram<'_>) -> Result<Self, PlanError> {
        let channel = Receiver::counting();
        let mut walk = Walk::new(channel, program.get(), &self, ShownElements::default());
        let last = program.nodes.len() - 1;
        // A count has no message that could be wrong.
        let argued = walk.argue(None, None).map_err(|_| {
            PlanError::unprovable(
                &program,
                last,
                "its checks have another shape than its plan",
            )
        })?;
        let Receiver {
            arithmetic, tally, ..
        } = walk.channel;
        self.counted = WalkCount {
            secrets: arithmetic.into(),
            nodes: argued.nodes,
            rest: tally.size.after(argued.nodes),
            charges: tally.charges,
        };
        // What the plan is charged already is no single node's here, and is added last.
        let planned = std::mem::take(&mut self.cost.steps);
        for (place, work) in tally.work.into_iter().enumerate() {
            let added = Added {
                steps: work.steps,
                working: work.held,
                ..Added::default()
            };
            // What is beside the nodes is charged to the last.
            self.cost.add(&program, place.min(last), added)?;
        }
        let planned = Added {
            steps: planned,
            ..Added::default()
        };
        self.cost.add(&program, last, planned)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::{InputSpec, Node, Op, Program, Shape, TensorId, View, Weights, op};

    /// A walk does not rest on the plan for it: values that are pulled are shown by a lookup argument or by nothing.
    #[test]
    fn readers_that_no_argument_shows_are_refused() {
        let shape = Shape::vector(4);
        let node = Node {
            name: "spread".to_owned(),
            op: Op::View(op::Unary {
                input: TensorId::INPUT,
                how: View::new(0, &[(4, 0)]),
            }),
            shape,
            scale: 1.0,
        };
        let program = Program {
            name: "spread".to_owned(),
            input: InputSpec::scaled(Shape::vector(1), 1.0),
            nodes: vec![node],
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        let program = program.check().unwrap();
        let plan = || Plan::uncounted(program, 1, SectionSize::default()).unwrap();
        assert!(plan().count(program).is_ok());
        for witness in [0..0, 0..1] {
            let mut plan = plan();
            assert!(!plan.looks_up());
            plan.groups.push(ReaderGroup {
                node: 0,
                column: 0,
                table: 0,
                offset: 0,
                witness,
            });
            let refused = plan.count(program);
            assert!(matches!(refused, Err(PlanError::Unprovable { .. })));
        }
    }
}
