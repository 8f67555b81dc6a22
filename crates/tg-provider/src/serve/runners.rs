//! The workers that answer the requests of a lease: threads that run its model, or tasks that ask the provider's own server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use tg_privacy::SealedChannel;
use tg_sdk::endpoint::served::ServedAnswer;
use tg_sdk::endpoint::session::answer_price;
use tg_sdk::endpoint::wire::{AnswerPart, GivenOutput, PIECE_BYTES_MAX};
use tg_types::{Amount, Decode as _, Digest, Encode as _, ServedCard, with_sources};
use tokio::sync::mpsc;

use crate::worker::{Task, WorkError, Worker};

/// Answers that may wait to be brought, and requests that may wait for a thread.
pub(super) const MADE_MAX: usize = 1_024;

/// Threads that run the model.
const RUNNERS: usize = 2;

/// A request that is to be answered.
pub(super) struct AskedRun {
    pub(super) number: u64,
    pub(super) asked: Digest,
    pub(super) input: Arc<[u8]>,
    pub(super) is_proved: bool,
    pub(super) channel: SealedChannel,
}

/// An answer, or a part of one, from a runner.
pub(super) enum FromRunner {
    Part(u64, AnswerPart),
    /// The answer to a request, sealed, and its price.
    Whole(u64, Digest, Result<(Vec<u8>, Amount), String>),
}

/// Accepts a request to answer; returns whether there is room for it.
type Taker = Box<dyn Fn(AskedRun) -> bool + Send + Sync>;

/// The runners of a lease.
pub(super) struct Runners(Taker);

impl Runners {
    /// Queues a request. Returns whether there is room for it.
    pub(super) fn give(&self, asked: AskedRun) -> bool {
        (self.0)(asked)
    }

    /// Threads that run the model, with one queue for all, and the prices of a run and of a proved answer.
    pub(super) fn threads<W: Worker>(
        worker: &Arc<W>,
        task: &Arc<Task>,
        made: &mpsc::Sender<FromRunner>,
        (run, proved): (Amount, Amount),
    ) -> Self {
        let (queue, jobs) = std::sync::mpsc::sync_channel::<AskedRun>(MADE_MAX);
        let jobs = Arc::new(std::sync::Mutex::new(jobs));
        for _ in 0..RUNNERS {
            let (worker, task) = (Arc::clone(worker), Arc::clone(task));
            let (jobs, made) = (Arc::clone(&jobs), made.clone());
            tokio::task::spawn_blocking(move || {
                // A panic while the queue is locked poisons it, which ends all threads.
                while let Ok(Ok(asked)) = jobs.lock().map(|jobs| jobs.recv()) {
                    let answer =
                        sealed_answer(worker.as_ref(), &task, &asked, &made, (run, proved));
                    let whole = FromRunner::Whole(asked.number, asked.asked, answer);
                    if made.blocking_send(whole).is_err() {
                        return;
                    }
                }
            });
        }
        Self(Box::new(move |asked| queue.try_send(asked).is_ok()))
    }

    /// A task for each request of a served model. The provider's own server does the work, and the worker limits how many are asked at once.
    pub(super) fn tasks<W: Worker>(
        worker: &Arc<W>,
        task: &Arc<Task>,
        made: &mpsc::Sender<FromRunner>,
        card: &Arc<ServedCard>,
    ) -> Self {
        let (worker, task) = (Arc::clone(worker), Arc::clone(task));
        let (made, card) = (made.clone(), Arc::clone(card));
        Self(Box::new(move |asked| {
            let (worker, task, card) = (Arc::clone(&worker), Arc::clone(&task), Arc::clone(&card));
            let made = made.clone();
            tokio::spawn(async move {
                let answer = served(worker.as_ref(), &task, &asked, &made).await;
                let answer = answer.and_then(|given| {
                    let price = tokens_price(&card, &given.output)?;
                    sealed(&asked, &given, price)
                });
                let whole = FromRunner::Whole(asked.number, asked.asked, answer);
                // An error means that nobody serves the lease any more.
                let _gone = made.send(whole).await;
            });
            true
        }))
    }
}

/// Answers a request with the model and seals the answer, at the price of a run or of a proved answer. A worker that panics has failed.
fn sealed_answer<W: Worker>(
    worker: &W,
    task: &Task,
    asked: &AskedRun,
    made: &mpsc::Sender<FromRunner>,
    (run, proved): (Amount, Amount),
) -> Result<(Vec<u8>, Amount), String> {
    let run_it = || answered(worker, task, asked, made);
    let given = std::panic::catch_unwind(AssertUnwindSafe(run_it));
    let given = given.unwrap_or_else(|_| Err("the worker failed".to_owned()))?;
    let price = match asked.is_proved {
        true => proved,
        false => answer_price(
            run,
            worker.takes_tokens(task),
            (&asked.input, &given.output),
        ),
    };
    sealed(asked, &given, price)
}

/// Seals an answer. Returns it with its price.
fn sealed(
    asked: &AskedRun,
    given: &GivenOutput,
    price: Amount,
) -> Result<(Vec<u8>, Amount), String> {
    let sealed = asked.channel.seal_answer(asked.number, &given.to_bytes());
    sealed
        .map(|it| (it, price))
        .map_err(|error| with_sources(&error))
}

/// The price of an answer of a served model.
fn tokens_price(card: &ServedCard, output: &[u8]) -> Result<Amount, String> {
    let answer = ServedAnswer::from_bytes(output).map_err(|error| with_sources(&error))?;
    Ok(match answer.is_success() {
        true => card.price(answer.usage),
        false => Amount::ZERO,
    })
}

/// The task with the request's input.
fn task_of(task: &Task, asked: &AskedRun) -> Task {
    Task {
        input: Arc::clone(&asked.input),
        ..task.clone()
    }
}

/// A sink for the pieces of an answer, which seals and sends them.
fn pieces(asked: &AskedRun, made: &mpsc::Sender<FromRunner>) -> impl FnMut(&[u8]) + Send + 'static {
    let (channel, number, made) = (asked.channel.clone(), asked.number, made.clone());
    let mut index = 0;
    move |bytes| {
        if let Ok(piece) = channel.seal_piece(number, index, bytes) {
            let fits = piece.len() <= PIECE_BYTES_MAX;
            let part = AnswerPart::Piece { index, piece };
            // Pieces only show an answer early: one that is too large, or finds no room, is also in the whole answer.
            if fits {
                let _full = made.try_send(FromRunner::Part(number, part));
            }
            index += 1;
        }
    }
}

/// Runs the model on a request.
fn answered<W: Worker>(
    worker: &W,
    task: &Task,
    asked: &AskedRun,
    made: &mpsc::Sender<FromRunner>,
) -> Result<GivenOutput, String> {
    let task = task_of(task, asked);
    if asked.is_proved {
        return proved(worker, &task).map_err(|error| with_sources(&error));
    }
    let mut piece = pieces(asked, made);
    let output = worker.answer(&task, &mut |bytes| {
        piece(bytes);
        true
    });
    Ok(GivenOutput {
        output: output.map_err(|error| with_sources(&error))?,
        proof: Vec::new(),
    })
}

/// Asks the provider's own server.
async fn served<W: Worker>(
    worker: &W,
    task: &Task,
    asked: &AskedRun,
    made: &mpsc::Sender<FromRunner>,
) -> Result<GivenOutput, String> {
    let answer = worker.serve(&task_of(task, asked), Box::new(pieces(asked, made)));
    let none = || "this provider serves no such model now".to_owned();
    let output = answer.ok_or_else(none)?.await;
    Ok(GivenOutput {
        output: output.map_err(|error| with_sources(&error))?,
        proof: Vec::new(),
    })
}

/// Runs the model on a request and proves the answer, as for a job of mode `proof`.
fn proved<W: Worker>(worker: &W, task: &Task) -> Result<GivenOutput, WorkError> {
    let execution = worker.execute(task, &|_| {})?;
    let proof = worker.prove(task, &execution, &|_| {})?;
    Ok(GivenOutput {
        output: execution.output,
        proof,
    })
}
