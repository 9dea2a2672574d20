//! What a reader finds.

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

/// What the reader finds.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A record that passed every check.
    Record(Record<'a>),
    /// A record that was given up; reading goes on with what replaces it.
    Aborted(Aborted),
    /// Damage; reading goes on after it. Only with [`super::ReaderOptions::resynchronise`].
    Damage(EndOfWal),
    /// The end. Nothing follows.
    End(EndOfWal),
}

/// Why [`super::WalReader::read`] came back.
#[derive(Clone, Debug)]
pub enum ReadStep {
    /// All of the input is used up and more is needed, or the end was found before.
    NeedMore,
    /// The visitor broke off after a record.
    BrokenOff,
    /// A record that was given up; reading goes on with what replaces it.
    Aborted(Aborted),
    /// Damage; reading goes on after it. Only with [`super::ReaderOptions::resynchronise`].
    Damage(EndOfWal),
    /// The end. Nothing follows.
    End(EndOfWal),
}
