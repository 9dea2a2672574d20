//! Any bytes as a stored image in each codec, and any bytes as a page that is packed and unpacked: it comes back as it was.
//! The first bytes choose the major, the flags and the hole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::image::{BlockImage, Compression, ImageDecoder, ImageEncoder};
use pgforensics::parsers::wal::version::Major;

fuzz_target!(|data: &[u8]| {
    let Some((head, bytes)) = data.split_first_chunk::<6>() else { return };
    let major = Major::ALL[usize::from(head[0]) % Major::ALL.len()];
    let pair = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let image = BlockImage { bytes, hole_offset: pair(2), hole_length: pair(4), bimg_info: head[1], major };
    let mut decoder = ImageDecoder::new();
    let (mut first, mut second) = (vec![0xAA; 8192], vec![0x55; 8192]);
    let (one, two) = (decoder.restore(&image, &mut first), ImageDecoder::new().restore(&image, &mut second));
    assert_eq!(one, two);
    if one.is_ok() {
        // Not a byte is left of what was there before.
        assert_eq!(first, second);
        let hole = usize::from(image.hole_offset)..usize::from(image.hole_offset) + usize::from(image.hole_length);
        assert!(first[hole].iter().all(|byte| *byte == 0));
    }
    let mut encoder = ImageEncoder::new();
    let raw = &bytes[..bytes.len().min(8192)];
    for (method, info) in [(Compression::Pglz, 0x04), (Compression::Lz4, 0x08), (Compression::Zstd, 0x10)] {
        let Some(packed) = encoder.compress(method, raw, false).map(<[u8]>::to_vec) else { continue };
        assert!(packed.len() < raw.len());
        let image =
            BlockImage { bytes: &packed, hole_offset: 0, hole_length: 0, bimg_info: info, major: Major::NEWEST };
        let mut page = vec![0; raw.len()];
        assert_eq!(decoder.unpack(&image, &mut page), Ok(raw.len()));
        assert_eq!(page, raw);
    }
});
