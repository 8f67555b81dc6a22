//! Genesis: accounts, validators and parameters before the first block.

use tg_types::chain::{FinalityError, NetworkTrust, TrustRoot};
use tg_types::{
    Address, Amount, BlockId, ChainDomain, Decode, DecodeError, Domain, Encode, Reader,
    TimestampMs, Writer, keccak256_of,
};

use crate::limits::{ACCOUNTS_MAX, VALIDATORS_MAX};
use crate::parameters::Parameters;
use crate::record::Validator;

/// The beginning of a network. Its hash is the id of block 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genesis {
    /// Which network signatures are for.
    pub domain: ChainDomain,
    /// Fees, times and rules.
    pub parameters: Parameters,
    /// Time of block 0.
    pub timestamp: TimestampMs,
    /// Who can spend what; sorted by address.
    pub accounts: Vec<(Address, Amount)>,
    /// Who votes; sorted by address.
    pub validators: Vec<Validator>,
}

impl Genesis {
    /// The id of block 0.
    #[must_use]
    pub fn id(&self) -> BlockId {
        BlockId::new(keccak256_of(Domain::Block, &self.to_bytes()))
    }

    /// What a client of this network trusts.
    ///
    /// # Errors
    /// If it has no validators, too many, or one key twice.
    pub fn trust_root(&self) -> Result<TrustRoot, FinalityError> {
        let seats = self.validators.iter().map(|it| *it.key.as_bytes());
        TrustRoot::new(self.id(), seats.collect())
    }

    /// What a client of this network begins with.
    ///
    /// # Errors
    /// Those of [`Genesis::trust_root`].
    pub fn trust(&self) -> Result<NetworkTrust, FinalityError> {
        let mut seats = Writer::new();
        seats.seq(&self.validators);
        Ok(NetworkTrust {
            root: self.trust_root()?,
            seats: seats.into_bytes(),
            timestamp: self.timestamp,
            unbonding: self.parameters.unbonding,
        })
    }

    /// What is minted: all balances and stakes; `None` above the maximum.
    #[must_use]
    pub fn minted(&self) -> Option<Amount> {
        let balances = self.accounts.iter().map(|(_, balance)| *balance);
        let stakes = self.validators.iter().map(|validator| validator.stake);
        balances
            .chain(stakes)
            .try_fold(Amount::ZERO, Amount::checked_add)
    }
}

impl Encode for Genesis {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            domain,
            parameters,
            timestamp,
            accounts,
            validators,
        } = self;
        domain.encode(writer);
        parameters.encode(writer);
        timestamp.encode(writer);
        writer.count(accounts.len());
        for (address, balance) in accounts {
            address.encode(writer);
            balance.encode(writer);
        }
        writer.seq(validators);
    }
}

impl Decode for Genesis {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let domain = ChainDomain::decode(reader)?;
        let parameters = Parameters::decode(reader)?;
        let timestamp = TimestampMs::decode(reader)?;
        let count = reader.count("genesis accounts", ACCOUNTS_MAX, 36)?;
        let accounts = (0..count)
            .map(|_| Ok((Address::decode(reader)?, Amount::decode(reader)?)))
            .collect::<Result<_, DecodeError>>()?;
        Ok(Self {
            domain,
            parameters,
            timestamp,
            accounts,
            validators: reader.seq("validators", VALIDATORS_MAX, 68)?,
        })
    }
}

/// Why a genesis makes no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// Accounts are not sorted by address, or one appears twice.
    #[error("genesis accounts are not strictly sorted by address at entry {index}")]
    UnsortedAccounts {
        /// The first entry out of order.
        index: usize,
    },
    /// Validators are not sorted by address, or one appears twice.
    #[error("genesis validators are not strictly sorted by address at entry {index}")]
    UnsortedValidators {
        /// The first entry out of order.
        index: usize,
    },
    /// There is no validator.
    #[error("a network needs at least one validator")]
    NoValidator,
    /// More validators than a network may have.
    #[error("a network has at most {VALIDATORS_MAX} validators, this one has {count}")]
    TooManyValidators {
        /// How many there are.
        count: usize,
    },
    /// More accounts than a network may have.
    #[error("a network has at most 1000000 accounts, this one has {count}")]
    TooManyAccounts {
        /// How many there are.
        count: usize,
    },
    /// A window could end while faulty validators keep everybody's transactions out of their turns.
    #[error("the window {window} is shorter than 3 (f + 1) timeouts of a leader")]
    ShortWindow {
        /// Its name in [`Parameters`].
        window: &'static str,
    },
    /// Balances and stakes are more than can be written.
    #[error("genesis balances and stakes overflow")]
    TooMuchMoney,
}
