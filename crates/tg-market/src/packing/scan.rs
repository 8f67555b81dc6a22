//! The best machine by looking at all of them: what [`crate::packing::PackingIndex`] must agree with.

use crate::cluster::{Cluster, NodeIndex, Request};
use crate::packing::index::PackingIndex;
use crate::packing::shape::Shape;

/// The cheapest machine for `request` under the prices and the seed of `index`, and the devices to take.
#[must_use]
pub fn best(cluster: &Cluster, index: &PackingIndex, request: &Request) -> Option<(NodeIndex, u8)> {
    let kinds = cluster.kinds().filter(request);
    let priced = index.priced();
    let mut best = None;
    for node in cluster.nodes() {
        if !kinds.contains(cluster.kind(node)) || !cluster.free(node).fits_host(request) {
            continue;
        }
        let shape = Shape::of(cluster, node);
        for milli in shape.choices(request) {
            let preferred = request.is_fraction().then_some(milli);
            let Some(devices) = cluster.devices_for(node, request, preferred) else {
                continue;
            };
            let cost = priced.value(&shape) - priced.value(&shape.after(request, milli));
            let key = (cost, shape.tie(index.seed()), milli, index.rank(node));
            if best.is_none_or(|(least, _, _)| key < least) {
                best = Some((key, node, devices));
            }
        }
    }
    best.map(|(_, node, devices)| (node, devices))
}
