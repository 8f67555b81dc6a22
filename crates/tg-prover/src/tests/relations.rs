//! What of a gadget's relations a witness breaks, element by element: what a lie is about, before anything is proved.

use crate::witness::{Witness, integer};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField32};
use tg_ir::TensorId;
use tg_proof::field::{F, signed};
use tg_proof::plan::Plan;
use tg_proof::staged::{Constraint, Linear, Public, Reading, Slot, Stage, Staged};

/// A relation of a gadget, in its row stage or in its element stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// A constraint.
    Constraint {
        /// Of the row stage.
        rows: bool,
        /// Which.
        index: usize,
    },
    /// That a column's entry is one of its table, of its class.
    Entry {
        /// Of the row stage.
        rows: bool,
        /// Which reading.
        index: usize,
    },
}

/// A relation that does not hold at a channel of the row (0 in the row stage), and by how much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broken {
    pub(super) relation: Relation,
    pub(super) channel: usize,
    by: F,
}

/// A committed cell.
type Place = (usize, usize, usize);

/// Consecutive limbs as one number: the least limb's reading, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    rows: bool,
    channel: usize,
    reading: usize,
    limbs: usize,
}

/// One row (pixel) of a gadget.
pub(super) struct Row<'a> {
    pub(super) plan: &'a Plan,
    pub(super) staged: &'a Staged,
    /// Every tensor, widened.
    pub(super) tensors: &'a [Vec<i32>],
    pub(super) pixel: usize,
}

impl Row<'_> {
    fn stage(&self, rows: bool) -> &Stage {
        match &self.staged.rows {
            Some((stage, _)) if rows => stage,
            _ => &self.staged.elements,
        }
    }

    /// Both stages, of which the first may be missing.
    fn stages(&self) -> impl Iterator<Item = bool> + use<> {
        let both = self.staged.rows.is_some();
        [true, false].into_iter().filter(move |&rows| both || !rows)
    }

    /// Channels of the row that are in use, in a stage.
    fn channels(&self, rows: bool) -> usize {
        self.stage(rows).count(self.pixel)
    }

    fn place(&self, stage: &Stage, reading: &Reading, channel: usize) -> Place {
        let group = &self.plan.groups[reading.group];
        let own = stage.layout;
        let index = if reading.rows {
            self.pixel << own.batch_vars
        } else {
            own.index(self.pixel, 0, channel)
        };
        let holds = |table: &usize| {
            let chunk = self.plan.witness[*table].chunk;
            (chunk.start..chunk.start + chunk.rows()).contains(&index)
        };
        let table = group.witness.clone().find(holds).expect("a covered row");
        let start = self.plan.witness[table].chunk.start;
        (table, group.column, index - start)
    }

    fn entry(&self, stage: &Stage, reading: &Reading, channel: usize, witness: &Witness) -> usize {
        let (table, column, row) = self.place(stage, reading, channel);
        let cell = integer(witness.columns[table][column][row]) as usize;
        cell + self.plan.groups[reading.group].offset as usize
    }

    /// All variables of a stage but the sums, and the readings that name no entry of their table and class.
    fn variables(&self, rows: bool, channel: usize, witness: &Witness) -> (Vec<F>, Vec<usize>) {
        let stage = self.stage(rows);
        let mut values = vec![None; stage.variables];
        let mut outside = Vec::new();
        for (index, reading) in stage.readings.iter().enumerate() {
            let entry = self.entry(stage, reading, channel, witness);
            let table = &self.plan.tables[self.plan.groups[reading.group].table];
            let mut fits = entry < table.len();
            for (column, slot) in table.columns.iter().zip(&reading.slots) {
                let given = column.get(entry).copied().unwrap_or_default();
                match *slot {
                    Slot::Variable(variable) => {
                        fits &= *values[variable].get_or_insert(given) == given;
                    }
                    Slot::Class(class) => fits &= given == F::from_u32(class),
                }
            }
            if !fits {
                outside.push(index);
            }
        }
        for &(variable, tensor) in &stage.tensors {
            values[variable] = Some(self.element(tensor, stage, channel));
        }
        for (variable, public) in &stage.publics {
            values[*variable] = Some(match public {
                Public::Channel => F::from_usize(channel),
                Public::PerPixel(values) => values[self.pixel],
                Public::PerChannel(values) => values[channel],
            });
        }
        let values = values.into_iter().map(Option::unwrap_or_default);
        (values.collect(), outside)
    }

    fn element(&self, tensor: TensorId, stage: &Stage, channel: usize) -> F {
        let element = self.pixel * stage.layout.channels + channel;
        signed(i64::from(self.tensors[tensor.index()][element]))
    }

    /// The variables of the row stage, sums along channels included.
    fn row_variables(&self, witness: &Witness) -> (Vec<F>, Vec<usize>) {
        let (mut values, outside) = self.variables(true, 0, witness);
        let Some((_, sums)) = &self.staged.rows else {
            return (values, outside);
        };
        for channel in 0..self.channels(false) {
            let (own, _) = self.variables(false, channel, witness);
            for (&variable, sum) in sums.iter().zip(&self.staged.elements.sums) {
                values[variable] += constraint_at(sum, &own);
            }
        }
        (values, outside)
    }

    /// Everything that does not hold in the row.
    pub(super) fn broken(&self, witness: &Witness) -> Vec<Broken> {
        let mut broken = Vec::new();
        for rows in self.stages() {
            let channels = if rows { 1 } else { self.channels(false) };
            for channel in 0..channels {
                let (values, outside) = if rows {
                    self.row_variables(witness)
                } else {
                    self.variables(false, channel, witness)
                };
                broken.extend(outside.into_iter().map(|index| Broken {
                    relation: Relation::Entry { rows, index },
                    channel,
                    by: F::ONE,
                }));
                for (index, constraint) in self.stage(rows).constraints.iter().enumerate() {
                    let by = constraint_at(constraint, &values);
                    if by != F::ZERO {
                        let relation = Relation::Constraint { rows, index };
                        broken.push(Broken {
                            relation,
                            channel,
                            by,
                        });
                    }
                }
            }
        }
        broken
    }

    /// The outputs of the row as the columns give them.
    pub(super) fn outputs(&self, witness: &Witness) -> Vec<i64> {
        let integer = |value: F| {
            let value = i64::from(value.as_canonical_u32());
            if value > i64::from(F::ORDER_U32) / 2 {
                value - i64::from(F::ORDER_U32)
            } else {
                value
            }
        };
        match &self.staged.rows {
            Some((stage, _)) if !stage.outputs.is_empty() => {
                let (values, _) = self.row_variables(witness);
                let outputs = stage.outputs.iter();
                outputs
                    .map(|output| integer(constraint_at(output, &values)))
                    .collect()
            }
            _ => (0..self.staged.elements.layout.channels)
                .map(|channel| {
                    if channel >= self.channels(false) {
                        return 0;
                    }
                    let (values, _) = self.variables(false, channel, witness);
                    integer(constraint_at(&self.staged.elements.outputs[0], &values))
                })
                .collect(),
        }
    }

    /// All relations that the gadget has.
    pub(super) fn relations(&self) -> Vec<Relation> {
        let mut all = Vec::new();
        for rows in self.stages() {
            let stage = self.stage(rows);
            let constraints = 0..stage.constraints.len();
            all.extend(constraints.map(|index| Relation::Constraint { rows, index }));
            // What is not of the greatest class of its table has wider limbs there; beyond that one there is no entry.
            let widest = |reading: &Reading| {
                let mut limbs = self.plan.limbs.iter();
                let table = self.plan.groups[reading.group].table;
                limbs.find_map(|(&class, &limbs)| (limbs == table).then_some(class))
            };
            let limbs = (0..stage.readings.len()).filter(|&index| {
                let reading = &stage.readings[index];
                let fixed = match *reading.slots.as_slice() {
                    [_, Slot::Class(class)] => Some(class),
                    _ => None,
                };
                self.is_limb(stage, index) && fixed != widest(reading)
            });
            all.extend(limbs.map(|index| Relation::Entry { rows, index }));
        }
        all
    }

    /// Whether a reading is one of a column of limbs over the stage's own hypercube.
    fn is_limb(&self, stage: &Stage, reading: usize) -> bool {
        stage.readings.get(reading).is_some_and(|reading| {
            let table = self.plan.groups[reading.group].table;
            !reading.rows && self.plan.limbs.values().any(|&limbs| limbs == table)
        })
    }

    /// The class of a limb: that of its slot, or what its segment names.
    fn class(
        &self,
        rows: bool,
        channel: usize,
        reading: usize,
        witness: &Witness,
    ) -> Option<usize> {
        let slots = &self.stage(rows).readings[reading].slots;
        match *slots.as_slice() {
            [Slot::Variable(_), Slot::Class(class)] => Some(class as usize),
            [Slot::Variable(_), Slot::Variable(class)] => {
                let (values, _) = self.variables(rows, channel, witness);
                Some(values[class].as_canonical_u32() as usize).filter(|&class| class <= 12)
            }
            _ => None,
        }
    }

    /// Puts a limb of any class that its table has in a cell; whether it has such a one.
    fn put(
        &self,
        (rows, channel, reading): (bool, usize, usize),
        (value, class): (usize, usize),
        witness: &mut Witness,
    ) -> bool {
        let stage = self.stage(rows);
        let reading = &stage.readings[reading];
        let group = &self.plan.groups[reading.group];
        let entry = (1usize << class) - 1 + value;
        let (table, column, row) = self.place(stage, reading, channel);
        let fits = entry < self.plan.tables[group.table].len() && value < 1 << class;
        // A cell below its column's offset is that of a field element below 0.
        let cell = (entry + F::ORDER_U32 as usize - group.offset as usize) % F::ORDER_U32 as usize;
        if fits {
            witness.columns[table][column][row] = cell as u32;
        }
        fits && entry >= group.offset as usize
    }

    fn limb(&self, rows: bool, channel: usize, reading: usize, witness: &Witness) -> usize {
        let stage = self.stage(rows);
        let entry = self.entry(stage, &stage.readings[reading], channel, witness);
        (entry + 1) - (1 << (entry + 1).ilog2())
    }

    fn get(&self, number: Number, witness: &Witness) -> i64 {
        let limbs = number.reading..number.reading + number.limbs;
        let limbs = limbs
            .rev()
            .map(|reading| self.limb(number.rows, number.channel, reading, witness));
        limbs.fold(0, |value, limb| value << 12 | limb as i64)
    }

    /// Sets a number, if it has so many bits.
    fn set(&self, number: Number, value: i64, witness: &mut Witness) -> bool {
        let Ok(mut rest) = usize::try_from(value) else {
            return false;
        };
        for limb in 0..number.limbs {
            let at = (number.rows, number.channel, number.reading + limb);
            let Some(class) = self.class(at.0, at.1, at.2, witness) else {
                return false;
            };
            let own = if limb + 1 == number.limbs {
                rest
            } else {
                rest & 0xfff
            };
            if own >= 1 << class || !self.put(at, (own, class), witness) {
                return false;
            }
            rest >>= 12;
        }
        true
    }

    /// All numbers that consecutive limbs can be, of one to three.
    fn numbers(&self) -> Vec<Number> {
        let mut numbers = Vec::new();
        for rows in self.stages() {
            let stage = self.stage(rows);
            let channels = if rows { 1 } else { self.channels(false) };
            for channel in 0..channels {
                for reading in 0..stage.readings.len() {
                    for limbs in 1..=3 {
                        if (reading..reading + limbs).all(|limb| self.is_limb(stage, limb)) {
                            numbers.push(Number {
                                rows,
                                channel,
                                reading,
                                limbs,
                            });
                        }
                    }
                }
            }
        }
        numbers
    }

    /// A lie that breaks one relation alone and is accepted by the caller: a way to change one number or one entry (or to leave
    /// its class) and then others until everything else holds again.
    pub(super) fn lie(
        &self,
        honest: &Witness,
        target: Relation,
        accept: &dyn Fn(&Witness) -> bool,
    ) -> Option<Witness> {
        let mut search = Search {
            row: self,
            numbers: self.numbers(),
            target: Some(target),
            left: 0,
        };
        let starts = match target {
            Relation::Constraint { .. } => search.starts(honest, &CHANGES),
            Relation::Entry { rows, index } => self.out_of_class(rows, index, honest),
        };
        // Few repairs first: a long search for one start finds nothing that another has at once.
        [0, 1, 2, 3, 5].into_iter().find_map(|depth| {
            search.left = 12_000;
            starts.iter().find_map(|(changed, witness)| {
                let (mut witness, mut changed) =
                    (witness.clone(), changed.iter().copied().collect());
                search
                    .repair(&mut witness, &mut changed, depth)
                    .then_some(witness)
                    .filter(|witness| self.only(witness, target) && accept(witness))
            })
        })
    }

    /// Whether a relation, and no other, is broken.
    fn only(&self, witness: &Witness, target: Relation) -> bool {
        let broken = self.broken(witness);
        !broken.is_empty() && broken.iter().all(|broken| broken.relation == target)
    }

    /// Other columns that break nothing, found from any small change.
    pub(super) fn others(&self, honest: &Witness) -> Vec<Witness> {
        let mut search = Search {
            row: self,
            numbers: self.numbers(),
            target: None,
            left: 0,
        };
        let mut found = Vec::new();
        for (changed, mut witness) in search.starts(honest, &CHANGES[..2]) {
            search.left = 300;
            let mut changed = changed.into_iter().collect();
            if search.repair(&mut witness, &mut changed, 4) && self.broken(&witness).is_empty() {
                found.push(witness);
            }
        }
        found
    }

    /// A limb with one bit more than its class has.
    fn out_of_class(&self, rows: bool, reading: usize, honest: &Witness) -> Vec<Start> {
        let mut starts = Vec::new();
        for channel in 0..if rows { 1 } else { self.channels(false) } {
            let Some(class) = self.class(rows, channel, reading, honest) else {
                continue;
            };
            let own = self.limb(rows, channel, reading, honest);
            for value in [own + (1 << class), 1 << class, own] {
                let mut witness = honest.clone();
                let wide = (value.max(1).ilog2() as usize + 1).max(class + 1);
                if self.put((rows, channel, reading), (value, wide), &mut witness) {
                    let number = Number {
                        rows,
                        channel,
                        reading,
                        limbs: 1,
                    };
                    starts.push((Some(number), witness));
                }
            }
        }
        starts
    }

    /// Another entry of a table that is not one of limbs: the neighbours, and some far away.
    fn other_entries(&self, honest: &Witness) -> Vec<Witness> {
        let mut found = Vec::new();
        for rows in self.stages() {
            let stage = self.stage(rows);
            let channels = if rows { 1 } else { self.channels(false) };
            for (index, reading) in stage.readings.iter().enumerate() {
                if reading.rows || self.is_limb(stage, index) {
                    continue;
                }
                let count = self.plan.tables[self.plan.groups[reading.group].table].len();
                for channel in 0..channels {
                    let own = self.entry(stage, reading, channel, honest);
                    let near = [own + 1, own.wrapping_sub(1), own + 2, own.wrapping_sub(2)];
                    let far = (0..40).map(|step| (own + step * (count / 40).max(1)) % count);
                    for entry in near.into_iter().chain(far) {
                        if entry < count && entry != own {
                            let mut witness = honest.clone();
                            let (table, column, row) = self.place(stage, reading, channel);
                            witness.columns[table][column][row] = entry as u32;
                            found.push(witness);
                        }
                    }
                }
            }
        }
        found
    }
}

/// How numbers are changed first.
const CHANGES: [i64; 8] = [1, -1, 2, -2, 64, -64, 4_096, -4_096];

/// A first change: of a number, or of an entry.
type Start = (Option<Number>, Witness);

/// A search for what makes up for a change.
struct Search<'a> {
    row: &'a Row<'a>,
    numbers: Vec<Number>,
    /// What may stay broken.
    target: Option<Relation>,
    /// Tries that are left.
    left: u32,
}

impl Search<'_> {
    /// One number changed by something, or another entry.
    fn starts(&self, honest: &Witness, changes: &[i64]) -> Vec<Start> {
        let mut starts = Vec::new();
        for &number in &self.numbers {
            let own = self.row.get(number, honest);
            for change in changes {
                let mut witness = honest.clone();
                if self.row.set(number, own + change, &mut witness) {
                    starts.push((Some(number), witness));
                }
            }
        }
        let entries = self.row.other_entries(honest).into_iter();
        starts.extend(entries.map(|witness| (None, witness)));
        starts
    }

    /// Changes further numbers until nothing but the target is broken.
    fn repair(&mut self, witness: &mut Witness, changed: &mut Vec<Number>, depth: u32) -> bool {
        let broken = self.row.broken(witness);
        let other = |broken: &&Broken| Some(broken.relation) != self.target;
        let Some(&next) = broken.iter().find(other) else {
            return true;
        };
        if depth == 0 || matches!(next.relation, Relation::Entry { .. }) {
            return false;
        }
        for index in 0..self.numbers.len() {
            let number = self.numbers[index];
            let same = |own: &Number| (own.rows, own.channel) == (number.rows, number.channel);
            let touched = |own: &Number| {
                same(own)
                    && number.reading < own.reading + own.limbs
                    && own.reading < number.reading + number.limbs
            };
            if changed.iter().any(touched) || self.left == 0 {
                continue;
            }
            let before = witness.clone();
            if self.solve(number, next, witness) {
                changed.push(number);
                if self.repair(witness, changed, depth - 1) {
                    return true;
                }
                changed.pop();
            }
            *witness = before;
        }
        false
    }

    /// Lets one number make up for a constraint that is broken, if it can alone.
    fn solve(&mut self, number: Number, broken: Broken, witness: &mut Witness) -> bool {
        let Relation::Constraint { rows, .. } = broken.relation else {
            return false;
        };
        if !rows && !number.rows && number.channel != broken.channel {
            return false;
        }
        let own = self.row.get(number, witness);
        let step = [1, -1]
            .into_iter()
            .find(|step| self.row.set(number, own + step, witness));
        let Some(step) = step else {
            return false;
        };
        self.left = self.left.saturating_sub(1);
        let slope = self.by(broken, witness) - broken.by;
        let slope = if step == 1 { slope } else { -slope };
        if slope == F::ZERO {
            return false;
        }
        let change = (-broken.by * slope.inverse()).as_canonical_u32();
        let change = if change > F::ORDER_U32 / 2 {
            i64::from(change) - i64::from(F::ORDER_U32)
        } else {
            i64::from(change)
        };
        self.row.set(number, own + change, witness) && self.by(broken, witness) == F::ZERO
    }

    /// By how much a relation that was broken is.
    fn by(&self, broken: Broken, witness: &Witness) -> F {
        let Relation::Constraint { rows, index } = broken.relation else {
            return F::ONE;
        };
        let constraint = &self.row.stage(rows).constraints[index];
        let (values, _) = if rows {
            self.row.row_variables(witness)
        } else {
            self.row.variables(false, broken.channel, witness)
        };
        constraint_at(constraint, &values)
    }
}

fn linear_at(form: &Linear, values: &[F]) -> F {
    let terms = form.terms.iter();
    terms.fold(form.constant, |sum, &(variable, factor)| {
        sum + values[variable] * factor
    })
}

fn constraint_at(constraint: &Constraint, values: &[F]) -> F {
    let products = constraint.products.iter();
    products.fold(
        linear_at(&constraint.linear, values),
        |sum, [left, right]| sum + linear_at(left, values) * linear_at(right, values),
    )
}
