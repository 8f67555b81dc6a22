//! PNG inputs.

use super::form::{Expected, InputError, PngProblem};
use png::{BitDepth, ColorType, Decoder, Limits};
use std::io::Cursor;

/// Most bytes that decoding one image may take beside its pixels.
const WORK_BYTES_MAX: usize = 64 << 20;

pub(super) fn read(bytes: &[u8], expected: Expected<'_>) -> Result<Vec<f32>, InputError> {
    let pixels = decode(bytes, expected).map_err(InputError::Png)?;
    let channels = expected.shape.channels as usize;
    let each = pixels.iter().enumerate();
    Ok(each
        .map(|(index, &value)| expected.real(index % channels, value))
        .collect())
}

fn decode(bytes: &[u8], expected: Expected<'_>) -> Result<Vec<u8>, PngProblem> {
    let shape = expected.shape;
    let (color, name) = match shape.channels {
        1 => (ColorType::Grayscale, "greyscale"),
        3 => (ColorType::Rgb, "RGB"),
        4 => (ColorType::Rgba, "RGBA"),
        channels => return Err(PngProblem::Channels { channels }),
    };
    let limits = Limits {
        bytes: WORK_BYTES_MAX,
    };
    let mut reader = Decoder::new_with_limits(Cursor::new(bytes), limits)
        .read_info()
        .map_err(PngProblem::Decode)?;
    let info = reader.info();
    if (info.width, info.height) != (shape.width, shape.height) {
        return Err(PngProblem::Size {
            width: info.width,
            height: info.height,
            expected_width: shape.width,
            expected_height: shape.height,
        });
    }
    if info.color_type != color || info.bit_depth != BitDepth::Eight {
        return Err(PngProblem::Format {
            color: info.color_type,
            bits: info.bit_depth as u8,
            expected: name,
        });
    }
    let mut pixels = vec![0; shape.elements()];
    reader.next_frame(&mut pixels).map_err(PngProblem::Decode)?;
    Ok(pixels)
}
