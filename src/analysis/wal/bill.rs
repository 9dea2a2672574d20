//! Every byte of some WAL by what it is: images, records, and what lies between and around them.

use strum::IntoStaticStr;

use super::segment::Visitor;
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::record::Record;
use crate::types::{Geometry, LONG_WAL_HEADER_BYTES, Lsn, SHORT_WAL_HEADER_BYTES};

/// A record that ended a segment early (`XLOG_SWITCH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSwitch {
    /// Start of the record.
    pub lsn: Lsn,
    /// Bytes from its end to the next segment.
    pub unused_bytes: u64,
    /// The latest time that was told before it.
    pub time: Option<PgTimestamp>,
    unused_header_bytes: u64,
}

/// Bytes of WAL that no record has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalRest {
    /// Headers of pages, those of unused space left out.
    pub page_header_bytes: u64,
    /// Up to 7 bytes after each record, which begins at a multiple of 8.
    pub padding_bytes: u64,
    /// In the order of WAL.
    pub switches: Vec<SegmentSwitch>,
}

impl WalRest {
    /// Takes a record; `now`: the latest time that was told before it.
    #[inline(always)]
    pub(crate) fn add(&mut self, record: &Record<'_>, is_switch: bool, geometry: Geometry, now: Option<PgTimestamp>) {
        if is_switch {
            return self.add_switch(&{ *record }, geometry, now);
        }
        let padding = record.end_lsn.bytes_since(record.data_end_lsn).unwrap_or(0);
        self.padding_bytes = self.padding_bytes.saturating_add(padding);
    }

    #[inline(never)]
    fn add_switch(&mut self, record: &Record<'_>, geometry: Geometry, time: Option<PgTimestamp>) {
        let from = record.data_end_lsn.aligned();
        let padding = from.bytes_since(record.data_end_lsn).unwrap_or(0);
        self.padding_bytes = self.padding_bytes.saturating_add(padding);
        self.switches.push(SegmentSwitch {
            lsn: record.start_lsn,
            unused_bytes: record.end_lsn.bytes_since(from).unwrap_or(0),
            time,
            unused_header_bytes: page_header_bytes(from, record.end_lsn, geometry),
        });
    }

    /// Adds that of the WAL that follows, which was read by itself, when it was `entering` at its start.
    pub(crate) fn append(&mut self, next: &Self, entering: Option<PgTimestamp>) {
        self.page_header_bytes = self.page_header_bytes.saturating_add(next.page_header_bytes);
        self.padding_bytes = self.padding_bytes.saturating_add(next.padding_bytes);
        let timed = |switch: &SegmentSwitch| SegmentSwitch { time: switch.time.or(entering), ..*switch };
        self.switches.extend(next.switches.iter().map(timed));
    }

    /// Adds the headers of the pages that begin in this stretch.
    pub(crate) fn add_headers(&mut self, start: Lsn, end: Lsn, geometry: Geometry) {
        self.page_header_bytes = self.page_header_bytes.saturating_add(page_header_bytes(start, end, geometry));
    }

    /// So many bytes of headers are not of the WAL that is counted.
    pub(crate) fn leave_out_headers(&mut self, bytes: u64) {
        self.page_header_bytes = self.page_header_bytes.saturating_sub(bytes);
    }

    /// Bytes that segment switches left unused.
    pub fn unused_bytes(&self) -> u64 {
        self.switches.iter().map(|switch| switch.unused_bytes).sum()
    }

    /// How far segment switches are apart in the middle, and whether they come in a rhythm, as `archive_timeout` makes them;
    /// `None` where too few tell their time.
    pub fn rhythm(&self) -> Option<SwitchRhythm> {
        /// Fewer distances show no rhythm.
        const MIN_DISTANCES: usize = 4;
        /// Commits tell the time, and come when they come; the server looks for its timeouts now and then.
        const SLACK_US: i64 = 1_500_000;
        let times: Vec<i64> = self.switches.iter().filter_map(|switch| Some(switch.time?.0)).collect();
        let mut apart: Vec<i64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).max(0)).collect();
        apart.sort_unstable();
        let median = *apart.get(apart.len() / 2).filter(|_| apart.len() >= MIN_DISTANCES)?;
        let slack = (median / 4).max(SLACK_US);
        let near = apart.iter().filter(|one| one.abs_diff(median) <= slack.unsigned_abs()).count();
        Some(SwitchRhythm {
            every_s: median as f64 / 1e6,
            is_regular: median > 0 && near.saturating_mul(3) >= apart.len().saturating_mul(2),
        })
    }
}

/// Counts the bytes of a segment that no record has, where times of segment switches are not asked for.
#[derive(Clone, Debug)]
pub(crate) struct RestCounter {
    pub(crate) rest: WalRest,
    geometry: Geometry,
}

impl RestCounter {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { rest: WalRest::default(), geometry }
    }
}

impl Visitor for RestCounter {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.rest.add(record, record.header.is_switch(), self.geometry, None);
    }
}

/// How far apart segment switches are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchRhythm {
    /// Half of them are farther apart, in seconds.
    pub every_s: f64,
    /// Two of three are about as far apart as this.
    pub is_regular: bool,
}

/// Bytes of the headers of pages that begin at `start` or later and before `end`.
fn page_header_bytes(start: Lsn, end: Lsn, geometry: Geometry) -> u64 {
    let begun = |size: u32| {
        let size = u64::from(size).max(1);
        end.0.div_ceil(size).saturating_sub(start.0.div_ceil(size))
    };
    let (pages, segments) = (begun(geometry.wal_block_size), begun(geometry.wal_segment_size));
    let short = pages.saturating_sub(segments).saturating_mul(u64::from(SHORT_WAL_HEADER_BYTES));
    short.saturating_add(segments.saturating_mul(u64::from(LONG_WAL_HEADER_BYTES)))
}

/// A kind of bytes of WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BillPart {
    /// Full-page images.
    Images,
    /// Records without images and old rows.
    Records,
    /// Old rows of UPDATE and DELETE of tables with REPLICA IDENTITY FULL.
    OldRows,
    /// Space that segment switches left unused.
    Unused,
    /// Headers of WAL pages.
    PageHeaders,
    /// Bytes between records.
    Padding,
    /// Parts of records that are not whole in this WAL, and what could not be read.
    Cut,
}

impl BillPart {
    /// The word for JSON.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// A row of the bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BillRow {
    /// Their kind.
    pub part: BillPart,
    /// Their number.
    pub bytes: u64,
    /// Of how many images, records or switches; `None` of the others.
    pub count: Option<u64>,
}

/// All bytes of some WAL: the rows sum up to them.
#[derive(Clone, Debug, PartialEq)]
pub struct WalBill {
    /// Parts with at least a byte, in the order of [`BillPart`].
    pub rows: Vec<BillRow>,
    /// How far segment switches are apart, where times tell it.
    pub rhythm: Option<SwitchRhythm>,
}

impl WalBill {
    /// The bill of `wal_bytes`. `total`: all records; `old_rows`: their old rows, in records and bytes.
    pub fn new(total: &Tally, wal_bytes: u64, rest: &WalRest, old_rows: (u64, u64)) -> Self {
        let unused_headers: u64 = rest.switches.iter().map(|switch| switch.unused_header_bytes).sum();
        let headers = rest.page_header_bytes.saturating_sub(unused_headers);
        let known = [
            (BillPart::Images, total.fpi_bytes, Some(total.fpi_count)),
            (BillPart::Records, total.record_bytes.saturating_sub(old_rows.1), Some(total.records)),
            (BillPart::OldRows, old_rows.1, Some(old_rows.0)),
            (BillPart::Unused, rest.unused_bytes(), u64::try_from(rest.switches.len()).ok()),
            (BillPart::PageHeaders, headers, None),
            (BillPart::Padding, rest.padding_bytes, None),
        ];
        let sum = known.iter().fold(0_u64, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
        let rows = known.into_iter().chain([(BillPart::Cut, wal_bytes.saturating_sub(sum), None)]);
        let rows = rows.filter(|(_, bytes, _)| *bytes > 0);
        Self { rows: rows.map(|(part, bytes, count)| BillRow { part, bytes, count }).collect(), rhythm: rest.rhythm() }
    }

    /// Bytes of a part.
    pub fn bytes(&self, part: BillPart) -> u64 {
        self.rows.iter().filter(|row| row.part == part).map(|row| row.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };

    #[test]
    fn headers_are_those_of_the_pages_that_begin_in_a_stretch() {
        let bytes = |start, end| page_header_bytes(Lsn(start), Lsn(end), GEOMETRY);
        assert_eq!(bytes(0x10_0000, 0x20_0000), 40 + 127 * 24, "a segment");
        assert_eq!(bytes(0x10_0001, 0x10_2000), 0);
        assert_eq!(bytes(0x10_0001, 0x10_2001), 24);
        assert_eq!(bytes(0x1F_FFFF, 0x20_0001), 40);
    }

    #[test]
    fn switches_in_a_rhythm_are_told_from_others() {
        let switches = |seconds: &[i64]| {
            let one = |second: &i64| SegmentSwitch {
                lsn: Lsn(0),
                unused_bytes: 1,
                time: Some(PgTimestamp(second * 1_000_000)),
                unused_header_bytes: 0,
            };
            WalRest { switches: seconds.iter().map(one).collect(), ..WalRest::default() }.rhythm()
        };
        let regular = switches(&[0, 60, 121, 180, 300, 361]).unwrap();
        assert!(regular.is_regular && (regular.every_s - 60.0).abs() < 1.5, "{regular:?}");
        assert!(!switches(&[0, 3, 400, 420, 2000, 9000]).unwrap().is_regular);
        assert_eq!(switches(&[0, 60, 120]), None, "too few to say");
    }
}
