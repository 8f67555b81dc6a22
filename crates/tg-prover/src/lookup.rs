//! The lookup argument, of which a proof has one: the prover's side.

use crate::channel::Channel;
use crate::error::ProveError;
use crate::fractional::{self, Leaves, LeavesBuilder};
use crate::limits::Limits;
use crate::pack;
use crate::pushforward::{self, Committed};
use crate::record::step;
use crate::witness::{Witness, integer};
use p3_challenger::CanObserve;
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use p3_multilinear_util::poly::{Poly, PolyView};
use p3_sumcheck::OpeningProtocol;
use p3_sumcheck::layout::Table;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tg_proof::arithmetic::Clear;
use tg_proof::commitment::{Challenger, Commitment, Pcs};
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::fractional::{Fraction, verify as verify_fractions, verify_sum};
use tg_proof::lookup::{chunk_weights, group_weights};
use tg_proof::messages::{LookupProof, Pushforward, Pushforwards, SumProof};
use tg_proof::plan::{LeafBlock, PlacedBlock, Plan, Section};
use tg_proof::receiver::Receiver;
use tg_proof::transcript::absorb;

/// Rows whose weights one task scatters.
const TASK_ROWS: usize = 1 << 14;

/// What a reader has read: its point and its pushforward.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// Where the column was read.
    pub(crate) point: Arc<[E]>,
    /// Per table entry the weight of the rows that read it.
    pub(crate) pushforward: Vec<E>,
}

impl Read {
    /// Reads a group's columns at a point with its equality weights.
    pub(crate) fn new(
        plan: &Plan,
        witness: &Witness,
        group: usize,
        point: &Arc<[E]>,
        eq: &[E],
    ) -> Self {
        let reader = &plan.groups[group];
        let entries = plan.tables[reader.table].len();
        let mut pushforward = vec![E::ZERO; entries];
        for table in reader.witness.clone() {
            let chunk = plan.witness[table].chunk;
            let weights = &eq[chunk.start..chunk.start + chunk.rows()];
            let column = &witness.columns[table][reader.column][..chunk.rows()];
            let parts: Vec<Vec<E>> = column
                .par_chunks(TASK_ROWS)
                .zip(weights.par_chunks(TASK_ROWS))
                .map(|(values, weights)| {
                    let mut sums = vec![E::ZERO; entries];
                    for (&value, &weight) in values.iter().zip(weights) {
                        let position = position(integer(value), reader.offset);
                        // A position outside the table reads nothing; the fractional sum will not vanish.
                        if let Some(sum) = sums.get_mut(position) {
                            *sum += weight;
                        }
                    }
                    sums
                })
                .collect();
            for part in parts {
                let sums = pushforward.iter_mut().zip(part);
                sums.for_each(|(sum, value)| *sum += value);
            }
        }
        Self {
            point: Arc::clone(point),
            pushforward,
        }
    }

    /// The pulled value of a table column.
    pub(crate) fn pull(&self, plan: &Plan, group: usize, column: usize) -> E {
        inner_product(
            &plan.tables[plan.groups[group].table].columns[column],
            &self.pushforward,
        )
    }
}

/// The position that a committed value names, modulo the prime.
const fn position(value: u32, offset: u32) -> usize {
    ((value as u64 + offset as u64) % PRIME) as usize
}

const PRIME: u64 = (1 << 31) - (1 << 24) + 1;

/// What proving the argument gives.
pub(crate) struct LookedUp {
    pub(crate) proof: LookupProof,
    /// Of the sections, if there are several.
    pub(crate) sums: Vec<SumProof>,
    /// The numerator of the tables' sum, if there are several sections.
    pub(crate) tables: E,
    /// Per section the point at whose last coordinates its columns are claimed.
    pub(crate) points: Vec<Vec<E>>,
}

/// Proves the argument.
pub(crate) fn prove<'a>(
    plan: &'a Plan,
    pushing: Pushing<'a>,
    columns: &Columns<'_>,
    reads: &[Read],
    (channel, limits): (&mut Channel, &Limits<'_>),
) -> Result<LookedUp, ProveError> {
    let gamma = channel.draw();
    let weights = group_weights(gamma, plan.groups.len());
    let pushforwards = combine(plan, reads, &weights);
    #[cfg(test)]
    let pushforwards = crate::tests::pushforwards::lied(pushforwards);
    let pushed = pushing.commit(plan, &pushforwards, channel)?;
    let poles: Vec<E> = plan.tables.iter().map(|_| channel.draw()).collect();
    let drawn = Drawn {
        plan,
        reads,
        weights: &weights,
        pushforwards: &pushforwards,
        poles: &poles,
    };
    let summed = match columns {
        Columns::Held(columns) => drawn.sum_whole(columns, channel, limits),
        Columns::Sections(witness) => drawn.sum_sections(witness, channel, limits),
    }?;
    let Summed {
        sums,
        last: SumProof { numerator, gkr },
        columns,
        points,
        point,
    } = summed;
    let columns = columns.iter().map(|own| channel.send_all(own)).collect();
    let pushforwards = match pushed {
        Pushed::Clear => Pushforwards::Clear(pushforwards.into_iter().map(Pushforward).collect()),
        Pushed::Committed(committed) => committed.open(plan, &point, channel)?,
        Pushed::Hidden(root) => Pushforwards::Hidden(root),
    };
    let proof = LookupProof {
        pushforwards,
        gkr,
        columns,
    };
    Ok(LookedUp {
        proof,
        sums,
        tables: numerator,
        points,
    })
}

/// A hiding commitment to the pushforwards of all tables.
pub(crate) type Hide<'a> = &'a mut dyn FnMut(&[Vec<E>]) -> Result<Commitment, ProveError>;

/// How the pushforwards travel, unless they are sent.
pub(crate) enum Pushing<'a> {
    /// In the clear, or committed if the plan says so.
    Plain(Option<&'a (Pcs, OpeningProtocol)>),
    /// In a hiding commitment.
    Hidden(Hide<'a>),
}

/// Pushforwards that are bound.
enum Pushed<'a> {
    Clear,
    Committed(Committed<'a>),
    Hidden(Commitment),
}

impl<'a> Pushing<'a> {
    /// Sends or commits the pushforwards.
    fn commit(
        self,
        plan: &'a Plan,
        pushforwards: &[Vec<E>],
        channel: &mut Channel,
    ) -> Result<Pushed<'a>, ProveError> {
        match (self, &plan.pushforwards) {
            (Self::Hidden(hide), _) => {
                let root = hide(pushforwards)?;
                channel.challenger().observe(root.clone());
                Ok(Pushed::Hidden(root))
            }
            (Self::Plain(Some(scheme)), Some(layout)) => {
                let committed = pushforward::commit(layout, scheme, pushforwards, channel)?;
                Ok(Pushed::Committed(committed))
            }
            (Self::Plain(_), _) => {
                let tables = pushforwards.iter();
                tables.for_each(|table| channel.send_public(table));
                Ok(Pushed::Clear)
            }
        }
    }
}

/// Per table the sum of its readers' pushforwards.
fn combine(plan: &Plan, reads: &[Read], weights: &[E]) -> Vec<Vec<E>> {
    let mut pushforwards: Vec<Vec<E>> = plan
        .tables
        .iter()
        .map(|table| vec![E::ZERO; table.len()])
        .collect();
    for ((reader, read), &weight) in plan.groups.iter().zip(reads).zip(weights) {
        for (sum, &value) in pushforwards[reader.table].iter_mut().zip(&read.pushforward) {
            *sum += weight * value;
        }
    }
    pushforwards
}

/// What the leaves depend on besides columns.
struct Drawn<'a> {
    plan: &'a Plan,
    reads: &'a [Read],
    weights: &'a [E],
    pushforwards: &'a [Vec<E>],
    poles: &'a [E],
}

/// All fractional sums, and the columns at their points.
struct Summed {
    sums: Vec<SumProof>,
    last: SumProof,
    columns: Vec<Vec<E>>,
    points: Vec<Vec<E>>,
    /// That of the last sum.
    point: Vec<E>,
}

impl Drawn<'_> {
    /// The one sum of readers and tables.
    fn sum_whole<'c>(
        &self,
        columns: &Column<'c>,
        channel: &mut Channel,
        limits: &Limits<'_>,
    ) -> Result<Summed, ProveError> {
        let plan = self.plan;
        let tables = 0..plan.witness.len();
        let ((gkr, columns), point) = step(
            limits.record,
            channel,
            |(gkr, columns): &(FractionGkrProof<E>, Vec<Vec<E>>), challenger| {
                let mut checks = Receiver::new(Clear, challenger);
                let claim = verify_fractions(&mut checks, Some(gkr), plan.leaf_vars)?;
                are_columns_of(plan, tables.clone(), columns).then_some(claim.point)
            },
            |channel| {
                let leaves = self.leaves((&plan.leaves, plan.leaf_vars), columns);
                #[cfg(test)]
                let leaves = closed(leaves);
                let (gkr, point) = fractional::prove(&leaves, channel);
                drop(leaves);
                let columns = evaluate_columns(plan, tables.clone(), columns, &point);
                Ok(((gkr, columns), point))
            },
        )?;
        let numerator = E::ZERO;
        Ok(Summed {
            sums: Vec::new(),
            last: SumProof { numerator, gkr },
            columns,
            points: vec![point.clone()],
            point,
        })
    }

    /// The sum of each section, one after the other, and that of the tables.
    fn sum_sections(
        &self,
        witness: &Witness,
        channel: &mut Channel,
        limits: &Limits<'_>,
    ) -> Result<Summed, ProveError> {
        let (mut sums, mut columns, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for section in &self.plan.sections {
            limits.check()?;
            let ((sum, own), point) = step(
                limits.record,
                channel,
                |kept: &(SumProof, Vec<Vec<E>>), challenger| {
                    self.replay_section(section, kept, challenger)
                },
                |channel| Ok(self.sum_section(section, witness, channel)),
            )?;
            columns.extend(own);
            sums.push(sum);
            points.push(point);
        }
        let leaves = self.leaves((&self.plan.leaves, self.plan.leaf_vars), &|_, _| &[]);
        let (last, point) = fractional::prove_sum(&leaves, channel);
        Ok(Summed {
            sums,
            last,
            columns,
            points,
            point,
        })
    }

    /// The sum of a section with its columns at the final point, and this.
    fn sum_section(
        &self,
        section: &Section,
        witness: &Witness,
        channel: &mut Channel,
    ) -> ((SumProof, Vec<Vec<E>>), Vec<E>) {
        let range = section.witness.clone();
        let tables = witness.tables_of(range.clone());
        let views: Vec<Vec<PolyView<'_, F>>> = tables.iter().map(views).collect();
        let column = |table: usize, column: usize| {
            let own: &[F] = views[table - range.start][column].as_slice();
            own
        };
        let leaves = self.leaves((&section.leaves, section.leaf_vars), &column);
        let (sum, point) = fractional::prove_sum(&leaves, channel);
        drop(leaves);
        let columns = evaluate_columns(self.plan, range.clone(), &column, &point);
        ((sum, columns), point)
    }

    /// Plays the sum of a section that was sent before; gives its final point.
    fn replay_section(
        &self,
        section: &Section,
        (sum, columns): &(SumProof, Vec<Vec<E>>),
        challenger: &mut Challenger,
    ) -> Option<Vec<E>> {
        absorb(challenger, &[sum.numerator]);
        let claimed = Fraction {
            numerator: sum.numerator,
            denominator: sum.gkr.root_denominator,
        };
        let mut checks = Receiver::new(Clear, challenger);
        let claim = verify_sum(&mut checks, Some(&sum.gkr), claimed, section.leaf_vars)?;
        are_columns_of(self.plan, section.witness.clone(), columns).then_some(claim.point)
    }

    /// The leaves of a fractional sum.
    fn leaves<'c>(
        &self,
        (placed, vars): (&[PlacedBlock], usize),
        columns: &Column<'c>,
    ) -> Leaves<'c> {
        let plan = self.plan;
        let mut leaves = LeavesBuilder::new(vars);
        for placed in placed {
            let length = 1usize << placed.vars;
            match placed.block {
                LeafBlock::Reader { group, witness } => {
                    let reader = &plan.groups[group];
                    let (scale, rest) = chunk_weights(plan, witness, &self.reads[group].point);
                    let pole = self.poles[reader.table] - E::from_u32(reader.offset);
                    let column = &columns(witness, reader.column)[..length];
                    leaves.column(self.weights[group] * scale, rest, pole, column);
                }
                LeafBlock::Table { table } => {
                    let values = self.pushforwards[table].iter().map(|&value| -value);
                    let mut values: Vec<E> = values.collect();
                    values.resize(length, E::ZERO);
                    let pole = self.poles[table];
                    let places = (0..length).map(|entry| pole - F::from_usize(entry));
                    leaves.fractions(values, places.collect());
                }
            }
        }
        leaves.finish()
    }
}

/// The columns of a table.
fn views(table: &Table<F>) -> Vec<PolyView<'_, F>> {
    (0..table.num_polys())
        .map(|column| table.poly(column))
        .collect()
}

/// A committed column of a witness table.
type Column<'a> = dyn Fn(usize, usize) -> &'a [F] + Sync + 'a;

/// The committed columns, wherever they are.
pub(crate) enum Columns<'a> {
    /// Held as elements, all of them.
    Held(&'a Column<'a>),
    /// To be made for one section at a time.
    Sections(&'a Witness),
}

/// The leaves with a lie in the last numerator that makes the sum vanish.
#[cfg(test)]
pub(crate) fn closed(mut leaves: Leaves<'_>) -> Leaves<'_> {
    let sum = fractional::sum(&leaves);
    leaves.close(sum);
    leaves
}

/// Makes a sum of fractions vanish by a lie in its last numerator, so that a lying prover can go on: the library's
/// prover stops at a sum that does not vanish.
#[cfg(test)]
pub(crate) fn close(numerators: &mut [E], denominators: &[E]) {
    use p3_field::Field;
    let fractions = numerators.iter().zip(denominators);
    let sum: E = fractions.map(|(&n, d)| n * d.inverse()).sum();
    if let Some((numerator, denominator)) = numerators.last_mut().zip(denominators.last()) {
        *numerator -= sum * *denominator;
    }
}

/// Whether there is a value for every column of some witness tables.
fn are_columns_of(plan: &Plan, tables: Range<usize>, columns: &[Vec<E>]) -> bool {
    let own = plan.witness[tables].iter().map(|table| table.columns);
    own.eq(columns.iter().map(Vec::len))
}

/// Per witness table of some its columns at the last coordinates of the point.
fn evaluate_columns(
    plan: &Plan,
    tables: Range<usize>,
    columns: &Column<'_>,
    point: &[E],
) -> Vec<Vec<E>> {
    let mut weights = BTreeMap::new();
    let short = pack::WIDTH.ilog2() as usize;
    tables
        .map(|index| {
            let table = &plan.witness[index];
            let vars = table.chunk.vars;
            let rest = &point[point.len() - vars..];
            let column = |column| &columns(index, column)[..1 << vars];
            if vars < short {
                let eq = eq_table(rest);
                return (0..table.columns)
                    .map(|index| inner_product(column(index), &eq))
                    .collect();
            }
            let eq = weights
                .entry(vars)
                .or_insert_with(|| Poly::new_packed_from_point::<F, E>(rest, E::ONE));
            (0..table.columns)
                .map(|index| pack::inner_product(column(index), eq.as_slice()))
                .collect()
        })
        .collect()
}
