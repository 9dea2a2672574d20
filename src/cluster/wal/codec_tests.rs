use proptest::prelude::*;

use super::*;

const WINDOW: u32 = 8 << 20;

fn packed(codec: Codec, plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match codec {
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => zstd::encode_all(plain, 1).unwrap(),
        Codec::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Lzma => {
            let options = lzma_rust2::LzmaOptions::with_preset(0);
            let mut encoder = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, None).unwrap();
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Xz => {
            let options = lzma_rust2::XzOptions::with_preset(0);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
    }
}

const ALL: [Codec; 5] = [Codec::Gzip, Codec::Lz4, Codec::Zstd, Codec::Bzip2, Codec::Xz];

fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    peel(Box::new(bytes), 64, WINDOW)?.stream.take(10 << 20).read_to_end(&mut plain)?;
    Ok(plain)
}

fn sample() -> Vec<u8> {
    (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> (n % 29)) as u8).collect()
}

/// LZMA has one part, and no checksum.
#[test]
fn lzma_is_known_by_content_with_and_without_its_size() {
    use std::io::Write;
    let options = lzma_rust2::LzmaOptions::with_preset(6);
    let sized = {
        let size = Some(sample().len() as u64);
        let mut encoder = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, size).unwrap();
        encoder.write_all(&sample()).unwrap();
        encoder.finish().unwrap()
    };
    for bytes in [packed(Codec::Lzma, &sample()), sized] {
        assert_eq!(Codec::of_content(&bytes), Some(Codec::Lzma));
        assert!(unpack(&bytes).unwrap() == sample());
        assert!(unpack(&bytes[..bytes.len() / 2]).is_err());
    }
}

#[test]
fn every_codec_is_known_by_content_and_read_to_the_end_of_its_last_part() {
    for codec in ALL {
        let mut twice = packed(codec, &sample());
        twice.extend_from_slice(&packed(codec, b"and more"));
        let mut expected = sample();
        expected.extend_from_slice(b"and more");
        assert_eq!(Codec::of_content(&twice), Some(codec));
        assert!(unpack(&twice).unwrap() == expected, "{codec}");
    }
    assert!(unpack(&sample()).unwrap() == sample());
}

#[test]
fn every_cut_is_an_error() {
    for codec in ALL {
        let whole = packed(codec, &sample());
        for cut in (1..60).map(|n| whole.len() - n).chain([whole.len() / 2, whole.len() / 3]) {
            assert!(unpack(&whole[..cut]).is_err(), "{codec} cut to {cut} of {}", whole.len());
        }
    }
}

#[test]
fn layers_are_taken_off_as_far_as_allowed() {
    let once = packed(Codec::Xz, &sample());
    let twice = packed(Codec::Lz4, &once);
    let peeled = peel(Box::new(twice.as_slice()), 64, WINDOW).unwrap();
    assert_eq!((peeled.codecs, peeled.head), (vec![Codec::Lz4, Codec::Xz], sample()[..64].to_vec()));
    let thrice = packed(Codec::Zstd, &twice);
    assert!(unpack(&thrice).unwrap_err().to_string().contains("more than 2 times"));
}

#[test]
fn what_comes_before_an_error_is_given_first() {
    let whole = packed(Codec::Gzip, &sample());
    let mut stream = peel(Box::new(&whole[..whole.len() - 3]), 64, WINDOW).unwrap().stream;
    let mut plain = vec![0; 400_000];
    let (filled, failed) = fill(&mut stream, &mut plain);
    assert!(filled > 250_000 && plain[..filled] == sample()[..filled] && failed.is_some());
    assert_eq!(stream.read(&mut plain).unwrap(), 0);
}

proptest! {
    #[test]
    fn damaged_bytes_never_panic(codec in 0_usize..5, at in 0_usize..2000, value: u8, cut in 0_usize..4000) {
        let mut bytes = packed(ALL[codec], &sample()[..3000]);
        let length = bytes.len();
        bytes[at % length] = value;
        bytes.truncate(length.saturating_sub(cut % length));
        let _outcome = unpack(&bytes);
    }
}
