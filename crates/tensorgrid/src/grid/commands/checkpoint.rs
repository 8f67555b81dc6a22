//! `tensorgrid checkpoint`.

use tg_sdk::Client;
use tg_sdk::dto::StateRecordDto;
use tg_types::TimestampMs;
use tg_types::chain::Checkpoint;

use crate::grid::connect::{self, Calling};
use crate::grid::ledger_args::CheckpointArguments;
use crate::grid::trust::{self, Trusting};
use tg_console::outcome::{Exit, Failure, Outcome, line, say};

/// Prints a final block to begin at: the newest that is shown, the one that a node names, or what was kept.
pub(crate) async fn run(arguments: &CheckpointArguments, as_json: bool) -> Outcome {
    if arguments.kept {
        return print_kept(arguments, as_json);
    }
    let client = connect::client(&arguments.api)?;
    if let Some(mut trusting) = Trusting::begin(&client, &arguments.trust).await? {
        // Nobody's account: what counts is the block whose state has none.
        let nobody = trusting
            .light()
            .record(StateRecordDto::Account, &[0; 20])
            .await;
        trust::checked(nobody, "ask for the newest block")?;
        trusting.keep();
        let head = trusting.light().head();
        return print(head.checkpoint(), head.timestamp(), "shown", as_json);
    }
    print_named(&client, arguments.height, as_json).await
}

async fn print_named(client: &Client, height: Option<u64>, as_json: bool) -> Outcome {
    let block = client.checkpoint_block(height).await;
    let block = block.calling("ask for the block")?;
    say(format_args!(
        "as {} says: who begins there trusts that node. --genesis shows it",
        client.url()
    ));
    let timestamp = block.header.timestamp;
    print(block.checkpoint(), timestamp, "said", as_json)
}

fn print_kept(arguments: &CheckpointArguments, as_json: bool) -> Outcome {
    let genesis = arguments.trust.genesis.as_deref();
    let file = genesis.map(|path| trust::kept_at(path, &arguments.trust));
    let head = file.as_deref().map(trust::kept).transpose()?.flatten();
    let Some(head) = head else {
        let file = file.unwrap_or_default();
        let text = format!("{} is not there: nothing was kept yet", file.display());
        return Err(Failure::new(Exit::NotFound, anyhow::anyhow!(text))
            .hint("without --kept, the newest block is asked for and shown"));
    };
    print(head.checkpoint(), head.timestamp(), "kept", as_json)
}

fn print(checkpoint: Checkpoint, time: TimestampMs, word: &str, as_json: bool) -> Outcome {
    if as_json {
        return Ok(line(serde_json::json!({
            "checkpoint": checkpoint.to_string(),
            "height": checkpoint.height.get(),
            "block": checkpoint.block.to_string(),
            "timestamp_ms": time.get(),
            "by": word,
        }))?);
    }
    Ok(line(checkpoint)?)
}
