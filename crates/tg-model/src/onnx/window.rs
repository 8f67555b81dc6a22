//! Kernel, stride and padding of `Conv`, `MaxPool` and `AveragePool`.

use super::error::NodeReason;
use super::node::Site;
use tg_ir::{Shape, Window};

const SIDE: &str =
    "supported are two axes, kernel and stride from 1 to 64, padding from 0 to below the kernel";

impl Site<'_> {
    /// The window of a node over an image of `input` rows and columns.
    pub(super) fn window(&self, kernel: [u32; 2], input: Shape) -> Result<Window, NodeReason> {
        self.require_ints("dilations", 1, "only dilation 1 is supported")?;
        let stride = self.pair("strides")?.unwrap_or([1, 1]);
        let pads = match self.text("auto_pad").as_str() {
            "" | "NOTSET" => self.pads()?,
            "VALID" => [0; 4],
            "SAME_UPPER" => same(kernel, stride, input, Extra::After),
            "SAME_LOWER" => same(kernel, stride, input, Extra::Before),
            other => {
                return Err(NodeReason::Attribute {
                    attribute: "auto_pad",
                    value: other.to_owned(),
                    supported: "supported are NOTSET, VALID, SAME_UPPER and SAME_LOWER",
                });
            }
        };
        let window = Window::new(kernel, stride, pads);
        if !window.is_valid() {
            return Err(NodeReason::Attribute {
                attribute: "kernel_shape, strides or pads",
                value: format!("{kernel:?}, {stride:?}, {pads:?}"),
                supported: SIDE,
            });
        }
        if window.output(input).is_none() {
            return Err(NodeReason::Shape("the kernel is larger than the input"));
        }
        Ok(window)
    }

    /// The kernel side lengths of a pooling node.
    pub(super) fn kernel(&self) -> Result<[u32; 2], NodeReason> {
        self.pair("kernel_shape")?
            .ok_or_else(|| self.bad_ints("kernel_shape"))
    }

    fn pair(&self, attribute: &'static str) -> Result<Option<[u32; 2]>, NodeReason> {
        let Some(values) = self.ints(attribute) else {
            return Ok(None);
        };
        let pair: Option<Vec<u32>> = values.iter().map(|&v| u32::try_from(v).ok()).collect();
        pair.and_then(|pair| <[u32; 2]>::try_from(pair).ok())
            .map(Some)
            .ok_or_else(|| self.bad_ints(attribute))
    }

    fn pads(&self) -> Result<[u32; 4], NodeReason> {
        let Some(values) = self.ints("pads") else {
            return Ok([0; 4]);
        };
        let pads: Option<Vec<u32>> = values.iter().map(|&v| u32::try_from(v).ok()).collect();
        pads.and_then(|pads| <[u32; 4]>::try_from(pads).ok())
            .ok_or_else(|| self.bad_ints("pads"))
    }

    fn bad_ints(&self, attribute: &'static str) -> NodeReason {
        NodeReason::Attribute {
            attribute,
            value: format!("{:?}", self.ints(attribute).unwrap_or_default()),
            supported: SIDE,
        }
    }
}

/// Where the odd pixel of a padding goes.
#[derive(Clone, Copy)]
enum Extra {
    Before,
    After,
}

/// Padding that makes the output `ceil(input / stride)` pixels.
fn same(kernel: [u32; 2], stride: [u32; 2], input: Shape, extra: Extra) -> [u32; 4] {
    let axis = |size: u32, kernel: u32, stride: u32| {
        let steps = u64::from(size.div_ceil(stride.max(1)).max(1) - 1);
        let reach = steps * u64::from(stride) + u64::from(kernel);
        let total = reach.saturating_sub(u64::from(size));
        // At most the kernel, so it fits.
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        match extra {
            Extra::Before => [total.div_ceil(2), total / 2],
            Extra::After => [total / 2, total.div_ceil(2)],
        }
    };
    let [top, bottom] = axis(input.height, kernel[0], stride[0]);
    let [left, right] = axis(input.width, kernel[1], stride[1]);
    [top, left, bottom, right]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_padding_gives_the_ceiling() {
        for (size, kernel, stride) in [(28, 5, 1), (28, 3, 2), (7, 2, 2), (5, 4, 3), (1, 3, 1)] {
            let input = Shape::new(size, size, 1);
            for extra in [Extra::Before, Extra::After] {
                let pads = same([kernel; 2], [stride; 2], input, extra);
                let window = Window::new([kernel; 2], [stride; 2], pads);
                assert_eq!(window.output(input), Some([size.div_ceil(stride); 2]));
                assert!(pads[0].abs_diff(pads[2]) <= 1);
            }
        }
    }
}
