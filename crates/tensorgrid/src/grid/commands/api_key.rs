//! `api-key new`.

use tg_console::outcome::{Outcome, json, line, say};
use tg_openai::api_keys::{self, NewKey};

use crate::grid::infer_args::ApiKeyNewArguments;

/// Makes a key of the OpenAI routes and prints it once.
pub(crate) fn make(arguments: &ApiKeyNewArguments, as_json: bool) -> Outcome {
    let &ApiKeyNewArguments {
        ref name, limit, ..
    } = arguments;
    let new = NewKey {
        name: name.clone(),
        limit,
        wallet: arguments.wallet.clone(),
        account: arguments.account.clone(),
    };
    let key = api_keys::make(&arguments.file, new)?;
    if as_json {
        return Ok(json(&serde_json::json!({ "name": name, "key": key }))?);
    }
    say("this is the only time that the key is shown");
    Ok(line(key)?)
}
