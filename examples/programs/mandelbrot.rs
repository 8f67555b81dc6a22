//! A render job: tiles of the Mandelbrot set, one byte a pixel.
//!
//! Chunk: centre x, centre y, distance of two pixels (f64 each), width and height of the tile in pixels, and the
//! most iterations (u64 each, at most 512, 512 and 255), little-endian. The output is the tiles one after the other,
//! row by row: after how many iterations a pixel left the circle of radius 2, the most iterations if it did not.
#![no_std]

include!("abi.rs");

fn step_chunk(chunk: &[u8]) -> u32 {
    if chunk.len() != 48 {
        return 1;
    }
    let real = |at| f64::from_bits(number(chunk, at));
    let (centre_x, centre_y, distance) = (real(0), real(8), real(16));
    let (width, height, most) = (number(chunk, 24), number(chunk, 32), number(chunk, 40));
    if width > 512 || height > 512 || most > 255 {
        return 2;
    }
    let mut row = 0;
    while row < height {
        let y = centre_y + (row as f64 - height as f64 / 2.0) * distance;
        let mut column = 0;
        while column < width {
            let x = centre_x + (column as f64 - width as f64 / 2.0) * distance;
            if !put(&[escape(x, y, most)]) {
                return 3;
            }
            column += 1;
        }
        row += 1;
    }
    0
}

fn escape(x: f64, y: f64, most: u64) -> u8 {
    let (mut real, mut imaginary, mut count) = (0.0, 0.0, 0);
    while count < most && real * real + imaginary * imaginary <= 4.0 {
        let next = real * real - imaginary * imaginary + x;
        imaginary = 2.0 * real * imaginary + y;
        real = next;
        count += 1;
    }
    count as u8
}

fn finish() {}
