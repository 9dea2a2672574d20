use proptest::prelude::*;

use super::*;
use crate::parsers::pglz::decompress;

fn compressed(input: &[u8]) -> Option<Vec<u8>> {
    let mut output = Vec::new();
    PglzCompressor::new().compress(input, &mut output).then_some(output)
}

/// Worked out by hand: one literal, then the longest possible matches at distance 1.
#[test]
fn page_of_one_byte_is_a_literal_and_long_matches() {
    // 8191 bytes after the literal: 30 matches of 273 bytes, and one of the single byte that is left, a literal.
    let (zeros, expected_matches) = (compressed(&[0; 8192]).unwrap(), 8191 / 273);
    let mut expected = Vec::new();
    let mut items = vec![vec![0]];
    items.extend(vec![vec![0x0F, 1, 255]; expected_matches]);
    items.push(vec![0]);
    assert_eq!(8191 - expected_matches * 273, 1);
    for group in items.chunks(8) {
        let control = group.iter().enumerate().map(|(bit, item)| u8::from(item.len() > 1) << bit).sum();
        expected.push(control);
        expected.extend(group.concat());
    }
    assert_eq!(zeros, expected);
}

#[test]
fn short_input_and_input_that_saves_little_is_refused() {
    assert_eq!(compressed(&[7; 31]), None);
    assert_eq!(compressed(&[7; 32]), Some(vec![0x02, 7, 0x0F, 1, 13]));
    assert_eq!(compressed(&[7; (1 << 15) + 1]), None);
    // The first half never comes again and the second is all one byte: 9 of 16 bits, then nearly nothing.
    let mixed = |literals: u32| -> Vec<u8> {
        let noise = (1..=literals).map(|i| {
            let mixed = i.wrapping_mul(0x9E37_79B9) ^ i.wrapping_mul(i).rotate_left(7);
            (mixed.wrapping_mul(0x85EB_CA6B) >> 17) as u8
        });
        noise.chain(std::iter::repeat_n(0, 512 - literals as usize)).collect()
    };
    let kept = compressed(&mixed(256)).unwrap();
    assert!((280..384).contains(&kept.len()), "{}", kept.len());
    assert_eq!(compressed(&mixed(500)), None);
}

#[test]
fn without_a_match_in_the_first_kilobyte_the_server_gives_up() {
    // 911 literals and their control bytes are 1025 bytes of output, and no four bytes come twice in the first 1820.
    let noise: Vec<u8> = (0..910_u32).flat_map(|i| [(i >> 8) as u8 ^ 0x5A, i as u8]).collect();
    let mut late = noise.clone();
    late.extend([0; 6000]);
    assert_eq!(compressed(&late), None);
    let mut early = noise[..400].to_vec();
    early.extend([0; 6000]);
    assert!(compressed(&early).is_some());
}

#[test]
fn what_is_farther_than_4094_bytes_is_not_found() {
    let page = |gap: usize| {
        let mut page = b"a mark of some length".to_vec();
        page.extend(vec![0; gap]);
        page.extend(b"a mark of some length");
        compressed(&page).unwrap()
    };
    let (found, not_found) = (page(4094 - 21), page(4095 - 21));
    // A match of 3 bytes against 21 literals with their control bytes.
    assert!(not_found.len() > found.len() + 18, "{} {}", not_found.len(), found.len());
}

/// Bytes as pages have them: runs, repeated words, and noise.
fn page_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 1_usize..400).prop_map(|(byte, length)| vec![byte; length]),
        prop::collection::vec(any::<u8>(), 1..60),
        prop::collection::vec(prop::sample::select(vec![0_u8, 1, 0x80, 0xFF]), 1..200),
        (prop::collection::vec(any::<u8>(), 1..20), 1_usize..40).prop_map(|(word, times)| word.repeat(times)),
    ];
    prop::collection::vec(piece, 1..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_is_compressed_comes_back(input in page_like()) {
        let mut compressor = PglzCompressor::new();
        let mut output = Vec::new();
        // A second time, with tables that are not empty, gives the same.
        for _ in 0..2 {
            if compressor.compress(&input, &mut output) {
                prop_assert!(output.len() < input.len() * 3 / 4);
                let mut back = vec![0xEE; input.len()];
                prop_assert_eq!(decompress(&output, &mut back, input.len()), Ok(()));
                prop_assert_eq!(&back, &input);
            }
            let first = output.clone();
            compressor.compress(&[output.as_slice(), &input].concat(), &mut output);
            compressor.compress(&input, &mut output);
            prop_assert_eq!(&first, &output);
        }
    }

    #[test]
    fn any_bytes_are_compressed_or_refused(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        if let Some(output) = compressed(&input) {
            let mut back = vec![0; input.len()];
            prop_assert_eq!(decompress(&output, &mut back, input.len()), Ok(()));
            prop_assert_eq!(back, input);
        }
    }
}
