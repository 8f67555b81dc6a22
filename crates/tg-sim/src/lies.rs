//! What a gateway says instead of the truth: real proofs and certificates of the run, changed or put together wrongly, and ones that it makes itself.

use std::sync::Arc;

use commonware_codec::Encode as _;
use commonware_cryptography::{Signer as _, ed25519};
use tg_ledger::{ConsensusKey, State, Validator};
use tg_node::ValidatorKey;
use tg_sdk::dto::{StateAnswerDto, StateRecordDto};
use tg_types::chain::{
    Finality, FinalityCertificate, FinalityProof, SeatChange, SeatChanges, StateAnswer, StateProof,
    TrustedHead,
};
use tg_types::{
    Address, Amount, BlockId, Domain, Encode, JobId, LeaseId, OfferId, TimestampMs, Writer,
};

use crate::draw::SeedStream;

/// The first of the numbers whose keys never had a seat.
const STRANGERS: u64 = 1_000_000;

/// A record that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// What somebody has.
    Account(Address),
    /// An offer.
    Offer(OfferId),
    /// A job, with whom it pays.
    Job(JobId),
    /// What a job locks.
    Escrow(JobId),
    /// A lease, with its receipt and its price.
    Lease(LeaseId),
    /// What a lease locks.
    Collateral(LeaseId),
}

/// What a record is: the money that lies in it, and its bytes if it is not money alone.
pub(crate) type Standing = (Amount, Option<Vec<u8>>);

/// One of these in the order of their names, or now and then one that is not there.
fn one_of<T: Copy + Ord>(all: impl Iterator<Item = T>, missing: T, draw: &mut SeedStream) -> T {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    let is_missing = draw.chance(150);
    match all.is_empty() || is_missing {
        true => missing,
        false => draw.pick(&all),
    }
}

impl Question {
    /// A question about a state.
    pub(crate) fn drawn(state: &State, draw: &mut SeedStream) -> Self {
        let byte = u8::try_from(draw.between(0, 255)).unwrap_or(0);
        let jobs = state.jobs().iter().map(|it| it.id);
        let leases = state.leases().iter().map(|it| it.id);
        let (job, lease) = (JobId::new([byte; 32]), LeaseId::new([byte; 32]));
        match draw.between(0, 6) {
            0 | 1 => {
                let accounts = state.accounts().iter().map(|it| it.address);
                Self::Account(one_of(accounts, Address::new([byte; 20]), draw))
            }
            2 => {
                let offers = state.offers().iter().map(|it| it.id);
                Self::Offer(one_of(offers, OfferId::new([byte; 32]), draw))
            }
            3 => Self::Job(one_of(jobs, job, draw)),
            4 => Self::Escrow(one_of(jobs, job, draw)),
            5 => Self::Lease(one_of(leases, lease, draw)),
            _ => Self::Collateral(one_of(leases, lease, draw)),
        }
    }

    /// What kind of record it is.
    pub(crate) const fn record(&self) -> StateRecordDto {
        match self {
            Self::Account(_) => StateRecordDto::Account,
            Self::Offer(_) => StateRecordDto::Offer,
            Self::Job(_) => StateRecordDto::Job,
            Self::Escrow(_) => StateRecordDto::Escrow,
            Self::Lease(_) => StateRecordDto::Lease,
            Self::Collateral(_) => StateRecordDto::Collateral,
        }
    }

    /// The bytes of its id.
    pub(crate) fn id(&self) -> &[u8] {
        match self {
            Self::Account(it) => it.as_bytes().as_slice(),
            Self::Offer(it) => it.as_bytes().as_slice(),
            Self::Job(it) | Self::Escrow(it) => it.as_bytes().as_slice(),
            Self::Lease(it) | Self::Collateral(it) => it.as_bytes().as_slice(),
        }
    }

    /// Whether bytes of a record come with the answer.
    pub(crate) const fn has_content(&self) -> bool {
        !matches!(self, Self::Escrow(_) | Self::Collateral(_))
    }

    /// What the record is in a state, read from the state itself and not from a proof.
    pub(crate) fn standing(&self, state: &State) -> Option<Standing> {
        let bytes = |record: Option<Vec<u8>>| Some((Amount::ZERO, Some(record?)));
        let money = |amount: Option<Amount>| Some((amount.filter(|it| !it.is_zero())?, None));
        match self {
            Self::Account(it) => {
                let account = state.account(it)?;
                Some((account.balance, Some(account.to_bytes())))
            }
            Self::Offer(it) => bytes(state.offer(it).map(Encode::to_bytes)),
            Self::Job(it) => bytes(state.job(it).map(Encode::to_bytes)),
            Self::Escrow(it) => money(state.job(it).map(|job| job.escrow())),
            Self::Lease(it) => bytes(state.lease(it).map(Encode::to_bytes)),
            Self::Collateral(it) => money(state.lease(it).map(|lease| lease.locked())),
        }
    }

    /// The proof of what it is in a state.
    fn proof(&self, state: &State) -> StateProof {
        match self {
            Self::Account(it) => state.prove_account(it),
            Self::Offer(it) => state.prove_offer(it),
            Self::Job(it) => state.prove_job(it),
            Self::Escrow(it) => state.prove_escrow(it),
            Self::Lease(it) => state.prove_lease(it),
            Self::Collateral(it) => state.prove_collateral(it),
        }
    }
}

/// What an honest gateway has to say: what shows that its newest block is final, and the state after it.
#[derive(Debug, Clone)]
pub(crate) struct HonestGateway {
    pub(crate) block: BlockId,
    pub(crate) height: u64,
    pub(crate) proof: FinalityProof,
    pub(crate) state: Arc<State>,
}

/// What a client is told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) answer: StateAnswerDto,
    /// What the gateway says of the set of validators if the client asks for it.
    pub(crate) changes: SeatChanges,
    /// Whether the client hears it after the bonds of those that sign have gone back.
    pub(crate) is_late: bool,
}

impl HonestGateway {
    /// The answer to a question.
    pub(crate) fn answer(&self, question: &Question) -> StateAnswer {
        StateAnswer {
            certificate: self.proof.certificate.clone(),
            headers: self.proof.headers.clone(),
            proof: question.proof(&self.state),
        }
    }

    /// The bytes of the record.
    fn content(&self, question: &Question) -> Option<Vec<u8>> {
        question.standing(&self.state)?.1
    }

    /// The truth.
    pub(crate) fn tells(&self, question: &Question, changes: SeatChanges) -> Told {
        Told {
            answer: written(&self.answer(question), self.content(question)),
            changes,
            is_late: false,
        }
    }
}

/// An answer as it travels.
fn written(answer: &StateAnswer, content: Option<Vec<u8>>) -> StateAnswerDto {
    let told = StateAnswerDto::from(answer);
    match content {
        Some(content) => told.with_content(&content),
        None => told,
    }
}

/// How a gateway lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayLie {
    /// A record has more money than it has.
    Money,
    /// A record that is there is not there.
    Absence,
    /// Another record is the one that was asked for.
    OtherRecord,
    /// The bytes of a record are others.
    Content,
    /// The bytes of a record are kept back.
    NoContent,
    /// What an old state has is in the new one.
    OldProof,
    /// An old answer is of the newest block.
    OldAnswer,
    /// A bit of the certificate is another one.
    Certificate,
    /// The certificate is of another block.
    OtherCertificate,
    /// The block has a state that the gateway made up.
    State,
    /// A block that it made up is final by keys that never had a seat.
    Strangers,
    /// The same by seats that left, with strangers in the places of the others.
    Left,
    /// The same by keys that hold no bond any more: all that vote now, once unbonding is over.
    Unbonded,
    /// The validators have changed to its own.
    Set,
}

/// What a gateway that lies has to begin with.
pub(crate) struct LieCase<'a> {
    pub(crate) question: Question,
    pub(crate) now: &'a HonestGateway,
    /// What it knew earlier.
    pub(crate) old: Option<&'a HonestGateway>,
    /// What the client knows.
    pub(crate) head: &'a TrustedHead,
    /// How many keys ever had a seat, which have the first numbers.
    pub(crate) voters: u64,
    /// When nobody that votes now answers for it.
    pub(crate) unbonded_at: TimestampMs,
}

impl GatewayLie {
    /// All of them.
    pub(crate) const ALL: [Self; 14] = [
        Self::Money,
        Self::Absence,
        Self::OtherRecord,
        Self::Content,
        Self::NoContent,
        Self::OldProof,
        Self::OldAnswer,
        Self::Certificate,
        Self::OtherCertificate,
        Self::State,
        Self::Strangers,
        Self::Left,
        Self::Unbonded,
        Self::Set,
    ];

    /// What the client is told; nothing if the case has nothing to lie about in this way.
    pub(crate) fn told(self, case: &LieCase<'_>, draw: &mut SeedStream) -> Option<Told> {
        let (question, now) = (&case.question, case.now);
        let content = now.content(question);
        let answer = match self {
            Self::Money | Self::Absence | Self::OtherRecord => {
                let (answer, content) = self.of_record(case, draw)?;
                written(&answer, content)
            }
            Self::Content => {
                let mut content = content?;
                let at = draw.index(content.len());
                content[at] ^= 1 << draw.between(0, 7);
                written(&now.answer(question), Some(content))
            }
            Self::NoContent => content.and(Some(written(&now.answer(question), None)))?,
            Self::OldProof => {
                let proof = question.proof(&case.old?.state);
                let answer = StateAnswer {
                    proof,
                    ..now.answer(question)
                };
                written(&answer, case.old?.content(question))
            }
            Self::OldAnswer => {
                let old = case.old?;
                let told = written(&old.answer(question), old.content(question));
                let height = now.height;
                StateAnswerDto { height, ..told }
            }
            Self::Certificate => {
                let mut answer = now.answer(question);
                let at = draw.index(answer.certificate.len());
                answer.certificate[at] ^= 1 << draw.between(0, 7);
                written(&answer, content)
            }
            Self::OtherCertificate => {
                let certificate = case.old?.proof.certificate.clone();
                let answer = StateAnswer {
                    certificate,
                    ..now.answer(question)
                };
                written(&answer, content)
            }
            Self::State | Self::Strangers | Self::Left | Self::Unbonded | Self::Set => {
                written(&self.made_up(case)?, content)
            }
        };
        let changes = match self {
            Self::Set => own_set(now, case.head.root().seats().len()),
            _ => SeatChanges::default(),
        };
        Some(Told {
            answer,
            changes,
            is_late: self == Self::Unbonded,
        })
    }

    /// A proof that says something else of the record.
    fn of_record(
        self,
        case: &LieCase<'_>,
        draw: &mut SeedStream,
    ) -> Option<(StateAnswer, Option<Vec<u8>>)> {
        let (question, now) = (&case.question, case.now);
        let mut answer = now.answer(question);
        let mut content = now.content(question);
        match (self, &mut answer.proof) {
            (Self::Money, StateProof::Present { head, .. }) => {
                head.amount = head.amount.saturating_add(Amount::from_tgrid(1));
            }
            (
                Self::Absence,
                StateProof::Present {
                    path,
                    head,
                    content: digest,
                },
            ) => {
                content = None;
                answer.proof = match draw.chance(500) {
                    // The leaf that is there, as the one before the one that is not.
                    true => StateProof::Absent {
                        body: head.body(digest),
                        path: path.clone(),
                    },
                    // That somebody else is not there.
                    false => now.state.prove_account(&Address::new([0xee; 20])),
                };
            }
            (Self::OtherRecord, _) => {
                let accounts = now.state.accounts().iter().map(|it| it.address);
                let other = Question::Account(one_of(accounts, Address::default(), draw));
                if other == *question {
                    return None;
                }
                answer.proof = other.proof(&now.state);
                content = now.content(&other);
            }
            _ => return None,
        }
        Some((answer, content))
    }

    /// A block with a state of the gateway's own, in which the record has more money, and what may pass for a certificate of it.
    fn made_up(self, case: &LieCase<'_>) -> Option<StateAnswer> {
        let mut answer = case.now.answer(&case.question);
        let StateProof::Present {
            path,
            head,
            content,
        } = &mut answer.proof
        else {
            return None;
        };
        head.amount = head.amount.saturating_add(Amount::from_tgrid(1));
        let state_root = path.root(&head.body(content));
        if self == Self::State {
            answer.headers.last_mut()?.state_root = state_root;
            return Some(answer);
        }
        let mut header = *answer.headers.last()?;
        header.state_root = state_root;
        header.height = header.height.next();
        if self == Self::Unbonded {
            header.timestamp = case.unbonded_at;
        }
        let seats = case.head.root().seats();
        let sits = |number: &u64| seats.contains(&ValidatorKey::from_seed(*number).public());
        let strangers = STRANGERS..STRANGERS + seats.len() as u64;
        let signers: Vec<u64> = match self {
            Self::Unbonded => (0..case.voters).filter(sits).collect(),
            Self::Left => {
                let left: Vec<u64> = (0..case.voters).filter(|it| !sits(it)).collect();
                if left.is_empty() {
                    return None;
                }
                let both = left.into_iter().chain(strangers);
                both.take(seats.len()).collect()
            }
            _ => strangers.collect(),
        };
        let shown = FinalityCertificate::read(&answer.certificate).ok()?;
        let finality = Finality {
            view: shown.finality.view + 1,
            parent_view: shown.finality.view,
            block: header.id(),
            ..shown.finality
        };
        answer.certificate = certificate(&case.head.genesis(), finality, signers);
        answer.headers = vec![header];
        Some(answer)
    }
}

/// A change to a set of the gateway's own, shown by the proof of a real block.
fn own_set(now: &HonestGateway, seats: usize) -> SeatChanges {
    let mut own: Vec<Validator> = (STRANGERS..STRANGERS + seats as u64)
        .map(|number| {
            let key = ValidatorKey::from_seed(number).public();
            let mut address = [0; 20];
            address.copy_from_slice(&key[..20]);
            Validator {
                address: Address::new(address),
                key: ConsensusKey::new(key),
                stake: Amount::from_tgrid(1_000),
            }
        })
        .collect();
    own.sort_unstable_by_key(|it| it.address);
    let mut writer = Writer::new();
    writer.seq(&own);
    SeatChanges(vec![SeatChange {
        proof: now.proof.clone(),
        seats: writer.into_bytes(),
    }])
}

/// A certificate that all of these keys sign: the encoding that consensus has, made without it.
fn certificate(genesis: &BlockId, finality: Finality, mut signers: Vec<u64>) -> Vec<u8> {
    let mut proposal = Vec::new();
    for number in [finality.epoch, finality.view, finality.parent_view] {
        write_number(number, &mut proposal);
    }
    proposal.extend_from_slice(finality.block.as_bytes());
    let purpose = Domain::Vote.as_str().as_bytes();
    let namespace = [purpose, genesis.as_bytes().as_slice(), b"_FINALIZE"].concat();
    // Signatures stand in the order of public keys.
    signers.sort_by_key(|number| ValidatorKey::from_seed(*number).public());
    let mut bytes = proposal.clone();
    bytes.extend_from_slice(&(signers.len() as u64).to_be_bytes());
    let mut bits = vec![0u8; signers.len().div_ceil(8)];
    for seat in 0..signers.len() {
        bits[seat / 8] |= 1 << (seat % 8);
    }
    bytes.extend_from_slice(&bits);
    write_number(signers.len() as u64, &mut bytes);
    for number in signers {
        let key = ed25519::PrivateKey::from_seed(number);
        let signature = key.sign(&namespace, &proposal).encode();
        bytes.extend_from_slice(signature.as_ref());
    }
    bytes
}

/// A LEB128 number: seven bits a byte, the lowest first.
fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use tg_types::chain::{FinalityError, TrustRoot};

    use super::*;

    /// Else a certificate of a lie would be refused for its form, and nothing would be learnt of who signed it.
    #[test]
    fn a_certificate_that_is_made_here_holds_if_those_that_vote_signed_it() {
        let genesis = BlockId::new([7; 32]);
        let finality = Finality {
            epoch: 3,
            view: 300,
            parent_view: 127,
            block: BlockId::new([9; 32]),
        };
        let key = |number: u64| ValidatorKey::from_seed(number).public();
        for count in [1, 4, 7, 9] {
            let root = TrustRoot::new(genesis, (0..count).map(key).collect());
            let root = root.expect("keys are different");
            let own = certificate(&genesis, finality, (0..count).collect());
            assert_eq!(root.check(&own), Ok(finality));
            let others = certificate(&genesis, finality, (count..2 * count).collect());
            let refused = root.check(&others).expect_err("nobody of them has a seat");
            assert!(matches!(refused, FinalityError::Signature { .. }));
            let elsewhere = certificate(&BlockId::new([8; 32]), finality, (0..count).collect());
            assert!(root.check(&elsewhere).is_err(), "it is of another network");
        }
    }
}
