//! A grid as somebody else's program uses it: the example of the SDK, with a key of its own.

use tg_sdk::dto::FaucetRequestDto;
use tg_sdk::{Amount, Client, Wallet};

use crate::run::{Grid, root};

#[path = "../../../tg-sdk/examples/infer.rs"]
#[allow(dead_code, reason = "the program's `main` reads its command line")]
mod example;

#[test]
fn a_program_with_a_key_of_its_own_orders_and_checks() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let digit = std::fs::read(root().join("examples/digit.json")).unwrap();
    let digit: serde_json::Value = serde_json::from_slice(&digit).unwrap();
    let reals: Vec<f32> = serde_json::from_value(digit["input_data"][0].clone()).unwrap();
    let stranger = Wallet::from_seed(b"a program of somebody else");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let poor = example::infer(&grid.url, "mlp-digits", &stranger, &reals).await;
        let poor = chain(poor.unwrap_err().as_ref());
        assert!(poor.starts_with("order the job: TG-LED-"), "{poor}");

        let client = Client::new(&grid.url).unwrap();
        let request = FaucetRequestDto {
            address: stranger.address(),
            amount: Amount::from_tgrid(1),
        };
        client.faucet(&request).await.unwrap();
        while client.account(stranger.address()).await.unwrap().balance == Amount::ZERO {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let result = example::infer(&grid.url, "mlp-digits", &stranger, &reals).await;
        let result = result.unwrap();
        assert_eq!(result.greatest(), 7);
        assert!(result.proof.is_some_and(|proof| !proof.zk));

        let short = example::infer(&grid.url, "mlp-digits", &stranger, &reals[1..]).await;
        let short = chain(short.unwrap_err().as_ref());
        assert_eq!(short, "the input has 63 values, the model takes 64");
    });
    assert!(grid.interrupt().success());
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}
