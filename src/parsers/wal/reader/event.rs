//! Events of a reader.

use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// A record whose rest is missing, replaced by what the server wrote after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// Start of the record.
    pub start_lsn: Lsn,
    /// Page at which its rest is missing.
    pub missing_lsn: Lsn,
    /// Bytes of it that were there.
    pub have: u64,
    /// Its length by its own header, if that much was there.
    pub tot_len: u32,
}

/// An event of the reader.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A record that passed every check.
    Record(Record<'a>),
    /// An aborted record; reading continues with its replacement.
    Aborted(Aborted),
    /// Damage; reading continues after it. Only with [`super::ReaderOptions::resynchronise`].
    Damage(EndOfWal),
    /// The end. Nothing follows.
    End(EndOfWal),
}

/// Why [`super::WalReader::read`] came back.
#[derive(Clone, Debug)]
pub enum ReadStep {
    /// All of the input is used up and more is needed, or the end was found before.
    NeedMore,
    /// The visitor stopped after a record.
    BrokenOff,
    /// An aborted record; reading continues with its replacement.
    Aborted(Aborted),
    /// Damage; reading continues after it. Only with [`super::ReaderOptions::resynchronise`].
    Damage(EndOfWal),
    /// The end. Nothing follows.
    End(EndOfWal),
}
