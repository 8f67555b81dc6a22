//! The one lookup argument of a proof: its public side.

use crate::algebra::arithmetic::{Arithmetic, Value};
use crate::algebra::field::{E, eq, eq_at, evaluate, identity_at, inner_product};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::{PublicWork, Theorem};
use crate::algebra::transcript::absorb;
use crate::argument::commitment::Pcs;
use crate::argument::fractional::{self, Fraction, LeafClaim};
use crate::plan::{LeafBlock, PlacedBlock, Plan};
use crate::verify::messages::{LookupProof, Pushforward, Pushforwards, SumProof};
use crate::verify::{LookupCheck, VerifyError};
use p3_challenger::CanObserve;
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::FractionGkrProof;

/// What a reader claims to have pulled.
#[derive(Debug, Clone)]
pub struct Pulled<V = E, P = Vec<E>> {
    /// The point at which the column was read.
    pub point: P,
    /// One value per column of the table.
    pub values: Vec<V>,
}

/// What the argument leaves to be opened.
#[derive(Debug, Clone)]
pub struct LookupClaims<V = E, P = Vec<E>> {
    /// The point of the last fractional sum.
    pub point: P,
    /// The points of the sections' sums, if there are several.
    pub section_points: Vec<P>,
    /// Per witness table of n variables its columns at the last n coordinates of its section's point, or of the last.
    pub columns: Vec<Vec<V>>,
    /// What is claimed of the pushforwards, if they are committed.
    pub pushforwards: Option<PushforwardClaims<V>>,
}

impl<V, P> LookupClaims<V, P> {
    /// Per section of a plan the point at whose last coordinates its columns are claimed.
    #[must_use]
    pub fn points(&self) -> &[P] {
        if self.section_points.is_empty() {
            std::slice::from_ref(&self.point)
        } else {
            &self.section_points
        }
    }
}

/// What is claimed of committed pushforwards Y.
#[derive(Debug, Clone)]
pub struct PushforwardClaims<V = E> {
    /// The sum over all tables t of `sel_t Y_t~(rest of the point)`, sel_t the weight of the table's block of leaves.
    pub leaves: V,
    /// Per table and column T of it `<T, Y_t>`.
    pub columns: Vec<Vec<V>>,
}

impl<V: Value> PushforwardClaims<V> {
    /// All of them as one, by the powers of a challenge: the leaves' value, and per table and column what its readers pulled.
    #[must_use]
    pub fn combined(&self, beta: E) -> V {
        let Self { leaves, columns } = self;
        let all = std::iter::once(leaves).chain(columns.iter().flatten());
        all.zip(beta.powers())
            .map(|(value, power)| value.clone() * power)
            .sum()
    }
}

/// Powers of one challenge, one per reader group.
#[must_use]
pub fn group_weights(gamma: E, groups: usize) -> Vec<E> {
    gamma.powers().take(groups).collect()
}

/// The scale and the point of a reader's leaves in one chunk: `eq(r, start + x) = scale * eq(rest, x)`.
#[must_use]
pub fn chunk_weights<'a>(plan: &Plan, witness: usize, point: &'a [E]) -> (E, &'a [E]) {
    let chunk = plan.witness[witness].chunk;
    let (high, rest) = point.split_at(point.len() - chunk.vars);
    (eq_at(high, chunk.start >> chunk.vars), rest)
}

/// The messages of the argument.
#[derive(Debug, Clone, Copy)]
pub struct LookupMessages<'a> {
    /// Those of every proof.
    pub proof: &'a LookupProof,
    /// The sums of the sections, if there are several.
    pub sections: &'a [SumProof],
    /// The numerator of the tables' sum, if there are several sections.
    pub tables: E,
}

/// What a reader pulled in an arithmetic.
pub(super) type PulledIn<A> = Pulled<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;
/// What the argument leaves to be opened in an arithmetic.
pub(super) type ClaimsIn<A> = LookupClaims<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;
/// What is left of a fractional sum in an arithmetic.
type LeafClaimIn<A> = LeafClaim<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;

/// Checks the argument, up to what it leaves to be opened; a count has no messages.
///
/// # Errors
/// The part of the argument that fails.
pub(super) fn verify<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    (plan, scheme): (&Plan, Option<&Pcs>),
    pulled: &[PulledIn<A>],
    messages: Option<LookupMessages<'_>>,
) -> Result<ClaimsIn<A>, VerifyError> {
    if let Some(messages) = &messages {
        check_messages(plan, messages)?;
    }
    let sent = messages.map(|messages| messages.proof);
    let gamma = channel.draw(Theorem::ReaderBatching, plan.groups.len());
    let weights = group_weights(gamma, plan.groups.len());
    let claimed = claimed_columns::<A>(plan, pulled, &weights)?;
    observe(channel, plan, scheme, (sent, &claimed))?;
    let poles = draw_poles(channel, plan);
    let (sections, last) = verify_sums(channel, plan, messages)?;
    // The list of tables.
    channel.tally.send(0, 1);
    let columns = plan.witness.iter().enumerate().map(|(index, table)| {
        let own = sent.map(|sent| sent.columns[index].as_slice());
        channel.list(own, table.columns).ok_or(MESSAGES)
    });
    let columns: Vec<Vec<A::Value>> = columns.collect::<Result<_, _>>()?;
    let mut claims = LookupClaims {
        point: last.point.clone(),
        section_points: sections.iter().map(|sum| sum.point.clone()).collect(),
        columns,
        pushforwards: None,
    };
    let public = Leaves {
        plan,
        pulled,
        weights: &weights,
        poles: &poles,
        pushforwards: sent.map(|sent| &sent.pushforwards),
    };
    let mut holds = true;
    for (section, sum) in plan.sections.iter().zip(sections) {
        let (numerators, denominators) =
            public.differences(channel, &section.leaves, &claims.columns, sum);
        let arithmetic = &mut channel.arithmetic;
        holds &= arithmetic.vanishes(numerators) && arithmetic.vanishes(denominators);
    }
    let (numerators, denominators) =
        public.differences(channel, &plan.leaves, &claims.columns, last);
    if plan.pushforwards.is_some() {
        // What is missing from the readers' numerators is the tables'.
        claims.pushforwards = Some(PushforwardClaims {
            leaves: numerators,
            columns: claimed,
        });
    } else {
        holds &= channel.arithmetic.vanishes(numerators);
    }
    if !holds || !channel.arithmetic.vanishes(denominators) {
        return Err(VerifyError::Lookup(LookupCheck::Leaves));
    }
    Ok(claims)
}

/// Absorbs the pushforwards or their commitment; those that are sent are checked at once.
fn observe<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    plan: &Plan,
    scheme: Option<&Pcs>,
    (sent, claimed): (Option<&LookupProof>, &[Vec<A::Value>]),
) -> Result<(), VerifyError> {
    if plan.pushforwards.is_some() {
        channel.tally.commit_pushforwards();
    }
    match sent.map(|sent| &sent.pushforwards) {
        Some(Pushforwards::Clear(tables)) => {
            check_pulled(&mut channel.arithmetic, plan, claimed, tables)?;
            let transcript = channel.transcript.as_deref_mut().ok_or(MESSAGES)?;
            tables.iter().for_each(|table| absorb(transcript, table));
        }
        Some(Pushforwards::Committed(committed)) => {
            let transcript = channel.transcript.as_deref_mut().ok_or(MESSAGES)?;
            let scheme = scheme.ok_or(MESSAGES)?;
            scheme.observe_commitment(&committed.root, transcript);
        }
        Some(Pushforwards::Hidden(root)) => {
            let transcript = channel.transcript.as_deref_mut().ok_or(MESSAGES)?;
            transcript.observe(root.clone());
        }
        None => {}
    }
    Ok(())
}

/// Draws a pole per table, at which no two different sums of fractions may agree.
fn draw_poles<A: Arithmetic>(channel: &mut Receiver<'_, A>, plan: &Plan) -> Vec<E> {
    let leaves = plan.sum_vars().map(|vars| 1usize << vars);
    let leaves = leaves.fold(0, usize::saturating_add);
    channel.tally.charge(Theorem::Poles, leaves);
    let tables = plan.tables.iter();
    tables.map(|_| channel.draw(Theorem::Poles, 1)).collect()
}

/// What is left of the sections' sums, and of the last.
type SumClaims<A> = (Vec<LeafClaimIn<A>>, LeafClaimIn<A>);

/// Checks all fractional sums down to their leaves: those of the sections, if there are several, and the last. They add
/// up to zero. Stops: a sum of one section that is not its readers', or that another one's does not make up for.
fn verify_sums<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    plan: &Plan,
    messages: Option<LookupMessages<'_>>,
) -> Result<SumClaims<A>, VerifyError> {
    const SUM: VerifyError = VerifyError::Lookup(LookupCheck::Sum);
    let sent = messages.map(|messages| &messages.proof.gkr);
    if !plan.is_anchored() {
        let last = fractional::verify(channel, sent, plan.leaf_vars);
        return Ok((Vec::new(), last.ok_or(SUM)?));
    }
    let sums = messages.map(|messages| messages.sections);
    let mut claims = Vec::with_capacity(plan.sections.len());
    let (mut total, mut below) = (A::Value::from(E::ZERO), A::Value::from(E::ONE));
    for (index, section) in plan.sections.iter().enumerate() {
        let sent = sums.map(|sums| &sums[index]);
        let sum = Fraction {
            numerator: channel.one(sent.map(|sent| &sent.numerator)).ok_or(SUM)?,
            denominator: root(channel, sent.map(|sent| &sent.gkr)).ok_or(SUM)?,
        };
        let sent = sent.map(|sent| &sent.gkr);
        let claim = fractional::verify_sum(channel, sent, sum.clone(), section.leaf_vars);
        claims.push(claim.ok_or(SUM)?);
        let crossed = channel.arithmetic.product(&sum.numerator, &below);
        total = channel.arithmetic.product(&total, &sum.denominator) + crossed;
        below = channel.arithmetic.product(&below, &sum.denominator);
    }
    let numerator = messages.as_ref().map(|messages| &messages.tables);
    let sum = Fraction {
        numerator: channel.one(numerator).ok_or(SUM)?,
        denominator: root(channel, sent).ok_or(SUM)?,
    };
    let crossed = channel.arithmetic.product(&sum.numerator, &below);
    let total = channel.arithmetic.product(&total, &sum.denominator) + crossed;
    if !channel.arithmetic.vanishes(total) {
        return Err(SUM);
    }
    let last = fractional::verify_sum(channel, sent, sum, plan.leaf_vars);
    Ok((claims, last.ok_or(SUM)?))
}

/// The root of a fractional sum, which its transcript absorbs.
fn root<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    sent: Option<&FractionGkrProof<E>>,
) -> Option<A::Value> {
    channel.absorbed(sent.map(|sent| &sent.root_denominator))
}

/// What the leaves depend on besides the committed columns.
struct Leaves<'a, A: Arithmetic> {
    plan: &'a Plan,
    pulled: &'a [PulledIn<A>],
    weights: &'a [E],
    poles: &'a [E],
    pushforwards: Option<&'a Pushforwards>,
}

/// The public part of what is left of a fractional sum, and what each column of positions counts in it.
#[derive(Default)]
struct PublicLeaves {
    numerator: E,
    denominator: E,
    /// Witness table, column and factor.
    positions: Vec<(usize, usize, E)>,
}

impl<A: Arithmetic> Leaves<'_, A> {
    /// The leaves of a sum at its final point, from public values and claimed columns, less what the sum claims there.
    /// Stops: leaves that are not (weight of the reader, pole - committed position) and (-pushforward, pole - entry).
    fn differences(
        &self,
        channel: &mut Receiver<'_, A>,
        leaves: &[PlacedBlock],
        columns: &[Vec<A::Value>],
        sum: LeafClaimIn<A>,
    ) -> (A::Value, A::Value) {
        // What it takes is charged with the readers, as the plan grows.
        let public = channel.public(PublicWork::default(), |look| {
            self.public(look, leaves, A::coordinates(look, &sum.point))
        });
        let positions = public.positions.iter();
        let positions = positions
            .map(|&(witness, column, factor)| columns[witness][column].clone() * factor)
            .fold(A::Value::from(E::ZERO), |sum, position| sum + position);
        let denominators = A::Value::from(public.denominator) - positions;
        (
            A::Value::from(public.numerator) - sum.numerator,
            denominators - sum.denominator,
        )
    }

    fn public(&self, look: A::Look, leaves: &[PlacedBlock], point: &[E]) -> PublicLeaves {
        let (mut numerator, mut denominator, mut covered) = (E::ZERO, E::ONE, E::ZERO);
        let mut positions = Vec::with_capacity(leaves.len());
        for placed in leaves {
            let (high, rest) = point.split_at(point.len() - placed.vars);
            let selector = eq_at(high, placed.start >> placed.vars);
            covered += selector;
            match placed.block {
                LeafBlock::Reader { group, witness } => {
                    let reader = &self.plan.groups[group];
                    let pulled_at = A::coordinates(look, &self.pulled[group].point);
                    let (scale, read_at) = chunk_weights(self.plan, witness, pulled_at);
                    numerator += selector * self.weights[group] * scale * eq(read_at, rest);
                    denominator +=
                        selector * (self.poles[reader.table] - E::from_u32(reader.offset));
                    positions.push((witness, reader.column, selector));
                }
                LeafBlock::Table { table } => {
                    if let Some(Pushforwards::Clear(tables)) = self.pushforwards {
                        numerator -= selector * evaluate(&tables[table], rest);
                    }
                    denominator += selector * (self.poles[table] - identity_at(rest));
                }
            }
        }
        PublicLeaves {
            numerator,
            denominator: denominator - covered,
            positions,
        }
    }
}

const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);

fn check_messages(plan: &Plan, messages: &LookupMessages<'_>) -> Result<(), VerifyError> {
    let LookupMessages {
        proof, sections, ..
    } = messages;
    let expected = if plan.is_anchored() {
        plan.sections.len()
    } else {
        0
    };
    let tables = match (&proof.pushforwards, &plan.pushforwards) {
        (Pushforwards::Clear(tables), None) => {
            tables.len() == plan.tables.len()
                && tables
                    .iter()
                    .zip(&plan.tables)
                    .all(|(pushforward, table)| pushforward.len() == table.len())
        }
        (Pushforwards::Committed(committed), Some(layout)) if !plan.hidden => {
            committed.columns.len() == layout.chunks.len()
        }
        // Stops: a proof in zero knowledge that hides nothing, and one in the clear that is not bound.
        (Pushforwards::Hidden(_), Some(_)) => plan.hidden,
        _ => false,
    };
    let columns = proof.columns.len() == plan.witness.len()
        && proof
            .columns
            .iter()
            .zip(&plan.witness)
            .all(|(columns, table)| columns.len() == table.columns);
    // Stops: a section without a sum.
    if tables && columns && sections.len() == expected {
        Ok(())
    } else {
        Err(MESSAGES)
    }
}

/// Per column T of every table t, `sum over readers of t of gamma^g pulled`.
fn claimed_columns<A: Arithmetic>(
    plan: &Plan,
    pulled: &[PulledIn<A>],
    weights: &[E],
) -> Result<Vec<Vec<A::Value>>, VerifyError> {
    let tables = plan.tables.iter();
    let mut claimed: Vec<Vec<A::Value>> = tables
        .map(|table| vec![A::Value::from(E::ZERO); table.columns.len()])
        .collect();
    for ((reader, pulled), &weight) in plan.groups.iter().zip(pulled).zip(weights) {
        if pulled.values.len() != claimed[reader.table].len() {
            return Err(MESSAGES);
        }
        for (sum, value) in claimed[reader.table].iter_mut().zip(&pulled.values) {
            // In place: a form has a term for each reader before.
            let before = std::mem::replace(sum, A::Value::from(E::ZERO));
            *sum = before + value.clone() * weight;
        }
    }
    Ok(claimed)
}

/// `<T, Y_t>` is what the readers pulled, for every column T of every table t. Stops: values that no entry of the public
/// table gives.
fn check_pulled<A: Arithmetic>(
    arithmetic: &mut A,
    plan: &Plan,
    claimed: &[Vec<A::Value>],
    pushforwards: &[Pushforward],
) -> Result<(), VerifyError> {
    for ((table, pushforward), claimed) in plan.tables.iter().zip(pushforwards).zip(claimed) {
        for (entries, claimed) in table.columns.iter().zip(claimed) {
            let given = A::Value::from(inner_product(entries, pushforward));
            if !arithmetic.vanishes(given - claimed.clone()) {
                return Err(VerifyError::Lookup(LookupCheck::Pulled));
            }
        }
    }
    Ok(())
}
