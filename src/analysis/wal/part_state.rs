//! What a part of some WAL counted, in a form to which the parts before and after it can be added.

use super::group::Groups;
use super::group_key::{GroupBy, Grouping};
use super::image_log::RunImages;
use super::relation_filter::RelationFilter;
use super::relation_use::RelationUses;
use super::tally::Tally;
use super::time_buckets::TimeBuckets;
use super::whatif::compression::PartSample;
use super::whatif::touch_log::RunTouches;
use crate::parsers::portable::{BadState, Portable, StateReader, Wrong};
use crate::types::Lsn;

/// What a part counted.
#[derive(Debug)]
pub struct PartState {
    /// All records.
    pub total: Tally,
    /// Bytes of WAL that they lie in, page headers and padding included.
    pub wal_bytes: u64,
    /// Start of the first record.
    pub from: Option<Lsn>,
    /// End of the last.
    pub to: Option<Lsn>,
    /// The relations that are counted alone.
    pub relations: Option<RelationFilter>,
    /// Images that were compressed again, where that was asked for.
    pub sample: Option<PartSample>,
    /// By what they were counted.
    pub body: PartBody,
}

/// Counts by one thing or another.
#[derive(Debug)]
pub enum PartBody {
    /// By keys that a record or a block has by itself.
    Groups {
        /// What rows stand for.
        by: Grouping,
        /// The groups.
        groups: Groups,
        /// What was done with each relation, if that was counted.
        uses: Option<RelationUses>,
    },
    /// By time.
    Times(TimeBuckets),
    /// By the causes of images, which are not told yet.
    Causes {
        /// What rows stand for.
        by: Grouping,
        /// Groups of records without images.
        groups: Groups,
        /// What was done with each relation, if that was counted.
        uses: Option<RelationUses>,
        /// What causes are told by.
        runs: Vec<RunImages>,
        /// Redo point of the checkpoint that `pg_control` names, and its setting `full_page_writes`.
        in_control: Option<(Lsn, bool)>,
    },
    /// Touches of blocks, run by run, which are replayed under any setting later.
    Touches(Vec<RunTouches>),
}

/// All ways to group, by the number that stands for each.
const WAYS: [GroupBy; 14] = [
    GroupBy::Rmgr,
    GroupBy::Record,
    GroupBy::Relation,
    GroupBy::Fork,
    GroupBy::Block,
    GroupBy::Database,
    GroupBy::Tablespace,
    GroupBy::Compression,
    GroupBy::Segment,
    GroupBy::Cause,
    GroupBy::Checkpoint,
    GroupBy::Xid,
    GroupBy::Kind,
    GroupBy::Table,
];

impl Portable for GroupBy {
    fn put(&self, out: &mut Vec<u8>) {
        (0_u8..).zip(WAYS).filter(|(_, way)| way == self).for_each(|(number, _)| number.put(out));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let (at, number) = (*from, u8::get(from)?);
        WAYS.get(usize::from(number)).copied().ok_or_else(|| at.wrong(Wrong::Unknown("grouping")))
    }
}

crate::parsers::portable::portable!(Grouping { first, second });

impl PartState {
    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.total.put(&mut out);
        self.wal_bytes.put(&mut out);
        (self.from, self.to).put(&mut out);
        self.relations.put(&mut out);
        self.sample.put(&mut out);
        match &self.body {
            PartBody::Groups { by, groups, uses } => {
                (0_u8, *by).put(&mut out);
                groups.put(&mut out);
                put_uses(uses.as_ref(), &mut out);
            }
            PartBody::Times(times) => {
                1_u8.put(&mut out);
                times.put(&mut out);
            }
            PartBody::Causes { by, groups, uses, runs, in_control } => {
                (2_u8, *by).put(&mut out);
                groups.put(&mut out);
                put_uses(uses.as_ref(), &mut out);
                runs.put(&mut out);
                in_control.put(&mut out);
            }
            PartBody::Touches(runs) => {
                3_u8.put(&mut out);
                runs.put(&mut out);
            }
        }
        out
    }

    /// Reads what [`Self::to_bytes`] wrote. `segment_size`: bytes of a segment.
    ///
    /// # Errors
    /// When the bytes are not that.
    pub fn of_bytes(bytes: &[u8], segment_size: u32) -> Result<Self, BadState> {
        let mut from = StateReader::new(bytes);
        let (total, wal_bytes) = Portable::get(&mut from)?;
        let (first, last) = Portable::get(&mut from)?;
        let (relations, sample) = Portable::get(&mut from)?;
        let at = from;
        let grouped = |from: &mut StateReader<'_>| -> Result<_, BadState> {
            let by = Grouping::get(from)?;
            let mut groups = Groups::new(by, segment_size, std::sync::Arc::default());
            groups.add_from(from)?;
            Ok((by, groups, Option::<RelationUses>::get(from)?))
        };
        let body = match u8::get(&mut from)? {
            0 => {
                let (by, groups, uses) = grouped(&mut from)?;
                PartBody::Groups { by, groups, uses }
            }
            1 => PartBody::Times(Portable::get(&mut from)?),
            2 => {
                let (by, groups, uses) = grouped(&mut from)?;
                let (runs, in_control) = Portable::get(&mut from)?;
                PartBody::Causes { by, groups, uses, runs, in_control }
            }
            3 => PartBody::Touches(Portable::get(&mut from)?),
            _ => return Err(at.wrong(Wrong::Unknown("counts"))),
        };
        if !from.is_at_end() {
            return Err(from.wrong(Wrong::Trailing));
        }
        Ok(Self { total, wal_bytes, from: first, to: last, relations, sample, body })
    }
}

fn put_uses(uses: Option<&RelationUses>, out: &mut Vec<u8>) {
    uses.is_some().put(out);
    uses.into_iter().for_each(|uses| uses.put(out));
}
