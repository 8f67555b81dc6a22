//! The state as bytes, for storage: one encoding for one state.
//!
//! Queues and the state tree are rebuilt when it is read, so a stored state cannot disagree with its own root: the
//! reader compares [`State::root`] with the root of the block it expects.

use std::sync::Arc;

use tg_types::{
    Amount, BlockId, ChainDomain, Decode, DecodeError, Encode, Height, Reader, TimestampMs, Writer,
};

use crate::codec::{decode_option, encode_option};
use crate::gas::FeeMarket;
use crate::limits::{
    ACCOUNTS_MAX, BIDS_MAX, ENDED_JOBS_MAX, MODELS_MAX, OFFERS_MAX, OPEN_JOBS_MAX, VALIDATORS_MAX,
};
use crate::parameters::Parameters;
use crate::record::{JobState, Record};
use crate::state::{Cursors, FIRST_RECORD_INDEX, Head, Outage, Schedule, State, Totals};
use crate::table::Table;

/// Version of the encoding.
const VERSION: u16 = 5;

/// Jobs in a state: open ones and ended ones, and those that end in the last block before the oldest leave.
const JOBS_MAX: usize = OPEN_JOBS_MAX + ENDED_JOBS_MAX + OPEN_JOBS_MAX;

/// Leases in a state.
const LEASES_MAX: usize = JOBS_MAX
    * tg_types::limits::ATTEMPTS_MAX as usize
    * tg_types::resources::GANG_MEMBERS_MAX as usize;

impl Encode for Head {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            height,
            block,
            timestamp,
            time,
            base_fee,
            outage,
        } = self;
        height.encode(writer);
        block.encode(writer);
        timestamp.encode(writer);
        time.encode(writer);
        base_fee.encode(writer);
        encode_option(outage.as_ref(), writer);
    }
}

impl Decode for Head {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            block: BlockId::decode(reader)?,
            timestamp: TimestampMs::decode(reader)?,
            time: TimestampMs::decode(reader)?,
            base_fee: Amount::decode(reader)?,
            outage: decode_option(reader)?,
        })
    }
}

impl Encode for Outage {
    fn encode(&self, writer: &mut Writer) {
        let Self { height, time } = self;
        height.encode(writer);
        time.encode(writer);
    }
}

impl Decode for Outage {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            time: TimestampMs::decode(reader)?,
        })
    }
}

impl Encode for Totals {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            minted,
            burned,
            jobs,
        } = self;
        minted.encode(writer);
        burned.encode(writer);
        writer.u64(*jobs);
    }
}

impl Decode for Totals {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            minted: Amount::decode(reader)?,
            burned: Amount::decode(reader)?,
            jobs: reader.u64()?,
        })
    }
}

fn encode_table<R: Record>(table: &Table<R>, writer: &mut Writer) {
    writer.count(table.len());
    for (index, record) in table.iter_indexed() {
        writer.u32(index);
        record.encode(writer);
    }
}

fn decode_table<R: Record>(
    reader: &mut Reader<'_>,
    limit: usize,
    next_index: u32,
) -> Result<Table<R>, DecodeError> {
    let count = reader.count(R::NAME, limit, 24)?;
    let mut table = Table::default();
    let mut previous: Option<R::Key> = None;
    for _ in 0..count {
        let index = reader.u32()?;
        let record = R::decode(reader)?;
        let key = record.key();
        let sorted = previous.is_none_or(|previous| previous < key);
        if !sorted || index < FIRST_RECORD_INDEX || index >= next_index {
            return Err(DecodeError::Invalid {
                field: R::NAME,
                value: u64::from(index),
            });
        }
        previous = Some(key);
        table.put_at(record, index);
    }
    Ok(table)
}

impl Encode for State {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            domain,
            parameters,
            head,
            totals,
            next_index,
            cursors,
            fee_market,
            validators,
            accounts,
            offers,
            providers,
            models,
            jobs,
            leases,
            bids,
            reports,
            schedule,
            stock: _,
            stock_is_stale: _,
            book: _,
            book_changes: _,
            submitted: _,
            queued: _,
            live: _,
            ended: _,
            tree: _,
            consents: _,
            placing: _,
        } = self;
        writer.u16(VERSION);
        domain.encode(writer);
        parameters.encode(writer);
        head.encode(writer);
        totals.encode(writer);
        writer.u32(*next_index);
        cursors.encode(writer);
        fee_market.encode(writer);
        schedule.encode(writer);
        writer.seq(validators);
        encode_table(accounts, writer);
        encode_table(offers, writer);
        encode_table(providers, writer);
        encode_table(models, writer);
        encode_table(jobs, writer);
        encode_table(leases, writer);
        encode_table(bids, writer);
        encode_table(reports, writer);
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
        let domain = ChainDomain::decode(reader)?;
        let parameters = Parameters::decode(reader)?;
        let head = Head::decode(reader)?;
        let mut state = Self::empty(domain, parameters, head);
        state.totals = Totals::decode(reader)?;
        state.next_index = reader.u32()?;
        state.cursors = Cursors::decode(reader)?;
        state.fee_market = FeeMarket::decode(reader)?;
        state.schedule = Schedule::decode(reader)?;
        state.validators = Arc::new(reader.seq("validators", VALIDATORS_MAX, 68)?);
        let next = state.next_index;
        state.accounts = decode_table(reader, ACCOUNTS_MAX, next)?;
        state.offers = decode_table(reader, OFFERS_MAX, next)?;
        state.providers = decode_table(reader, ACCOUNTS_MAX, next)?;
        state.models = decode_table(reader, MODELS_MAX, next)?;
        state.jobs = decode_table(reader, JOBS_MAX, next)?;
        state.leases = decode_table(reader, LEASES_MAX, next)?;
        state.bids = decode_table(reader, BIDS_MAX, next)?;
        state.reports = decode_table(reader, VALIDATORS_MAX, next)?;
        state.check_indices()?;
        state.rebuild_queues()?;
        state.consents = Arc::new(state.rebuilt_consents());
        let stock = state.rebuilt_stock(head.time);
        state.stock = Arc::new(stock.map_err(|_| DecodeError::Invalid {
            field: "leases of a machine",
            value: 0,
        })?);
        state.seal();
        Ok(state)
    }
}

impl State {
    /// No two records share a leaf.
    fn check_indices(&self) -> Result<(), DecodeError> {
        let mut indices: Vec<u32> = self
            .accounts
            .iter_indexed()
            .map(|(index, _)| index)
            .chain(self.offers.iter_indexed().map(|(index, _)| index))
            .chain(self.providers.iter_indexed().map(|(index, _)| index))
            .chain(self.models.iter_indexed().map(|(index, _)| index))
            .chain(self.jobs.iter_indexed().map(|(index, _)| index))
            .chain(self.leases.iter_indexed().map(|(index, _)| index))
            .chain(self.bids.iter_indexed().map(|(index, _)| index))
            .chain(self.reports.iter_indexed().map(|(index, _)| index))
            .collect();
        indices.sort_unstable();
        match indices.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(DecodeError::Invalid {
                field: "leaf index",
                value: u64::from(pair[0]),
            }),
            None => Ok(()),
        }
    }

    /// Derives the queues from the jobs.
    fn rebuild_queues(&mut self) -> Result<(), DecodeError> {
        let invalid = |value| DecodeError::Invalid {
            field: "job sequence",
            value,
        };
        let submitted = Arc::make_mut(&mut self.submitted);
        let queued = Arc::make_mut(&mut self.queued);
        let live = Arc::make_mut(&mut self.live);
        let ended = Arc::make_mut(&mut self.ended);
        for job in self.jobs.iter() {
            let last = job.history.last().ok_or_else(|| invalid(job.sequence))?;
            let taken = if job.state == JobState::Submitted {
                submitted.insert(job.sequence, job.id).is_some()
            } else if job.state == JobState::Queued {
                queued.insert(job.sequence, job.id).is_some()
            } else if job.state.is_final() {
                let key = (last.height.get(), job.sequence);
                ended.insert(key, job.id).is_some()
            } else {
                live.insert(job.sequence, job.id).is_some()
            };
            if taken || job.sequence >= self.totals.jobs || last.state != job.state {
                return Err(invalid(job.sequence));
            }
        }
        Ok(())
    }
}
