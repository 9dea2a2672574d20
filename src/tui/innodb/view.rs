//! Drawing: from the state alone.

use std::io::{self, Write};

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::facts::{InnodbSurvey, SlotLine, SlotSheet};
use super::keymap::{INNODB_KEYS, applies};
use super::state::{InnodbPromptKind, InnodbState as State, InnodbView as View, SlotColumn};
use super::{picker, view_page, view_triage};
use crate::analysis::innodb::batches::SlotAge;
use crate::analysis::innodb::compare::InnodbComparison as Disk;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::output::colour::Paint;
use crate::output::innodb_text::{NOT_PREDICTED, write_innodb_page};
use crate::output::text::{Layout, wrapped};
use crate::tui::body::{Body, highlight, progress_line};
use crate::tui::export::text_of;
use crate::tui::frame;
use crate::tui::look::{Look, columns};
use crate::tui::outdated::Outdated;
use crate::tui::view::{key_lines, picker_list};

/// Columns of a word for the page on disk.
const DISK: usize = 14;

/// Draws the screen.
pub fn view(state: &State, out: &mut Frame<'_>) {
    let area = out.area();
    if let Some(words) = frame::too_small(area.width, area.height) {
        out.render_widget(Paragraph::new(words), area);
        return;
    }
    if state.size != (area.width, area.height) {
        // The terminal was resized and the state does not know yet: drawn anew at once.
        return;
    }
    let (look, width) = (state.look, state.columns());
    let open = View::ALL.iter().position(|view| *view == state.view.tab()).filter(|_| state.help.is_none());
    let mut lines = vec![frame::tabs(look, width, &tab_labels(), open, &state.subject.path)];
    let body = body(state);
    lines.extend(body.lines(state.body_rows(), look, state.list_columns()));
    let range = body.shown_range(state.body_rows());
    lines.push(frame::status(look, width, &range, |width| status_words(state, width)));
    let bindings = INNODB_KEYS.iter().filter(|binding| applies(binding, state.view));
    lines.push(frame::hints(look, width, bindings.map(|binding| (binding.label, binding.hint))));
    out.render_widget(Paragraph::new(Text::from(lines)), area);
}

fn body(state: &State) -> Body<'_> {
    if let Some(items) = picker::items(state) {
        let is_kept = matches!(state.prompt, Some((InnodbPromptKind::Bookmarks, _)));
        let kept = is_kept.then_some(state.bookmarks.len());
        return picker_list(state.look, state.columns(), (kept, state.view.name()), items, state.picked);
    }
    if let Some(top) = state.help {
        return help(state, top);
    }
    match (state.view, state.survey.as_deref()) {
        (View::Triage, _) => view_triage::body(state),
        (_, None) => Body::text(waiting(state), Vec::new(), 0),
        (View::Batches, Some(survey)) => batches(state, survey),
        (View::Slots, Some(survey)) => slots(state, survey),
        (View::Page, Some(_)) => view_page::body(state),
        (View::Findings, Some(_)) => {
            let look = state.look;
            let head = vec![Line::styled("Findings, what was not examined, what to do (esc: back)", look.heading())];
            let lines = state.findings.iter().chain(&state.steps).cloned().map(Line::raw);
            Body::text(head, lines.collect(), state.findings_top)
        }
    }
}

/// Breaks long texts into lines that fit: when they come, and when the width changes.
pub(super) fn break_texts(state: &mut State) {
    let Some(survey) = state.survey.clone() else { return };
    let look = state.look;
    let layout = layout(state.columns());
    let lines = |text: String| text.lines().map(|line| look.plain(line)).collect::<Vec<_>>();
    state.findings = lines(text_of(|out| survey.closing().write_text(out, layout)));
    if state.findings.is_empty() {
        state.findings.push("There are no findings.".to_owned());
    }
    // Where the triage has no room for them, they are whole here.
    let room = state.columns().saturating_sub(3);
    state.steps = vec!["What to do:".to_owned()];
    for step in &survey.steps {
        let words = [Some(&step.words), step.command.as_ref()].into_iter().flatten();
        let wrapped = words.flat_map(|words| look.wrap(words, room));
        state.steps.extend(wrapped.map(|words| format!("  {words}")));
    }
    let page = state.page.sheet.as_ref().and_then(|sheet| sheet.page.as_ref());
    state.page.text = page.map_or_else(Vec::new, |page| lines(text_of(|out| evidence(out, layout, &survey, page))));
}

fn evidence(out: &mut dyn Write, layout: Layout, survey: &InnodbSurvey, page: &InnodbPage) -> io::Result<()> {
    write_innodb_page(out, layout, survey.examined.source.setting(), page)?;
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)
}

/// How text of other commands is laid out here.
pub(super) fn layout(width: usize) -> Layout {
    Layout { width: u16::try_from(width).unwrap_or(u16::MAX), paint: Paint::new(false) }
}

/// How many positions scrolling has.
pub(super) fn scroll_range(state: &State) -> usize {
    body(state).scroll_range(state.body_rows())
}

/// The line of the list that is drawn in this row.
#[must_use]
pub fn line_at(state: &State, row: u16) -> Option<usize> {
    body(state).line_at(state.body_rows(), row)
}

fn tab_labels() -> Vec<String> {
    View::ALL.into_iter().zip(1..).map(|(view, number)| format!(" {number} {} ", view.name())).collect()
}

/// The tab at this column of the first row.
#[must_use]
pub fn tab_at(column: u16) -> Option<View> {
    View::ALL.get(frame::tab_at(&tab_labels(), column)?).copied()
}

fn status_words(state: &State, width: usize) -> Line<'static> {
    let look = state.look;
    let matching = || state.counts().map_or_else(String::new, |(shown, all)| format!("  {shown} of {all} match"));
    if let Some((kind, text)) = &state.prompt {
        let (lead, told) = match kind {
            InnodbPromptKind::Filter => ("filter (enter: keep it, esc: show all): ", matching()),
            InnodbPromptKind::GoTo => ("go to (shop/orders:7, 12:7, slot 3): ", String::new()),
            InnodbPromptKind::Palette => ("command: ", String::new()),
            InnodbPromptKind::Bookmarks => ("kept: ", String::new()),
        };
        let room = width.saturating_sub(columns(lead) + 1);
        return Line::from(vec![
            Span::styled(lead, look.heading()),
            Span::raw(look.cut(text, room)),
            Span::styled(" ", look.selected()),
            Span::styled(look.cut(&told, room.saturating_sub(columns(text))), look.faint()),
        ]);
    }
    if let Some(message) = &state.message {
        let style = if message.is_bad { look.bad() } else { look.heading() };
        return Line::styled(look.cut(&message.words, width), style);
    }
    if let Some(progress) = state.progress.as_ref() {
        return progress_line(look, progress, width);
    }
    if let Some(words) = state.outdated().and_then(Outdated::status) {
        return Line::styled(look.cut(&words, width), look.bad());
    }
    if !state.filter().is_empty() {
        let words = format!("filter: {}{} (/: change, esc: show all)", state.filter(), matching());
        return Line::styled(look.cut(&words, width), look.faint());
    }
    Line::default()
}

fn help(state: &State, top: usize) -> Body<'_> {
    let look = state.look;
    let title = format!("Keys in {} (? or esc closes this)", state.view.name());
    let head = vec![Line::styled(title, look.heading()), Line::default()];
    let bindings = INNODB_KEYS.iter().filter(|binding| applies(binding, state.view));
    let mut lines = key_lines(look, state.columns(), &bindings.map(|one| (one.label, one.help)).collect::<Vec<_>>());
    lines.push(Line::default());
    let mouse = "Mouse: a tab opens its view, a line is selected, once more opens it, the wheel moves.";
    let never = "Nothing is written into the directory.";
    lines.extend([mouse, never].iter().flat_map(|words| look.wrap(words, state.columns() - 1)).map(Line::raw));
    Body::text(head, lines, top)
}

pub(super) fn waiting(state: &State) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(progress) = &state.progress {
        lines.push(Line::default());
        lines.push(progress_line(state.look, progress, state.columns()));
    }
    lines.push(Line::default());
    lines.push(Line::styled("The directory is being read; what is known appears here.", state.look.faint()));
    lines
}

/// The style of what the buffer holds.
pub(super) fn style_of(look: Look, held: HeldImage) -> Style {
    match held {
        HeldImage::Newer | HeldImage::Same | HeldImage::Older | HeldImage::Encrypted | HeldImage::Unknown => {
            look.doubt()
        }
        HeldImage::Missing | HeldImage::Unreadable => look.bad(),
    }
}

/// Words of a batch: file, part, age, slots, first, last, LSNs.
pub(super) fn batch_words(survey: &InnodbSurvey, at: usize) -> Vec<String> {
    let Some(batch) = survey.batches.get(at) else { return Vec::new() };
    let file = survey.examined.source.doublewrite.files.get(batch.file);
    vec![
        file.map(|file| file.name.clone()).unwrap_or_default(),
        batch.part.name().to_owned(),
        batch.age.name().to_owned(),
        batch.slots.to_string(),
        batch.first.to_string(),
        batch.last.to_string(),
        batch.lowest_lsn.to_string(),
        batch.highest_lsn.to_string(),
    ]
}

/// What stands where a list is empty: `none` where everything was examined, else that it was not.
fn nothing_found(state: &State, survey: &InnodbSurvey, none: &str, found: &str) -> Vec<Line<'static>> {
    let words = match survey.examined.coverage.skipped.is_empty() {
        true => none.to_owned(),
        false => format!("{found}; F in Triage lists what was not examined."),
    };
    state.look.wrap(&words, state.columns() - 1).into_iter().map(Line::raw).collect()
}

/// Columns of a line of batches; LSNs where they have room.
const BATCH: [usize; 8] = [19, 8, 10, 7, 7, 7, 15, 15];

fn cells(look: Look, widths: &[usize], words: &[String], numbers: std::ops::Range<usize>) -> String {
    let cell = |(at, (width, text)): (usize, (&usize, &String))| match width {
        0 => String::new(),
        _ if numbers.contains(&at) => format!("{} ", look.fit_right(text, *width)),
        _ => format!("{} ", look.fit(text, *width)),
    };
    widths.iter().zip(words).enumerate().map(cell).collect()
}

fn batches<'a>(state: &'a State, survey: &'a InnodbSurvey) -> Body<'a> {
    let look = state.look;
    let explain =
        "InnoDB marks no batches: slots are separated by file, part, and whether they are older than the checkpoint.";
    let mut head: Vec<Line<'static>> =
        look.wrap(explain, state.columns() - 1).into_iter().map(|words| Line::styled(words, look.faint())).collect();
    if survey.batches.is_empty() {
        head.push(Line::default());
        head.extend(nothing_found(state, survey, "No slot holds an image.", "No image was found"));
        return Body::text(head, Vec::new(), 0);
    }
    let mut widths = BATCH;
    if state.columns() < 100 {
        widths[6] = 0;
    }
    if state.columns() < 82 {
        widths[7] = 0;
    }
    let names = ["file", "part", "batch", "slots", "first", "last", "lowest LSN", "highest LSN"].map(str::to_owned);
    head.push(Line::styled(format!("  {}", cells(look, &widths, &names, 3..8)), look.heading()));
    let order = &state.batches.order;
    let line = move |at: usize| {
        let is_selected = at == state.batches.selected;
        let batch = order.get(at).copied().unwrap_or_default();
        let pointer = if is_selected { look.pointer() } else { " " };
        let words = cells(look, &widths, &batch_words(survey, batch), 3..8);
        let is_current = survey.batches.get(batch).is_some_and(|batch| batch.age == SlotAge::Current);
        let style = if is_current { look.good() } else { Style::new() };
        highlight(look, is_selected, Line::styled(format!("{pointer} {words}"), style))
    };
    let mut body = Body::list(head, order.len(), state.batches.selected, line);
    let selected = order.get(state.batches.selected).and_then(|at| survey.batches.get(*at));
    if let Some(batch) = selected {
        let mut spaces: Vec<(&u32, &u64)> = batch.spaces.iter().collect();
        spaces.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let names = spaces.iter().take(5).map(|(space, count)| format!("{} {count}", survey.space_name(Some(**space))));
        let mut words = format!("of tablespaces: {}", names.collect::<Vec<_>>().join(", "));
        if spaces.len() > 5 {
            words.push_str(&format!(", {} more", spaces.len() - 5));
        }
        let runs = if batch.runs == 1 { "1 run".to_owned() } else { format!("{} runs", batch.runs) };
        let lsns = format!("LSN {} to {}; {runs}", batch.lowest_lsn, batch.highest_lsn);
        body.foot.push(Line::default());
        body.foot.extend([words, lsns].iter().flat_map(|words| look.wrap(words, state.columns() - 1)).map(Line::raw));
    }
    body
}

fn slots<'a>(state: &'a State, survey: &'a InnodbSurvey) -> Body<'a> {
    let look = state.look;
    let list = &state.slots;
    if survey.slot_lines() == 0 {
        let none = "There is no doublewrite buffer, or no slot of it was ever written.";
        let mut words = vec![Line::default()];
        words.extend(nothing_found(state, survey, none, "No slot of a doublewrite buffer was found"));
        return Body::text(words, Vec::new(), 0);
    }
    let empty: u64 = survey.examined.content.counts.iter().map(|counts| counts.empty).sum();
    let mut title =
        format!("{} of {} written slots and entries, {empty} never written", list.order.len(), survey.slot_lines());
    if list.batch.is_some() {
        title.push_str("; of one batch (esc: back)");
    }
    let mut names = ["slot", "tablespace", "page", "LSN", "checksum", "batch", "disk"].map(str::to_owned);
    let sorted = match list.column {
        SlotColumn::Slot => 0,
        SlotColumn::Page => 2,
        SlotColumn::Lsn => 3,
        SlotColumn::Disk => 6,
    };
    names[sorted].push_str(if list.is_reversed { "-" } else { "+" });
    let width = state.list_columns();
    let lsn = if width >= 80 { 13 } else { 0 };
    let (most, batch) = if width >= 100 { (24, 9) } else { (if width >= 76 { 18 } else { 13 }, 0) };
    let slot = slot_columns(survey).clamp(6, most);
    let checksum = if width >= 90 { 12 } else { 0 };
    let fixed =
        2 + [slot, 8, lsn, checksum, batch, DISK].iter().filter(|one| **one > 0).map(|one| one + 1).sum::<usize>();
    let widths = [slot, width.saturating_sub(fixed + 1).clamp(8, 44), 8, lsn, checksum, batch, DISK];
    let heading = format!("  {}", cells(look, &widths, &names, 2..4));
    let head = vec![Line::raw(look.cut(&title, state.columns())), Line::styled(heading, look.heading())];
    let line = move |at: usize| {
        let is_selected = at == list.selected;
        let Some(index) = list.order.get(at).copied() else { return Line::default() };
        let Some(one) = survey.slot_line(index) else { return Line::default() };
        let pointer = if is_selected { look.pointer() } else { " " };
        let (text, disk) = slot_cells(state, survey, one, index, &widths);
        let style = match disk {
            Some(Disk::Torn | Disk::Damaged) => look.bad(),
            Some(Disk::Zeroed | Disk::DiskOlder | Disk::BeyondEnd) => look.doubt(),
            _ => Style::new(),
        };
        highlight(look, is_selected, Line::styled(format!("{pointer} {text}"), style))
    };
    let mut body = Body::list(head, list.order.len(), list.selected, line);
    if state.detail_columns() > 0 {
        body.detail = view_triage::detail(state, survey);
    }
    body
}

/// Columns of the longest name of a slot.
fn slot_columns(survey: &InnodbSurvey) -> usize {
    let doublewrite = &survey.examined.source.doublewrite;
    let last = survey.examined.content.slots.iter().map(|facts| facts.slot.1).max().unwrap_or_default();
    let slots = doublewrite.files.iter().map(|file| columns(&file.name) + 1 + last.to_string().len());
    // Block and index in it.
    let entries = doublewrite.entries.iter().map(|file| columns(&file.name) + 1 + 8);
    slots.chain(entries).max().unwrap_or_default()
}

fn slot_cells(
    state: &State,
    survey: &InnodbSurvey,
    one: SlotLine<'_>,
    index: usize,
    widths: &[usize; 7],
) -> (String, Option<Disk>) {
    let look = state.look;
    let known = |sheet: &SlotSheet| sheet.words.get(index).map_or(Disk::Unknown, |(word, _)| *word);
    let disk = state.compared.as_deref().map(known);
    let (checksum, age) = survey.slot_state(one);
    let page = one.page();
    let [slot, name, ..] = widths;
    let words = [
        look.fit_end(&survey.slot_name(one), *slot),
        look.fit_end(&survey.space_name(page.map(|page| page.space_id)), *name),
        page.map_or_else(|| "-".to_owned(), |page| page.page_no.to_string()),
        one.lsn().to_string(),
        checksum.to_owned(),
        age.to_owned(),
        disk.map_or_else(String::new, |disk| disk.name().to_owned()),
    ];
    (cells(look, widths, &words, 2..4), disk)
}
