//! The records of WAL that touched a page, as a list.

use super::page_rows::labelled;
use super::{Body, Line, Look, Span, State, Style};
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::output::documents::events_of;
use crate::output::words::rows::event_words;
use crate::tui::facts::PageSheet;
use crate::types::Lsn;

/// Columns of the list: number, address, type.
const NUMBER: usize = 6;
const LSN: usize = 13;
const TYPE: usize = 24;

fn events(sheet: &PageSheet) -> &[BlockEvent] {
    events_of(&sheet.examined.report, sheet.report.page)
}

pub(super) fn body<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let width = state.columns();
    let events = events(sheet);
    let report = &sheet.examined.report;
    let redo_lsn = report.replay.redo_lsn;
    let is_replayed = move |event: &BlockEvent| redo_lsn.is_some_and(|redo| event.start_lsn >= redo);
    let words = match (events.len(), redo_lsn) {
        (0, _) => "no record of this page in the WAL that was read".to_owned(),
        (count, redo) => {
            let records = if count == 1 { "record" } else { "records" };
            let start = redo.map_or_else(String::new, |redo| {
                let replayed = events.iter().filter(|event| is_replayed(event)).count();
                format!("; recovery begins at {redo}, with {replayed} of them")
            });
            format!("{count} {records} of this page in the WAL that was read{start}")
        }
    };
    head.extend(look.lines(&words, width, Style::new()));
    if events.is_empty() {
        return Body::text(head, Vec::new(), 0);
    }
    let selected = state.page.record.min(events.len() - 1);
    if state.page.is_open {
        let mut lines =
            events.get(selected).map_or_else(Vec::new, |event| details(look, sheet, event, selected, width));
        lines.push(Line::styled("esc: back to the list", look.faint()));
        return Body::text(head, lines, state.page.top);
    }
    let list = state.list_columns();
    let cells = move |number: &str, lsn: &str, name: &str, words: &str| {
        let [number, lsn, name] =
            [(number, NUMBER), (lsn, LSN), (name, TYPE)].map(|(text, width)| look.fit(text, width));
        look.cut(&format!(" {number}{lsn}{name}{words}"), list.saturating_sub(1))
    };
    let heading = cells("no.", "at", "type", "change");
    head.push(Line::styled(format!(" {heading}"), look.heading()));
    let major = report.history.major;
    let line = move |at: usize| {
        let Some(event) = events.get(at) else { return Line::default() };
        let style = if is_replayed(event) { Style::new() } else { look.faint() };
        let (number, lsn) = ((at + 1).to_string(), event.start_lsn.to_string());
        let text = cells(&number, &lsn, &event.name(major), &event_words(event));
        Line::from(Span::styled(text, style))
    };
    let mut body = Body::rows(look, head, events.len(), selected, line);
    if let Some(event) = events.get(selected) {
        if state.detail_columns() > 0 {
            body.detail = details(look, sheet, event, selected, state.detail_columns());
        } else {
            let words = format!("{}; enter shows all of record {}", replay_words(event, redo_lsn), selected + 1);
            body.foot = look.lines(&words, width, look.heading());
        }
    }
    body
}

fn replay_words(event: &BlockEvent, redo_lsn: Option<Lsn>) -> String {
    let what = match event.touch {
        Touch::Image { .. } => "recovery overwrites the page with the image of the record, without reading it",
        Touch::Init => "recovery recreates the page, without reading it",
        Touch::Change => "recovery reads the page, and changes it if its LSN is older than the record",
        Touch::Hint => "replay leaves the page as it is: only hint bits were set",
        Touch::MapBits => "replay may clear bits of this map page, and does not move its LSN",
    };
    match redo_lsn {
        Some(redo) if event.start_lsn < redo => format!("before the redo point {redo}: it is not replayed"),
        Some(_) => what.to_owned(),
        None => format!("the redo point is unknown; if replayed: {what}"),
    }
}

fn details(look: Look, sheet: &PageSheet, event: &BlockEvent, index: usize, width: usize) -> Vec<Line<'static>> {
    let report = &sheet.examined.report;
    let mut lines = vec![Line::styled(format!("record {} of this page", index + 1), look.heading())];
    let others: Vec<String> = event.partners.iter().map(|(_, block)| block.to_string()).collect();
    let mut others = if others.is_empty() { String::new() } else { format!("blocks {}", others.join(", ")) };
    if event.has_other_fork {
        others.push_str(if others.is_empty() { "pages" } else { ", and pages" });
        others.push_str(" of another fork or relation");
    }
    if others.is_empty() {
        others.push_str("none");
    }
    for (name, value) in [
        ("begins at", event.start_lsn.to_string()),
        ("ends at", format!("{}: the LSN of the page after it", event.end_lsn)),
        ("type", event.name(report.history.major)),
        ("transaction", if event.xid == 0 { "none".to_owned() } else { event.xid.to_string() }),
        ("block reference", event.block_id.to_string()),
        ("change", event_words(event)),
        ("other pages it changes", others),
        ("at startup", replay_words(event, report.replay.redo_lsn)),
    ] {
        lines.extend(labelled(look, name, &value, width, Style::new()));
    }
    if let Touch::Image { prior_lsn, .. } = &event.touch {
        lines.extend(labelled(look, "LSN in the image", &prior_lsn.to_string(), width, Style::new()));
    }
    lines
}
