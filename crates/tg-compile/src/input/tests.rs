#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tg_ir::{Coding, InputSpec, Shape};

const GREY: Shape = Shape::new(2, 3, 1);
const COLOUR: Shape = Shape::new(1, 2, 3);

fn plain(shape: Shape) -> Expected<'static> {
    Expected {
        shape,
        mean: &[],
        std: &[],
        numbers: false,
    }
}

/// A version 1 numpy file.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}          \n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn png(width: u32, height: u32, color: ::png::ColorType, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(::png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn every_shape_of_an_array_gives_the_same_row() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for shape in [
        "2, 3",
        "1, 2, 3",
        "1, 1, 2, 3",
        "2, 3, 1",
        "1, 2, 3, 1",
        "6,",
        "1, 6",
        "1, 2, 3",
    ] {
        let rows = read(&npy("<f4", shape, &floats(&values)), Kind::Npy, plain(GREY)).unwrap();
        assert_eq!(rows, [values], "{shape}");
    }
}

#[test]
fn channels_come_out_last() {
    let values = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0];
    let mixed = [0.0, 10.0, 20.0, 1.0, 11.0, 21.0];
    let first = npy("<f4", "3, 1, 2", &floats(&values));
    assert_eq!(read_one(&first, Kind::Npy, plain(COLOUR)).unwrap(), mixed);
    let last = npy("<f4", "1, 1, 2, 3", &floats(&mixed));
    assert_eq!(read_one(&last, Kind::Npy, plain(COLOUR)).unwrap(), mixed);
    let json = br#"{"input_data": [[0, 1, 10, 11, 20, 21.0]]}"#;
    assert_eq!(read_one(json, Kind::Json, plain(COLOUR)).unwrap(), mixed);
}

#[test]
fn bytes_are_images() {
    let data = [0, 51, 102, 153, 204, 255];
    let expected = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
    let array = npy("|u1", "2, 3", &data);
    assert_eq!(read_one(&array, Kind::Npy, plain(GREY)).unwrap(), expected);
    let image = png(3, 2, ::png::ColorType::Grayscale, &data);
    assert_eq!(read_one(&image, Kind::Png, plain(GREY)).unwrap(), expected);
    let image = png(2, 1, ::png::ColorType::Rgb, &data);
    assert_eq!(
        read_one(&image, Kind::Png, plain(COLOUR)).unwrap(),
        expected
    );
    let normalised = Expected {
        shape: COLOUR,
        mean: &[0.0, 0.2, 0.4],
        std: &[1.0, 0.5, 0.25],
        numbers: false,
    };
    let got = read_one(&image, Kind::Png, normalised).unwrap();
    for (got, expected) in got.iter().zip([0.0, 0.0, 0.0, 0.6, 1.2, 2.4]) {
        assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    }
}

#[test]
fn several_rows_are_for_calibration() {
    let two = floats(&[0.5; 12]);
    for shape in ["2, 2, 3", "2, 1, 2, 3", "2, 6"] {
        let bytes = npy("<f4", shape, &two);
        assert_eq!(read(&bytes, Kind::Npy, plain(GREY)).unwrap().len(), 2);
        let refused = read_one(&bytes, Kind::Npy, plain(GREY));
        assert!(matches!(refused, Err(InputError::NotOne { rows: 2 })));
    }
}

fn refused(bytes: &[u8], kind: Kind, shape: Shape, text: &str) {
    let error = read(bytes, kind, plain(shape)).unwrap_err();
    let source = std::error::Error::source(&error).map_or(String::new(), ToString::to_string);
    let shown = format!("{error}: {source}");
    assert!(shown.contains(text), "{shown:?} does not contain {text:?}");
}

#[test]
fn bad_arrays_are_named() {
    let check = |bytes: &[u8], text: &str| refused(bytes, Kind::Npy, GREY, text);
    let data = floats(&[0.0; 6]);
    check(b"PK\x03\x04", "numpy magic");
    check(b"\x93NUMPY\x09\x00", "numpy magic");
    check(b"\x93NUMPY\x01\x00\xff", "header");
    check(&npy("<f2", "2, 3", &[0; 12]), "save it as float32");
    check(&npy(">f4", "2, 3", &data), "`>f4`");
    check(
        &npy("<f4", "2, 3", &data[1..]),
        "needs 24 bytes of data, it has 23",
    );
    check(&npy("<f4", "3, 2", &data), "the model takes 2x3x1");
    check(&npy("<f4", "0, 2, 3", &[]), "no inputs");
    check(&npy("|u1", "100001, 2, 3", &[0; 600_006]), "at most 100000");
    check(
        &npy("<f4", "99999999999, 99999999999, 99999999999", &data),
        "bytes of data",
    );
    check(&npy("<f4", "2, -3", &data), "header");
    check(&npy("<f4", "2, 3), 'x': (1", &data), "header");
    let fortran = String::from_utf8_lossy(&npy("|u1", "2, 3", b"abcdef")).replace("False", "True ");
    let mut bytes = npy("|u1", "2, 3", b"abcdef");
    let at = bytes.windows(5).position(|w| w == b"False").unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    assert!(fortran.contains("True"));
    check(&bytes, "ascontiguousarray");
    let infinite = floats(&[0.0, 0.0, f32::INFINITY, 0.0, 0.0, 0.0]);
    check(
        &npy("<f4", "2, 3", &infinite),
        "row 0 has a value that is not finite at index 2",
    );
}

#[test]
fn bad_json_is_named() {
    let check = |text: &str, expected: &str| refused(text.as_bytes(), Kind::Json, GREY, expected);
    check("", "EOF");
    check("[1, 2]", "input_data");
    check(r#"{"input": [[1]]}"#, "missing field `input_data`");
    check(r#"{"input_data": [1]}"#, "line 1 column");
    check(
        r#"{"input_data": [[1, 2, "x", 4, 5, 6]]}"#,
        "invalid type: string",
    );
    check(r#"{"input_data": []}"#, "no inputs");
    check(
        r#"{"input_data": [[1,2,3,4,5,6],[1,2,3]]}"#,
        "row 1 has 3 values; the model takes 6",
    );
    check(r#"{"input_data": [[1,2,3,4,5,1e39]]}"#, "index 5");
    check(
        &format!(r#"{{"input_data": {}"#, "[".repeat(100_000)),
        "expected",
    );
}

#[test]
fn bad_images_are_named() {
    let check = |bytes: &[u8], shape, text: &str| refused(bytes, Kind::Png, shape, text);
    let grey = png(3, 2, ::png::ColorType::Grayscale, &[7; 6]);
    check(b"not a png", GREY, "not a PNG file");
    check(&grey[..grey.len() - 20], GREY, "damaged");
    check(
        &grey,
        Shape::new(3, 2, 1),
        "has 3x2 pixels, the model takes 2x3",
    );
    check(&grey, Shape::new(2, 3, 3), "takes RGB");
    check(&grey, Shape::new(2, 3, 2), "use .npy or .json");
    let rgb = png(3, 2, ::png::ColorType::Rgb, &[7; 18]);
    check(&rgb, GREY, "greyscale with 8 bits");
}

#[test]
fn folders_are_read_by_name() {
    let folder = std::env::temp_dir().join(format!("tg-compile-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    assert!(matches!(
        load(&folder, plain(GREY)),
        Err(LoadError::EmptyFolder { .. })
    ));
    write("b.npy", &npy("<f4", "2, 2, 3", &floats(&[2.0; 12])));
    write("a.json", br#"{"input_data": [[1,1,1,1,1,1]]}"#);
    write("c.PNG", &png(3, 2, ::png::ColorType::Grayscale, &[255; 6]));
    write("notes.txt", b"ignored");
    let rows = load(&folder, plain(GREY)).unwrap();
    let firsts: Vec<f32> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(firsts, [1.0, 2.0, 2.0, 1.0]);
    let notes = load(&folder.join("notes.txt"), plain(GREY)).unwrap_err();
    assert!(notes.to_string().contains("is not a .npy"));
    let missing = load(&folder.join("missing.npy"), plain(GREY)).unwrap_err();
    assert!(matches!(missing, LoadError::Read { .. }));
    write("d.npy", b"broken");
    let broken = load(&folder, plain(GREY)).unwrap_err();
    assert!(broken.to_string().contains("d.npy"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn sequences_are_read_position_by_position() {
    let shape = Shape::new(3, 1, 2);
    let values = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for stated in ["3, 2", "1, 3, 2", "6,"] {
        let rows = read(&npy("<f4", stated, &values), Kind::Npy, plain(shape)).unwrap();
        assert_eq!(rows, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], "{stated}");
    }
    let json = br#"{"input_data": [[1, 2, 3, 4, 5, 6]]}"#;
    let rows = read(json, Kind::Json, plain(shape)).unwrap();
    assert_eq!(rows, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
}

#[test]
fn whole_numbers_are_read_as_they_are() {
    let spec = InputSpec {
        coding: Coding::Tokens(300),
        ..InputSpec::scaled(Shape::new(2, 1, 1), 0.5)
    };
    let expected = Expected::of_spec(&spec);
    let longs: Vec<u8> = [7i64, 299].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ints: Vec<u8> = [7i32, 299].iter().flat_map(|v| v.to_le_bytes()).collect();
    for (descr, data) in [("<i8", longs), ("<i4", ints)] {
        let rows = read(&npy(descr, "2,", &data), Kind::Npy, expected).unwrap();
        assert_eq!(rows, [[7.0, 299.0]], "{descr}");
    }
    let rows = read(&npy("|u1", "2,", &[7, 255]), Kind::Npy, expected).unwrap();
    assert_eq!(rows, [[7.0, 255.0]]);
}
