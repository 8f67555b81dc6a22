//! A short fuzz of everything that reads strangers' bytes: decoders and verifiers give a verdict, never a panic, and
//! what a decoder accepts it writes back byte for byte.
//!
//! Targets are plain functions, so that they run on stable in every test run. `TENSORGRID_FUZZ_ROUNDS` makes it
//! longer, `TENSORGRID_FUZZ_SEED` repeats a failure.

use tg_exec::sample::{Numbers, random_model};
use tg_exec::{IntTensor, execute_tensor};
use tg_input::{Expected, Kind, read_one};
use tg_ir::tiles::ReadOpening;
use tg_ledger::{Block, Genesis};
use tg_proof::{
    AccuserClaim, ClaimFile, ExpectedClaim, ExpectedStatement, FaultFile, ProofFile, PublicModel,
    claim_fails,
};
use tg_prover::{ProveRequest, ProvingModel, prove};
use tg_sdk::endpoint::served::{ServedAnswer, ServedRequest, check_charge};
use tg_sdk::endpoint::wire::{
    AnswerPart, EndpointRefusal, EndpointRequest, NumberedPart, SealedInput, ServeAnswer,
    ServeCall, ServingProof,
};
use tg_types::{
    Address, Amount, ChainDomain, Decode, Digest, Encode, LeaseId, Receipt, ServedCall, ServedCard,
    SignedTransaction, TileName, Transaction, Voucher, Wallet,
};

/// Something that reads bytes; returns what it would write for what it read.
type Target = Box<dyn Fn(&[u8]) -> Option<Vec<u8>>>;

/// A target with bytes that it accepts.
struct Case {
    name: &'static str,
    seed: Vec<u8>,
    rounds: u64,
    target: Target,
}

/// The answer of the vector that consensus made.
fn state_answer() -> Vec<u8> {
    let path = crate::run::root().join("crates/tg-types/tests/data/finality.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let digits = text.lines().find_map(|line| line.strip_prefix("answer = "));
    let pairs = digits.unwrap().as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// A request to an endpoint.
fn endpoint_request() -> EndpointRequest {
    let sealed = SealedInput {
        encapsulated: vec![3; 1_120],
        sealed: vec![4; 40],
    };
    let domain = tg_ledger::development_domain();
    let voucher = Voucher::first(LeaseId::new([1; 32]));
    EndpointRequest {
        number: 7,
        voucher: voucher.sign(&Wallet::from_seed(b"alice"), &domain),
        input: sealed.to_bytes(),
    }
}

/// What a provider of an endpoint brings: a piece, an answer, and that there is none.
fn serve_call() -> Vec<u8> {
    let request = endpoint_request();
    let signature = request.voucher.signature;
    let parts = [
        AnswerPart::Piece {
            index: 2,
            piece: vec![5; 20],
        },
        AnswerPart::Whole {
            answer: vec![6; 60],
            price: Amount::new(9),
            signature,
        },
        AnswerPart::Refused {
            because: EndpointRefusal::Behind,
            detail: tg_types::Label::lossy("a detail"),
            last: Some(request.voucher),
        },
    ];
    let parts = parts.map(|part| NumberedPart { number: 7, part });
    let call = ServeCall {
        proof: ServingProof::Token([8; 16]),
        wait_ms: 100,
        parts: parts.to_vec(),
    };
    call.to_bytes()
}

/// What it fetches.
fn serve_answer() -> Vec<u8> {
    let answer = ServeAnswer {
        token: [8; 16],
        requests: vec![endpoint_request(), endpoint_request()],
    };
    answer.to_bytes()
}

fn canonical<T: Decode + Encode>(bytes: &[u8]) -> Option<Vec<u8>> {
    T::from_bytes(bytes).ok().map(|value| value.to_bytes())
}

/// Changes bytes a little: flips, overwrites, cuts, doubles and grows.
fn mutate(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    let at = |numbers: &mut Numbers, length: usize| {
        usize::try_from(numbers.next() % (length.max(1) as u64)).unwrap()
    };
    for _ in 0..=at(numbers, 4) {
        let place = at(numbers, bytes.len());
        let value = numbers.next().to_le_bytes();
        match numbers.next() % 6 {
            0 if !bytes.is_empty() => bytes[place] ^= 1 << (value[0] % 8),
            1 if !bytes.is_empty() => bytes[place] = value[0],
            2 => bytes.truncate(place),
            3 if place + 4 <= bytes.len() => bytes[place..place + 4].copy_from_slice(&value[..4]),
            4 => bytes.extend_from_slice(&value),
            _ => {
                let copied: Vec<u8> = bytes[place..].iter().take(64).copied().collect();
                bytes.splice(place..place, copied);
            }
        }
    }
    bytes
}

/// A provable model with a proof.
fn proof_cases() -> Vec<Case> {
    let (compiled, input, proving) = (0..)
        .map(random_model)
        .find_map(|(compiled, input)| {
            let proving = ProvingModel::new(compiled.clone()).ok()?;
            Some((compiled, input, proving))
        })
        .unwrap();
    let public = proving.register().unwrap();
    let request = ProveRequest::of(vec![IntTensor::I8(input.clone())]);
    let (file, _) = prove(&proving, request, &mut |_| {}).unwrap();
    let verifier = PublicModel::decode(&public.encode()).unwrap();
    let spec = compiled.program.input.clone();
    let json = serde_json::json!({ "input_data": [vec![0.5; input.len()]] });
    vec![
        Case {
            name: "compiled model",
            seed: compiled.to_bytes(),
            rounds: 20,
            target: Box::new(|bytes| {
                let model = tg_ir::CompiledModel::read(bytes).ok()?;
                Some(model.to_bytes())
            }),
        },
        Case {
            name: "public model",
            seed: public.encode(),
            rounds: 4,
            target: Box::new(|bytes| {
                let model = PublicModel::decode(bytes).ok()?;
                let _verdict = model.verify_registration();
                Some(model.encode())
            }),
        },
        Case {
            name: "proof file",
            seed: file.to_bytes(),
            rounds: 8,
            target: Box::new(move |bytes| {
                let read = ProofFile::read(bytes).ok()?;
                let accepted =
                    tg_proof::verify(&verifier, &read, &ExpectedStatement::default()).is_ok();
                assert!(!accepted || read == file, "a changed proof was accepted");
                Some(read.to_bytes())
            }),
        },
        Case {
            name: "input file",
            seed: json.to_string().into_bytes(),
            rounds: 20,
            target: Box::new(move |bytes| {
                for kind in [Kind::Json, Kind::Npy, Kind::Npz, Kind::Png] {
                    let _read = read_one(bytes, kind, Expected::of_spec(&spec, &[]));
                }
                Some(bytes.to_vec())
            }),
        },
    ]
}

/// Bodies of the OpenAI routes.
fn openai_cases() -> Vec<Case> {
    let body = serde_json::json!({
        "model": "m", "prompt": ["a"], "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
        "messages": [{"role": "user", "content": "a"}], "stop": ["a"], "temperature": 0.5, "seed": -1,
        "input_file_id": "f", "endpoint": "/v1/responses", "completion_window": "24h",
        "tensorgrid": {"verify": "proof", "max_price": "1.5", "top_k": 4},
    });
    let line = r#"{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {}}"#;
    let form = "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{}\r\n--xyz--\r\n";
    let case = |name, seed: String, read: fn(&[u8])| Case {
        name,
        seed: seed.into_bytes(),
        rounds: 40,
        target: Box::new(move |bytes| {
            read(bytes);
            Some(bytes.to_vec())
        }),
    };
    vec![
        case("OpenAI body", body.to_string(), tg_api::fuzz::openai_body),
        case(
            "batch file",
            format!("{line}\n{line}\n"),
            tg_api::fuzz::openai_body,
        ),
        case("form of files", form.to_owned(), tg_api::fuzz::openai_form),
    ]
}

/// What travels between the two sides of an endpoint.
fn endpoint_cases() -> [Case; 2] {
    [
        Case {
            name: "call of an endpoint's provider",
            seed: serve_call(),
            rounds: 40,
            target: Box::new(canonical::<ServeCall>),
        },
        Case {
            name: "requests to an endpoint",
            seed: serve_answer(),
            rounds: 40,
            target: Box::new(canonical::<ServeAnswer>),
        },
    ]
}

/// Cards of served models, requests of them and answers.
fn served_cases() -> [Case; 3] {
    let card = ServedCard {
        provider: Address::new([7; 20]),
        name: tg_types::Label::lossy("parrot"),
        context: 4_096,
        calls: 7,
        prompt_price: Amount::from_tgrid(1),
        completion_price: Amount::from_tgrid(2),
        issued: tg_types::TimestampMs::new(5),
    };
    let body = r#"{"messages": [{"role": "user", "content": "a"}], "max_tokens": 5, "n": 2, "prompt": ["a"]}"#;
    let request = ServedRequest {
        call: ServedCall::Chat,
        stream: true,
        body: body.as_bytes().to_vec(),
    };
    let answer = ServedAnswer {
        status: 200,
        usage: request.bound(&card).unwrap(),
        body: b"{}".to_vec(),
    };
    let (priced, asked) = (card.clone(), request.to_bytes());
    [
        Case {
            name: "card of a served model",
            seed: card.file(),
            rounds: 40,
            target: Box::new(|bytes| ServedCard::read(bytes).ok().map(|card| card.file())),
        },
        Case {
            name: "request of a served model",
            seed: request.to_bytes(),
            rounds: 40,
            target: Box::new(move |bytes| {
                let request = ServedRequest::from_bytes(bytes).ok()?;
                let most = request.most(&card);
                assert!(most.is_none_or(|most| most < Amount::MAX));
                Some(request.to_bytes())
            }),
        },
        Case {
            name: "answer of a served model",
            seed: answer.to_bytes(),
            rounds: 40,
            target: Box::new(move |bytes| {
                let most = answer.usage;
                if let Ok(read) = check_charge(&priced, &asked, bytes, priced.price(most)) {
                    assert!(read.usage.is_within(most), "more tokens than there can be");
                }
                canonical::<ServedAnswer>(bytes)
            }),
        },
    ]
}

/// The files of a dispute that ends at one tile: whatever is shown, a right claim stands.
fn dispute_cases() -> [Case; 2] {
    let (model, input) = random_model(3);
    let model = model.checked().unwrap();
    let trace = execute_tensor(&model, IntTensor::I8(input)).unwrap();
    let input = trace.tensors()[0].to_bytes();
    let claim = AccuserClaim::Run(ClaimFile::of(&model, trace.tensors(), None)).to_bytes();
    // Of a liar: nothing of it is right.
    let receipt = Receipt {
        program: model.program.id(),
        model: tg_types::ModelId::default(),
        input: Digest::of_blob(&input),
        output: Digest::default(),
        trace: Digest::default(),
        tier: tg_types::Tier::Tgx1,
    };
    let tile = TileName { node: 0, leaf: 0 };
    let first = tg_ir::tiles::TraceTile { node: 0, leaf: 0 };
    let reads = ReadOpening::of(&model, trace.tensors(), first);
    let fault = FaultFile::Tile { tile, reads }.to_bytes();
    let lease = LeaseId::new([1; 32]);
    let fails = move |claim: &[u8], fault: &[u8]| {
        let expected = ExpectedClaim {
            lease: &lease,
            input: &input,
            receipt: &receipt,
        };
        claim_fails(&model, (claim, fault), expected, || true)
    };
    let (right, shown) = (claim.clone(), fault.clone());
    let judged = fails.clone();
    [
        Case {
            name: "claim of an accuser",
            seed: claim,
            rounds: 40,
            target: Box::new(move |bytes| {
                let _judged = fails(bytes, &shown);
                canonical::<AccuserClaim>(bytes)
            }),
        },
        Case {
            name: "fault of a claim",
            seed: fault,
            rounds: 40,
            target: Box::new(move |bytes| {
                assert!(!judged(&right, bytes), "a right claim fell");
                canonical::<FaultFile>(bytes)
            }),
        },
    ]
}

fn cases() -> Vec<Case> {
    let domain = ChainDomain {
        chain_id: 1,
        verifying_contract: Address::default(),
        salt: [7; 32],
    };
    let payment = Transaction::Transfer {
        to: Address::default(),
        amount: Amount::from_tgrid(1),
    };
    let signed = Wallet::from_seed(b"fuzz").sign(payment, 0, &domain);
    let genesis = Genesis {
        domain,
        parameters: tg_ledger::Parameters::development(),
        timestamp: tg_types::TimestampMs::new(1),
        accounts: vec![(Address::default(), Amount::from_tgrid(1))],
        validators: Vec::new(),
    };
    let onnx = std::fs::read(crate::run::root().join("models/mlp-digits.onnx")).unwrap();
    let mut cases = vec![
        Case {
            name: "signed transaction",
            seed: signed.to_bytes(),
            rounds: 40,
            target: Box::new(move |bytes| {
                let read = SignedTransaction::from_bytes(bytes).ok()?;
                let accepted = read.verify(&domain).is_ok();
                assert!(
                    !accepted || read == signed,
                    "a changed transaction was accepted"
                );
                Some(read.to_bytes())
            }),
        },
        Case {
            name: "state answer",
            seed: state_answer(),
            rounds: 40,
            target: Box::new(canonical::<tg_types::chain::StateAnswer>),
        },
        Case {
            name: "genesis",
            seed: genesis.to_bytes(),
            rounds: 40,
            target: Box::new(canonical::<Genesis>),
        },
        Case {
            name: "block",
            seed: vec![0; 300],
            rounds: 40,
            target: Box::new(canonical::<Block>),
        },
        Case {
            name: "ONNX file",
            seed: onnx,
            rounds: 8,
            target: Box::new(|bytes| {
                let limits = tg_onnx::ReadLimits::default();
                let _graph = tg_onnx::read(bytes, None, &limits);
                Some(bytes.to_vec())
            }),
        },
    ];
    cases.extend(proof_cases());
    cases.extend(openai_cases());
    cases.extend(endpoint_cases());
    cases.extend(served_cases());
    cases.extend(dispute_cases());
    cases
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
fn strangers_bytes_give_verdicts() {
    let seed = setting("TENSORGRID_FUZZ_SEED", 20_261_121);
    let times = setting("TENSORGRID_FUZZ_ROUNDS", 25);
    println!("TENSORGRID_FUZZ_SEED={seed}");
    for case in cases() {
        let written = (case.target)(&case.seed);
        if case.name != "block" {
            assert_eq!(written.as_ref(), Some(&case.seed), "{}", case.name);
        }
        let mut numbers = Numbers::new(seed);
        for round in 0..case.rounds * times {
            let bytes = mutate(&case.seed, &mut numbers);
            if let Some(written) = (case.target)(&bytes) {
                assert_eq!(
                    written, bytes,
                    "{} in round {round}: two encodings",
                    case.name
                );
            }
        }
    }
}
