//! What a graph may hold. They bound what reading one takes; a file's own size bounds their sum.

/// Bytes of a structure.
pub const STRUCTURE_BYTES_MAX: usize = (8 << 20) - (1 << 10);
/// Bytes of the constants.
pub const CONSTANTS_BYTES_MAX: usize = 256 << 20;
/// Bodies inside each other: executing them recurses.
pub const DEPTH_MAX: usize = 8;
/// Nodes of one graph or body.
pub const NODES_MAX: usize = 1 << 16;
/// Values of one graph or body.
pub const VALUES_MAX: usize = 1 << 20;
/// Inputs or outputs of one graph or body.
pub const PORTS_MAX: usize = 1 << 12;
/// Inputs or outputs of one node.
pub const OPERANDS_MAX: usize = 1 << 16;
/// Attributes of one node.
pub const ATTRIBUTES_MAX: usize = 256;
/// Operator sets.
pub const OPSETS_MAX: usize = 256;
/// Elements of a list attribute.
pub const LIST_MAX: usize = 1 << 21;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 1 << 12;
/// Bytes of a text: an attribute, or an element of a tensor.
pub const TEXT_BYTES_MAX: usize = 1 << 16;
