//! Down from a window to stretches, to records, to one record.

use super::chart::{damage_at, gaps};
use super::{Body, Line, Look, Span, State, Style, clock, columns, highlight, led, window};
use crate::analysis::wal::record_sheet::{RecordLine, RecordList, RecordSheet, StoppedAt};
use crate::analysis::wal::timeline::{Timeline, TimelineCell};
use crate::output::escape::ascii_or_dot;
use crate::output::figures::{percent, size};
use crate::output::record_text::{
    Fact, block_facts, block_words, blocks_of_line, header_facts, main_facts, type_words,
};
use crate::parsers::wal::timeline::WalSegment;
use crate::tui::facts::{WalSurvey, WindowSheet};
use crate::tui::state::WalLevel;
use crate::types::Lsn;

/// Bytes in a row of the hex dump, on a screen of so many columns.
const fn row_bytes(width: usize) -> usize {
    if width >= 76 { 16 } else { 8 }
}

/// Columns from which on the share of images is named.
const SHARE: usize = 64;

const LABEL: usize = 14;

fn segment_name(wal: &WalSurvey, cell: &TimelineCell) -> String {
    let size = wal.names.geometry.wal_segment_size;
    let segment = WalSegment::holding(cell.tli, cell.start_lsn, size);
    segment.and_then(|segment| segment.file_name(size)).unwrap_or_default()
}

/// Damage of the stretch with this number.
fn damage_in(wal: &WalSurvey, timeline: &Timeline, at: usize) -> Option<String> {
    let cell = timeline.cells.get(at)?;
    let next = timeline.cells.get(at + 1).map_or(Lsn(u64::MAX), |next| next.start_lsn);
    let is_here = |lsn: Lsn| (cell.start_lsn..next).contains(&lsn);
    let found = wal.problems.iter().find(|finding| damage_at(finding).is_some_and(is_here));
    let hidden = wal.hidden.iter().find(|hidden| is_here(hidden.before));
    found
        .map(|finding| finding.to_string())
        .or_else(|| gaps(wal).into_iter().find(|lsn| is_here(*lsn)).map(|lsn| format!("WAL is missing after {lsn}")))
        .or_else(|| {
            hidden.map(|hidden| {
                format!("a redo point without a record is between {} and {}", hidden.after, hidden.before)
            })
        })
}

pub(super) fn stretches<'a>(state: &'a State, wal: &'a WalSurvey, sheet: &'a WindowSheet) -> Option<Body<'a>> {
    let look = state.look;
    let width = state.list_columns();
    let timeline = wal.timeline.as_deref()?;
    let mut head = window::title(look, wal, sheet, state.columns(), "window");
    let is_wide = width >= 100;
    let lsn_room = if is_wide { 18 } else { 13 };
    let file = if is_wide { format!("{:<26}", "segment") } else { String::new() };
    let heading = format!(
        "  {:<lsn_room$}{file}{:<10}{:>8} {:>7} {:>8} {:>5}{}",
        "starts at",
        "time",
        "records",
        "images",
        "bytes",
        "%",
        if width >= SHARE { "  share" } else { "" }
    );
    head.push(Line::styled(look.cut(&heading, width), look.heading()));
    let at = state.wal.cell.saturating_sub(sheet.cells.start);
    let line = move |index: usize| {
        let number = sheet.cells.start + index;
        let Some(cell) = timeline.cells.get(number) else { return Line::default() };
        let time = cell.from_time.map_or_else(|| "-".to_owned(), |time| clock(time.unix_seconds()));
        let file = if is_wide { format!("{:<26}", segment_name(wal, cell)) } else { String::new() };
        let tally = &cell.tally;
        let text = format!(
            " {:<lsn_room$}{file}{time:<10}{:>8} {:>7} {:>8} {:>5}  ",
            cell.start_lsn.to_string(),
            tally.records,
            tally.fpi_count,
            size(tally.fpi_bytes),
            percent(tally.fpi_share())
        );
        let room = width.saturating_sub(columns(&text) + 2);
        let mut spans = vec![Span::raw(text)];
        match damage_in(wal, timeline, number) {
            Some(words) => spans.push(Span::styled(look.cut(&format!("! {words}"), room), look.bad())),
            None => spans.push(Span::styled(look.bar(tally.fpi_share(), room.min(30)), look.doubt())),
        }
        Line::from(spans)
    };
    let mut body = Body::rows(look, head, sheet.cells.len(), at, line);
    if let Some(stretch) = state.wal.stretch.as_deref() {
        let damage = damage_in(wal, timeline, state.wal.cell);
        let told = |width| damage.iter().flat_map(|words| look.lines(words, width, look.bad())).collect::<Vec<_>>();
        match state.detail_columns() {
            0 => {
                body.foot = told(state.columns());
                let most = state.body_rows() / 5;
                body.foot.extend(window::foot(look, wal, stretch, (state.columns(), most), "stretch"));
            }
            detail => {
                body.detail = told(detail);
                body.detail.extend(window::detail(look, wal, stretch, (detail, state.body_rows()), "stretch"));
            }
        }
    }
    Some(body)
}

pub(super) fn records<'a>(state: &'a State, wal: &'a WalSurvey) -> Body<'a> {
    let look = state.look;
    let width = state.list_columns();
    let stretch = state.wal.stretch.as_deref();
    let mut head =
        stretch.map_or_else(Vec::new, |stretch| window::title(look, wal, stretch, state.columns(), "stretch"));
    let Some(list) = state.wal.list.as_deref() else {
        head.push(Line::raw("The records are being read."));
        return Body::text(head, Vec::new(), 0);
    };
    let before = state.wal.lists.len().saturating_sub(1) * crate::analysis::wal::record_sheet::MAX_LISTED;
    let widths = RecordWidths::of(list, width.saturating_sub(2));
    let heading = widths.cells(look, ["starts at", "type", "bytes", "image", "cause", "block"]);
    head.push(Line::styled(look.cut(&format!("  {heading}"), width), look.heading()));
    let at = state.wal.record;
    let mut body = Body::rows(look, head, list.lines.len(), at, move |index| {
        let Some(line) = list.lines.get(index) else { return Line::default() };
        let text = format!(" {}", record_line(look, wal, widths, line));
        let style = if line.images > 0 { look.doubt() } else { Style::new() };
        Line::styled(text, style)
    });
    if let Some(stopped) = &list.stopped {
        let style = if is_damage(wal, stopped) { look.bad() } else { look.faint() };
        body.foot.extend(look.lines(&stopped.to_string(), width, style));
    }
    let shown = format!("records {} to {} of this stretch", before + 1, before + list.lines.len());
    let more = if list.next.is_some() { "; down after the last one lists more" } else { "" };
    body.foot.push(Line::styled(look.cut(&format!("{shown}{more}"), width), look.faint()));
    if let detail @ 1.. = state.detail_columns() {
        body.detail = beside(state, wal, detail);
    }
    body
}

/// The record beside the list, as much of it as is on the screen.
fn beside(state: &State, wal: &WalSurvey, width: usize) -> Vec<Line<'static>> {
    let look = state.look;
    match &state.wal.sheet {
        Some(Ok(sheet)) => {
            let mut lines = facts(look, wal, sheet, width, None);
            let left = state.body_rows().saturating_sub(lines.len());
            let each = row_bytes(width);
            lines.extend((0..hex_rows(sheet, each)).take(left).map(|row| hex_line(look, sheet, row, each)));
            lines
        }
        Some(Err(why)) => look.lines(why, width, look.bad()),
        None => vec![Line::raw("The record is being read.")],
    }
}

/// True where a problem was found at this end.
fn is_damage(wal: &WalSurvey, stopped: &StoppedAt) -> bool {
    match stopped {
        StoppedAt::End(end) => wal.problems.iter().any(|finding| damage_at(finding) == Some(end.at)),
        _ => true,
    }
}

/// The columns of a list of records: as wide as what is in them, so that the blocks have the rest.
#[derive(Clone, Copy)]
struct RecordWidths {
    all: usize,
    lsn: usize,
    kind: usize,
    cause: usize,
}

impl RecordWidths {
    /// Columns from which on causes are listed.
    const WITH_CAUSE: usize = 74;

    fn of(list: &RecordList, all: usize) -> Self {
        let kind = |line: &RecordLine| columns(&type_words(line.major, line.header.rmgr_id, line.header.info));
        let cause = |line: &RecordLine| line.cause.map_or(0, |cause| cause.to_string().len());
        let widest = |of: &dyn Fn(&RecordLine) -> usize| list.lines.iter().map(of).max().unwrap_or(0);
        let cause = match widest(&cause) {
            0 => 0,
            widest if all >= Self::WITH_CAUSE => widest.max(5) + 1,
            _ => 0,
        };
        Self {
            all,
            lsn: widest(&|line| line.start_lsn.to_string().len()).max(9) + 1,
            kind: widest(&kind).clamp(4, 28) + 1,
            cause,
        }
    }

    fn cells(self, look: Look, [lsn, kind, bytes, image, cause, block]: [&str; 6]) -> String {
        let mut text = format!("{}{}{bytes:>6} {image:>6} ", look.fit(lsn, self.lsn), look.fit(kind, self.kind));
        if self.cause > 0 {
            text.push_str(&format!(" {}", look.fit(cause, self.cause)));
        }
        let room = self.all.saturating_sub(columns(&text) + 1);
        if room >= 8 {
            text.push_str(&format!(" {}", look.fit_end(block, room)));
        }
        text
    }
}

fn record_line(look: Look, wal: &WalSurvey, widths: RecordWidths, line: &RecordLine) -> String {
    let name = |rel| wal.names.relation(rel);
    let image = if line.images == 0 { String::new() } else { line.image_bytes.to_string() };
    let cause = line.cause.map(|cause| cause.to_string()).unwrap_or_default();
    let cells: [&str; 6] = [
        &line.start_lsn.to_string(),
        &type_words(line.major, line.header.rmgr_id, line.header.info),
        &line.header.tot_len.to_string(),
        &image,
        &cause,
        &blocks_of_line(line, &name),
    ];
    widths.cells(look, cells)
}

pub(super) fn record<'a>(state: &'a State, wal: &'a WalSurvey) -> Body<'a> {
    let look = state.look;
    let width = state.columns();
    let line = state.wal.list.as_ref().and_then(|list| list.lines.get(state.wal.record));
    let sheet = match &state.wal.sheet {
        Some(Ok(sheet)) if line.is_some_and(|line| line.start_lsn == sheet.start_lsn) => sheet,
        Some(Err(why)) => {
            let lines = look.lines(why, width, look.bad());
            return Body::text(Vec::new(), lines, 0);
        }
        _ => return Body::text(vec![Line::raw("The record is being read.")], Vec::new(), 0),
    };
    let facts = facts(look, wal, sheet, width, Some(state.wal.block));
    let each = row_bytes(width);
    let rows = hex_rows(sheet, each);
    let count = facts.len() + rows;
    let title = format!("record at {}", sheet.start_lsn);
    let mut body = Body::text(vec![Line::styled(title, look.heading())], Vec::new(), state.wal.top);
    body.count = count;
    body.line = Box::new(move |at| match facts.get(at) {
        Some(line) => line.clone(),
        None => hex_line(look, sheet, at - facts.len(), each),
    });
    body
}

/// Header, block references and main data. `selected`: the block reference that enter opens.
fn facts(
    look: Look,
    wal: &WalSurvey,
    sheet: &RecordSheet,
    width: usize,
    selected: Option<usize>,
) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    header_facts(sheet).iter().for_each(|fact| lines.extend(fact_lines(look, fact, width)));
    for (at, block) in sheet.blocks.iter().enumerate() {
        let words = block_words(&wal.names.relation(block.rel), block.fork_code, block.block);
        let is_selected = selected == Some(at);
        let mark = if is_selected { look.pointer() } else { " " };
        let title = format!("{mark} block reference {}: {words}", block.block_id);
        for (line, words) in look.wrap(&title, width.saturating_sub(4)).into_iter().enumerate() {
            let lead = if line == 0 { "" } else { "    " };
            let line = Line::styled(format!("{lead}{words}"), look.heading());
            lines.push(highlight(look, is_selected, line));
        }
        block_facts(block).iter().for_each(|fact| lines.extend(fact_lines(look, fact, width)));
    }
    lines.push(Line::styled("  main data", look.heading()));
    main_facts(sheet).iter().for_each(|fact| lines.extend(fact_lines(look, fact, width)));
    let all = sheet.header.tot_len as usize;
    let part =
        if sheet.bytes.len() < all { format!(", the first {} of {all}", sheet.bytes.len()) } else { String::new() };
    lines.push(Line::styled(look.cut(&format!("  bytes{part}"), width), look.heading()));
    lines
}

fn fact_lines(look: Look, (label, text): &Fact, width: usize) -> Vec<Line<'static>> {
    let lead = Span::styled(format!("  {}", look.fit(label, LABEL)), look.faint());
    led(look, lead, text, width.saturating_sub(LABEL + 3), Style::new())
}

fn hex_rows(sheet: &RecordSheet, each: usize) -> usize {
    sheet.bytes.len().div_ceil(each)
}

fn hex_line(look: Look, sheet: &RecordSheet, row: usize, each: usize) -> Line<'static> {
    let bytes = sheet.bytes.chunks(each).nth(row).unwrap_or_default();
    let mut hex: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
    hex.push_str(&" ".repeat(3 * (each - bytes.len())));
    let text: String = bytes.iter().map(|byte| ascii_or_dot(*byte)).collect();
    Line::from(vec![Span::styled(format!("  {:06x}  ", row * each), look.faint()), Span::raw(hex), Span::raw(text)])
}

/// The open level; `None`: the timeline.
pub(super) fn body<'a>(state: &'a State, wal: &'a WalSurvey) -> Option<Body<'a>> {
    match state.wal.level {
        WalLevel::Timeline => None,
        WalLevel::Stretches => stretches(state, wal, state.wal.window.as_deref()?),
        WalLevel::Records => Some(records(state, wal)),
        WalLevel::Record => Some(record(state, wal)),
    }
}
