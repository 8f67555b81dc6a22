//! The JSON Schema of job files.

use serde_json::{Value, json};

use super::tables::JOB;

/// The schema, draft 2020-12. It says which fields there are and what their values may be; what belongs together is checked by
/// `job validate`.
pub fn schema() -> Value {
    let mut schema = JOB.schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$id"] = json!("urn:tensorgrid:job");
    schema["title"] = json!("TensorGrid job file");
    schema["description"] = json!(
        "A job for `tensorgrid job submit`: SkyPilot's names with `model`, `program`, `input`, `write`, `endpoint`, `offer` and `verify`."
    );
    schema["oneOf"] = json!([{ "required": ["model"] }, { "required": ["program"] }]);
    schema
}
