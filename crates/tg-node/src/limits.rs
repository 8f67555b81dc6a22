//! The limits of a validator, each with its reason.

use std::time::Duration;

/// A block that a message carries, in bytes: as large as proposers make them. The ledger accepts larger ones, but no
/// validator can be sent one, so it gets no votes.
pub const PUSH_BYTES_MAX: usize = tg_ledger::limits::PROPOSED_BYTES_MAX;

/// Transactions in one block: the ledger's own bound, so that gas and not their number decides what a block has room for.
pub const BLOCK_TRANSACTIONS_MAX: usize = tg_ledger::limits::TRANSACTIONS_PER_BLOCK_MAX;

/// Verdicts in one block: the cost cap of evidence checks, since a voter must have finished each of them.
pub const BLOCK_VERDICTS_MAX: usize = 8;

/// One p2p message, in bytes.
pub const MESSAGE_BYTES_MAX: u32 = 1024 * 1024;

/// Messages per second and peer of one p2p channel.
pub const CHANNEL_QUOTA_PER_SECOND: u32 = 2_000;

/// Messages of one p2p channel that a peer may send at once, before its quota holds it back. The network allocates slots
/// for a burst of every peer that it may ever have, in every channel, and once more for what is sent: with bursts of a
/// whole second that was 0.9 GB a validator.
pub const CHANNEL_BURST: u32 = 128;

/// Validators of one network: the ledger's own bound, so that it gives no seat to somebody the network has no room for.
pub const VALIDATORS_MAX: usize = tg_ledger::limits::VALIDATORS_MAX;

/// Shortest time between a block and its parent while there is work.
pub const BLOCK_INTERVAL_BUSY: Duration = Duration::from_millis(100);

/// Time between a block and its parent while there is none, so that deadlines pass and the journal stays small.
pub const BLOCK_INTERVAL_IDLE: Duration = Duration::from_millis(400);

/// How far a block's time may be from a voter's clock.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(2);

/// Transactions of paid kinds waiting in one validator.
pub const MEMPOOL_TRANSACTIONS_MAX: usize = 8_192;
/// Signatures of transactions that a node remembers to hold, at least: twice those that wait. Below 4 MB with all.
pub const SIGNATURES_KEPT: usize = 2 * MEMPOOL_TRANSACTIONS_MAX;

/// Transactions of one sender waiting in one validator, so that no account can fill the pool alone.
pub const MEMPOOL_SENDER_MAX: usize = 256;

/// Transactions of prepaid kinds waiting in one validator, beside the others: three for as many leases as run at once.
pub const MEMPOOL_PREPAID_MAX: usize = 30_000;

/// How much more a transaction offers, in percent, to take the place of another one with its nonce, so that replacing
/// costs more than the gossip it makes.
pub const MEMPOOL_REPLACEMENT_PERCENT: u128 = 10;

/// Transactions that ended and whose end is remembered: what some ten seconds of full blocks hold.
pub const TRANSACTIONS_REMEMBERED_MAX: usize = 1 << 16;

/// How long a transaction may wait before it is dropped; its sender may send it again.
pub const MEMPOOL_AGE_MAX: Duration = Duration::from_secs(600);

/// How often a validator sends its own waiting transactions to the others again, in case a message was lost.
pub const REGOSSIP_INTERVAL: Duration = Duration::from_secs(2);

/// Transactions in one gossip message.
pub const GOSSIP_TRANSACTIONS_MAX: usize = 128;

/// Bytes of transactions in one gossip message, unless one alone has more.
pub const GOSSIP_BYTES: usize = 256 * 1024;

const _: () =
    assert!(GOSSIP_BYTES + tg_types::limits::TRANSACTION_BYTES_MAX < MESSAGE_BYTES_MAX as usize);

/// Senders whose next transaction is checked again with each final block: some 6 ms of signatures at most.
pub const SENDERS_LOOKED_AT_MAX: usize = 64;

/// How often a validator tells the others its finalised height.
pub const TIP_INTERVAL: Duration = Duration::from_secs(1);

/// The same while the validator starts and peers are missing.
pub const TIP_INTERVAL_AT_START: Duration = Duration::from_millis(100);

/// How long a starting validator is in that hurry.
pub const HURRY_AT_START: Duration = Duration::from_secs(10);

/// A peer that was not heard for this long counts as disconnected.
pub const PEER_SILENCE_MAX: Duration = Duration::from_millis(3_500);

/// Silence after which a provider that was heard counts as lost: six times as long as an agent waits between two questions.
pub const PROVIDER_SILENCE_MAX: Duration = Duration::from_secs(30);

/// How far the time of a heartbeat may be from the last block's: what clocks and slow links differ by, and twice the silence
/// after which a provider counts as lost.
pub const HEARTBEAT_WINDOW: Duration = Duration::from_secs(60);

/// A heartbeat sooner after the last one of its provider does not count and is not passed on: agents send one in ten seconds.
pub const HEARTBEAT_LEAST: Duration = Duration::from_secs(5);

/// Heartbeats in one message between validators.
pub const HEARTBEATS_MAX: usize = 64;

/// Heartbeats of one peer that are checked per second, about 0.1 ms each: those of 2,560 providers that beat every ten seconds.
pub const HEARTBEATS_PER_PEER_SECOND: u32 = 256;

/// Providers whose last word is remembered.
pub const PROVIDERS_HEARD_MAX: usize = 8_192;

/// How often a validator looks whether it has to report providers.
pub const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a validator looks whether it has something to state.
pub const DUTIES_INTERVAL: Duration = Duration::from_millis(250);

/// How long it waits for what it sent to become final before it sends again.
pub const DUTIES_PATIENCE: Duration = Duration::from_secs(10);

/// Time after which files that cannot be had are stated as missing, once the ledger asks for that.
pub const MISSING_AFTER: Duration = Duration::from_secs(10);

/// Files that are looked for in one turn: some 20 ms of looks at a disk.
pub const STORAGE_LOOKS_PER_TURN: usize = 2_048;

/// Bytes of files after which no other is read in that turn: a few tenths of a second, or the one large model that is read alone.
/// What a validator has to vote and to state waits for the turn.
pub const STORAGE_BYTES_PER_TURN: u64 = 32 * 1024 * 1024;

/// Bytes in whose time a file is found and opened, some 0.1 ms: what each subject counts for beside its bytes.
pub const STORAGE_BYTES_OF_LOOK: u64 = 64 * 1024;

/// Bytes in whose time the rule of a model's orders is made ready, some hundredths of a second for one that writes.
pub const STORAGE_BYTES_OF_PROGRAM: u64 = 2 * 1024 * 1024;

/// Reports of storage that one turn sends: as many statements as jobs that one block leases, and more.
pub const STORAGE_REPORTS_PER_TURN: usize = 8;

/// Time after which a missing block is asked for again, from the next peer.
pub const FETCH_RETRY: Duration = Duration::from_millis(300);

/// Block bodies that may be wanted at once.
pub const FETCHES_MAX: usize = 32;

/// Blocks in one answer to a fetch: the block asked for and its ancestors.
pub const FETCH_BLOCKS_MAX: usize = 64;

/// Bytes of blocks in one answer to a fetch.
pub const FETCH_BYTES_MAX: usize = 768 * 1024;

/// Unfinalised blocks held in memory per proposer, so that one faulty proposer cannot fill it.
pub const BODIES_PER_PROPOSER_MAX: usize = 16;

/// How far above its own finalised height a validator keeps blocks that it did not ask for.
pub const HEIGHT_AHEAD_MAX: u64 = 64;

/// How far above its own finalised height a validator executes blocks for a vote. Honest leaders stay within a few;
/// a validator that is further behind catches up through finalisations, a few blocks at a time.
pub const HEIGHT_EXECUTED_MAX: u64 = 1_024;

/// Blocks executed in one turn while catching up, so that other messages get their turn.
pub const CATCH_UP_BLOCKS: usize = 32;

/// A state snapshot is written after this many blocks at the earliest, and once the blocks after the last one have as many bytes as it.
pub const SNAPSHOT_INTERVAL: u64 = 32;

/// What a block counts for then at least: a restart executes all that were written after the snapshot, empty ones too.
pub const SNAPSHOT_BLOCK_BYTES: u64 = 16 * 1024;

/// A validator that lost its votes votes again after a height that is a multiple of this.
pub const VOTE_EPOCH: u64 = 64;

/// Final blocks between those that others told and that height, at least.
pub const ABSTAIN_MARGIN: u64 = 8;

/// Messages waiting for the application loop.
pub const MAILBOX_MAX: usize = 4_096;

/// Finalised blocks a slow subscriber may lag behind before it misses some.
pub const SUBSCRIBER_LAG_MAX: usize = 1_024;

/// The opening of drawn tiles, in bytes.
pub const TRACE_EVIDENCE_BYTES_MAX: u64 = tg_types::limits::TRACE_EVIDENCE_BYTES_MAX as u64;

/// One evidence blob, in bytes.
pub const EVIDENCE_BYTES_MAX: u64 = 1024 * 1024;

/// One public model (`.tgv`), in bytes: a registration proof of at most 4 MiB, a commitment of half of one, and a program. A
/// program takes up to three times its bytes in memory, and the largest known model has 815 kB.
pub const PUBLIC_MODEL_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One model with weights (`.tgm`), in bytes.
pub const MODEL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// All blobs of one store together, in bytes, unless configured otherwise.
pub const BLOB_TOTAL_BYTES_DEFAULT: u64 = 16 * 1024 * 1024 * 1024;

/// Bytes of a blob in one message: small beside a message's limit, so that blobs do not hold up a connection.
pub const BLOB_CHUNK_BYTES: usize = 128 * 1024;

/// Messages per second and peer of the channel of blobs: what is served and asked for takes a third of it.
pub const BLOB_QUOTA_PER_SECOND: u32 = 1_000;

/// The same at once: what [`BLOB_SERVED_BYTES_PER_SECOND`] is in chunks, and as many requests.
pub const BLOB_BURST: u32 = 256;

/// Bytes of blobs that one peer is sent per second: four peers that ask for nothing but blobs keep no disk busy.
pub const BLOB_SERVED_BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;

/// Blobs received at once.
pub const BLOB_TRANSFERS_MAX: usize = 8;

/// Blobs received at once from one peer, so that a slow one holds up little.
pub const BLOB_TRANSFERS_PER_PEER_MAX: usize = 3;

/// Chunks of one blob that are asked for ahead.
pub const BLOB_CHUNKS_AHEAD: u64 = 4;

/// Time in which a peer must send something of what it was asked for.
pub const BLOB_CHUNK_PATIENCE: Duration = Duration::from_secs(2);

/// The slowest that a peer may send: at less, another peer is asked.
pub const BLOB_RATE_MIN_PER_SECOND: u64 = 512 * 1024;

/// Files that are fetched at once to find out whether those who keep them give them.
pub const ASKED_AT_ONCE: usize = 8;

/// The same of one validator.
pub const ASKED_OF_PEER_AT_ONCE: usize = 2;

/// Reports of that which one turn sends.
pub const QUESTION_REPORTS_PER_TURN: usize = 2;

/// Blobs that checks may ask for before the fetching loop looks.
pub const BLOBS_URGENT_MAX: usize = 64;

/// Blobs that a validator looks for at once; the rest waits until some are here.
pub const BLOBS_WANTED_MAX: usize = 32_768;

const _: () = assert!(BLOB_CHUNK_BYTES + 64 * 1024 < MESSAGE_BYTES_MAX as usize);
const _: () = assert!(PUSH_BYTES_MAX + 64 * 1024 < MESSAGE_BYTES_MAX as usize);
const _: () = assert!(FETCH_BYTES_MAX + 64 * 1024 < MESSAGE_BYTES_MAX as usize);
const _: () = assert!(PUSH_BYTES_MAX < FETCH_BYTES_MAX);
// Slots that the network allocates at start, some 200 bytes each: two sets of validators, in and out, in all channels.
const _: () =
    assert!(2 * 2 * VALIDATORS_MAX * (6 * CHANNEL_BURST + BLOB_BURST) as usize <= 1 << 18);

/// A configured duration in the ledger's unit.
pub(crate) fn span(duration: std::time::Duration) -> tg_types::DurationMs {
    tg_types::DurationMs::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// How long consensus waits for what. All validators of a network should use the same.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    /// For a leader's proposal.
    pub leader: Duration,
    /// For a view's certificate; longer than `leader`.
    pub certification: Duration,
    /// Between repeated votes to leave a view.
    pub retry: Duration,
    /// Silence after which a leader is skipped at once; longer than the others.
    pub skip: Duration,
    /// Between a block and its parent while there is work.
    pub busy: Duration,
    /// Between a block and its parent while there is none; shorter than `leader`.
    pub idle: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            leader: Duration::from_millis(1_500),
            // A leader that is cut off in the middle of its proposal costs this, and votes to leave its view that are lost one
            // `retry` more: together less than the 3 s for which the others may stand still.
            certification: Duration::from_millis(2_000),
            retry: Duration::from_millis(500),
            skip: Duration::from_millis(5_000),
            busy: BLOCK_INTERVAL_BUSY,
            idle: BLOCK_INTERVAL_IDLE,
        }
    }
}

/// Most bytes of a finality certificate: 128 signatures of 64 bytes, their bits, and what they sign.
pub const CERTIFICATE_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader that vanishes in the middle of its proposal, and a vote to leave its view that is lost.
    #[test]
    fn one_fault_keeps_the_others_from_a_block_for_less_than_three_seconds() {
        let Timers {
            certification,
            retry,
            idle,
            ..
        } = Timers::default();
        assert!(certification + retry + idle < Duration::from_secs(3));
    }
}
