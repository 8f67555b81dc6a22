//! What travels between the requestor of an endpoint, its gateway and its provider: canonical bytes, every part bounded.

use tg_types::{
    Amount, ChainDomain, Digest, Label, LeaseId, ServingClaim, Signature, SignatureError,
    SignedVoucher, answer_digest, asked_digest, fields, tags, variants,
};

/// Largest input of a request, and largest answer, in bytes.
pub const ENDPOINT_BYTES_MAX: usize = 2 << 20;

/// Largest piece of an answer, in bytes, sealed. What is written at once and is longer comes with the whole answer.
pub const PIECE_BYTES_MAX: usize = 64 << 10;

/// Most bytes of an encapsulated secret.
pub const ENCAPSULATED_BYTES_MAX: usize = 4_096;

/// Most requests that a provider takes at once, and most parts of answers that it sends at once.
pub const ENDPOINT_BATCH_MAX: usize = 256;

/// Most bytes of a call between a provider and a gateway, but for the last request or part in it.
pub const SERVE_BYTES_MAX: usize = 1 << 20;

/// Longest that a gateway lets a provider wait for requests, in milliseconds.
pub const SERVE_WAIT_MS_MAX: u16 = 5_000;

/// A request: an input, and the requestor's signature over it and over what it owes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRequest {
    /// Its number: the requestor gives each only once.
    pub number: u64,
    /// What is owed for the answers so far; it asks for this input.
    pub voucher: SignedVoucher,
    /// An [`AskedInput`] in a [`SealedInput`]; empty if nothing is asked, and the provider answers with its public
    /// key.
    pub input: Vec<u8>,
}

impl EndpointRequest {
    /// What names it.
    #[must_use]
    pub fn asked(&self) -> Digest {
        asked_digest(self.number, &Digest::of_blob(&self.input))
    }
}

fields! { EndpointRequest { number, voucher, input: bytes("input", ENDPOINT_BYTES_MAX) } }

/// What a request's input is: a secret that only the provider opens, and what is sealed with it. The secret is the same for all requests of a
/// session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedInput {
    /// The secret, encapsulated to the provider's key.
    pub encapsulated: Vec<u8>,
    /// The [`AskedInput`], sealed under the request's number.
    pub sealed: Vec<u8>,
}

fields! {
    SealedInput {
        encapsulated: bytes("encapsulated secret", ENCAPSULATED_BYTES_MAX),
        sealed: bytes("sealed input", ENDPOINT_BYTES_MAX),
    }
}

/// What is wanted of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedFor {
    /// The output.
    Output,
    /// The output and a proof of it, for its price.
    Proof,
}

tags! {
    AskedFor: "what is asked for" {
        Output = 0, Proof = 1,
    }
}

/// What is sealed in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedInput {
    /// What is wanted.
    pub wanted: AskedFor,
    /// The model's input, or a request to generate.
    pub input: Vec<u8>,
}

fields! { AskedInput { wanted, input: bytes("input", ENDPOINT_BYTES_MAX) } }

/// What is sealed in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOutput {
    /// The output.
    pub output: Vec<u8>,
    /// The proof that was asked for, of the endpoint's job and provider; else empty.
    pub proof: Vec<u8>,
}

fields! {
    GivenOutput {
        output: bytes("output", ENDPOINT_BYTES_MAX),
        proof: bytes("proof", ENDPOINT_BYTES_MAX),
    }
}

/// Why a provider does not answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointRefusal {
    /// The requestor did not sign it, or for something else.
    Unsigned,
    /// Too much was answered that no voucher pays for.
    Unpaid,
    /// What is locked does not pay for it.
    NoMoney,
    /// Too many requests wait.
    Busy,
    /// The model cannot be run on it.
    Failed,
    /// The endpoint ends.
    Ends,
    /// The provider has a later voucher of the requestor.
    Behind,
    /// The request is not sealed to the key that the provider has now.
    Unsealed,
}

tags! {
    EndpointRefusal: "endpoint refusal" {
        Unsigned = 0, Unpaid = 1, NoMoney = 2, Busy = 3, Failed = 4, Ends = 5, Behind = 6, Unsealed = 7,
    }
}

impl EndpointRefusal {
    /// Its name in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "the requestor did not sign this request",
            Self::Unpaid => "too many answers are not paid for",
            Self::NoMoney => "the endpoint's money does not pay for it",
            Self::Busy => "too many requests wait",
            Self::Failed => "the model cannot be run on this input, or not be proved",
            Self::Ends => "the endpoint ends",
            Self::Behind => "a later voucher was signed",
            Self::Unsealed => "the request is not sealed to the provider's key",
        }
    }
}

/// A part of what a provider says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// What was written after the pieces before, sealed, for whoever wants to see it at once. Those that find no room are left out.
    Piece {
        /// How many came before.
        index: u32,
        /// The piece.
        piece: Vec<u8>,
    },
    /// The whole answer, for its price. Nothing follows.
    Whole {
        /// The [`GivenOutput`], sealed.
        answer: Vec<u8>,
        /// What is owed for it.
        price: Amount,
        /// The provider's signature over [`answer_digest`].
        signature: Signature,
    },
    /// There is no answer. Nothing follows.
    Refused {
        /// Why.
        because: EndpointRefusal,
        /// More about it.
        detail: Label,
        /// The last voucher that the provider has, for a requestor that lost count.
        last: Option<SignedVoucher>,
    },
}

variants! {
    AnswerPart: "answer part" {
        0 = Piece { index, piece: bytes("piece", PIECE_BYTES_MAX) },
        1 = Whole { answer: bytes("answer", ENDPOINT_BYTES_MAX), price, signature },
        2 = Refused { because, detail, last },
    }
}

impl AnswerPart {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        !matches!(self, Self::Piece { .. })
    }
}

/// A part of an answer, and to which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedPart {
    /// The request's number.
    pub number: u64,
    /// The part.
    pub part: AnswerPart,
}

fields! { NumberedPart { number, part } }

/// What shows that a provider may have the requests of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingProof {
    /// Its signature: the gateway answers with a token.
    Claim(ServingClaim),
    /// That token.
    Token([u8; 16]),
}

variants! {
    ServingProof: "serving proof" {
        0 = Claim(claim),
        1 = Token(token),
    }
}

/// What a provider brings to its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeCall {
    /// That it may.
    pub proof: ServingProof,
    /// How long to wait for requests, in milliseconds.
    pub wait_ms: u16,
    /// What it says to requests that it has.
    pub parts: Vec<NumberedPart>,
}

fields! { ServeCall { proof, wait_ms, parts: seq("parts", ENDPOINT_BATCH_MAX, 13) } }

/// What a gateway gives a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeAnswer {
    /// What it shows next time.
    pub token: [u8; 16],
    /// Requests that came.
    pub requests: Vec<EndpointRequest>,
}

fields! { ServeAnswer { token, requests: seq("requests", ENDPOINT_BATCH_MAX, 165) } }

/// Signs an answer.
#[must_use]
pub fn sign_answer(
    wallet: &tg_types::Wallet,
    (lease, asked): (&LeaseId, &Digest),
    answer: &[u8],
    domain: &ChainDomain,
) -> Signature {
    let answer = Digest::of_blob(answer);
    wallet.sign_digest(&answer_digest(lease, asked, &answer, domain))
}

/// Who signed an answer.
///
/// # Errors
/// [`SignatureError`] if nobody can have.
pub fn answer_signer(
    signature: &Signature,
    (lease, asked): (&LeaseId, &Digest),
    answer: &[u8],
    domain: &ChainDomain,
) -> Result<tg_types::Address, SignatureError> {
    let answer = Digest::of_blob(answer);
    signature.recover(&answer_digest(lease, asked, &answer, domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_types::{Decode as _, Encode as _, Voucher, Wallet};

    const DOMAIN: ChainDomain = ChainDomain {
        chain_id: 1,
        verifying_contract: tg_types::Address::new([2; 20]),
        salt: [3; 32],
    };

    fn request() -> EndpointRequest {
        let wallet = Wallet::from_seed(b"alice");
        let asked = asked_digest(7, &Digest::of_blob(b"input"));
        let voucher = Voucher::first(LeaseId::new([1; 32])).asking(asked);
        EndpointRequest {
            number: 7,
            voucher: voucher.sign(&wallet, &DOMAIN),
            input: b"input".to_vec(),
        }
    }

    fn call() -> ServeCall {
        let (wallet, lease) = (Wallet::from_seed(b"provider"), LeaseId::new([1; 32]));
        let signature = sign_answer(&wallet, (&lease, &request().asked()), b"answer", &DOMAIN);
        let part = |part| NumberedPart { number: 7, part };
        ServeCall {
            proof: ServingProof::Token([9; 16]),
            wait_ms: 100,
            parts: vec![
                part(AnswerPart::Piece {
                    index: 1,
                    piece: b"an".to_vec(),
                }),
                part(AnswerPart::Whole {
                    answer: b"answer".to_vec(),
                    price: Amount::new(5),
                    signature,
                }),
                part(AnswerPart::Refused {
                    because: EndpointRefusal::Unpaid,
                    detail: Label::lossy("64 answers"),
                    last: Some(request().voucher),
                }),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let answer = ServeAnswer {
            token: [4; 16],
            requests: vec![request(), request()],
        };
        assert_eq!(ServeCall::from_bytes(&call().to_bytes()), Ok(call()));
        assert_eq!(
            ServeAnswer::from_bytes(&answer.to_bytes()),
            Ok(answer.clone())
        );
        let (call, answer) = (call().to_bytes(), answer.to_bytes());
        for cut in 0..call.len() {
            assert!(ServeCall::from_bytes(&call[..cut]).is_err(), "{cut}");
        }
        for cut in 0..answer.len() {
            assert!(ServeAnswer::from_bytes(&answer[..cut]).is_err(), "{cut}");
        }
        // A changed byte is another value or none, never the same.
        for at in 0..call.len() {
            let mut other = call.clone();
            other[at] ^= 1;
            let read = ServeCall::from_bytes(&other);
            assert!(
                read.is_err() || read.is_ok_and(|it| it.to_bytes() == other),
                "{at}"
            );
        }
    }

    #[test]
    fn a_piece_is_small() {
        let piece = |length| AnswerPart::Piece {
            index: 0,
            piece: vec![1; length],
        };
        let largest = piece(PIECE_BYTES_MAX);
        assert_eq!(AnswerPart::from_bytes(&largest.to_bytes()), Ok(largest));
        assert!(AnswerPart::from_bytes(&piece(PIECE_BYTES_MAX + 1).to_bytes()).is_err());
    }

    #[test]
    fn an_answer_is_its_providers() {
        let (wallet, lease) = (Wallet::from_seed(b"provider"), LeaseId::new([1; 32]));
        let asked = request().asked();
        let signature = sign_answer(&wallet, (&lease, &asked), b"answer", &DOMAIN);
        let signer = answer_signer(&signature, (&lease, &asked), b"answer", &DOMAIN);
        assert_eq!(signer, Ok(wallet.address()));
        let other = answer_signer(&signature, (&lease, &asked), b"Answer", &DOMAIN);
        assert_ne!(other, Ok(wallet.address()));
    }
}
