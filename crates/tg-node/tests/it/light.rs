//! A client that trusts nobody but the seats: what consensus signed is what it checks, and what a gateway makes up it refuses.

use tg_ledger::tree::{LeafHead, LeafKey, kind};
use tg_node::{Finalized, NodeHandle};
use tg_types::chain::{AnswerError, FinalityError, HEADERS_MAX, StateAnswer, TrustRoot};
use tg_types::{Address, Decode, Encode};

use crate::support::{Network, wait_for};

/// The answer about an account in the state of a block.
fn answer(node: &NodeHandle, tip: &Finalized, account: Address) -> StateAnswer {
    let height = tip.block.header.height.get();
    let shown = node.shown_final(height).unwrap().unwrap();
    StateAnswer {
        certificate: shown.certificate,
        headers: shown.headers,
        proof: tip.state.prove_account(&account),
    }
}

fn balance(head: Option<(LeafHead, [u8; 32])>) -> Option<u128> {
    head.map(|(head, _)| head.amount.get())
}

/// A network with one transfer, its last block and what it says of the sender.
struct Made {
    root: TrustRoot,
    sender: Address,
    old: StateAnswer,
    new: StateAnswer,
    absent: StateAnswer,
    balance: u128,
}

async fn made() -> Made {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let sender = network.wallets[0].address();
    let validators = network.start(folder.path());
    let node = validators.handle(0);
    let mut answers = Vec::new();
    for nonce in 0..2 {
        node.submit(network.transfer(0, nonce)).await.unwrap();
        wait_for(node, "a transfer", |state| {
            network.nonce(state, 0) == nonce + 1
        })
        .await;
        let tip = node.snapshot();
        let answer = [sender, Address::new([9; 20])].map(|of| answer(node, &tip, of));
        answers.push(answer);
    }
    let balance = node
        .snapshot()
        .state
        .account(&sender)
        .unwrap()
        .balance
        .get();
    validators.shutdown();
    let [[old, _], [new, absent]] = <[_; 2]>::try_from(answers).unwrap();
    Made {
        root: network.genesis.trust_root().unwrap(),
        sender,
        old,
        new,
        absent,
        balance,
    }
}

#[tokio::test]
async fn what_consensus_made_final_is_shown_and_nothing_else() {
    let made = made().await;
    let Made { root, new, .. } = &made;
    let key = LeafKey::of(kind::ACCOUNT, made.sender.as_bytes());
    let shown = new.check(root, &key).unwrap();
    assert_eq!(balance(shown.found), Some(made.balance));
    assert_eq!(StateAnswer::from_bytes(&new.to_bytes()).as_ref(), Ok(new));
    // An old state is true of its own time.
    let old = made.old.check(root, &key).unwrap();
    assert!(old.header.height < shown.header.height);
    assert!(balance(old.found) > balance(shown.found));
    // That there is no account is shown too, and not of another one.
    let nobody = LeafKey::of(kind::ACCOUNT, &[9; 20]);
    assert_eq!(made.absent.check(root, &nobody).unwrap().found, None);
    assert!(made.absent.check(root, &key).is_err());

    if let Some(path) = std::env::var_os("TENSORGRID_FINALITY_VECTOR") {
        std::fs::write(path, vector(&made)).unwrap();
    }

    for (name, lie) in lies(&made) {
        let verdict = lie.check(root, &key);
        assert!(verdict.is_err(), "{name}");
    }
    let network = TrustRoot::new(tg_types::BlockId::new([1; 32]), root.seats().to_vec()).unwrap();
    let others: Vec<[u8; 32]> = (10..14)
        .map(|seed| tg_node::ValidatorKey::from_seed(seed).public())
        .collect();
    let seats = TrustRoot::new(root.genesis(), others).unwrap();
    let fewer = TrustRoot::new(root.genesis(), root.seats()[..3].to_vec()).unwrap();
    for other in [network, seats, fewer] {
        assert!(matches!(
            new.check(&other, &key),
            Err(AnswerError::Finality(_))
        ));
    }
}

/// A vector for `tg-types/tests/data/finality.txt`: what this network's consensus signed.
fn vector(made: &Made) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let seats: Vec<String> = made.root.seats().iter().map(|seat| hex(seat)).collect();
    format!(
        "genesis = {}\nseats = {}\nkey = {}\nanswer = {}\n",
        hex(made.root.genesis().as_bytes()),
        seats.join(" "),
        hex(LeafKey::of(kind::ACCOUNT, made.sender.as_bytes()).as_bytes()),
        hex(&made.new.to_bytes()),
    )
}

/// What a gateway may say instead of the truth.
fn lies(made: &Made) -> Vec<(&'static str, StateAnswer)> {
    let Made { old, new, .. } = made;
    let mut lies = vec![
        (
            "the old balance in the new state",
            StateAnswer {
                proof: old.proof.clone(),
                ..new.clone()
            },
        ),
        (
            "the new state under the old certificate",
            StateAnswer {
                certificate: old.certificate.clone(),
                ..new.clone()
            },
        ),
        (
            "no header",
            StateAnswer {
                headers: Vec::new(),
                ..new.clone()
            },
        ),
        (
            "no certificate",
            StateAnswer {
                certificate: Vec::new(),
                ..new.clone()
            },
        ),
        (
            "that there is no account",
            StateAnswer {
                proof: made.absent.proof.clone(),
                ..new.clone()
            },
        ),
    ];
    let mut headers = new.headers.clone();
    headers.push(headers[0]);
    lies.push((
        "a header that is no parent",
        StateAnswer {
            headers,
            ..new.clone()
        },
    ));
    let headers = vec![new.headers[0]; HEADERS_MAX + 1];
    lies.push((
        "too many headers",
        StateAnswer {
            headers,
            ..new.clone()
        },
    ));
    let mut richer = new.clone();
    richer.headers.last_mut().unwrap().state_root = tg_types::StateRoot::new([7; 32]);
    lies.push(("another root", richer));
    lies
}

/// Every flipped bit of every answer: it is unreadable, or shows nothing. And votes that are left out.
#[tokio::test]
async fn no_changed_answer_shows_anything() {
    let made = made().await;
    let key = LeafKey::of(kind::ACCOUNT, made.sender.as_bytes());
    let bytes = made.new.to_bytes();
    let honest = made.new.check(&made.root, &key).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let shown = StateAnswer::from_bytes(&changed)
            .ok()
            .and_then(|answer| answer.check(&made.root, &key).ok());
        assert!(shown.is_none_or(|shown| shown == honest), "byte {at}");
    }
    for end in 0..bytes.len() {
        assert!(StateAnswer::from_bytes(&bytes[..end]).is_err());
    }
    let certificate = &made.new.certificate;
    for end in 0..certificate.len() {
        let verdict = made.root.check(&certificate[..end]);
        assert!(matches!(verdict, Err(FinalityError::Malformed(_))), "{end}");
    }
    // One vote less: its bit and its signature are taken out. With four seats, three are needed.
    let mut fewer = certificate.clone();
    let signatures = 64 * (certificate.len() / 64).min(4);
    let bits = certificate.len() - 64 * votes(certificate) - 2;
    assert!(signatures >= 64 * 3);
    let last = 7 - fewer[bits].leading_zeros();
    fewer[bits] &= !(1 << last);
    fewer[bits + 1] -= 1;
    fewer.truncate(certificate.len() - 64);
    let left = votes(certificate) - 1;
    match made.root.check(&fewer) {
        Ok(_) => assert_eq!(left, 3),
        Err(error) => assert_eq!(
            error,
            FinalityError::Quorum {
                needed: 3,
                got: left
            }
        ),
    }
}

/// How many votes a certificate of less than 128 has.
fn votes(certificate: &[u8]) -> usize {
    (certificate.len() - 44) / 64
}
