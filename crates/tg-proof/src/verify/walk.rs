//! The state of the walk: open claims per tensor, what was pulled, and what must be opened.

use super::evaluate_tensor;
use super::{NodeCheck, VerifyError};
use crate::algebra::arithmetic::{Arithmetic, Clear};
use crate::algebra::field::E;
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::{Open, PublicWork, Theorem};
use crate::argument::sumcheck::{self, SumShape};
use crate::plan::{NodePlan, Plan, SaltPlan, TensorPlan};
use crate::verify::lookup::{Pulled, PulledIn};
use crate::verify::messages::{GadgetProof, NodeProof, Sumcheck};
use crate::verify::places::WalkPlaces;
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};

/// A claim that a tensor's extension has a value at a point.
#[derive(Debug, Clone)]
pub struct Claim<V = E, P = Vec<E>> {
    /// The point.
    pub point: P,
    /// The value.
    pub value: V,
}

/// A claim that committed columns have values at a point of their chunk.
#[derive(Debug, Clone)]
pub struct ColumnClaim<V = E, P = Vec<E>> {
    /// The point, with as many coordinates as the chunk has variables.
    pub point: P,
    /// The values of the columns that the plan names for this opening.
    pub values: Vec<V>,
}

/// The claims on a node's weights.
#[derive(Debug, Clone)]
pub struct WeightClaims<V = E, P = Vec<E>> {
    /// Output channel, position and input channel.
    pub point: P,
    /// The pieces at their parts of the point.
    pub pieces: Vec<V>,
    /// The bias digits, if there are biases.
    pub bias: Option<BiasClaims<V, P>>,
}

/// The claims on a node's bias digits.
#[derive(Debug, Clone)]
pub struct BiasClaims<V = E, P = Vec<E>> {
    /// The output channel's point of the claim on the node.
    pub point: P,
    /// The digits there, least first.
    pub digits: Vec<V>,
}

/// A claim on a tensor in an arithmetic.
pub(crate) type ClaimIn<A> = Claim<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;
/// Claims on weights in an arithmetic.
pub(super) type WeightClaimsIn<A> =
    WeightClaims<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;
/// A claim on columns in an arithmetic.
pub(super) type ColumnClaimIn<A> = ColumnClaim<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;

/// The tensors that a statement shows, batched; a count has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownElements<'a> {
    /// The input, unless it is hidden.
    pub input: &'a [i32],
    /// The outputs in the program's order, unless they are hidden.
    pub outputs: &'a [Vec<i32>],
}

/// What a stage is to show: the claim on the output, and those on the sums.
#[derive(Debug)]
pub(super) struct Stated<'a, V> {
    /// Of the output.
    pub(super) output: &'a V,
    /// Of the sums.
    pub(super) sums: &'a [V],
}

/// The state of the walk.
#[derive(Debug)]
pub struct Walk<'a, A: Arithmetic = Clear> {
    pub(super) channel: Receiver<'a, A>,
    pub(super) program: &'a Program,
    pub(super) plan: &'a Plan,
    /// The public input, batched.
    pub(super) input: &'a [i32],
    outputs: &'a [Vec<i32>],
    /// Per tensor the open claims.
    pub(super) claims: Vec<Vec<ClaimIn<A>>>,
    /// Per reader group what it pulled.
    pub(super) pulled: Vec<PulledIn<A>>,
    /// Per weighted node the claims on its weights.
    pub(super) weights: Vec<Option<WeightClaimsIn<A>>>,
    /// Per witness table the claims besides those of the lookup argument, in the order of the plan's openings.
    pub(super) opened: Vec<Vec<ColumnClaimIn<A>>>,
}

/// Whether there is a merge, and which gadget it is.
const NODE_TAGS: u64 = 2;

/// The messages of a gadget, if there are some and they are of its kind.
macro_rules! messages {
    ($sent:expr, $kind:ident) => {
        match $sent.map(|sent| &sent.gadget) {
            None => None,
            Some(GadgetProof::$kind(messages)) => Some(messages),
            Some(_) => return Err(NodeCheck::Messages),
        }
    };
}

impl<'a, A: Arithmetic> Walk<'a, A> {
    pub(super) fn new(
        mut channel: Receiver<'a, A>,
        program: &'a Program,
        plan: &'a Plan,
        shown: ShownElements<'a>,
    ) -> Self {
        let open = Open {
            witness: plan.looks_up(),
            weights: !plan.weights.is_empty(),
            pushforwards: false,
        };
        channel.begin(WalkPlaces::of(program).count(), open);
        let nothing = Pulled {
            point: A::Point::default(),
            values: Vec::new(),
        };
        Self {
            channel,
            program,
            plan,
            input: shown.input,
            outputs: shown.outputs,
            claims: vec![Vec::new(); program.nodes.len() + 1],
            pulled: vec![nothing; plan.groups.len()],
            weights: vec![None; plan.weights.len()],
            opened: vec![Vec::new(); plan.witness.len()],
        }
    }

    /// All nodes, from the outputs to the input; a count has no messages.
    pub(super) fn run(&mut self, sent: Option<&[NodeProof]>) -> Result<(), VerifyError> {
        let plan = self.plan;
        let nodes = self.program.nodes.len();
        let places = WalkPlaces::of(self.program);
        // What is committed of the statement has messages too: outputs the first, an input and salts the last.
        let more = [plan.input.is_some(), plan.salts.is_some()];
        let more = more.into_iter().filter(|&there| there).count();
        let expected = nodes + plan.committed_outputs() + more;
        let got = sent.map_or(expected, <[_]>::len);
        if got != expected {
            return Err(VerifyError::Nodes { expected, got });
        }
        // The list of them.
        self.channel.tally.send(0, 1);
        let mut sent = (0..expected).map(|index| sent.map(|sent| &sent[index]));
        let mut next = || sent.next().flatten();
        let of_statement = |name: &str| {
            let name = name.to_owned();
            move |check| VerifyError::Node {
                node: nodes,
                name,
                check,
            }
        };
        self.channel.tally.come_to(places.output());
        for (index, output) in self.program.outputs().into_iter().enumerate() {
            let layout = plan.layouts[output.index()];
            let point = self.channel.draw_point(Theorem::OutputPoint, layout.vars());
            let claim = match plan.outputs.get(index).and_then(Option::as_ref) {
                Some(hidden) => self
                    .hidden_output(hidden, point, next())
                    .map_err(of_statement("output"))?,
                None => self.public_output((index, output), point),
            };
            self.claim(output, claim.point, claim.value);
        }
        for node in (0..nodes).rev() {
            self.channel.tally.come_to(node);
            self.node(node, next()).map_err(|check| {
                let name = self.program.nodes[node].name.clone();
                VerifyError::Node { node, name, check }
            })?;
        }
        self.channel.tally.come_to(places.input());
        match &plan.input {
            Some(input) => self
                .hidden_input(input, next())
                .map_err(of_statement("input"))?,
            None => self.public_input()?,
        }
        if let Some(salts) = &plan.salts {
            self.channel.tally.come_to(places.salts());
            self.salts(salts, next()).map_err(of_statement("salts"))?;
        }
        Ok(())
    }

    /// An output is the public one.
    fn public_output(&mut self, (index, output): (usize, TensorId), point: A::Point) -> ClaimIn<A> {
        let layout = self.plan.layouts[output.index()];
        let output = self.outputs.get(index).map_or(&[][..], Vec::as_slice);
        // Stops: another output than the one proved.
        let value = self
            .channel
            .public(PublicWork::steps(layout.padded() as u64), |look| {
                evaluate_tensor(output, layout, A::coordinates(look, &point))
            });
        Claim {
            point,
            value: A::Value::from(value),
        }
    }

    /// An output is the committed columns'.
    fn hidden_output(
        &mut self,
        output: &TensorPlan,
        point: A::Point,
        sent: Option<&NodeProof>,
    ) -> Result<ClaimIn<A>, NodeCheck> {
        self.unmerged(sent)?;
        let proof = messages!(sent, Output);
        let value = self.one(proof.map(|proof| &proof.value))?;
        let claim = Claim { point, value };
        let stated = Stated {
            output: &claim.value,
            sums: &[],
        };
        let stage = &output.staged.elements;
        self.alone(
            stage,
            &claim.point,
            &stated,
            proof.map(|proof| &proof.stage),
        )?;
        Ok(claim)
    }

    /// The input is the committed columns'.
    fn hidden_input(
        &mut self,
        input: &TensorPlan,
        sent: Option<&NodeProof>,
    ) -> Result<(), NodeCheck> {
        self.channel.tally.tag(NODE_TAGS);
        let claim = self.single_claim(TensorId::INPUT, sent)?;
        let stages = messages!(sent, Staged);
        self.staged(&input.staged, &claim, stages.map(Vec::as_slice))
    }

    /// The salts of commitments that the statement names are bytes.
    fn salts(&mut self, salts: &SaltPlan, sent: Option<&NodeProof>) -> Result<(), NodeCheck> {
        self.unmerged(sent)?;
        let vars = salts.columns.layout.vars();
        let claim = Claim {
            point: self.channel.draw_point(Theorem::Identities, vars),
            value: A::Value::from(E::default()),
        };
        let stages = messages!(sent, Staged);
        self.staged(&salts.staged, &claim, stages.map(Vec::as_slice))
    }

    /// Messages of what has no claims to be merged.
    fn unmerged(&mut self, sent: Option<&NodeProof>) -> Result<(), NodeCheck> {
        self.channel.tally.tag(NODE_TAGS);
        match sent {
            Some(NodeProof { merge: Some(_), .. }) => Err(NodeCheck::Messages),
            _ => Ok(()),
        }
    }

    /// The input is the public one.
    fn public_input(&mut self) -> Result<(), VerifyError> {
        let (layout, input) = (self.plan.layouts[0], self.input);
        for claim in std::mem::take(&mut self.claims[0]) {
            let read = self.channel.public(PublicWork::default(), |look| {
                evaluate_tensor(input, layout, A::coordinates(look, &claim.point))
            });
            // Stops: a proof about another input.
            self.equal(claim.value, A::Value::from(read))
                .ok_or(VerifyError::Input)?;
        }
        Ok(())
    }

    fn node(&mut self, node: usize, sent: Option<&NodeProof>) -> Result<(), NodeCheck> {
        self.channel.tally.tag(NODE_TAGS);
        let claim = self.single_claim(TensorId::of_node(node), sent)?;
        let (program, plan) = (self.program, self.plan);
        match (&program.nodes[node].op, &plan.nodes[node]) {
            (Op::Conv(_) | Op::Dense(_), NodePlan::Weighted { weights }) => {
                self.products(node, *weights, &claim, messages!(sent, Products))
            }
            (Op::Parameter(_), NodePlan::Weighted { weights }) => {
                let pieces = messages!(sent, Parameter);
                self.parameter(node, *weights, &claim, pieces.map(Vec::as_slice))
            }
            (Op::Embed(_), NodePlan::Weighted { weights }) => {
                self.embed(node, *weights, &claim, messages!(sent, Embed))
            }
            (_, NodePlan::Chosen { weights, gadget }) => {
                self.embed_chosen(node, (*weights, gadget), &claim, messages!(sent, Chosen))
            }
            (_, NodePlan::Trees(trees)) => self.trees(node, trees, &claim, messages!(sent, Trees)),
            (_, NodePlan::Map(how)) => self.map(node, how, &claim, messages!(sent, Map)),
            (Op::Mul(op::Mul { inputs }), _) => {
                self.mul(node, *inputs, &claim, messages!(sent, Mul))
            }
            (Op::MatMul(_), _) => self.matmul(node, &claim, messages!(sent, MatMul)),
            (
                Op::Requantise(op::Unary { input, how }),
                NodePlan::Requantise {
                    first_group,
                    columns,
                    ..
                },
            ) => {
                let place = (*first_group, columns);
                self.requantise(*input, how, place, claim, messages!(sent, Requantise))
            }
            (
                _,
                NodePlan::Maximum {
                    shape,
                    first_group,
                    columns,
                },
            ) => {
                let place = (*first_group, columns);
                self.maximum(node, shape, place, &claim, messages!(sent, Maximum))
            }
            (_, NodePlan::Gadget(gadget)) => {
                let stages = messages!(sent, Staged);
                self.staged(&gadget.staged, &claim, stages.map(Vec::as_slice))
            }
            _ => Err(NodeCheck::Messages),
        }
    }

    /// A claim on a tensor, to be shown when the walk comes to its node. One on a public input is evaluated from its bytes,
    /// which whoever reads it is charged.
    pub(super) fn claim(&mut self, tensor: TensorId, point: A::Point, value: A::Value) {
        if tensor == TensorId::INPUT && self.plan.input.is_none() {
            let elements = self.plan.layouts[0].padded() as u64;
            self.channel.tally.compute(PublicWork::steps(elements));
        }
        self.claims[tensor.index()].push(Claim { point, value });
    }

    /// What a reader group pulled: one value per column of its table, at a point of its column set. Each is an identity at
    /// that point, and that the column lies in the table is another.
    pub(super) fn pull(
        &mut self,
        group: usize,
        point: &A::Point,
        vars: usize,
        values: Vec<A::Value>,
    ) {
        let degree = (values.len() + 1) * vars;
        self.channel.tally.charge(Theorem::Readers, degree);
        let point = point.clone();
        self.pulled[group] = Pulled { point, values };
    }

    /// Absorbs and receives one message.
    pub(super) fn one(&mut self, sent: Option<&E>) -> Result<A::Value, NodeCheck> {
        self.channel.one(sent).ok_or(NodeCheck::Messages)
    }

    /// Absorbs and receives a fixed number of messages.
    pub(super) fn array(
        &mut self,
        sent: Option<&[E]>,
        count: usize,
    ) -> Result<Vec<A::Value>, NodeCheck> {
        self.channel.array(sent, count).ok_or(NodeCheck::Messages)
    }

    /// Absorbs and receives a list of messages.
    pub(super) fn list(
        &mut self,
        sent: Option<&[E]>,
        count: usize,
    ) -> Result<Vec<A::Value>, NodeCheck> {
        self.channel.list(sent, count).ok_or(NodeCheck::Messages)
    }

    /// Absorbs values of the weights, and receives them if they are private; else they are what was sent.
    pub(super) fn weight_array(
        &mut self,
        sent: Option<&[E]>,
        count: usize,
    ) -> Result<Vec<A::Value>, NodeCheck> {
        let values = if self.plan.private_weights {
            self.channel.array(sent, count)
        } else {
            self.channel.known(sent, count)
        };
        values.ok_or(NodeCheck::Messages)
    }

    /// The same of a list.
    pub(super) fn weight_list(
        &mut self,
        sent: Option<&[E]>,
        count: usize,
    ) -> Result<Vec<A::Value>, NodeCheck> {
        self.channel.tally.send(0, 1);
        self.weight_array(sent, count)
    }

    /// The weights at a point from their pieces at its parts.
    pub(super) fn combined_weights(
        &mut self,
        weights: usize,
        point: &A::Point,
        pieces: &[A::Value],
    ) -> A::Value {
        let layout = &self.plan.weights[weights];
        let work = PublicWork::steps(PublicWork::EQ.steps * pieces.len() as u64);
        let factors: Option<Vec<E>> = self.channel.public(work, |look| {
            Some(layout.piece_factors(A::coordinates(look, point)))
        });
        let factors = factors.unwrap_or_else(|| vec![E::default(); pieces.len()]);
        let terms = pieces.iter().zip(factors);
        terms.map(|(piece, factor)| piece.clone() * factor).sum()
    }

    /// Nothing if two values differ.
    pub(super) fn equal(&mut self, left: A::Value, right: A::Value) -> Option<()> {
        self.channel.equal(left, right)
    }

    /// A sumcheck, see [`sumcheck::verify`].
    pub(super) fn sumcheck(
        &mut self,
        sent: Option<&Sumcheck>,
        shape: SumShape,
        sum: A::Value,
    ) -> Option<(A::Point, A::Value)> {
        sumcheck::verify(&mut self.channel, sent, shape, sum)
    }
}
