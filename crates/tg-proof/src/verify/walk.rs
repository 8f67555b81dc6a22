//! The state of the walk: open claims per tensor, what was pulled, and what must be opened.

use super::evaluate_tensor;
use super::{NodeCheck, VerifyError};
use crate::algebra::arithmetic::{Arithmetic, Clear};
use crate::algebra::field::E;
use crate::algebra::transcript::{Challenger, absorb, draw, draw_point};
use crate::argument::commitment::Pcs;
use crate::argument::sumcheck;
use crate::plan::{NodePlan, Plan, TensorPlan};
use crate::verify::draws::{self, DrawTally};
use crate::verify::lookup::{self, LookupClaims, LookupMessages, Pulled};
use crate::verify::messages::{GadgetProof, NodeProof, Sumcheck};
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};

/// A claim that a tensor's extension has a value at a point.
#[derive(Debug, Clone)]
pub struct Claim<V = E> {
    /// The point.
    pub point: Vec<E>,
    /// The value.
    pub value: V,
}

/// A claim that committed columns have values at a point of their chunk.
#[derive(Debug, Clone)]
pub struct ColumnClaim<V = E> {
    /// The point, with as many coordinates as the chunk has variables.
    pub point: Vec<E>,
    /// The values of the columns that the plan names for this opening.
    pub values: Vec<V>,
}

/// The claims on a node's weights.
#[derive(Debug, Clone)]
pub struct WeightClaims<V = E> {
    /// Output channel, position and input channel.
    pub point: Vec<E>,
    /// The pieces at their parts of the point.
    pub pieces: Vec<V>,
    /// The bias digits at the output channel's point of the claim, if there are biases.
    pub bias: Option<(Vec<E>, Vec<V>)>,
}

/// The state of the walk.
#[derive(Debug)]
pub struct Walk<'a, A: Arithmetic = Clear> {
    pub(super) arithmetic: A,
    pub(super) program: &'a Program,
    pub(super) plan: &'a Plan,
    /// The public input, batched.
    pub(super) input: &'a [i32],
    /// Per tensor the open claims.
    pub(super) claims: Vec<Vec<Claim<A::Value>>>,
    /// Per reader group what it pulled.
    pub(super) pulled: Vec<Pulled<A::Value>>,
    /// Per weighted node the claims on its weights.
    pub(super) weights: Vec<Option<WeightClaims<A::Value>>>,
    /// Per witness table the claims besides those of the lookup argument, in the order of the plan's openings.
    pub(super) opened: Vec<Vec<ColumnClaim<A::Value>>>,
    /// What it drew so far.
    drawn: DrawTally,
}

impl<'a, A: Arithmetic> Walk<'a, A> {
    pub(super) fn new(
        arithmetic: A,
        program: &'a Program,
        plan: &'a Plan,
        input: &'a [i32],
    ) -> Self {
        Self {
            arithmetic,
            program,
            plan,
            input,
            claims: vec![Vec::new(); program.nodes.len() + 1],
            pulled: vec![
                Pulled {
                    point: Vec::new(),
                    values: Vec::new(),
                };
                plan.groups.len()
            ],
            weights: vec![None; plan.weights.len()],
            opened: vec![Vec::new(); plan.witness.len()],
            drawn: DrawTally::new(program.nodes.len()),
        }
    }

    pub(super) fn run(
        &mut self,
        proofs: &[NodeProof],
        output: &[i32],
        challenger: &mut Challenger,
    ) -> Result<(), VerifyError> {
        let nodes = self.program.nodes.len();
        // What is committed of the statement has messages too: an output the first, an input and salts the last.
        let Plan {
            input,
            output: hidden,
            salts,
            ..
        } = self.plan;
        let more = [input.is_some(), hidden.is_some(), salts.is_some()];
        let expected = nodes + more.iter().filter(|&&there| there).count();
        if proofs.len() != expected {
            return Err(VerifyError::Nodes {
                expected,
                got: proofs.len(),
            });
        }
        let layout = self.plan.layouts[nodes];
        let drawn = self.draw_point(layout.vars(), challenger);
        let of_statement = |name: &str| {
            let name = name.to_owned();
            move |check| VerifyError::Node {
                node: nodes,
                name,
                check,
            }
        };
        let (claim, proofs) = match (hidden, proofs) {
            (Some(output), [first, rest @ ..]) => {
                let claim = self.hidden_output(output, drawn, first, challenger);
                (claim.map_err(of_statement("output"))?, rest)
            }
            _ => {
                // Stops: another output than the one proved.
                let value = A::Value::from(evaluate_tensor(output, layout, &drawn));
                let point = drawn;
                (Claim { point, value }, proofs)
            }
        };
        self.claims[nodes].push(claim);
        for (node, proof) in (0..nodes).rev().zip(proofs) {
            self.drawn.come_to(node);
            self.node(node, proof, challenger).map_err(|check| {
                let name = self.program.nodes[node].name.clone();
                VerifyError::Node { node, name, check }
            })?;
        }
        let mut rest = proofs[nodes..].iter();
        self.drawn.come_to(draws::of_input(nodes));
        match (input, input.as_ref().and_then(|_| rest.next())) {
            (Some(input), Some(proof)) => self
                .hidden_input(input, proof, challenger)
                .map_err(of_statement("input"))?,
            _ => self.public_input()?,
        }
        if let (Some(salts), Some(proof)) = (salts, rest.next()) {
            self.drawn.come_to(draws::of_salts(nodes));
            let vars = salts.columns.layout.vars();
            let claim = Claim {
                point: self.draw_point(vars, challenger),
                value: A::Value::from(E::default()),
            };
            let NodeProof {
                merge: None,
                gadget: GadgetProof::Staged(stages),
            } = proof
            else {
                return Err(of_statement("salts")(NodeCheck::Messages));
            };
            self.staged(&salts.staged, &claim, stages, challenger)
                .map_err(of_statement("salts"))?;
        }
        Ok(())
    }

    /// The output is the committed columns'.
    fn hidden_output(
        &mut self,
        output: &TensorPlan,
        point: Vec<E>,
        proof: &NodeProof,
        challenger: &mut Challenger,
    ) -> Result<Claim<A::Value>, NodeCheck> {
        let NodeProof {
            merge: None,
            gadget: GadgetProof::Output(proof),
        } = proof
        else {
            return Err(NodeCheck::Messages);
        };
        let value = self.absorb_one(proof.value, challenger);
        let claim = Claim { point, value };
        let stages = std::slice::from_ref(&proof.stage);
        self.staged(&output.staged, &claim, stages, challenger)?;
        Ok(claim)
    }

    /// The input is the committed columns'.
    fn hidden_input(
        &mut self,
        input: &TensorPlan,
        proof: &NodeProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let NodeProof { merge, gadget } = proof;
        let GadgetProof::Staged(stages) = gadget else {
            return Err(NodeCheck::Messages);
        };
        let claim = self.single_claim(TensorId::INPUT, merge.as_ref(), challenger)?;
        self.staged(&input.staged, &claim, stages, challenger)
    }

    /// The input is the public one.
    fn public_input(&mut self) -> Result<(), VerifyError> {
        let layout = self.plan.layouts[0];
        for claim in std::mem::take(&mut self.claims[0]) {
            let read = evaluate_tensor(self.input, layout, &claim.point);
            // Stops: a proof about another input.
            self.equal(claim.value, A::Value::from(read))
                .ok_or(VerifyError::Input)?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        node: usize,
        proof: &NodeProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let claim = self.single_claim(TensorId::of_node(node), proof.merge.as_ref(), challenger)?;
        let (program, plan) = (self.program, self.plan);
        match (&program.nodes[node].op, &plan.nodes[node], &proof.gadget) {
            (
                Op::Conv(_) | Op::Dense(_),
                NodePlan::Weighted { weights },
                GadgetProof::Products(proof),
            ) => self.products(node, *weights, &claim, proof, challenger),
            (Op::Parameter(_), NodePlan::Weighted { weights }, GadgetProof::Parameter(pieces)) => {
                self.parameter(node, *weights, &claim, pieces, challenger)
            }
            (Op::Embed(_), NodePlan::Weighted { weights }, GadgetProof::Embed(proof)) => {
                self.embed(node, *weights, &claim, proof, challenger)
            }
            (_, NodePlan::Chosen { weights, gadget }, GadgetProof::Chosen(proof)) => {
                self.embed_chosen(node, (*weights, gadget), &claim, proof, challenger)
            }
            (_, NodePlan::Trees(trees), GadgetProof::Trees(proof)) => {
                self.trees(node, trees, &claim, proof, challenger)
            }
            (_, NodePlan::Map(_), GadgetProof::Map(proof)) => {
                self.map(node, &claim, proof, challenger)
            }
            (Op::Mul(op::Mul { inputs }), _, GadgetProof::Mul(proof)) => {
                self.mul(node, *inputs, &claim, proof, challenger)
            }
            (Op::MatMul(_), _, GadgetProof::MatMul(proof)) => {
                self.matmul(node, &claim, proof, challenger)
            }
            (
                Op::Requantise(op::Unary { input, how }),
                NodePlan::Requantise {
                    first_group,
                    columns,
                    ..
                },
                GadgetProof::Requantise(proof),
            ) => {
                self.requantise(
                    *input,
                    how,
                    (*first_group, columns),
                    claim,
                    proof,
                    challenger,
                );
                Ok(())
            }
            (
                _,
                NodePlan::Maximum {
                    shape,
                    first_group,
                    columns,
                },
                GadgetProof::Maximum(proof),
            ) => self.maximum(
                node,
                shape,
                (*first_group, columns),
                &claim,
                proof,
                challenger,
            ),
            (_, NodePlan::Gadget(gadget), GadgetProof::Staged(proofs)) => {
                self.staged(&gadget.staged, &claim, proofs, challenger)
            }
            _ => Err(NodeCheck::Messages),
        }
    }

    /// A claim on a tensor, to be shown when the walk comes to its node.
    pub(super) fn claim(&mut self, tensor: TensorId, point: Vec<E>, value: A::Value) {
        self.claims[tensor.index()].push(Claim { point, value });
    }

    /// What a reader group pulled: one value per column of its table, at a point of its column set.
    pub(super) fn pull(&mut self, group: usize, point: &[E], values: Vec<A::Value>) {
        let point = point.to_vec();
        self.pulled[group] = Pulled { point, values };
    }

    /// Absorbs and receives one message.
    pub(super) fn absorb_one(&mut self, message: E, challenger: &mut Challenger) -> A::Value {
        absorb(challenger, &[message]);
        self.arithmetic.receive(message)
    }

    /// Absorbs values of the weights, and receives them if they are private; else they are what was sent.
    pub(super) fn absorb_weights(
        &mut self,
        messages: &[E],
        challenger: &mut Challenger,
    ) -> Vec<A::Value> {
        absorb(challenger, messages);
        if self.plan.private_weights {
            return self.arithmetic.receive_all(messages);
        }
        messages.iter().copied().map(A::Value::from).collect()
    }

    /// Draws one challenge, which a polynomial of a degree may vanish at.
    pub(super) fn draw(&mut self, degree: usize, challenger: &mut Challenger) -> E {
        self.drawn.note(degree);
        draw(challenger)
    }

    /// Draws a point, at which two multilinear extensions may agree.
    pub(super) fn draw_point(&mut self, vars: usize, challenger: &mut Challenger) -> Vec<E> {
        self.drawn.note(vars);
        draw_point(challenger, vars)
    }

    /// Nothing if two values differ.
    pub(super) fn equal(&mut self, left: A::Value, right: A::Value) -> Option<()> {
        self.arithmetic.vanishes(left - right).then_some(())
    }

    /// A sumcheck of some rounds and a degree, see [`sumcheck::verify`].
    pub(super) fn sumcheck(
        &mut self,
        proof: &Sumcheck,
        challenger: &mut Challenger,
        shape: (usize, usize),
        sum: A::Value,
    ) -> Option<(Vec<E>, A::Value)> {
        let (rounds, degree) = shape;
        self.drawn.note(rounds * degree);
        sumcheck::verify(&mut self.arithmetic, proof, challenger, shape, sum)
    }
}

impl<A: Arithmetic> Walk<'_, A> {
    /// With debug assertions: that the security report charges for all that was drawn.
    ///
    /// # Panics
    /// If it does not, which is a mistake of ours.
    pub(super) fn debug_check_draws(&self) {
        if cfg!(debug_assertions) {
            let unlisted = self.drawn.unlisted(self.program, self.plan);
            assert_eq!(
                unlisted, None,
                "drawn and not charged: place, drawn, listed"
            );
        }
    }

    /// The lookup argument about all that the nodes have pulled.
    pub(super) fn look_up(
        &mut self,
        lookup: LookupMessages<'_>,
        scheme: Option<&Pcs>,
        challenger: &mut Challenger,
    ) -> Result<LookupClaims<A::Value>, VerifyError> {
        lookup::verify(
            &mut self.arithmetic,
            (self.plan, scheme),
            &self.pulled,
            lookup,
            challenger,
        )
    }
}
