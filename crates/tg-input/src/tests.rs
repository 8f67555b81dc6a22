#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tg_float::FloatTensor;
use tg_ir::{Coding, InputSpec, Shape};

const GREY: Shape = Shape::new(2, 3, 1);
const COLOUR: Shape = Shape::new(1, 2, 3);

fn plain(shape: Shape) -> Expected<'static> {
    Expected {
        shape,
        mean: &[],
        std: &[],
        numbers: false,
        inputs: &[],
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

/// The one row of a file.
fn row(bytes: &[u8], kind: Kind, expected: Expected<'_>) -> Vec<f32> {
    let (row, unread) = read_one(bytes, kind, expected).unwrap();
    assert_eq!(unread, [""; 0]);
    row
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
    assert_eq!(row(&first, Kind::Npy, plain(COLOUR)), mixed);
    let last = npy("<f4", "1, 1, 2, 3", &floats(&mixed));
    assert_eq!(row(&last, Kind::Npy, plain(COLOUR)), mixed);
    let json = br#"{"input_data": [[0, 1, 10, 11, 20, 21.0]]}"#;
    assert_eq!(row(json, Kind::Json, plain(COLOUR)), mixed);
}

#[test]
fn bytes_are_images() {
    let data = [0, 51, 102, 153, 204, 255];
    let expected = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
    let array = npy("|u1", "2, 3", &data);
    assert_eq!(row(&array, Kind::Npy, plain(GREY)), expected);
    let image = png(3, 2, ::png::ColorType::Grayscale, &data);
    assert_eq!(row(&image, Kind::Png, plain(GREY)), expected);
    let image = png(2, 1, ::png::ColorType::Rgb, &data);
    assert_eq!(row(&image, Kind::Png, plain(COLOUR)), expected);
    let normalised = Expected {
        shape: COLOUR,
        mean: &[0.0, 0.2, 0.4],
        std: &[1.0, 0.5, 0.25],
        numbers: false,
        inputs: &[],
    };
    let got = row(&image, Kind::Png, normalised);
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
    check(&npy("<c8", "2, 3", &[0; 48]), "save it as float32");
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
    check("[1, 2]", "has the shape [2]; the model takes 2x3x1");
    check(r#"{"input": [[[1]]]}"#, "has the shape [1, 1, 1]");
    check(r#"{"a": [1], "b": [2]}"#, "has an array `a`");
    check(
        r#"{"input_data": [[1]], "b": [2]}"#,
        "an array `input_data`",
    );
    check(r#"{"a": [[1], [2, 3]]}"#, "lists with different lengths");
    check(r#"[[[1], [2, 3]]]"#, "different lengths");
    check(r#""text""#, "numbers in lists");
    check(r#"{"input_data": [1]} 5"#, "trailing");
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

/// Arrays of three inputs: tokens, a mask beside them, and four reals.
fn inputs() -> Vec<NamedInput> {
    let input = |name: &str, shape: &[usize], places: &[usize]| NamedInput {
        name: name.to_owned(),
        shape: shape.to_vec(),
        places: places.to_vec(),
    };
    vec![
        input("ids", &[1, 2], &[0, 1]),
        input("mask", &[2], &[2, 3]),
        input("x", &[1, 2, 1, 2, 1], &[4, 5, 6, 7]),
    ]
}

fn several(inputs: &[NamedInput]) -> Expected<'_> {
    Expected {
        inputs,
        ..plain(Shape::vector(8))
    }
}

/// A stored or deflated archive.
fn npz(entries: &[(&str, Vec<u8>)], deflated: bool) -> Vec<u8> {
    use std::io::Write;
    let word = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
    let half = |value: usize| u16::try_from(value).unwrap().to_le_bytes();
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, file) in entries {
        let packed = if deflated {
            let mut writer =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(file).unwrap();
            writer.finish().unwrap()
        } else {
            file.clone()
        };
        let method = if deflated { 8 } else { 0 };
        let mut sum = flate2::Crc::new();
        sum.update(file);
        let mut shared = [half(20), half(0), half(method), half(0), half(0)].concat();
        shared.extend(
            [
                sum.sum().to_le_bytes(),
                word(packed.len()),
                word(file.len()),
            ]
            .concat(),
        );
        shared.extend([half(name.len()), half(0)].concat());
        let at = bytes.len();
        bytes.extend([b"PK\x03\x04", shared.as_slice(), name.as_bytes(), &packed].concat());
        directory.extend(
            [
                b"PK\x01\x02".as_slice(),
                &half(20),
                &shared,
                &half(0),
                &half(0),
                &half(0),
            ]
            .concat(),
        );
        directory.extend([word(0), word(at)].concat());
        directory.extend(name.as_bytes());
    }
    let (at, count) = (bytes.len(), entries.len());
    bytes.extend(&directory);
    bytes.extend(
        [
            b"PK\x05\x06".as_slice(),
            &half(0),
            &half(0),
            &half(count),
            &half(count),
        ]
        .concat(),
    );
    bytes.extend([word(directory.len()), word(at)].concat());
    bytes.extend(half(0));
    bytes
}

/// What the three inputs are in a file of each kind, twice for calibration.
#[test]
fn inputs_are_read_by_name() {
    let inputs = inputs();
    let expected = several(&inputs);
    let row = [7.0, 9.0, 1.0, 0.0, 0.5, 1.5, 2.5, 3.5];
    let longs =
        |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let reals = floats(&[0.5, 1.5, 2.5, 3.5]);
    let ids = npy("<i8", "1, 2", &longs(&[7, 9]));
    let mask = npy("|b1", "2,", &[1, 0]);
    let x = npy("<f4", "2, 2", &reals);
    let entries = [
        ("x.npy", x.clone()),
        ("ids.npy", ids.clone()),
        ("mask.npy", mask.clone()),
    ];
    for deflated in [false, true] {
        let rows = read(&npz(&entries, deflated), Kind::Npz, expected).unwrap();
        assert_eq!(rows, [row]);
    }
    let numbered = [
        ("arr_0.npy", ids.clone()),
        ("arr_1.npy", mask.clone()),
        ("arr_2.npy", x),
    ];
    assert_eq!(
        read(&npz(&numbered, true), Kind::Npz, expected).unwrap(),
        [row]
    );
    for json in [
        r#"{"ids": [[7, 9]], "mask": [true, false], "x": [0.5, 1.5, 2.5, 3.5]}"#,
        r#"{"x": [[[0.5], [1.5]], [[2.5], [3.5]]], "mask": [1, 0], "ids": [7, 9]}"#,
        r#"{"input_data": [[7, 9], [1, 0], [0.5, 1.5, 2.5, 3.5]]}"#,
        r#"{"input_data": [7, 9, 1, 0, 0.5, 1.5, 2.5, 3.5]}"#,
        r#"[[7, 9, 1, 0, 0.5, 1.5, 2.5, 3.5]]"#,
    ] {
        let rows = read(json.as_bytes(), Kind::Json, expected).unwrap();
        assert_eq!(rows, [row], "{json}");
    }
    let each = [
        (Some("mask"), Kind::Npy, mask.as_slice()),
        (None, Kind::Npy, &ids),
        (Some("x"), Kind::Json, b"[[0.5, 1.5], [2.5, 3.5]]"),
    ];
    assert_eq!(read_each(&each, expected).unwrap(), row);
    let twice = r#"{"ids": [[7, 9], [7, 9]], "mask": [[1, 0], [1, 0]], "x": [[[0.5, 1.5], [2.5, 3.5]], [[0.5, 1.5], [2.5, 3.5]]]}"#;
    assert_eq!(
        read(twice.as_bytes(), Kind::Json, expected).unwrap(),
        [row, row]
    );
}

#[test]
fn bad_arrays_of_several_inputs_are_named() {
    let inputs = inputs();
    let check = |text: &str, expected: &str| {
        let error = read(text.as_bytes(), Kind::Json, several(&inputs)).unwrap_err();
        assert!(
            error.to_string().contains(expected),
            "{error} does not contain {expected:?}"
        );
    };
    check(
        r#"{"ids": [7, 9], "mask": [1, 0]}"#,
        "no array for the input `x`; the model takes `ids` [1, 2], `mask` [2]",
    );
    check(
        r#"{"ids": [7, 9], "mask": [1, 0], "y": [1]}"#,
        "an array `y`",
    );
    check(
        r#"{"ids": [7, 9], "ids": [7, 9], "x": [1]}"#,
        "an array `ids`",
    );
    check(
        r#"{"ids": [7, 9, 3], "mask": [1, 0], "x": [[1, 2], [3, 4]]}"#,
        "the array for `ids` has the shape [3]",
    );
    check(
        r#"{"ids": [[7, 9], [7, 9]], "mask": [1, 0], "x": [[1, 2], [3, 4]]}"#,
        "`mask` holds 1 rows, and that of the first input 2",
    );
    check(
        r#"{"ids": [7, 1e39], "mask": [1, 0], "x": [[1, 2], [3, 4]]}"#,
        "row 0 has a value that is not finite at index 1",
    );
    let png = read_each(&[(Some("ids"), Kind::Png, b"")], several(&inputs));
    assert!(matches!(png, Err(InputError::Alone)));
    let file = npy("<f4", "2,", &floats(&[1.0, 2.0]));
    let good = npz(&[("ids.npy", file)], true);
    for end in 0..good.len() {
        read(&good[..end], Kind::Npz, several(&inputs)).unwrap_err();
    }
    for byte in 0..good.len() {
        let mut damaged = good.clone();
        damaged[byte] ^= 0x55;
        read(&damaged, Kind::Npz, several(&inputs)).unwrap_err();
    }
}

/// Axes of one element do not turn a picture: rows of the file are rows, whatever the program's axes are.
#[test]
fn one_input_is_read_in_the_order_of_its_file() {
    let inputs = [NamedInput {
        name: "x".to_owned(),
        shape: vec![1, 2, 3, 1],
        places: vec![0, 2, 4, 1, 3, 5],
    }];
    let expected = Expected {
        inputs: &inputs,
        ..plain(Shape::new(3, 1, 2))
    };
    let values = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for shape in ["1, 2, 3, 1", "2, 3", "2, 3, 1", "1, 1, 2, 3"] {
        let rows = read(&npy("<f4", shape, &values), Kind::Npy, expected).unwrap();
        assert_eq!(rows, [[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]], "{shape}");
    }
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
    let rows = load(&folder, plain(GREY)).unwrap().rows;
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
    let expected = Expected::of_spec(&spec, &[]);
    let longs: Vec<u8> = [7i64, 299].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ints: Vec<u8> = [7i32, 299].iter().flat_map(|v| v.to_le_bytes()).collect();
    for (descr, data) in [("<i8", longs), ("<i4", ints)] {
        let rows = read(&npy(descr, "2,", &data), Kind::Npy, expected).unwrap();
        assert_eq!(rows, [[7.0, 299.0]], "{descr}");
    }
    let rows = read(&npy("|u1", "2,", &[7, 255]), Kind::Npy, expected).unwrap();
    assert_eq!(rows, [[7.0, 255.0]]);
}

/// Models that run in floats took `.npy` files alone, whatever the documents said of all commands.
#[test]
fn arrays_are_read_as_they_are() {
    let long = 3i64.to_le_bytes().repeat(2);
    let both = npz(
        &[
            ("ids.npy", npy("<i8", "1, 2", &long)),
            ("arr_0.npy", npy("<f4", "3,", &floats(&[0.5, 1.0, 2.0]))),
        ],
        true,
    );
    let read = read_arrays(&both, Kind::Npz).unwrap();
    let ids = FloatTensor::of(vec![1, 2], vec![3i64, 3]).unwrap();
    let own = FloatTensor::of(vec![3], vec![0.5f32, 1.0, 2.0]).unwrap();
    assert_eq!(read, [(Some("ids".to_owned()), ids), (None, own)]);
    let json = br#"{"a": [[1, 2]], "b": 7}"#;
    let read = read_arrays(json, Kind::Json).unwrap();
    let a = FloatTensor::of(vec![1, 2], vec![1f32, 2.0]).unwrap();
    let b = FloatTensor::of(vec![], vec![7f32]).unwrap();
    assert_eq!(read, [(Some("a".to_owned()), a), (Some("b".to_owned()), b)]);
    let whole = read_arrays(br#"{"input_data": [1, 2]}"#, Kind::Json).unwrap();
    assert_eq!(whole[0].0, None);
    for (bytes, kind) in [
        (&b"{\"a\": [[1], [2, 3]]}"[..], Kind::Json),
        (b"no archive", Kind::Npz),
        (b"no array", Kind::Npy),
        (b"no image", Kind::Png),
    ] {
        assert!(read_arrays(bytes, kind).is_err(), "{kind:?}");
    }
}

/// Files may have arrays that nothing reads beside those of all inputs; an input may not lack its own.
#[test]
fn arrays_that_nothing_reads_are_named() {
    let inputs = ["a", "b"].map(|name| NamedInput {
        name: name.to_owned(),
        shape: vec![1],
        places: vec![usize::from(name == "b")],
    });
    let expected = Expected {
        inputs: &inputs,
        ..plain(Shape::vector(2))
    };
    let folder = std::env::temp_dir().join(format!("tg-compile-unread-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("samples.json");
    let whole = br#"{"a": [[1], [2]], "target": [[7, 8]], "b": [[3], [4]]}"#;
    std::fs::write(&file, whole).unwrap();
    let loaded = load(&file, expected).unwrap();
    assert_eq!(loaded.rows, [[1.0, 3.0], [2.0, 4.0]]);
    assert_eq!(loaded.unread.into_iter().collect::<Vec<_>>(), ["target"]);
    let strict = read(whole, Kind::Json, expected).unwrap_err().to_string();
    assert!(
        strict.contains("the file has an array `target`"),
        "{strict}"
    );
    let one = br#"{"a": [1], "target": [7, 8], "b": [3]}"#;
    let one = read_one(one, Kind::Json, expected).unwrap();
    assert_eq!(one, (vec![1.0, 3.0], vec!["target".to_owned()]));
    let archive = npz(
        &[
            ("b.npy", npy("<f4", "1,", &floats(&[3.0]))),
            ("y.npy", npy("<f4", "2,", &floats(&[7.0, 8.0]))),
            ("a.npy", npy("<f4", "1,", &floats(&[1.0]))),
        ],
        false,
    );
    let one = read_one(&archive, Kind::Npz, expected).unwrap();
    assert_eq!(one, (vec![1.0, 3.0], vec!["y".to_owned()]));
    let other = read_one(br#"{"a": [1], "c": [7]}"#, Kind::Json, expected);
    let other = other.unwrap_err().to_string();
    assert!(other.contains("no array for the input `b`"), "{other}");
    std::fs::write(&file, br#"{"a": [[1]], "target": [[7]]}"#).unwrap();
    let missing = load(&file, expected).unwrap_err();
    let why = std::error::Error::source(&missing).unwrap().to_string();
    assert!(why.contains("no array for the input `b`"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}
