//! Orders one inference and checks its proof: `cargo run --release -p tg-sdk --example infer -- URL MODEL KEY REALS`, such as
//! `http://127.0.0.1:7070 lenet key.hex 0,0.5,...` on a grid of `tensorgrid up`. KEY is a file of 64 hexadecimal digits whose
//! account has money; REALS are the model's input, separated by commas, an image channels first. Prints what the model says.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use tg_sdk::dto::ModeDto;
use tg_sdk::jobs::{self, Inference, OrderedJob};
use tg_sdk::{Client, Digest, OrderTerms, Wallet};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, model, key, reals] = arguments.as_slice() else {
        return Err("usage: infer URL MODEL KEY REALS".into());
    };
    let key = Digest::from_hex(std::fs::read_to_string(key)?.trim()).ok_or("no key file")?;
    let reals: Vec<f32> = reals.split(',').map(str::parse).collect::<Result<_, _>>()?;
    infer(url, model, &Wallet::from_secret(key.as_bytes())?, &reals).await?;
    Ok(())
}

/// Quantises the input, signs the order, waits for its end, and verifies the proof; all of it in this process.
pub(crate) async fn infer(
    url: &str,
    model: &str,
    wallet: &Wallet,
    reals: &[f32],
) -> Result<Inference, Box<dyn Error>> {
    let client = Client::new(url)?;
    let listed = jobs::find_model(&client, model).await?;
    let model = jobs::public_model(&client, &listed).await?;
    let input = model.input(reals)?;
    let quotes = client.quotes(listed.id, ModeDto::Proof).await?;
    let max_price = jobs::usual_max_price(&quotes).ok_or("no provider offers to run the model")?;

    let terms = OrderTerms::new(max_price);
    let job = jobs::order(&client, wallet, &model, input.clone(), terms).await?;
    let ordered = OrderedJob::new(job, listed.id, &input, ModeDto::Proof);
    let job = jobs::follow(&client, job, &mut |_| {}).await?;
    let result = jobs::collect(&client, &model, (&ordered, &job)).await?;
    let answer = model.answer(&result.values);
    println!(
        "{:?} {}",
        answer.reals(),
        answer.label().unwrap_or_default()
    );
    println!(
        "paid {} TGRID to {}",
        result.receipt.lease.price, result.receipt.lease.provider
    );
    Ok(result)
}
