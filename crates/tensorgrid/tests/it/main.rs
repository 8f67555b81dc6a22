//! The program as people run it: processes, files, exit codes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod command_line;
mod disputes;
mod endpoint_groups;
mod endpoints;
mod floats;
mod forged;
mod forms;
mod founded;
mod fuzz;
mod grid;
mod http;
mod jobs;
mod modes;
mod openai;
mod openai_batches;
mod openai_gateway;
mod openai_texts;
mod processes;
mod programs;
mod resume;
mod run;
mod sdk;
mod sealed;
mod secure;
mod served_models;
mod statements;
mod stub;
mod telemetry;
mod texts;
