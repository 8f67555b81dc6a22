//! The encoding of a state for storage: one encoding for one state.
//!
//! Beside the records it contains the places of their leaves, in the order of keys, and the free places in the order in which
//! they became free. Queues and the state tree are rebuilt on reading, so a stored state cannot disagree with its own root:
//! the reader compares [`State::root`] with the root of the block it expects.

use std::sync::Arc;

use tg_types::{BlockId, ChainDomain, Decode, DecodeError, Encode, Reader, Writer, fields};

use crate::gas::FeeMarket;
use crate::limits::{
    ACCOUNTS_MAX, BIDS_MAX, ENDED_JOBS_MAX, MODELS_MAX, OFFERS_MAX, OPEN_JOBS_MAX, QUESTIONS_MAX,
    RESERVATIONS_MAX, RETAINED_UNITS_MAX, VALIDATORS_MAX,
};
use crate::parameters::Parameters;
use crate::record::{JobState, Lease, Record, SeatBook, SeedBook};
use crate::rent::Meters;
use crate::state::{Cursors, Head, Outage, Schedule, State, Totals};
use crate::table::Table;
use crate::tree::Leaves;

/// Version of the encoding.
const VERSION: u16 = 25;

/// Jobs in a state: open ones and ended ones, and those that end in the last block before the oldest leave.
const JOBS_MAX: usize = OPEN_JOBS_MAX + ENDED_JOBS_MAX + OPEN_JOBS_MAX;

/// Leases in a state.
const LEASES_MAX: usize = JOBS_MAX
    * tg_types::limits::ATTEMPTS_MAX as usize
    * tg_types::resources::GANG_MEMBERS_MAX as usize;

fields! { Head { height, block, timestamp, time, base_fee, outage, protocol } }

fields! { Outage { height, time } }

fields! { Totals { minted, burned, jobs } }

fn encode_table<R: Record>(table: &Table<R>, writer: &mut Writer) {
    writer.count(table.len());
    for record in table.iter() {
        record.encode(writer);
    }
}

fn decode_table<R: Record>(reader: &mut Reader<'_>, limit: usize) -> Result<Table<R>, DecodeError> {
    let count = reader.count(R::NAME, limit, 20)?;
    let mut table = Table::default();
    let mut previous: Option<R::Key> = None;
    for at in 0..count {
        let record = R::decode(reader)?;
        let key = record.key();
        if previous.is_some_and(|previous| previous >= key) {
            return Err(DecodeError::Invalid {
                field: R::NAME,
                value: at as u64,
            });
        }
        previous = Some(key);
        table.put(record);
    }
    Ok(table)
}

/// Accounts that are read: money that is due to somebody whose account ended opens one, however many there are.
const ACCOUNTS_READ_MAX: usize = 2 * ACCOUNTS_MAX;

/// Leaves of a state: each job and each lease may have two.
const LEAVES_MAX: usize = 2 * (JOBS_MAX + LEASES_MAX)
    + 2 * ACCOUNTS_READ_MAX
    + OFFERS_MAX
    + RETAINED_UNITS_MAX
    + QUESTIONS_MAX;

fn encode_leaves(leaves: &Leaves, writer: &mut Writer) {
    writer.u32(leaves.unused());
    writer.count(leaves.len());
    leaves.indices().for_each(|index| writer.u32(index));
    writer.count(leaves.free().len());
    leaves.free().iter().for_each(|index| writer.u32(*index));
}

impl State {
    /// Reads the places of the leaves of the records that were read.
    fn decode_leaves(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let bodies = self.take_changes();
        let bodies = bodies.into_iter().filter(|(_, body)| body.is_some());
        let unused = reader.u32()?;
        let mut places = |field| -> Result<Vec<u32>, DecodeError> {
            let count = reader.count(field, LEAVES_MAX, 4)?;
            (0..count).map(|_| reader.u32()).collect()
        };
        let indices = places("leaves")?;
        let free = places("free leaves")?;
        self.leaves = Leaves::restored(bodies.collect(), &indices, free, unused)?;
        Ok(())
    }
}

impl Encode for State {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            genesis,
            domain,
            parameters,
            head,
            totals,
            leaves,
            cursors,
            reservations,
            fee_market,
            meters,
            validators,
            seats,
            seeds,
            accounts,
            offers,
            providers,
            models,
            jobs,
            leases,
            bids,
            reports,
            retained,
            questions,
            retained_bytes: _,
            schedule,
            stock: _,
            stock_is_stale: _,
            machine_changes: _,
            book: _,
            book_changes: _,
            submitted: _,
            queued: _,
            live: _,
            checked: _,
            ended: _,
            declined: _,
            tree: _,
            consents: _,
            placing: _,
        } = self;
        writer.u16(VERSION);
        genesis.encode(writer);
        domain.encode(writer);
        parameters.encode(writer);
        head.encode(writer);
        totals.encode(writer);
        cursors.encode(writer);
        writer.seq(reservations);
        fee_market.encode(writer);
        meters.encode(writer);
        schedule.encode(writer);
        writer.seq(validators);
        seats.encode(writer);
        seeds.encode(writer);
        encode_table(accounts, writer);
        encode_table(offers, writer);
        encode_table(providers, writer);
        encode_table(models, writer);
        encode_table(jobs, writer);
        encode_table(leases, writer);
        encode_table(bids, writer);
        encode_table(reports, writer);
        encode_table(retained, writer);
        encode_table(questions, writer);
        encode_leaves(leaves, writer);
    }
}

impl Decode for State {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = reader.u16()?;
        if version != VERSION {
            return Err(DecodeError::Invalid {
                field: "state version",
                value: u64::from(version),
            });
        }
        let genesis = BlockId::decode(reader)?;
        let domain = ChainDomain::decode(reader)?;
        let parameters = Parameters::decode(reader)?;
        let head = Head::decode(reader)?;
        let mut state = Self::empty(genesis, domain, parameters, head);
        state.totals = Totals::decode(reader)?;
        state.cursors = Cursors::decode(reader)?;
        state.reservations = reader.seq("reservations", RESERVATIONS_MAX, 52)?;
        state.fee_market = FeeMarket::decode(reader)?;
        state.meters = Meters::decode(reader)?;
        state.schedule = Schedule::decode(reader)?;
        state.validators = Arc::new(reader.seq("validators", VALIDATORS_MAX, 68)?);
        state.seats = Arc::new(SeatBook::decode(reader)?);
        // Stops: seats without a validator, or the other way round.
        if state.seats.seats.len() != state.validators.len() {
            return Err(DecodeError::Invalid {
                field: "seats",
                value: state.seats.seats.len() as u64,
            });
        }
        state.seeds = Arc::new(SeedBook::decode(reader)?);
        state.accounts = decode_table(reader, ACCOUNTS_READ_MAX)?;
        state.offers = decode_table(reader, OFFERS_MAX)?;
        state.providers = decode_table(reader, ACCOUNTS_MAX)?;
        state.models = decode_table(reader, MODELS_MAX)?;
        state.jobs = decode_table(reader, JOBS_MAX)?;
        state.leases = decode_table(reader, LEASES_MAX)?;
        state.bids = decode_table(reader, BIDS_MAX)?;
        state.reports = decode_table(reader, VALIDATORS_MAX)?;
        state.retained = decode_table(reader, RETAINED_UNITS_MAX)?;
        state.questions = decode_table(reader, QUESTIONS_MAX)?;
        state.retained_bytes = state.rebuilt_retained_bytes();
        state.decode_leaves(reader)?;
        state.rebuild_queues()?;
        state.declined = state.rebuilt_declined();
        state.checked = state.rebuilt_checked();
        state.consents = Arc::new(state.rebuilt_consents());
        let stock = state.rebuilt_stock(head.time);
        state.stock = Arc::new(stock.map_err(|_| DecodeError::Invalid {
            field: "leases of a machine",
            value: 0,
        })?);
        // Now, and not in the first block that comes.
        state.refresh_book();
        state.rebuild_tree();
        Ok(state)
    }
}

impl State {
    /// Derives the queues from the jobs.
    fn rebuild_queues(&mut self) -> Result<(), DecodeError> {
        let invalid = |value| DecodeError::Invalid {
            field: "job sequence",
            value,
        };
        let submitted = &mut self.submitted;
        let queued = &mut self.queued;
        let live = &mut self.live;
        let ended = &mut self.ended;
        for job in self.jobs.iter() {
            let last = job.history.last().ok_or_else(|| invalid(job.sequence))?;
            let taken = if job.state() == JobState::Submitted {
                submitted.insert(job.sequence, job.id).is_some()
            } else if job.state() == JobState::Queued {
                queued.insert(job.sequence, job.id).is_some()
            } else if job.state().is_final() {
                let key = (last.height.get(), job.sequence);
                ended.insert(key, job.id).is_some()
            } else {
                live.insert(job.sequence, job.id).is_some()
            };
            if taken || job.sequence >= self.totals.jobs || last.state != job.state() {
                return Err(invalid(job.sequence));
            }
            // Stops: a job that waits for the end of a lease that it does not have.
            let works_for = |lease: &Lease| lease.job == job.id && lease.end().is_none();
            if let Some(lease) = job.live_lease()
                && !self.leases.get(&lease).is_some_and(works_for)
            {
                return Err(DecodeError::Invalid {
                    field: "lease of a job",
                    value: job.sequence,
                });
            }
        }
        Ok(())
    }
}
