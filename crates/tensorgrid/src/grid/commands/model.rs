//! `tensorgrid model add`, `list` and `show`.

use std::path::Path;
use tg_console::files;
use tg_offline::models;

use tg_ir::Program;
use tg_proof::PublicModel;
use tg_sdk::dto::ModelDto;

use super::{float, json_of, say_unproved, unproved_json};
use crate::grid::connect::{self, Calling};
use crate::grid::connect_args::ApiArguments;
use crate::grid::embedded::{
    ModelFiles, refuse_taken_name, register, register_bundled, wait_until_active,
};
use crate::grid::model_args::{ModelAddArguments, ModelAddBuiltinArguments, ModelShowArguments};
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, line, say};
use tg_console::table::{Table, brief};
use tg_offline::bundled::BuiltIn;
use tg_offline::text;
use tg_types::served::CARD_BYTES_MAX;
use tg_types::{Digest, Encode, ServedCall, ServedCard, Tier};

/// Registers a compiled model and waits for the validators' verdict.
pub(crate) async fn add(arguments: &ModelAddArguments, as_json: bool) -> Outcome {
    let Some(public) = &arguments.public else {
        return float::add(arguments, as_json).await;
    };
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let model = models::compiled_model(&arguments.model)?;
    let public_path = public;
    let public: PublicModel = models::public_model(public_path)?;
    if model.program.id() != public.program_id() {
        let text = format!(
            "{} and {} are not of one model",
            arguments.model.display(),
            public_path.display()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("compile both with one `tensorgrid model compile`"));
    }
    // Providers would have to hold the secret that counts the proofs.
    if public.private_weights().is_some() {
        let text = "a grid's providers hold the weights: private ones cannot be added";
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("prove with `tensorgrid prove --zk --secret F.tgs`"));
    }
    let tokenizer = tokenizer_of(arguments, &model.program)?;
    let name = arguments
        .name
        .clone()
        .unwrap_or_else(|| model.program.name.clone());
    let id = public.id();
    refuse_taken_name(&client, wallet.address(), (id, name.as_str())).await?;
    let made = ModelFiles {
        id,
        public: public.encode(),
        weights: model.to_bytes(),
    };
    say("storing and registering the model ...");
    register(&client, &wallet, made, &name).await?;
    say("the validators check its registration proof ...");
    let model = wait_until_active(&client, id).await?;
    if let Some(bytes) = tokenizer {
        let stored = client.uploading_as(&wallet).put_blob(bytes).await;
        stored.calling("store the tokenizer")?;
        say("the tokenizer is stored for nodes that serve the OpenAI routes");
    }
    if as_json {
        return json_of(&model);
    }
    line(format_args!(
        "model {} is active as {}",
        model.name, model.id
    ))?;
    let api = connect::api_flag(&client);
    say(format_args!(
        "next: tensorgrid infer {} INPUT{api}",
        model.name
    ));
    Ok(())
}

/// The tokenizer that a program names: the file that is given, or the one beside the program if it is that one.
fn tokenizer_of(
    arguments: &ModelAddArguments,
    program: &Program,
) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(path) = &arguments.tokenizer {
        text::of_program(program, Some(path))?;
        return files::read(path, tg_text::FILE_BYTES_MAX as u64).map(Some);
    }
    let folder = arguments.model.parent().unwrap_or_else(|| Path::new("."));
    let beside = folder.join("tokenizer.json");
    let (Some(digest), true) = (program.tokenizer, beside.is_file()) else {
        return Ok(None);
    };
    let bytes = files::read(&beside, tg_text::FILE_BYTES_MAX as u64)?;
    Ok(Some(bytes).filter(|bytes| Digest::of_blob(bytes) == digest))
}

/// Registers the built-in models and waits for the validators' verdicts.
pub(crate) async fn add_builtin(arguments: &ModelAddBuiltinArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let mut models = Vec::new();
    for bundled in BuiltIn::ALL {
        let model = register_bundled(&client, &wallet, bundled).await?;
        if !as_json {
            line(format_args!(
                "model {} is active as {}",
                model.name, model.id
            ))?;
        }
        models.push(model);
    }
    if as_json {
        return json_of(&models);
    }
    Ok(())
}

/// Lists the models.
pub(crate) async fn list(arguments: &ApiArguments, as_json: bool) -> Outcome {
    let client = connect::client(arguments)?;
    let models = client.models().await.calling("list the models")?;
    if as_json {
        return unproved_json(&models);
    }
    say_unproved(&client);
    let mut table = Table::new(&[
        "name", "id", "tier", "state", "Mmac", "input", "output", "provable",
    ]);
    for model in models {
        let tier = model.facts.as_ref().map(|facts| facts.tier.clone());
        // Of a served model the grid knows nothing but its card.
        let facts = model.facts.as_ref().filter(|_| !model.is_served());
        let of = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            model.name.clone(),
            brief(model.id),
            of(tier),
            model.state.to_string(),
            of(facts.map(|facts| mmac(facts.macs))),
            of(facts.map(|facts| format!("{} B", facts.input_len))),
            of(facts.map(|facts| format!("{} B", facts.output_len))),
            of(facts.map(|facts| if facts.provable { "yes" } else { "no" }.to_owned())),
        ]);
    }
    Ok(line(table)?)
}

/// Millions of multiply-accumulates with three decimals, in integers.
fn mmac(macs: u64) -> String {
    format!("{}.{:03}", macs / 1_000_000, macs % 1_000_000 / 1_000)
}

/// Shows a model, and writes its public part if asked.
pub(crate) async fn show(arguments: &ModelShowArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let model = connect::listed(&client, &arguments.model).await?;
    if let Some(path) = &arguments.public_out {
        let bytes = client
            .blob(model.public_blob, 16 << 20)
            .await
            .calling("fetch the public part")?;
        if !float::is_float(&model) && !model.is_served() {
            PublicModel::decode(&bytes).or_fail(Exit::Rejected, "read the public part")?;
        }
        files::write(path, &bytes)?;
        say(format_args!("wrote {}", path.display()));
    }
    if as_json {
        return json_of(&model);
    }
    if model.is_served() {
        let file = client.blob(model.public_blob, CARD_BYTES_MAX).await;
        let card = ServedCard::read(&file.calling("fetch the card")?);
        return Ok(line(describe_served(
            &model,
            &card.or_fail(Exit::Rejected, "read the card")?,
        ))?);
    }
    Ok(line(describe(&model))?)
}

fn describe_served(model: &ModelDto, card: &ServedCard) -> String {
    let calls = ServedCall::ALL.into_iter().filter(|it| card.serves(*it));
    let calls: Vec<&str> = calls.map(ServedCall::as_str).collect();
    [
        format!("name      {}", card.name),
        format!("id        {}", model.id),
        format!("state     {}", model.state),
        format!(
            "tier      {}, by a server of its provider: nobody checks its answers",
            Tier::Served
        ),
        format!("provider  {}", card.provider),
        format!("context   {} tokens", card.context),
        format!("calls     {}", calls.join(", ")),
        format!("prompts   {} TGRID a million tokens", card.prompt_price),
        format!("answers   {} TGRID a million tokens", card.completion_price),
        "ask it    by the OpenAI API of a gateway: http://HOST/openai/v1".to_owned(),
    ]
    .join("\n")
}

fn describe(model: &ModelDto) -> String {
    let mut lines = vec![
        format!("name     {}", model.name),
        format!("id       {}", model.id),
        format!("state    {}", model.state),
        format!("owner    {}", model.owner),
        format!("public   {}", model.public_blob),
        format!("weights  {}", model.weights_blob),
    ];
    if let Some(facts) = &model.facts {
        lines.push(format!("tier     {}", facts.tier));
        lines.push(format!("program  {}", facts.program));
        lines.push(format!("work     {} multiply-accumulates", facts.macs));
        lines.push(format!("input    {} bytes", facts.input_len));
        lines.push(format!("output   {} bytes", facts.output_len));
        lines.push(format!(
            "proofs   {}",
            if facts.provable { "yes" } else { "no" }
        ));
    }
    lines.extend(model.refusal.as_ref().map(|why| format!("refused  {why}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::mmac;

    #[test]
    fn work_is_written_in_millions() {
        assert_eq!(mmac(281_640), "0.281");
        assert_eq!(mmac(12_000_000), "12.000");
    }
}
