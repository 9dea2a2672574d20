//! Compression of WAL archives, recognised by content: a name may say anything.

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use strum::IntoStaticStr;

use lz4_flex::frame::FrameDecoder;

use super::first_page::is_segment;

/// Bytes of a decoder's input that are buffered.
const BUFFER_BYTES: usize = 64 * 1024;

/// Kibibytes that an xz decoder needs in addition to its window.
const XZ_OVERHEAD_KIB: u32 = 512;

/// Layers of compression that are taken off, one inside the other.
pub const MAX_LAYERS: usize = 2;

/// Bytes in any form, read in order.
pub(crate) type Stream<'a> = Box<dyn Read + Send + 'a>;

/// A compressed format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Codec {
    /// gzip, also of several members.
    Gzip,
    /// LZ4 frames, also several.
    Lz4,
    /// Zstandard, also of several frames.
    Zstd,
    /// bzip2, also of several streams.
    Bzip2,
    /// xz, also of several streams.
    Xz,
    /// LZMA, the format before xz, without a checksum of its own.
    Lzma,
}

impl Codec {
    /// The codec whose files begin like this; `None` for anything else. 14 bytes are enough.
    pub(crate) fn of_content(head: &[u8]) -> Option<Self> {
        match head {
            [0x1F, 0x8B, 8, ..] => Some(Self::Gzip),
            [0x04, 0x22, 0x4D, 0x18, ..] => Some(Self::Lz4),
            // Parallel compressors put a skippable frame first.
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Self::Zstd),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Some(Self::Bzip2),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            // The usual properties, a window of 64 KiB or more, no size or one below a terabyte, and the byte with which
            // the encoder always begins.
            [0x5D, 0, 0, _, _, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, ..]
            | [0x5D, 0, 0, _, _, _, _, _, _, _, 0, 0, 0, 0, ..] => Some(Self::Lzma),
            _ => None,
        }
    }

    /// Name of the format.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Endings of file names that stand for compression.
    pub(crate) const SUFFIXES: [&'static str; 10] =
        [".gz", ".lz4", ".zst", ".zstd", ".bz2", ".bzip2", ".xz", ".lzma", ".lzo", ".br"];

    /// Unpacks `source`, which begins with this format. A window larger than `window_bytes` is refused with an error.
    fn decoder<'a>(self, source: Stream<'a>, window_bytes: u32) -> io::Result<Stream<'a>> {
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Self::Lz4 => Box::new(Lz4Frames { frame: Some(FrameDecoder::new(Watched { source, saw_end: false })) }),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
                decoder.window_log_max(window_bytes.max(1024).ilog2())?;
                Box::new(decoder)
            }
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
            Self::Xz => {
                let limit_kib = (window_bytes / 1024).saturating_add(XZ_OVERHEAD_KIB);
                Box::new(lzma_rust2::XzReader::new_mem_limit(source, true, limit_kib))
            }
            Self::Lzma => {
                let limit_kib = (window_bytes / 1024).saturating_add(XZ_OVERHEAD_KIB);
                Box::new(lzma_rust2::LzmaReader::new_mem_limit(source, limit_kib, None)?)
            }
        })
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

struct Watched<R> {
    source: BufReader<R>,
    saw_end: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(buf)?;
        self.saw_end |= bytes == 0 && !buf.is_empty();
        Ok(bytes)
    }
}

/// All frames of an LZ4 file. The decoder underneath stops after each frame, and takes a file that is cut between two
/// blocks for one that ends there; a frame that ends as it should does so without asking for more input. Each frame gets
/// a decoder of its own: used again, one would keep the block size of the frame before.
struct Lz4Frames<R: Read> {
    frame: Option<FrameDecoder<Watched<R>>>,
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let bytes = frame.read(buf)?;
            if bytes > 0 || buf.is_empty() {
                return Ok(bytes);
            }
            let Some(mut input) = self.frame.take().map(FrameDecoder::into_inner) else { break };
            if input.saw_end {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "LZ4 frame without its end mark"));
            }
            if !input.source.fill_buf()?.is_empty() {
                self.frame = Some(FrameDecoder::new(input));
            }
        }
        Ok(0)
    }
}

/// A stream without its compression.
pub(crate) struct Peeled<'a> {
    pub codecs: Vec<Codec>,
    /// The first bytes, also given by `stream`.
    pub head: Vec<u8>,
    /// The plain bytes from the first one on.
    pub stream: Stream<'a>,
}

/// Gives the head again, then the rest, and after an error nothing more.
struct Peeked<'a> {
    head: Cursor<Vec<u8>>,
    failed: Option<io::Error>,
    stopped: bool,
    rest: Stream<'a>,
}

impl Read for Peeked<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.head.read(buf)?;
        if bytes > 0 || buf.is_empty() || self.stopped {
            return Ok(bytes);
        }
        let outcome = match self.failed.take() {
            Some(error) => Err(error),
            None => self.rest.read(buf),
        };
        let again = outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted);
        self.stopped = !again && !outcome.as_ref().is_ok_and(|&bytes| bytes > 0);
        outcome
    }
}

/// Takes compression off a stream as far as its content shows any. `head_bytes`: how much of the plain bytes to show, unless
/// the first few of them begin a segment.
pub(crate) fn peel(source: Stream<'_>, head_bytes: usize, window_bytes: u32) -> io::Result<Peeled<'_>> {
    let mut codecs = Vec::new();
    let mut source = source;
    loop {
        let mut head = Vec::new();
        let failed = read_head(&mut source, head_bytes, &mut head);
        let found = Codec::of_content(&head);
        if let Some(error) = failed {
            // Compressed bytes may well be read to their early end: what they hold is still wanted.
            if head.is_empty() || (found.is_some() && codecs.len() == MAX_LAYERS) {
                return Err(error);
            }
            let rest = Peeked { head: Cursor::new(head.clone()), failed: Some(error), stopped: false, rest: source };
            if let Some(codec) = found {
                codecs.push(codec);
                source = codec.decoder(Box::new(rest), window_bytes)?;
                continue;
            }
            return Ok(Peeled { codecs, head, stream: Box::new(rest) });
        }
        let rest: Stream<'_> =
            Box::new(Peeked { head: Cursor::new(head.clone()), failed: None, stopped: false, rest: source });
        match found {
            None => return Ok(Peeled { codecs, head, stream: rest }),
            Some(_) if codecs.len() == MAX_LAYERS => {
                return Err(io::Error::other(format!("compressed more than {MAX_LAYERS} times; not unpacked further")));
            }
            Some(codec) => {
                codecs.push(codec);
                source = codec.decoder(rest, window_bytes)?;
            }
        }
    }
}

/// Bytes of a head that are read first: a sound page header among them says all that a head is read for.
const FIRST_LOOK_BYTES: usize = 512;

/// Reads up to `length` bytes, or fewer that begin a segment; what came before an error stays.
fn read_head(source: &mut dyn Read, length: usize, head: &mut Vec<u8>) -> Option<io::Error> {
    for part in [length.min(FIRST_LOOK_BYTES), length] {
        let before = head.len();
        head.resize(part, 0);
        let (filled, failed) = fill(source, head.get_mut(before..).unwrap_or_default());
        head.truncate(before.saturating_add(filled));
        if failed.is_some() || head.len() < part || is_segment(head) {
            return failed;
        }
    }
    None
}

/// Fills `buf` as far as the stream reaches; what came before an error is counted, the error kept beside it.
pub fn fill(source: &mut dyn Read, buf: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(bytes) => filled = filled.saturating_add(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

#[cfg(test)]
mod tests {
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
}
