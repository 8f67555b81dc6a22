//! A validator that is two: both hear everything, have the same key and a mind of their own.

use commonware_p2p::simulated::{Control, SplitOrigin, SplitTarget};
use commonware_p2p::{Receiver, Recipients, Sender};
use commonware_runtime::{IoBuf, Spawner as _, Supervisor as _};
use tg_node::Peer;
use tg_node::engine::{self, Channels};
use tg_node::wire::channel;

use crate::grid::Context;
use crate::plan::SeatRole;
use crate::world::{QUOTA, SimSeat, SimWorld, TIMERS};

/// Starts both validators of a seat. The votes of twins go to one half of the others each, with one that hears both; those
/// of an equivocator go to everybody.
pub(crate) async fn start(world: &mut SimWorld, index: usize) {
    let control = world.control(index);
    let others = world.peers.iter().enumerate();
    let others = others.filter(|(it, _)| *it != index);
    let others: Vec<_> = others.map(|(_, it)| it.clone()).collect();
    let half = others.len() / 2;
    let sides = match world.seats[index].role {
        SeatRole::Twins => [others[..=half].to_vec(), others[half..].to_vec()],
        _ => [others.clone(), others],
    };
    let (mut primary, mut secondary) = (Vec::new(), Vec::new());
    for number in [
        channel::VOTES,
        channel::CERTIFICATES,
        channel::RESOLVER,
        channel::BLOCKS,
        channel::TRANSACTIONS,
        channel::BLOBS,
        channel::SEED,
    ] {
        let registered = control.register(number, QUOTA).await;
        let (sender, receiver) = registered.expect("the network runs");
        let sides = sides.clone();
        let forward = move |from: SplitOrigin, to: &Recipients<_>, _: &IoBuf| {
            let side = match from {
                SplitOrigin::Primary => &sides[0],
                SplitOrigin::Secondary => &sides[1],
            };
            Some(match number {
                channel::VOTES => Recipients::Some(side.clone()),
                _ => to.clone(),
            })
        };
        let (first, second) = sender.split_with(forward);
        let context = world.context.child("split");
        let context = context
            .with_attribute("index", index)
            .with_attribute("channel", number);
        let (heard_first, heard_second) = receiver.split_with(context, |_| SplitTarget::Both);
        primary.push((first, heard_first));
        secondary.push((second, heard_second));
    }
    for (side, ports) in [("first", primary), ("second", secondary)] {
        let Ok(
            [
                votes,
                certificates,
                resolver,
                blocks,
                transactions,
                blobs,
                seeds,
            ],
        ) = <[_; 7]>::try_from(ports)
        else {
            unreachable!("there are seven channels");
        };
        let channels = Channels {
            votes,
            certificates,
            resolver,
            blocks,
            transactions,
            blobs,
            seeds,
        };
        let control = world.control(index);
        run(world, (index, side), channels, control);
    }
}

/// Starts all validators on two sides that do not hear each other. Seats of twins are on both, and do there as the protocol says; of the
/// honest ones each side has half.
pub(crate) async fn start_on_two_sides(world: &mut SimWorld) {
    let seats = world.seats.iter().enumerate();
    let (honest, twins): (Vec<_>, Vec<_>) = seats.partition(|(_, it)| it.role == SeatRole::Honest);
    let index = |seats: Vec<(usize, &SimSeat)>| -> Vec<usize> {
        seats.into_iter().map(|(index, _)| index).collect()
    };
    let (honest, twins) = (index(honest), index(twins));
    world.split_off(&honest[honest.len() / 2..]).await;
    for seat in honest {
        world.power_on(seat).await;
    }
    for seat in twins {
        for (side, control) in world.controls(seat) {
            let channels = world.channels(seat, &control).await;
            run(world, (seat, side), channels, control);
        }
    }
}

/// Runs one of the two.
fn run<S, R>(
    world: &mut SimWorld,
    (index, side): (usize, &'static str),
    channels: Channels<S, R>,
    control: Control<Peer, Context>,
) where
    S: Sender<PublicKey = Peer>,
    R: Receiver<PublicKey = Peer>,
{
    // Twins of one mind make the same block at the same time; these two differ in patience.
    let mut timers = TIMERS;
    if side == "second" {
        timers.busy += std::time::Duration::from_millis(7);
        timers.idle += std::time::Duration::from_millis(11);
    }
    let (node, parts) = world.open_another(index, timers);
    let parts = parts.in_partition(side);
    let context = world.context.child("twin");
    let context = context
        .with_attribute("index", index)
        .with_attribute("side", side);
    let task = context.spawn(move |context| async move {
        // What becomes of it is nobody's concern.
        let _ = engine::start(context.child("engine"), parts, channels, control).await;
    });
    world.keep(index, node, vec![task]);
}
