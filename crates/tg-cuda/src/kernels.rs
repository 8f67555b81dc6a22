//! The text of the kernels.

/// CUDA C of every kernel, as one translation unit.
pub(crate) const SOURCE: &str = concat!(
    include_str!("kernels/common.cuh"),
    include_str!("kernels/warp.cuh"),
    include_str!("kernels/gemm.cu"),
    include_str!("kernels/element.cu"),
    include_str!("kernels/movement.cu"),
    include_str!("kernels/rows.cu"),
);

/// The kernels by name.
#[cfg(test)]
pub(crate) const NAMES: [&str; 22] = [
    "tg_add",
    "tg_concat",
    "tg_conv_direct",
    "tg_dense",
    "tg_embed",
    "tg_gather",
    "tg_gemm_gather",
    "tg_gemm_large",
    "tg_gemm_small",
    "tg_norm",
    "tg_pad",
    "tg_pairwise",
    "tg_pool",
    "tg_rank",
    "tg_reduce",
    "tg_reduce_row",
    "tg_requantise",
    "tg_running_sum",
    "tg_softmax",
    "tg_tree_leaves",
    "tg_tree_sums",
    "tg_view",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_named() {
        let starts = SOURCE
            .lines()
            .filter_map(|line| line.strip_prefix("KERNEL("));
        let mut named: Vec<&str> = starts.filter_map(|rest| rest.split(',').next()).collect();
        named.sort_unstable();
        assert_eq!(named, NAMES);
    }
}
